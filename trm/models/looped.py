"""The looped transformer: a block of layers applied again and again, the input added every time.

After Dehghani et al. 2018, "Universal Transformers" (one block for every depth); Yang et al. 2023,
"Looped Transformers are Better at Learning Learning Algorithms" (the input injected at every loop);
Fan et al. 2024, "Looped Transformers for Length Generalization" (more loops for longer inputs); and
McLeish et al. 2024, "Transformers Can Do Arithmetic with the Right Embeddings" (input injection and
recurrence for arithmetic). How many loops training takes is drawn for every batch, see
`trm.training.depth`; solving goes on until an answer has settled.
"""

import torch
from torch import Tensor

from trm.models.canvas_transformer import CanvasTransformer, Context
from trm.models.configs import LoopedConfig


class LoopedTransformer(CanvasTransformer):
    """One state [B, P + S, D], which starts at zero: a single loop is the plain transformer."""

    config: LoopedConfig

    def __init__(self, config: LoopedConfig):  # its type says which settings there are
        super().__init__(config)

    @property
    def updates(self) -> tuple[str, ...]:  # type: ignore[override]
        """The state, once a loop."""
        return ("state",) * self.config.loops_per_step

    def initial_state(self, context: Context) -> Tensor:
        """Zero."""
        return torch.zeros_like(context.inputs)

    def iterate(self, context: Context, state: Tensor) -> Tensor:
        """Some loops, each of them all layers on the sum of state and input."""
        for _ in range(self.config.loops_per_step):
            state = self.network(state + context.inputs, context)
        return state

    def read(self, state: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """What the state says, see `CanvasTransformer.heads`."""
        return self.heads(state, context)
