"""Whole pages worked out along fronts, where a cell depends on its nearest neighbours alone.

Under the neighbourhood `just_before` a cell follows from the one on its right and the three above
it. What `trm.models.in_order` works out cell by cell, row below row, can then be done with many
rows at once, each a few columns behind the one above it, as a front runs over the page. A row that
the model fills in goes through twice, as it does there: masked, and once more with what has been
written, a column behind.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trm.models.bias import inner_row_bias, rows_around
from trm.models.in_order import parts_of
from trm.models.layers import compute_dtype

if TYPE_CHECKING:
    from trm.models.looped import LoopedTransformer

_SLOTS = 5  # columns of a row that are remembered: its own last one, and three for the row below
_CELLS = 2**13  # that are worked out at once


@dataclass(frozen=True)
class Filled:
    """Pages that a model filled in on its own.

    Attributes:
        tokens: canvases, integers [B, H, W].
        halt_logits: float32 [B, S], of each row that was filled in.
    """

    tokens: Tensor
    halt_logits: Tensor


@dataclass(frozen=True)
class _Wavefront:
    """Rows on their way, those that are filled in twice.

    Attributes:
        starts: when the last column of each is worked out, strictly increasing: of the host, which
            then need not ask a device.
        row: int64 [L], of the canvas.
        masked: bool [L], whether it is the pass in which it is filled in.
        start: int64 [L], the same as starts.
        above: int64 [L], the lane that it follows from; the first, which has none, has itself.
        lag: int64 [L], how long after that one it starts.
    """

    starts: list[int]
    row: Tensor
    masked: Tensor
    start: Tensor
    above: Tensor
    lag: Tensor

    @classmethod
    def of_page(cls, top: int, rows: list[int], device: torch.device) -> "_Wavefront":
        """Of the rows of a page from its first one to the last that is filled in."""
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
        parts = list(zip(*lanes, strict=True))
        return cls(list(parts[2]), *(torch.tensor(part, device=device) for part in parts))

    def on_their_way(self, time: int, width: int) -> slice:
        """Those of which a column is worked out at a time, on pages of so many columns."""
        return slice(bisect_right(self.starts, time - width), bisect_right(self.starts, time))


def runs_along_fronts(model: "LoopedTransformer") -> bool:
    """Whether a model's pages can be worked out like this."""
    config = model.config
    near = config.neighbourhood == "just_before" and rows_around("just_before", config.radius) == 1
    return near and config.radius == 1 and model.in_order and config.halt_pool == "mask"


@torch.no_grad()
def work_along_fronts(
    model: "LoopedTransformer", tokens: Tensor, answer: Tensor, top: int, rows: list[int]
) -> Filled:
    """Fill in pages, each row built on those that the model wrote.

    Args:
        model: one that `runs_along_fronts`.
        tokens: canvases with what is given, integers [B, H, W].
        answer: bool [B, H, W], the cells to fill in.
        top: the first row on which anything stands.
        rows: those with cells to fill in, increasing.
    """
    lanes = _Wavefront.of_page(top, rows, tokens.device)
    size = max(1, _CELLS // len(lanes.row))
    parts = [
        _Front(model, lanes, some.long(), cells).run(rows)
        for some, cells in zip(tokens.split(size), answer.split(size), strict=True)
    ]
    return Filled(
        torch.cat([part.tokens for part in parts]).to(tokens.dtype),
        torch.cat([part.halt_logits for part in parts]),
    )


class _Front:
    """Pages on the way. A cells of the front are worked out at once, of B pages each."""

    def __init__(
        self, model: "LoopedTransformer", lanes: _Wavefront, tokens: Tensor, answer: Tensor
    ) -> None:
        assert model.hint_heads is not None
        self.model, self.lanes, self.tokens, self.answer = model, lanes, tokens.clone(), answer
        self.hints, self.threshold = model.hint_heads, model.config.hint_threshold
        config = model.config
        layers = [parts_of(layer) for layer in model.layers]
        self.layers = layers * config.loops_per_step
        self.starts = [stage % len(layers) == 0 for stage in range(len(self.layers))]  # of a loop
        table = model.embed_tokens.weight * model.embed_scale
        self.table = table.to(compute_dtype(table))  # [V, D]
        batch, _, self.width = tokens.shape
        self.num_heads, D = config.num_heads, self.table.shape[1]
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

    def run(self, rows: list[int]) -> Filled:
        """Run over the pages."""
        lanes = self.lanes
        for time in range(lanes.starts[-1] + self.width):
            self._work(lanes.on_their_way(time, self.width), time)
        count = self.answer[:, rows].sum(dim=2)  # [B, S]
        judged = self.judged[lanes.masked].transpose(0, 1) / count.unsqueeze(-1)
        return Filled(self.tokens, self.model.halt_head(judged)[..., 0].float())

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
        held = self.hints.holding(self.hints.decisions(x, self.threshold), x.dtype)
        self.seen[0][now, on] = self.layers[0][1].keys_values(held + start)
        self.judged[on] += x * to_fill.T.unsqueeze(-1)
        said = self.model.lm_head(x).argmax(dim=-1).T  # [B, A]
        self.tokens[:, row, column] = torch.where(to_fill, said, self.tokens[:, row, column])

    def _attend(self, query: Tensor, near: tuple[Tensor, ...], sees: Tensor) -> Tensor:
        """What cells get from those that they see, [A, B, D]; 0 where they see none.

        Args:
            query: [A, B, D].
            near: keys and values, each [N, A, B, 2 * D], of cells that lie as `self.bias` says.
            sees: bool [5, A], whether they do; the first N count.
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
