"""What attention sees: a position's bias within a neighbourhood.

A bias stands in one of three forms, whichever is least work: of all pairs of tokens, of the few
keys that each query sees, or of each cell on its own row and the two around it.
"""

import itertools
import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from trm.models.configs import IN_ORDER
from trm.models.coordinates import Coordinates, cached_where_shared, offset_classes, offsets
from trm.models.positions import Position, Relative2D

_DIRECTIONS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
_OWN = -1e4  # bias of a token on itself where it is to see others: finite, as it may be alone
FEW_FROM = 1000  # tokens, for lists of keys in place of all pairs; see benchmarks/few_keys.py


def attention_bias(
    position: Position,
    cells: Coordinates,
    neighbourhood: str,
    radius: int,
    written: Tensor | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Position bias with minus infinity outside the neighbourhood, see `neighbourhood_mask`.

    Returns:
        The bias, [num_heads or 1, S, S], with a batch dimension in front if it differs between
        samples; None where nothing is biased. And None, or of a large canvas where each token sees
        few others the keys that each query sees, int64 [B, S, K], to which the bias
        [B, num_heads or 1, S, K] then belongs. Or, of a batch of boxes of one width in which no
        cell sees beyond the row above, `rows_bias` and None.
    """
    # What a position says of any two cells can be asked of few pairs only where it is known how.
    known = type(position).bias in (Position.bias, Relative2D.bias) and not position.by_query
    if neighbourhood == "local_nearest" and not cells.prefix_length and known:
        assert written is not None, "what is nearest depends on what is written"
        keys, few = few_keys(position, cells, radius, written)
        return (few, keys) if len(cells) > FEW_FROM else (all_pairs(keys, few), None)
    if neighbourhood in IN_ORDER and cells.alike is not None and position.of_offsets:
        return rows_bias(position, cells, neighbourhood, radius), None
    bias = position.bias(cells)
    allowed = neighbourhood_mask(cells, neighbourhood, radius, written)
    if allowed is None:
        return bias, None
    zero = torch.zeros((), device=allowed.device)
    return torch.where(allowed.unsqueeze(-3), zero if bias is None else bias, -math.inf), None


def neighbourhood_mask(
    cells: Coordinates, neighbourhood: str, radius: int, written: Tensor | None = None
) -> Tensor | None:
    """Which keys j each query i may see, bool [S, S] or [B, S, S]; None where all may.

    ``local_lines``: the square of cells at most ``radius`` rows and columns away, and the eight
    lines through the cell. ``local_nearest``: that square, and in each of the eight directions the
    nearest written cell beyond it. ``before``: the cell itself, its neighbour on the right and all
    of the row above: what is worked out before it, so that no two cells see each other.
    ``just_before``: of these the cells of the row above at most ``radius`` columns away. A prefix
    sees all and is seen by all.

    Args:
        cells: where the tokens sit.
        neighbourhood: one of ``NEIGHBOURHOODS``.
        radius: of the square, where there is one.
        written: bool [B, S], for ``local_nearest``: tokens that can be seen from afar.
    """
    allowed = None
    if neighbourhood in IN_ORDER:
        allowed = _before(cells, radius if neighbourhood == "just_before" else len(cells))
    elif neighbourhood != "all":
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
def _before(cells: Coordinates, radius: int) -> Tensor:
    """Keys up to ``radius`` columns away in the row above, on the right, and the token itself."""
    down, right = offsets(cells)
    prefix = cells.rows < 0
    above = (down == -1) & (right.abs() <= radius)
    seen = above | ((down == 0) & ((right == 0) | (right == 1)))
    return seen | prefix.unsqueeze(-1) | prefix.unsqueeze(-2)


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


def rows_bias(position: Position, cells: Coordinates, neighbourhood: str, radius: int) -> Tensor:
    """The bias of each cell on the row above, its own and the one below: the same in every row.

    Of boxes of one width, under a neighbourhood of ``IN_ORDER`` and a position of offsets:
    [B, num_heads or 1, R, W, 3 * W], minus infinity for rows that there are not.
    """
    assert cells.alike is not None
    assert cells.present is not None
    width = cells.alike.width
    middle = inner_row_bias(position, width, neighbourhood, radius, cells.rows.device).unsqueeze(1)
    there = cells.present.unflatten(1, (-1, width))[:, :, 0]  # [B, R], rows that are no padding
    # What is padding sees everything, as a softmax over nothing is not a number.
    seen = F.pad(there, (1, 1)).unfold(1, 3, 1) | ~there.unsqueeze(-1)  # [B, R, 3]
    seen = seen.repeat_interleave(width, dim=-1)  # [B, R, 3 * W]
    return torch.where(seen[:, None, :, None], middle, -math.inf)


def inner_row_bias(
    position: Position, width: int, neighbourhood: str, radius: int, device: torch.device
) -> Tensor:
    """As `rows_bias`, of a row between two others: [num_heads or 1, W, 3 * W]."""
    strip = Coordinates.canvas(3, width, device=device)
    bias, _ = attention_bias(position, strip, neighbourhood, radius)
    assert bias is not None
    return bias[..., width : 2 * width, :].view(-1, width, 3 * width)


def all_rows(bias: Tensor) -> Tensor:
    """The bias [B, heads, S, S] of all pairs from that of rows, see `rows_bias`."""
    batch, heads, rows, width, _ = bias.shape
    full = bias.new_full((batch, heads, rows, width, rows + 2, width), -math.inf)
    for row in range(rows):
        full[:, :, row, :, row : row + 3] = bias[:, :, row].unflatten(-1, (3, width))
    return full[..., 1:-1, :].flatten(4, 5).flatten(2, 3)


def bias_on_others(
    bias: Tensor | None, keys: Tensor | None, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """An `attention_bias` of tokens [B, S, D] under which none sees itself.

    But for those that see nothing else, which are the second part of the answer, bool [B, S, 1].
    """
    index = torch.arange(tokens.shape[1], device=tokens.device)
    if bias is None:
        bias = tokens.new_zeros(1, 1, 1)
    if keys is not None:
        own = (keys == index.unsqueeze(-1)).unsqueeze(1)
    elif bias.ndim == 5:  # of rows
        width, seen = bias.shape[-2:]
        own = index[:width].unsqueeze(-1) + width == index.new_tensor(range(seen))
    else:
        own = index.unsqueeze(-1) == index
    bias = bias + _OWN * own.to(bias)
    alone = (bias.detach().amax(dim=-1) < _OWN / 2).all(dim=-3 if bias.ndim == 5 else -2)
    alone = alone.flatten(-2) if bias.ndim == 5 else alone  # [B or none, S]
    return bias, alone.expand(tokens.shape[:2]).unsqueeze(-1)
