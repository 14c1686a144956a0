"""The looped transformer: a block of layers applied again and again, the input added every time.

After Dehghani et al. 2018, "Universal Transformers" (one block for every depth); Yang et al. 2023,
"Looped Transformers are Better at Learning Learning Algorithms" (the input injected at every loop);
Fan et al. 2024, "Looped Transformers for Length Generalization" (more loops for longer inputs); and
McLeish et al. 2024, "Transformers Can Do Arithmetic with the Right Embeddings" (input injection and
recurrence for arithmetic). How many loops training takes is drawn for every batch, see
`trm.training.depth`; solving goes on until an answer has settled.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from trm.models.bias import bias_on_others
from trm.models.canvas_transformer import CanvasTransformer, Context, on_tokens
from trm.models.configs import IN_ORDER, LoopedConfig


class LoopedTransformer(CanvasTransformer):
    """One state [B, P + S, D], which starts at zero: a single loop is the plain transformer.

    A cell that starts from its own state can hold on to an early mistake for ever: what it said
    last is nearly always right, and the quickest thing to learn is to repeat it. Without
    ``attend_self`` a loop starts from the input alone, and its first layer reads the state of the
    other cells: each cell works out anew, in every loop, what follows from those around it.
    """

    config: LoopedConfig

    def __init__(self, config: LoopedConfig):  # its type says which settings there are
        super().__init__(config)

    @property
    def updates(self) -> tuple[str, ...]:  # type: ignore[override]
        """The state, once a loop."""
        return ("state",) * self.config.loops_per_step

    def encode(self, tokens: Tensor, prefix_ids: Tensor | None = None) -> Context:
        """See `CanvasTransformer`."""
        context = super().encode(tokens, prefix_ids)
        if self.config.attend_self:
            return context
        bias, alone = bias_on_others(context.bias, context.keys, context.inputs)
        return replace(context, bias_on_others=bias, alone=alone)

    def initial_state(self, context: Context) -> Tensor:
        """Zero."""
        return torch.zeros_like(context.inputs)

    def iterate(self, context: Context, state: Tensor) -> Tensor:
        """Some loops, each of them all layers on the sum of state and input."""
        return self.loops(context, self.remembered(state))

    @property
    def in_order(self) -> bool:
        """Whether no cell depends on what comes after it, see `trm.models.ordered`."""
        config, kind = self.config, type(self)
        step = ("encode", "iterate", "loops", "network", "remembered")  # not a subclass' own
        return (
            config.neighbourhood in IN_ORDER
            and not config.attend_self
            and config.hint_threshold > 0
            and config.crop
            and not config.prefix_length
            and self.position.of_offsets
            and all(getattr(kind, name) is getattr(LoopedTransformer, name) for name in step)
        )

    def finished(self, tokens: Tensor) -> Tensor:
        """See `IterativeModel`; canvases whose boxes are of one width."""
        from trm.models.ordered import work_in_order

        worked = work_in_order(self, tokens)
        assert worked is not None
        return worked.state

    def pairs(self, height: int, width: int) -> int:
        """See `IterativeModel`; in order a row's cells are worked out one by one."""
        return height * width if self.in_order else super().pairs(height, width)

    @property
    def builds_on_hints(self) -> bool:  # type: ignore[override]
        """Whether states hold what is decided of the hints, and nothing else."""
        return self.hint_heads is not None and self.config.hint_threshold > 0

    def step_from_hints(self, context: Context, hints: Mapping[str, Tensor]) -> Tensor:
        """See `IterativeModel`; the hints are all that the heads decide."""
        if self.hint_heads is None or not self.builds_on_hints:
            return super().step_from_hints(context, hints)
        of_tokens = {name: on_tokens(hints[name], context) for name in self.hint_heads.classes}
        return self.loops(context, self.hint_heads.written(of_tokens, context.inputs.dtype))

    def loops(self, context: Context, state: Tensor) -> Tensor:
        """A supervision step from what is remembered of the last one's state, [B, P + S, D]."""
        for _ in range(self.config.loops_per_step):
            if self.config.attend_self:
                state = self.network(state + context.inputs, context)
            else:
                state = self.network(context.inputs, context, state + context.inputs)
        return state

    def read(self, state: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """What the state says, see `CanvasTransformer.heads`."""
        return self.heads(state, context)

    def read_hints(self, state: Tensor, context: Context) -> dict[str, Tensor]:
        """What the state says of hints, see `CanvasTransformer.hint_logits`."""
        return self.hint_logits(state, context)
