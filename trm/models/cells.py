"""Where tokens sit on a canvas, how two of them lie to each other, and which may see which."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from trm.choices import check_choice

NEIGHBOURHOODS = ("all", "rays", "near")


@dataclass(frozen=True, eq=False)
class Cells:
    """Where each token of a sequence sits: ``S`` tokens, of which the first may be a prefix.

    Compared by identity, so that what is derived from the cells can be cached.

    Attributes:
        rows: int64 [S], 0 is the top row; -1 for prefix tokens.
        columns: int64 [S], 0 is the leftmost column; -1 for prefix tokens.
        height: rows of the canvas.
        width: columns of the canvas.
        prefix_length: tokens in front of the cells.
    """

    rows: Tensor
    columns: Tensor
    height: int
    width: int
    prefix_length: int = 0

    @staticmethod
    @lru_cache(maxsize=64)
    def canvas(
        height: int, width: int, prefix_length: int = 0, device: torch.device | str = "cpu"
    ) -> "Cells":
        """All cells of a canvas in reading order behind a prefix; the same object every time."""
        # A cached tensor may first be asked for by a validation loop under inference mode, and
        # tensors born there can never take part in training.
        with torch.inference_mode(False):
            rows = torch.full((prefix_length + height * width,), -1, device=device)
            columns = rows.clone()
            index = torch.arange(height * width, device=device)
            rows[prefix_length:] = index // width
            columns[prefix_length:] = index % width
        return Cells(rows, columns, height, width, prefix_length)

    def __len__(self) -> int:
        return self.rows.shape[0]

    @property
    def index(self) -> Tensor:
        """Flat position of each token, prefix included, int64 [S]."""
        return torch.arange(len(self), device=self.rows.device)


def _offsets(cells: Cells) -> tuple[Tensor, Tensor]:
    """Rows down and columns right from query i to key j, int64 [S, S] each."""
    down = cells.rows[None, :] - cells.rows[:, None]
    right = cells.columns[None, :] - cells.columns[:, None]
    return down, right


@lru_cache(maxsize=16)
def relative_classes(cells: Cells, radius: int) -> Tensor:
    """The class of each pair (query, key) that ``Relative2D`` biases, int32 [S, S]."""
    with torch.inference_mode(False):
        classes = offset_classes(*_offsets(cells), radius)
        prefix = cells.rows < 0
        pair = prefix[:, None].long() * 2 + prefix[None, :].long()
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


@lru_cache(maxsize=16)
def neighbourhood_mask(cells: Cells, neighbourhood: str, radius: int) -> Tensor | None:
    """Which keys j each query i may see, bool [S, S]; None where all may.

    ``near``: the square of cells at most ``radius`` rows and columns away. ``rays``: that square
    and the eight compass lines through the cell. A prefix sees all and is seen by all.

    Raises:
        ValueError: the neighbourhood is not one of ``NEIGHBOURHOODS``.
    """
    check_choice("neighbourhood", neighbourhood, NEIGHBOURHOODS)
    if neighbourhood == "all":
        return None
    with torch.inference_mode(False):
        down, right = _offsets(cells)
        allowed = (down.abs() <= radius) & (right.abs() <= radius)
        if neighbourhood == "rays":
            allowed |= (down == 0) | (right == 0) | (down.abs() == right.abs())
        prefix = cells.rows < 0
        return allowed | prefix[:, None] | prefix[None, :]
