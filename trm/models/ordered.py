"""Canvases worked out in the order of writing, where no cell depends on what comes after it.

Under the neighbourhoods `before` and `just_before`, without its own state, a cell of a
`LoopedTransformer` follows from the row above it and from what is on its right. Supervision steps
then lead to one state alone, the same from wherever they start: it can be had in one pass from the
top row down and from right to left, in which every cell comes once, after all that it depends on.
As in a causal transformer, the keys and values of what is finished are kept: a `RowCache` is all
that the next row needs to know of a canvas.

Under `just_before` a cell follows from its right neighbour and the three cells above it. Many rows
can then be worked out at once, each a few columns behind the one above it, as a wavefront runs over
the canvas. A row that the model fills in goes through twice: masked, and once more with what has
been written, a column behind.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from trm.models.bias import inner_row_bias
from trm.models.canvas_transformer import Context
from trm.models.layers import Attention, PostNormBlock, compute_dtype

if TYPE_CHECKING:
    from trm.models.looped import LoopedTransformer

_SLOTS = 5  # columns of a row that are remembered: its own last one, and three for the row below
_CELLS = 2**13  # that are worked out at once


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


class _Stages:
    """A looped transformer as all its layers in all loops, applied to one cell after another."""

    def __init__(self, model: "LoopedTransformer") -> None:
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

    def finished(self, x: Tensor, start: Tensor) -> Tensor:
        """What others see of cells whose states x are final: keys and values [..., 2 * D]."""
        held = self.hints.holding(self.hints.decisions(x, self.threshold), x.dtype)
        return self.layers[0][1].keys_values(held + start)


class _Rows(_Stages):
    """Rows of W cells on the way."""

    def __init__(self, model: "LoopedTransformer", context: Context, width: int) -> None:
        super().__init__(model)
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


class _Wavefront(NamedTuple):
    """Rows on their way in L lanes, those that are filled in twice; int64 [L] each."""

    starts: list[int]  # as `start`, of the host, which then need not ask a device
    row: Tensor  # of the canvas
    masked: Tensor  # bool, whether it is the pass in which it is filled in
    start: Tensor  # when its last column is worked out, strictly increasing
    above: Tensor  # the lane that it follows from; the first, which has none, has itself
    lag: Tensor  # how long after that one it starts

    @classmethod
    def of_rows(cls, top: int, rows: list[int], device: torch.device) -> "_Wavefront":
        """Of the rows of a canvas from its first one to the last that is filled in."""
        lanes: list[tuple[int, bool, int, int, int]] = []
        above, begun = 0, -2
        for row in range(top, rows[-1] + 1):
            passes = [True, False] if row in rows else [False]
            begun, follows = begun + 2, above
            for masked in passes[: 1 if row == rows[-1] else 2]:
                start = begun + len(passes) - 1 - int(masked)
                lag = start - lanes[follows][2] if lanes else 0
                lanes.append((row, masked, start, follows, lag))
            above, begun = len(lanes) - 1, lanes[-1][2]
        parts = [torch.tensor(part, device=device) for part in zip(*lanes, strict=True)]
        return cls([lane[2] for lane in lanes], *parts)

    def on_their_way(self, time: int, width: int) -> slice:
        """Those of which a column is worked out at a time."""
        return slice(bisect_right(self.starts, time - width), bisect_right(self.starts, time))


def runs_along_fronts(model: "LoopedTransformer") -> bool:
    """Whether `work_along_fronts` can fill in a model's canvases."""
    config = model.config
    near = config.neighbourhood == "just_before" and config.radius == 1
    return near and model.in_order and config.halt_pool == "mask"


@torch.no_grad()
def work_along_fronts(
    model: "LoopedTransformer", tokens: Tensor, answer: Tensor, top: int, rows: list[int]
) -> tuple[Tensor, Tensor]:
    """Fill in canvases, each row built on those that the model wrote.

    Args:
        model: one that `runs_along_fronts`.
        tokens: canvases with what is given, integers [B, H, W].
        answer: bool [B, H, W], the cells to fill in.
        top: the first row on which anything stands.
        rows: those with cells to fill in, increasing.

    Returns:
        The canvases, and the halt logits, float32 [B, S], of each row that was filled in.
    """
    lanes = _Wavefront.of_rows(top, rows, tokens.device)
    size = max(1, _CELLS // len(lanes.row))
    parts = [
        _Front(model, lanes, some.long(), cells).run(rows)
        for some, cells in zip(tokens.split(size), answer.split(size), strict=True)
    ]
    filled, halt_logits = (torch.cat(part) for part in zip(*parts, strict=True))
    return filled.to(tokens.dtype), halt_logits


class _Front(_Stages):
    """Canvases on the way. A cells of the front are worked out at once, of B canvases each."""

    def __init__(
        self, model: "LoopedTransformer", lanes: _Wavefront, tokens: Tensor, answer: Tensor
    ) -> None:
        super().__init__(model)
        self.model, self.lanes, self.tokens, self.answer = model, lanes, tokens.clone(), answer
        config = model.config
        table = model.embed_tokens.weight * model.embed_scale
        self.table = table.to(compute_dtype(table))  # [V, D]
        batch, _, self.width = tokens.shape
        D = self.table.shape[1]
        # Of a cell in the middle of three, as all are alike: on the row above and on its own.
        asked = (config.neighbourhood, config.radius, tokens.device)
        bias = inner_row_bias(model.position, 3, *asked).expand(self.num_heads, -1, -1)
        above, own = bias[:, 1].T.unflatten(0, (3, 3))[:2].to(self.table.dtype)  # [3, heads]
        # On the three above, from the left, on the one on the right, and on the cell itself.
        self.bias = torch.cat([above, own[[2, 1]]])  # [5, heads]
        # Which head a channel is of.
        one = torch.eye(self.num_heads, dtype=self.table.dtype, device=tokens.device)
        self.per_head = one.repeat_interleave(D // self.num_heads, dim=0)  # [D, heads]
        shape = (_SLOTS, len(lanes.row), batch, 2 * D)
        self.seen = [self.table.new_zeros(shape) for _ in self.layers]  # by time and lane
        self.judged = self.table.new_zeros(len(lanes.row), batch, D)

    def run(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Fill in all rows; returns the canvases and the halt logits."""
        lanes = self.lanes
        for time in range(lanes.starts[-1] + self.width):
            self._work(lanes.on_their_way(time, self.width), time)
        count = self.answer[:, rows].sum(dim=2)  # [B, S]
        judged = self.judged[lanes.masked].transpose(0, 1) / count.unsqueeze(-1)
        return self.tokens, self.model.halt_head(judged)[..., 0].float()

    def _work(self, on: slice, time: int) -> None:
        """Work out a cell of each lane that is on its way, without waiting for the device."""
        lanes = self.lanes
        row, masked, begun = lanes.row[on], lanes.masked[on], time - lanes.start[on]
        column = self.width - 1 - begun
        to_fill = self.answer[:, row, column] & masked  # [B, A]
        shown = self.tokens[:, row, column].masked_fill(to_fill, self.model.config.mask_id)
        start = x = self.table[shown.T]  # [A, B, D]
        # The times at which the cells above were worked out, from the left; where they are.
        times = (time - lanes.lag[on] + 1)[:, None] - torch.arange(3, device=column.device)
        there = column[:, None] + torch.arange(-1, 2, device=column.device)
        inside = (there >= 0) & (there < self.width) & (lanes.lag[on] > 0)[:, None]
        slots, above = times.T % _SLOTS, lanes.above[on]
        now, before = time % _SLOTS, (time - 1) % _SLOTS
        sees = torch.cat([inside, (begun > 0)[:, None], torch.ones_like(inside[:, :1])], dim=1).T
        for i, (block, attention) in enumerate(self.layers):
            starts, seen = self.starts[i], self.seen[i]
            if i:
                seen[now, on] = attention.keys_values(x + start if starts else x)
            x = start if starts else x
            # At the start of a loop a cell does not see itself.
            own = seen[before, on][None]
            own = own if starts else torch.cat((own, seen[now, on][None]))
            mixed = self._attend(attention.queries(x), (seen[slots, above], own), sees)
            x = block.after(x, attention.out(mixed))
        self.seen[0][now, on] = self.finished(x, start)
        self.judged[on] += x * to_fill.T.unsqueeze(-1)
        said = self.model.lm_head(x).argmax(dim=-1).T  # [B, A]
        self.tokens[:, row, column] = torch.where(to_fill, said, self.tokens[:, row, column])

    def _attend(self, query: Tensor, near: tuple[Tensor, ...], sees: Tensor) -> Tensor:
        """What cells get from those that they see, [A, B, D]; 0 where they see none.

        Queries are [A, B, D], keys and values [N, A, B, 2 * D] of cells that lie as `self.bias`
        says; they are seen where ``sees``, bool [5, A], of which the first N count.
        """
        D = query.shape[-1]
        q = query * (D // self.num_heads) ** -0.5
        # Sums over a head's channels as matrix products: there are few channels, and many heads.
        scores = torch.cat([(q * seen[..., :D]) @ self.per_head for seen in near])
        N = len(scores)  # [N, A, B, heads]
        scores = scores + self.bias[:N, None, None]
        scores = scores.masked_fill(~sees[:N, :, None, None], -torch.inf)
        weights = torch.softmax(scores, dim=0, dtype=torch.float32).nan_to_num(0.0).to(q.dtype)
        spread = weights @ self.per_head.T  # [N, A, B, D]
        values = [one for seen in near for one in seen[..., D:].unbind(0)]
        mixed = spread[0] * values[0]
        for i in range(1, N):
            mixed.addcmul_(spread[i], values[i])
        return mixed
