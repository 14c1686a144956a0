"""Where tokens sit on a canvas, how two of them lie to each other, and which may see which."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from canvas.choices import check_choice
from trm.models.configs import IN_ORDER, NEIGHBOURHOODS

T = TypeVar("T")

_DIRECTIONS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Where each token of a sequence sits: ``S`` tokens, of which the first may be a prefix.

    All samples of a batch share one [S], or each has its own [B, S]. Compared by identity, so that
    what is derived from shared cells can be cached.

    Attributes:
        rows: int64 [S] or [B, S], 0 is the top row; -1 for prefix tokens.
        columns: of the same shape, 0 is the leftmost column; -1 for prefix tokens.
        index: of the same shape, flat position among prefix and cells in reading order.
        height: rows of the canvas.
        width: columns of the canvas.
        prefix_length: tokens in front of the cells.
        present: bool [B, S], which are tokens and not padding; None: all are.
        alike: cells of a canvas whose offsets are those of every sample's cells; None: not known.
    """

    rows: Tensor
    columns: Tensor
    index: Tensor
    height: int
    width: int
    prefix_length: int = 0
    present: Tensor | None = None
    alike: "Coordinates | None" = None

    @staticmethod
    @lru_cache(maxsize=64)
    def canvas(
        height: int, width: int, prefix_length: int = 0, device: torch.device | str = "cpu"
    ) -> "Coordinates":
        """All cells of a canvas in reading order behind a prefix; the same object every time."""
        # A cached tensor may first be asked for by a validation loop under inference mode, and
        # tensors born there can never take part in training.
        with torch.inference_mode(False):
            rows = torch.full((prefix_length + height * width,), -1, device=device)
            columns = rows.clone()
            index = torch.arange(len(rows), device=device)
            cell = index[: height * width]
            rows[prefix_length:] = cell // width
            columns[prefix_length:] = cell % width
        return Coordinates(rows, columns, index, height, width, prefix_length)

    def __len__(self) -> int:
        return self.rows.shape[-1]

    @property
    def places(self) -> int:
        """How many values ``index`` can take: prefix tokens and cells of the canvas."""
        return self.prefix_length + self.height * self.width

    def only(self, kept: Tensor) -> "Coordinates":
        """For each sample some of these shared cells, in their order, padded at the end.

        Args:
            kept: bool [B, S].
        """
        most = int(kept.sum(dim=1).max())
        order = kept.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
        return replace(
            self,
            rows=self.rows[order],
            columns=self.columns[order],
            index=self.index[order],
            present=kept.gather(1, order),
        )

    def boxes(self, filled: Tensor, wanted: Tensor | None = None) -> "Coordinates":
        """Of the cells of a canvas, for each sample those in the smallest box of the filled ones.

        Args:
            filled: bool [B, H, W].
            wanted: bool [B, H], the rows of the box that are wanted; None: all.
        """
        rows, columns = (span(filled.any(dim=dim)) for dim in (2, 1))
        if wanted is not None:
            rows = rows & wanted
        inside = (rows.unsqueeze(2) & columns.unsqueeze(1)).flatten(1)
        cells = self.only(F.pad(inside, (self.prefix_length, 0), value=True))
        widths = columns.sum(dim=1)
        width = int(widths.max())
        if self.prefix_length or not width or int(widths.min()) < width:
            return cells
        same = Coordinates.canvas(len(cells) // width, width, device=filled.device)
        return replace(cells, alike=same)


def span(filled: Tensor) -> Tensor:
    """All from the first filled one to the last, bool [B, N] to the same."""
    line = filled.byte()
    return (line.cummax(dim=1).values & line.flip(1).cummax(dim=1).values.flip(1)).bool()


def down_to_last(masked: Tensor) -> Tensor:
    """The rows that are not below the last masked one, bool [B, H, 1] from [B, H, W]."""
    rows = masked.any(dim=2, keepdim=True)
    below_none = rows.byte().flip(1).cummax(dim=1).values.flip(1).bool()
    return below_none | ~rows.any(dim=1, keepdim=True)


def last_rows(kept: Tensor, number: int) -> Tensor:
    """That many rows of [B, H, W], the last of which is the last with something kept, [B, H]."""
    row = torch.arange(kept.shape[1], device=kept.device)
    last = (kept.any(dim=2) * (row + 1)).amax(dim=1, keepdim=True)
    return (row < last) & (row >= last - number)


def _cached_where_shared(function: Callable[[Coordinates, int], T]) -> Callable[..., T]:
    """What is worked out for coordinates that a whole batch shares is kept."""

    @lru_cache(maxsize=16)
    def kept(cells: Coordinates, radius: int) -> T:
        with torch.inference_mode(False):  # it may be asked for there first, and train later
            return function(cells, radius)

    @wraps(function)
    def called(cells: Coordinates, radius: int) -> T:
        return (kept if cells.rows.ndim == 1 else function)(cells, radius)

    return called


def _offsets(cells: Coordinates) -> tuple[Tensor, Tensor]:
    """Rows down and columns right from query i to key j, int64 [S, S] or [B, S, S] each."""
    down, right = (x.unsqueeze(-2) - x.unsqueeze(-1) for x in (cells.rows, cells.columns))
    return down, right


@_cached_where_shared
def relative_classes(cells: Coordinates, radius: int) -> Tensor:
    """The class of each pair (query, key) that ``Relative2D`` biases, int32 [S, S] or [B, S, S]."""
    classes = offset_classes(*_offsets(cells), radius)
    prefix = cells.rows < 0
    pair = prefix.unsqueeze(-1).long() * 2 + prefix.unsqueeze(-2).long()
    return torch.where(pair > 0, (2 * radius + 1) ** 2 + 15 + pair, classes).int()


def offset_classes(down: Tensor, right: Tensor, radius: int) -> Tensor:
    """The class of offsets between two cells, of the shape of ``down`` and ``right``."""
    side = 2 * radius + 1
    near = (down.abs() <= radius) & (right.abs() <= radius)
    exact = (down + radius) * side + right + radius
    # The 16 directions: 3 x 3 signs name axis or quadrant (0 to 8, without the centre), and
    # a quadrant off its diagonal splits into the octant along the row and the one across.
    signs = (down.sign() + 1) * 3 + right.sign() + 1
    signs = signs - (signs > 4).long()
    quadrant = (down > 0).long() * 2 + (right > 0).long()
    octant = 8 + quadrant * 2 + (down.abs() > right.abs()).long()
    on_line = (down == 0) | (right == 0) | (down.abs() == right.abs())
    return torch.where(near, exact, side**2 + torch.where(on_line, signs, octant))


def neighbourhood_mask(
    cells: Coordinates, neighbourhood: str, radius: int, written: Tensor | None = None
) -> Tensor | None:
    """Which keys j each query i may see, bool [S, S] or [B, S, S]; None where all may.

    ``local``: the square of cells at most ``radius`` rows and columns away. ``local_lines``: that
    square and the eight lines through the cell. ``local_nearest``: that square, and in each of the
    eight directions the nearest written cell beyond it. ``before``: the cell itself, its neighbour
    on the right and all of the row above: what is worked out before it, so that no two cells see
    each other. ``just_before``: of these the cells of the row above at most ``radius`` columns
    away. A prefix sees all and is seen by all.

    Args:
        cells: where the tokens sit.
        neighbourhood: one of ``NEIGHBOURHOODS``.
        radius: of the square, where there is one.
        written: bool [B, S], for ``local_nearest``: tokens that can be seen from afar.

    Raises:
        ValueError: the neighbourhood is not one of ``NEIGHBOURHOODS``.
    """
    check_choice("neighbourhood", neighbourhood, NEIGHBOURHOODS)
    allowed = None
    if neighbourhood in IN_ORDER:
        far = len(cells) if neighbourhood == "before" else radius
        allowed = _before(cells, far)
    elif neighbourhood != "all":
        near, lines = _lines(cells, radius)
        if neighbourhood == "local_nearest":
            assert written is not None, "what is nearest depends on what is written"
            lines = _seen_from_afar(cells, radius, written)
        allowed = near if neighbourhood == "local" else near | lines
    if cells.present is None:
        return allowed
    # Padding sees itself, as a softmax over nothing is not a number.
    itself = torch.eye(len(cells), dtype=torch.bool, device=cells.rows.device)
    present = cells.present.unsqueeze(-2)
    return itself | (present if allowed is None else allowed & present)


def nearest_keys(cells: Coordinates, radius: int, written: Tensor) -> Tensor:
    """The keys that each query sees under `local_nearest`, listed without a table of all pairs.

    Args:
        cells: without a prefix.
        radius: of the square.
        written: bool [B, S], as there.

    Returns:
        int64 [B, S, (2 · radius + 1)² + 8], indices of tokens, -1 where there is none; the first is
        the query itself.
    """
    batch, size = written.shape
    rows, columns = (x.expand(batch, size) for x in (cells.rows, cells.columns))
    sample = torch.arange(batch, device=rows.device)[:, None]
    token = torch.arange(size, device=rows.device).expand(batch, size)
    there = token if cells.present is None else torch.where(cells.present, token, -1)
    # A frame around the canvas, so that no step leaves it. Padding is written outside of it.
    edge, height, width = radius + 1, cells.height, cells.width
    place = rows + edge, columns + edge
    at = torch.full((batch, height + 2 * edge, width + 2 * edge), -1, device=rows.device)
    kept = there >= 0
    index = sample.expand_as(token)[kept], place[0][kept], place[1][kept]
    at[index] = token[kept]
    near = range(-radius, radius + 1)
    steps = sorted(itertools.product(near, near), key=lambda step: step != (0, 0))
    keys = [token, *(at[sample, place[0] + i, place[1] + j] for i, j in steps[1:])]
    far = torch.full_like(at, -1)
    far[index] = torch.where(written, token, -1)[kept]
    for direction in _DIRECTIONS:
        last = _scan(far, direction)[sample, *place]
        key = last.clamp(min=0)
        down, right = rows.gather(1, key) - rows, columns.gather(1, key) - columns
        beyond = (down.abs() > radius) | (right.abs() > radius)
        keys.append(torch.where(beyond, last, -1))
    return torch.stack(keys, dim=-1)


def _scan(far: Tensor, direction: tuple[int, int]) -> Tensor:
    """For each cell the last one in a direction that is not -1, int64 [B, H, W] to the same.

    Line by line from the edge inwards: what the next cell sees last, or else that cell itself.
    """
    down, right = direction
    if down == 0:  # columns are the lines
        return _scan(far.mT, (right, 0)).mT
    last = torch.full_like(far, -1)
    height = far.shape[1]
    inner = range(height - 2, -1, -1) if down > 0 else range(1, height)
    for row in inner:
        beyond = torch.where(last[:, row + down] >= 0, last[:, row + down], far[:, row + down])
        last[:, row] = beyond.roll(-right, dims=1)
        if right:
            last[:, row, -1 if right > 0 else 0] = -1  # what came round
    return last


def _seen_from_afar(cells: Coordinates, radius: int, written: Tensor) -> Tensor:
    """The nearest written keys beyond the square, bool [B, S, S]; of a prefix none."""
    P, batch = cells.prefix_length, len(written)
    parts = {name: getattr(cells, name)[..., P:] for name in ("rows", "columns", "index")}
    present = None if cells.present is None else cells.present[:, P:]
    inner = replace(cells, prefix_length=0, present=present, **parts)
    keys = nearest_keys(inner, radius, written[:, P:])[..., -len(_DIRECTIONS) :]
    size = keys.shape[1]
    seen = torch.zeros(batch, size, size + 1, dtype=torch.bool, device=keys.device)
    seen.scatter_(2, torch.where(keys < 0, size, keys), True)
    return F.pad(seen[..., :size], (P, 0, P, 0))


@_cached_where_shared
def _before(cells: Coordinates, radius: int) -> Tensor:
    """Keys in the row above, on the right and the token itself (or with a prefix in the pair).

    Of the row above those at most ``radius`` columns away.
    """
    down, right = _offsets(cells)
    prefix = cells.rows < 0
    above = (down == -1) & (right.abs() <= radius)
    seen = above | ((down == 0) & ((right == 0) | (right == 1)))
    return seen | prefix.unsqueeze(-1) | prefix.unsqueeze(-2)


@_cached_where_shared
def _lines(cells: Coordinates, radius: int) -> tuple[Tensor, Tensor]:
    """Keys in the local square (or with a prefix token in the pair), and on the eight lines."""
    down, right = _offsets(cells)
    prefix = cells.rows < 0
    near = (down.abs() <= radius) & (right.abs() <= radius)
    near |= prefix.unsqueeze(-1) | prefix.unsqueeze(-2)
    return near, (down == 0) | (right == 0) | (down.abs() == right.abs())
