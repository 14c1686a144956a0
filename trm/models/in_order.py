"""Pages worked out cell by cell, where no cell depends on what comes after it.

Under the neighbourhoods `before` and `just_before`, without its own state, a cell of a
`LoopedTransformer` follows from the row above it and from what is on its right. Supervision steps
then lead to one state alone, the same from wherever they start: it can be had in one pass from the
top row down and from right to left, in which every cell comes once, after all that it depends on.
As in a causal transformer, the keys and values of what is finished are kept: `RowCache` is all that
the next row needs to know of a page.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from trm.models.bias import inner_row_bias
from trm.models.context import Context
from trm.models.layers import Attention, PostNormBlock

if TYPE_CHECKING:
    from trm.models.looped import LoopedTransformer


@dataclass(frozen=True)
class RowCache:
    """What the rows that are left to do follow from, beside what stands in them.

    Attributes:
        seen: [B, layers * loops_per_step, W, 2 * D], keys and values of the row above them, for
            each layer of each loop.
        places: int64 [B, W], where on the canvas the first of them lies.
    """

    seen: Tensor
    places: Tensor


@dataclass(frozen=True)
class Worked:
    """Pages whose cells have all been worked out.

    Attributes:
        context: of the rows that were left to do.
        state: [B, S, D], of their cells; no supervision step would change it.
        above: for when what is now the last row has been filled in, and the next one is asked for;
            None where that is of no use.
    """

    context: Context
    state: Tensor
    above: RowCache | None


@torch.no_grad()
def work_in_order(
    model: "LoopedTransformer", tokens: Tensor, above: RowCache | None = None
) -> Worked | None:
    """Work pages out in the order of writing.

    Args:
        model: one that is `in_order`.
        tokens: canvases, integers [B, H, W].
        above: of the row above the two last ones, if it is known; it is not trusted where it does
            not fit the page.

    Returns:
        None where pages differ in width.
    """
    context, cells, _ = model.embed(tokens, rows=None if above is None else 2)
    if above is not None and not _fits(above, context):
        context, cells, _ = model.embed(tokens)
        above = None
    assert context.places is not None
    if cells.alike is None:
        return None
    pages = _Pages(model, context, cells.alike.width)
    handed_down = None if above is None else list(above.seen.unbind(1))
    before = handed_down  # of the row above the last one
    for row in range(pages.rows):
        before, handed_down = handed_down, pages.work(row, handed_down)
    known = None
    same = bool((context.lengths == pages.rows * pages.width).all())
    if same and pages.rows > 1 and before is not None:
        known = RowCache(torch.stack(before, dim=1), context.places[:, -pages.width :])
    return Worked(context, pages.state.flatten(1, 2), known)


def _fits(above: RowCache, context: Context) -> bool:
    """Whether the rows of a context are the one that was last filled in, and the next."""
    places, width = context.places, above.places.shape[1]
    assert places is not None
    return places.shape[1] == 2 * width and torch.equal(places[:, :width], above.places)


class _Pages:
    """Rows of W cells on the way."""

    def __init__(self, model: "LoopedTransformer", context: Context, width: int) -> None:
        assert model.hint_heads is not None
        self.heads, self.threshold = model.hint_heads, model.config.hint_threshold
        layers = [parts_of(layer) for layer in model.layers]
        self.layers = layers * model.config.loops_per_step
        self.starts = [stage % len(layers) == 0 for stage in range(len(self.layers))]  # of a loop
        config, inputs = model.config, context.inputs
        asked = (config.neighbourhood, config.radius, inputs.device)
        strip = inner_row_bias(model.position, width, *asked).to(inputs.dtype)
        heads = config.num_heads
        strip = strip.expand(heads, -1, -1).unflatten(-1, (3, width))
        self.on_above, own = strip[..., 0, :], strip[..., 1, :]  # [heads, W, W]
        cell = torch.arange(width)
        self.on_right, self.on_self = own[:, cell[:-1], cell[1:]], own[:, cell, cell]
        sees = (self.on_above > -torch.inf).any(dim=0)  # [W, W]
        self.spans = [_span(line) for line in sees.tolist()]
        self.width, self.num_heads = width, heads
        self.inputs = inputs.unflatten(1, (-1, width))  # [B, R, W, D]
        self.rows = self.inputs.shape[1]
        self.state = torch.empty_like(self.inputs)

    def work(self, row: int, above: list[Tensor] | None) -> list[Tensor]:
        """Work out a row from the right to the left.

        Args:
            row: whose state is set.
            above: keys and values [B, W, 2 * D] of the row above, for each layer of each loop;
                None: there is no row.

        Returns:
            The same of this row.
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
            held = self.heads.holding(self.heads.decisions(x, self.threshold), x.dtype)
            seen[0][:, column] = first.keys_values(held + start)
        return seen

    def _attend(
        self,
        query: Tensor,
        near: Tensor,
        column: int,
        with_itself: bool,
        above: tuple[Tensor, Tensor] | None,
    ) -> Tensor | None:
        """What a cell gets from those that it sees, [B, D]; None where there are none.

        Args:
            query: [B, D].
            near: keys and values [B, 0 to 2, 2 * D] of the cell on the right, if there is one, and
                of the cell itself, if it is to see itself.
            column: of the cell.
            with_itself: whether it is.
            above: keys and values [B, W, heads, D / heads] of the row above.
        """
        biases = [self.on_right[:, column : column + 1]] if column + 1 < self.width else []
        biases += [self.on_self[:, column : column + 1]] if with_itself else []
        seen = [self._split(near)] if biases else []
        lo, hi = self.spans[column]
        if above is not None and lo < hi:
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


def parts_of(layer: nn.Module) -> tuple[PostNormBlock, Attention]:
    """A layer, and its attention."""
    assert isinstance(layer, PostNormBlock)
    assert isinstance(layer.mixing, Attention)
    return layer, layer.mixing


def _span(line: list[bool]) -> tuple[int, int]:
    """From which to which cell of the row above a cell sees it: they lie side by side."""
    there = [i for i, sees in enumerate(line) if sees]
    return (there[0], there[-1] + 1) if there else (0, 0)
