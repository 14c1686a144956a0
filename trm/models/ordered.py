"""Canvases worked out in the order of writing, where no cell depends on what comes after it.

Under the neighbourhoods `before` and `just_before`, without its own state, a cell of a
`LoopedTransformer` follows from the row above it and from what is on its right. Supervision steps
then lead to one state alone, the same from wherever they start: it can be had in one pass from the
top row down and from right to left, in which every cell comes once, after all that it depends on.
As in a causal transformer, the keys and values of what is finished are kept: a `RowCache` is all
that the next row needs to know of a canvas.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from trm.models.bias import inner_row_bias
from trm.models.canvas_transformer import Context
from trm.models.layers import Attention, PostNormBlock

if TYPE_CHECKING:
    from trm.models.looped import LoopedTransformer


class RowCache(NamedTuple):
    """What the rows that are left to do follow from, beside what stands in them."""

    seen: Tensor  # [B, layers * loops, W, 2 * D], keys and values of the row above them
    places: Tensor  # int64 [B, W], where on the canvas the first of them lies


class Worked(NamedTuple):
    """Canvases whose cells have all been worked out."""

    context: Context  # of the rows that were left to do
    state: Tensor  # [B, S, D], of their cells; no supervision step would change it
    above: RowCache | None  # for the row after the last one, once that has been filled in


@torch.no_grad()
def work_in_order(
    model: "LoopedTransformer", tokens: Tensor, above: RowCache | None = None
) -> Worked | None:
    """Work canvases [B, H, W] out in the order of writing, by a model that is `in_order`.

    Args:
        model, tokens: see above.
        above: of the row above the two last ones, if it is known; it is not trusted where it does
            not fit the canvas.

    Returns:
        None where what is written differs in width.
    """
    context, cells, _ = model.embed(tokens, rows=None if above is None else 2)
    assert context.places is not None
    if above is not None:  # are the rows the one that was last filled in, and the next?
        places, width = context.places, above.places.shape[1]
        if places.shape[1] != 2 * width or not torch.equal(places[:, :width], above.places):
            (context, cells, _), above = model.embed(tokens), None
    assert context.places is not None
    if cells.alike is None:
        return None
    work = _Rows(model, context, cells.alike.width)
    handed_down = None if above is None else list(above.seen.unbind(1))
    before = handed_down  # of the row above the last one
    for row in range(work.rows):
        before, handed_down = handed_down, work.row(row, handed_down)
    known = None
    same = bool((context.lengths == work.rows * work.width).all())
    if same and work.rows > 1 and before is not None:
        known = RowCache(torch.stack(before, dim=1), context.places[:, -work.width :])
    return Worked(context, work.state.flatten(1, 2), known)


class _Rows:
    """Rows of W cells on the way, by all layers in all loops, one cell after another."""

    def __init__(self, model: "LoopedTransformer", context: Context, width: int) -> None:
        assert model.hint_heads is not None
        self.hints, self.threshold = model.hint_heads, model.config.hint_threshold
        layers: list[tuple[PostNormBlock, Attention]] = []
        for block in model.layers:
            assert isinstance(block, PostNormBlock)
            assert isinstance(block.mixing, Attention)
            layers.append((block, block.mixing))
        self.layers = layers * model.config.loops_per_step
        self.starts = [stage % len(layers) == 0 for stage in range(len(self.layers))]  # of a loop
        self.num_heads = model.config.num_heads
        config, inputs = model.config, context.inputs
        asked = (config.neighbourhood, config.radius, inputs.device)
        strip = inner_row_bias(model.position, width, *asked).to(inputs.dtype)
        strip = strip.expand(self.num_heads, -1, -1).unflatten(-1, (3, width))
        self.on_above, own = strip[..., 0, :], strip[..., 1, :]  # [heads, W, W]
        cell = torch.arange(width)
        self.on_right, self.on_self = own[:, cell[:-1], cell[1:]], own[:, cell, cell]
        sees = (self.on_above > -torch.inf).any(dim=0)  # [W, W]
        # From which to which cell of the row above a cell sees it: they lie side by side.
        ends = sees.byte().argmax(dim=1), width - sees.flip(1).byte().argmax(dim=1)
        self.spans = list(zip(*(end.tolist() for end in ends), strict=True))
        self.width = width
        self.inputs = inputs.unflatten(1, (-1, width))  # [B, R, W, D]
        self.rows = self.inputs.shape[1]
        self.state = torch.empty_like(self.inputs)

    def finished(self, x: Tensor, start: Tensor) -> Tensor:
        """What others see of cells whose states x are final: keys and values [..., 2 * D]."""
        held = self.hints.holding(self.hints.decisions(x, self.threshold), x.dtype)
        return self.layers[0][1].keys_values(held + start)

    def row(self, row: int, above: list[Tensor] | None) -> list[Tensor]:
        """Work out a row from the right to the left.

        From keys and values [B, W, 2 * D] of the row above, if there is one, for each layer of each
        loop; returns the same of this row.
        """
        inputs = self.inputs[:, row]  # [B, W, D]
        batch, width, D = inputs.shape
        seen = [inputs.new_empty(batch, width, 2 * D) for _ in self.layers]
        of_above = [None if above is None else self._split(above[i]) for i in range(len(seen))]
        first = self.layers[0][1]
        queries = first.queries(inputs)  # wherever a loop starts
        for column in reversed(range(width)):
            start = x = inputs[:, column]
            for i, (block, attention) in enumerate(self.layers):
                starts = self.starts[i]
                if i:  # what others see of this cell, and the cell itself within a loop
                    seen[i][:, column] = attention.keys_values(x + start if starts else x)
                query = queries[:, column] if starts else attention.queries(x)
                x = start if starts else x
                near = seen[i][:, column : column + 2].flip(1)  # from the right
                near = near[:, :-1] if starts else near
                mixed = self._attend(query, near, column, not starts, of_above[i])
                x = block.after(x, torch.zeros_like(x) if mixed is None else attention.out(mixed))
            self.state[:, row, column] = x
            seen[0][:, column] = self.finished(x, start)
        return seen

    def _attend(
        self,
        query: Tensor,  # [B, D]
        near: Tensor,  # [B, 0 to 2, 2 * D] of the cell on the right, if any, and perhaps of itself
        column: int,
        with_itself: bool,
        above: tuple[Tensor, Tensor] | None,  # [B, W, heads, D / heads] each
    ) -> Tensor | None:
        """What a cell gets from those that it sees, [B, D]; None where there are none."""
        biases = [self.on_right[:, column : column + 1]] if column + 1 < self.width else []
        biases += [self.on_self[:, column : column + 1]] if with_itself else []
        seen = [self._split(near)] if biases else []
        lo, hi = self.spans[column]
        if above is not None:
            seen.append((above[0][:, lo:hi], above[1][:, lo:hi]))
            biases.append(self.on_above[:, column, lo:hi])
        if not seen:
            return None
        # Products and sums of numbers: matrix products of a row and a few columns take far longer.
        q = (query * (query.shape[1] // self.num_heads) ** -0.5).unflatten(1, (self.num_heads, -1))
        scores = torch.cat([(q.unsqueeze(1) * keys).sum(dim=-1) for keys, _ in seen], dim=1)
        scores = scores + torch.cat(biases, dim=1).T  # [B, N, heads]
        weights = torch.softmax(scores, dim=1, dtype=torch.float32).to(q.dtype).unsqueeze(-1)
        parts = weights.split([keys.shape[1] for keys, _ in seen], dim=1)
        mixed = [(part * values).sum(dim=1) for part, (_, values) in zip(parts, seen, strict=True)]
        return torch.stack(mixed).sum(dim=0).flatten(1)  # [B, D]

    def _split(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, [B, N, heads, D / heads] each, of [B, N, 2 * D]."""
        k, v = seen.unflatten(-1, (2, self.num_heads, -1)).unbind(2)
        return k, v
