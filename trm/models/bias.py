"""What attention sees: a position's bias within a neighbourhood."""

import itertools
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from trm.models.coordinates import Coordinates, cached_where_shared, offset_classes, offsets
from trm.models.positions import Position, Relative2D

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
    # What a position says of any two cells can be asked of few pairs only where it is known how.
    known = type(position).bias in (Position.bias, Relative2D.bias) and not position.by_query
    if neighbourhood == "local_nearest" and not cells.prefix_length and known:
        assert written is not None, "what is nearest depends on what is written"
        return all_pairs(*few_keys(position, cells, radius, written))
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
            beyond = _seen_from_afar(cells, radius, written)
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


def nearest_keys(cells: Coordinates, radius: int, written: Tensor) -> Tensor:
    """The keys that each query sees under `local_nearest`, listed without a table of all pairs.

    Of cells without a prefix: int64 [B, S, (2 · radius + 1)² + 8], indices of tokens, -1 where
    there is none; the first is the query itself.
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
    for row in range(height - 2, -1, -1) if down > 0 else range(1, height):
        beyond = torch.where(last[:, row + down] >= 0, last[:, row + down], far[:, row + down])
        last[:, row] = beyond.roll(-right, dims=1)
        if right:
            last[:, row, -1 if right > 0 else 0] = -1  # what came round
    return last


def few_keys(
    position: Position, cells: Coordinates, radius: int, written: Tensor
) -> tuple[Tensor, Tensor]:
    """The keys int64 [B, S, K] of `nearest_keys`, and the bias [B, num_heads or 1, S, K] on them.

    The position is a `Relative2D`, or one without a bias; minus infinity is where a key is none.
    """
    keys = nearest_keys(cells, radius, written)
    there = (keys >= 0).unsqueeze(1)
    keys = keys.clamp(min=0)
    if not isinstance(position, Relative2D):
        zero = torch.zeros((), device=keys.device)
        return keys, torch.where(there, zero, -math.inf)
    down, right = (
        x.expand(len(keys), -1).gather(1, keys.flatten(1)).view_as(keys) - x.unsqueeze(-1)
        for x in (cells.rows, cells.columns)
    )
    classes = offset_classes(down, right, position.radius)
    return keys, torch.where(there, position.of(classes), -math.inf)


def all_pairs(keys: Tensor, bias: Tensor) -> Tensor:
    """The bias [B, heads, S, S] of all pairs from that of a few keys, see `few_keys`."""
    batch, heads, length, _ = bias.shape
    pairs = bias.new_full((batch, heads, length, length), -math.inf)
    # What is no key stands at key 0, where it must not hide one that is.
    return pairs.scatter_reduce(3, keys.unsqueeze(1).expand_as(bias), bias, "amax")
