"""What attention sees: a position's bias within a neighbourhood."""

import math

import torch
from torch import Tensor

from trm.models.coordinates import Coordinates, cached_where_shared, offsets
from trm.models.positions import Position

_DIRECTIONS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


def attention_bias(
    position: Position,
    cells: Coordinates,
    neighbourhood: str,
    radius: int,
    written: Tensor | None = None,
) -> Tensor | None:
    """Position bias with minus infinity outside the neighbourhood, see `neighbourhood_mask`.

    Returns:
        The bias, [num_heads or 1, S, S], with a batch dimension in front if it differs between
        samples; None where nothing is biased.
    """
    bias = position.bias(cells)
    allowed = neighbourhood_mask(cells, neighbourhood, radius, written)
    if allowed is None:
        return bias
    zero = torch.zeros((), device=allowed.device)
    return torch.where(allowed.unsqueeze(-3), zero if bias is None else bias, -math.inf)


def neighbourhood_mask(
    cells: Coordinates, neighbourhood: str, radius: int, written: Tensor | None = None
) -> Tensor | None:
    """Which keys j each query i may see, bool [S, S] or [B, S, S]; None where all may.

    ``local_lines``: the square of cells at most ``radius`` rows and columns away, and the eight
    lines through the cell. ``local_nearest``: that square, and in each of the eight directions the
    nearest written cell beyond it. A prefix sees all and is seen by all.

    Args:
        cells: where the tokens sit.
        neighbourhood: one of ``NEIGHBOURHOODS``.
        radius: of the square, where there is one.
        written: bool [B, S], for ``local_nearest``: tokens that can be seen from afar.
    """
    allowed = None
    if neighbourhood != "all":
        near, beyond = _lines(cells, radius)
        if neighbourhood == "local_nearest":
            assert written is not None, "what is nearest depends on what is written"
            beyond = _seen_from_afar(cells, written)
        allowed = near | beyond
    if cells.present is None:
        return allowed
    # Padding sees itself, as a softmax over nothing is not a number.
    itself = torch.eye(len(cells), dtype=torch.bool, device=cells.rows.device)
    present = cells.present.unsqueeze(-2)
    return itself | (present if allowed is None else allowed & present)


@cached_where_shared
def _lines(cells: Coordinates, radius: int) -> tuple[Tensor, Tensor]:
    """Keys in the local square (or with a prefix token in the pair), and on the eight lines."""
    down, right = offsets(cells)
    prefix = cells.rows < 0
    near = (down.abs() <= radius) & (right.abs() <= radius)
    near |= prefix.unsqueeze(-1) | prefix.unsqueeze(-2)
    return near, (down == 0) | (right == 0) | (down.abs() == right.abs())


def _seen_from_afar(cells: Coordinates, written: Tensor) -> Tensor:
    """The nearest written key in each of the eight directions, bool [B, S, S]; of a prefix none."""
    P, (batch, size) = cells.prefix_length, written.shape
    token, rows, columns = (
        x.expand(batch, size)[:, P:]
        for x in (torch.arange(size, device=written.device), cells.rows, cells.columns)
    )
    sample = torch.arange(batch, device=written.device)[:, None]
    kept = (written if cells.present is None else written & cells.present)[:, P:]
    at = token.new_full((batch, cells.height, cells.width), -1)
    at[sample.expand_as(token)[kept], rows[kept], columns[kept]] = token[kept]
    keys = torch.stack([_scan(at, way)[sample, rows, columns] for way in _DIRECTIONS], dim=-1)
    seen = torch.zeros(batch, size, size + 1, dtype=torch.bool, device=written.device)
    seen[:, P:].scatter_(2, torch.where(keys < 0, size, keys), True)
    return seen[..., :size]


def _scan(far: Tensor, direction: tuple[int, int]) -> Tensor:
    """For each cell the last one in a direction that is not -1, int64 [B, H, W] to the same.

    Line by line from the edge inwards: what the next cell sees last, or else that cell itself.
    """
    down, right = direction
    if down == 0:  # columns are the lines
        return _scan(far.mT, (right, 0)).mT
    last = torch.full_like(far, -1)
    height = far.shape[1]
    for row in range(height - 2, -1, -1) if down > 0 else range(1, height):
        beyond = torch.where(last[:, row + down] >= 0, last[:, row + down], far[:, row + down])
        last[:, row] = beyond.roll(-right, dims=1)
        if right:
            last[:, row, -1 if right > 0 else 0] = -1  # what came round
    return last
