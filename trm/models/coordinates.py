"""Places of tokens on a canvas, their offsets from each other, and neighbourhoods."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trm.released import today

T = TypeVar("T")
# Rows down and columns right of the eight directions, clockwise from up.
DIRECTIONS = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Places of the ``S`` tokens of a sequence, the first of which may be a prefix.

    All samples of a batch share tensors [S], or each has its own: [B, S]. Objects are compared by
    identity, so that results for shared cells can be cached.
    """

    rows: Tensor  # int64 [S] or [B, S], 0 is the top row; -1 for prefix tokens
    columns: Tensor  # the same
    index: Tensor  # the same, flat position: prefix, then cells in reading order
    height: int  # of the canvas
    width: int
    prefix_length: int = 0  # tokens in front of the cells
    present: Tensor | None = None  # bool [B, S], False for padding; None: no padding

    @staticmethod
    @lru_cache(maxsize=64)
    @torch.inference_mode(False)  # an object cached in validation may be used in training
    def canvas(
        height: int, width: int, prefix_length: int = 0, device: torch.device | str = "cpu"
    ) -> "Coordinates":
        """Return a prefix, then all cells of a canvas in reading order; cached."""
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
    def num_positions(self) -> int:
        """Number of values of ``index``: prefix tokens and cells of the canvas."""
        return self.prefix_length + self.height * self.width

    places = num_positions  # its released name

    def only(self, kept: Tensor) -> "Coordinates":
        """Return for each sample the prefix and the kept cells, padded at the end.

        Args:
            kept: bool [B, H, W].
        """
        kept = F.pad(kept.flatten(1), (self.prefix_length, 0), value=True)
        most = int(kept.sum(dim=1).max())
        order = kept.byte().argsort(dim=1, descending=True, stable=True)[:, :most]
        rows, columns, index = (part[order] for part in (self.rows, self.columns, self.index))
        present = kept.gather(1, order)
        return replace(self, rows=rows, columns=columns, index=index, present=present)


def box(filled: Tensor) -> Tensor:
    """Return each sample's bounding box of filled cells, bool [B, H, W] to [B, H, W]."""
    return span(filled.any(dim=2)).unsqueeze(2) & span(filled.any(dim=1)).unsqueeze(1)


def span(filled: Tensor) -> Tensor:
    """Return True from the first True to the last one, bool [B, N] to [B, N]."""
    line = filled.byte()
    return (line.cummax(dim=1).values & line.flip(1).cummax(dim=1).values.flip(1)).bool()


def cached_where_shared(function: Callable[[Coordinates, int], T]) -> Callable[..., T]:
    """Cache results for coordinates that a whole batch shares."""
    # A result cached in validation may be used in training.
    kept = lru_cache(maxsize=16)(torch.inference_mode(False)(function))

    @wraps(function)
    def called(cells: Coordinates, radius: int) -> T:
        return (kept if cells.rows.ndim == 1 else function)(cells, radius)

    return called


def offsets(cells: Coordinates) -> tuple[Tensor, Tensor]:
    """Return rows down and columns right from query i to key j, int64 [S, S] or [B, S, S] each."""
    down, right = (x.unsqueeze(-2) - x.unsqueeze(-1) for x in (cells.rows, cells.columns))
    return down, right


@cached_where_shared
def relative_classes(cells: Coordinates, radius: int) -> Tensor:
    """Return the class of each pair (query, key) for ``Relative2D``, int32 [S, S] or [B, S, S]."""
    classes = offset_classes(*offsets(cells), radius)
    prefix = cells.rows < 0
    pair = prefix.unsqueeze(-1).long() * 2 + prefix.unsqueeze(-2).long()
    return torch.where(pair > 0, (2 * radius + 1) ** 2 + 15 + pair, classes).int()


def offset_classes(down: Tensor, right: Tensor, radius: int) -> Tensor:
    """Return the class of offsets between two cells, in the shape of ``down`` and ``right``.

    Offsets of up to ``radius`` have a class each. Others have one of 16: axis, diagonal or octant.
    """
    side = 2 * radius + 1
    near = (down.abs() <= radius) & (right.abs() <= radius)
    exact = (down + radius) * side + right + radius
    # 3 x 3 signs give axis or quadrant (0 to 8, without the centre). A quadrant off its diagonal
    # is split into the octant along the row and the one along the column.
    signs = (down.sign() + 1) * 3 + right.sign() + 1
    signs = signs - (signs > 4).long()
    quadrant = (down > 0).long() * 2 + (right > 0).long()
    octant = 8 + quadrant * 2 + (down.abs() > right.abs()).long()
    on_line = (down == 0) | (right == 0) | (down.abs() == right.abs())
    return torch.where(near, exact, side**2 + torch.where(on_line, signs, octant))


def neighbourhood_mask(
    cells: Coordinates, neighbourhood: str, radius: int, written: Tensor | None = None
) -> Tensor | None:
    """Return the keys j that each query i may read, bool [S, S] or [B, S, S]; None: all.

    A prefix reads all tokens, and all tokens read it.

    Args:
        cells: places of the tokens.
        neighbourhood: one of:

            - ``all``
            - ``local``: the square of cells at most ``radius`` rows and columns away
            - ``local_lines``: that square, and the eight lines through the cell
            - ``local_farthest``: that square, and in each of the eight directions the written cell
              that is farthest away
        radius: of the square.
        written: bool [B, S], for ``local_farthest``.
    """
    allowed = None
    if neighbourhood != "all":
        allowed, lines = _lines(cells, radius)
        if neighbourhood == "local_lines":
            allowed = allowed | lines
        elif today(neighbourhood) == "local_farthest":
            assert written is not None, "local_farthest depends on the written cells"
            allowed = allowed | _seen_from_afar(cells, written)
    if cells.present is None:
        return allowed
    # Padding reads itself: a softmax over nothing is not a number.
    itself = torch.eye(len(cells), dtype=torch.bool, device=cells.rows.device)
    present = cells.present.unsqueeze(-2)
    return itself | (present if allowed is None else allowed & present)


@cached_where_shared
def _lines(cells: Coordinates, radius: int) -> tuple[Tensor, Tensor]:
    """Return keys in the local square (or with a prefix token in the pair), and on eight lines."""
    down, right = offsets(cells)
    prefix = cells.rows < 0
    near = (down.abs() <= radius) & (right.abs() <= radius)
    near |= prefix.unsqueeze(-1) | prefix.unsqueeze(-2)
    return near, (down == 0) | (right == 0) | (down.abs() == right.abs())


def _seen_from_afar(cells: Coordinates, written: Tensor) -> Tensor:
    """Return the last written keys in eight directions, bool [B, S, S]; none for a prefix."""
    P, (batch, size) = cells.prefix_length, written.shape
    token, rows, columns = (
        x.expand(batch, size)[:, P:]
        for x in (torch.arange(size, device=written.device), cells.rows, cells.columns)
    )
    sample = torch.arange(batch, device=written.device)[:, None]
    kept = (written if cells.present is None else written & cells.present)[:, P:]
    at = token.new_full((batch, cells.height, cells.width), -1)
    at[sample.expand_as(token)[kept], rows[kept], columns[kept]] = token[kept]
    scanned = [_scan(at, direction)[sample, rows, columns] for direction in DIRECTIONS]
    keys = torch.stack(scanned, dim=-1)
    found = torch.zeros(batch, size, size + 1, dtype=torch.bool, device=written.device)
    found[:, P:].scatter_(2, torch.where(keys < 0, size, keys), True)
    return found[..., :size]


def _scan(far: Tensor, direction: tuple[int, int]) -> Tensor:
    """Return for each cell the last value in a direction that is not −1, int64 [B, H, W].

    −1: there is none. Example, to the right: [−1, 5, 7, −1] → [7, 7, −1, −1].
    """
    down, right = direction
    if down == 0:  # columns are the lines
        return _scan(far.mT, (right, 0)).mT
    last = torch.full_like(far, -1)
    height = far.shape[1]  # line by line from the edge inwards
    for row in range(height - 2, -1, -1) if down > 0 else range(1, height):
        beyond = torch.where(last[:, row + down] >= 0, last[:, row + down], far[:, row + down])
        last[:, row] = beyond.roll(-right, dims=1)
        if right:
            last[:, row, -1 if right > 0 else 0] = -1  # rolled in from the other edge
    return last
