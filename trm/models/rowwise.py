"""Solving row by row where no row depends on one below it: what is finished is not done again.

Under the neighbourhood `before`, without its own state, a cell follows from the row above and from
what is on its right, and under `decide` a state is a few classes a cell. A row that a step has left
as it was, with all rows above, can therefore never change again: as with the cached keys and values
of a causal transformer, only the rows below it have to be worked on. When a step has changed
nothing at all the answer is final, which no wait for a number of calm steps could promise.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trm.models.context import on_canvas, on_tokens
from trm.models.hints import UNDECIDED
from trm.models.iterative import Loop

if TYPE_CHECKING:
    from trm.models.looped import LoopedTransformer


class RowwiseLoop(Loop):
    """As `Loop`, in evaluation, of a `LoopedTransformer` that decides and sees what is before it.

    Attributes:
        decisions: what is remembered from step to step, uint8 [B, S, N], see `HintHeads`.

    Args:
        model: without a prefix.
        tokens: canvases, integers [B, H, W].
    """

    model: "LoopedTransformer"
    final: Tensor

    def __init__(self, model: "LoopedTransformer", tokens: Tensor) -> None:
        super().__init__(model, tokens)
        context, config = self.context, model.config
        self.decisions = self._decisions(self.state)
        self.final = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
        cells = context.inputs.shape[1]
        is_grid = context.bias.ndim == 5  # where samples are boxes of one width
        self._width = context.bias.shape[-2] if is_grid else cells
        self._rows = cells // self._width
        # Each layer hands on what it sees of the row above: rows from so far above count.
        self._above = config.num_layers * config.loops_per_step
        self._first = 0  # row that is not finished in all samples
        self._start, self._part = 0, context  # the first row that is worked on, and the context

    def step(self) -> None:
        """One supervision step of the rows that are not finished."""
        if self._start != (start := max(0, self._first - self._above)):
            self._start, self._part = start, self.context.rows_from(start)
        begin, first = start * self._width, self._first * self._width
        heads = self.model.hint_heads
        assert heads is not None
        held = heads.holding(self.decisions[:, begin:], self._part.inputs.dtype)
        new = self.model.loops(self._part, held)[:, first - begin :]
        decisions = self._decisions(new)
        changed = (decisions != self.decisions[:, first:]).any(dim=-1)
        if self.context.places is not None:
            end = self.context.height * self.context.width
            changed &= self.context.places[:, first:] < end  # padding follows from anything
        self.state = torch.cat((self.state[:, :first], new), dim=1)
        self.decisions = torch.cat((self.decisions[:, :first], decisions), dim=1)
        self.final = ~changed.any(dim=1)
        rows = changed.unflatten(1, (-1, self._width)).any(dim=2).any(dim=0)
        calm = (~rows).byte().cumprod(0).sum()  # from the first on
        self._first = min(self._first + int(calm), self._rows - 1)

    def keep(self, index: Tensor) -> None:
        """See `Loop`."""
        super().keep(index)
        self.decisions, self.final = self.decisions[index], self.final[index]
        self._start, self._part = 0, self.context

    def decided_cells(self) -> Tensor:
        """The decisions in every cell of the canvases, uint8 [B, H, W, N]."""
        nowhere = self.decisions.new_full(self.decisions.shape[-1:], UNDECIDED)
        return on_canvas(self.decisions, self.context, nowhere)

    def go_on(self, cells: Tensor, known: Tensor) -> None:
        """Start from what was decided of these canvases when less was written on them.

        Args:
            cells: see `decided_cells`.
            known: bool [B], the samples of which it is known.
        """
        parts = [on_tokens(part, self.context) for part in cells.unbind(-1)]
        known = known.view(-1, 1, 1)
        self.decisions = torch.where(known, torch.stack(parts, dim=-1), self.decisions)

    def _decisions(self, state: Tensor) -> Tensor:
        assert self.model.hint_heads is not None
        return self.model.hint_heads.decisions(state, self.model.certainty)
