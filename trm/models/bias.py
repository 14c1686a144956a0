"""What attention sees: a position's bias within a neighbourhood, of all pairs or of few keys."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from trm.models.configs import IN_ORDER
from trm.models.coordinates import Coordinates, nearest_keys, neighbourhood_mask, offset_classes
from trm.models.positions import Position, Relative2D

_OWN = -1e4  # bias of a token on itself where it is to see others: finite, as it may be alone
FEW_FROM = 1000  # tokens, for lists of keys in place of all pairs; see benchmarks/few_keys.py


def attention_bias(
    position: Position,
    cells: Coordinates,
    neighbourhood: str,
    radius: int,
    written: Tensor | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Position bias with minus infinity outside the neighbourhood.

    Args:
        position: a position encoding.
        cells: where the tokens sit.
        neighbourhood, radius, written: see `neighbourhood_mask`.

    Returns:
        The bias, [num_heads or 1, S, S], with a batch dimension in front if it differs between
        samples; None where nothing is biased. And None, or of a large canvas where each token sees
        few others the keys that each query sees, int64 [B, S, K], to which the bias
        [B, num_heads or 1, S, K] then belongs. Or, of a batch of boxes of one width in which each
        token sees its local square, `rows_bias` and None.
    """
    # What a position says of any two cells can be asked of few pairs only where it is known how.
    known = type(position).bias in (Position.bias, Relative2D.bias) and not position.by_query
    if neighbourhood == "local_nearest" and not cells.prefix_length and known:
        assert written is not None, "what is nearest depends on what is written"
        keys, few = few_keys(position, cells, radius, written)
        return (few, keys) if len(cells) > FEW_FROM else (all_pairs(keys, few), None)
    rows = rows_around(neighbourhood, radius)
    by_rows = rows is not None and not position.absolute and not position.by_query
    if cells.alike is not None and by_rows:
        return rows_bias(position, cells, neighbourhood, radius), None
    bias = position.bias(cells)
    allowed = neighbourhood_mask(cells, neighbourhood, radius, written)
    if allowed is None:
        return bias, None
    zero = torch.zeros((), device=allowed.device)
    return torch.where(allowed.unsqueeze(-3), zero if bias is None else bias, -math.inf), None


def rows_around(neighbourhood: str, radius: int) -> int | None:
    """How many rows away the farthest cell is that a cell sees; None: any number."""
    return {"local": radius, **dict.fromkeys(IN_ORDER, 1)}.get(neighbourhood)


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
    """The bias of each cell of a row on those of the rows around it, where it sees no others.

    It is the same in every row of every sample, but for the rows that there are not.

    Args:
        position: one that tells how two cells lie to each other alone.
        cells: boxes of one width, see `Coordinates.boxes`.
        neighbourhood, radius: see `rows_around`.

    Returns:
        [B, num_heads or 1, R, W, n * W], n being 2 * `rows_around` + 1.
    """
    rows = rows_around(neighbourhood, radius)
    assert cells.alike is not None
    assert cells.present is not None
    assert rows is not None
    width, n = cells.alike.width, 2 * rows + 1
    device = cells.rows.device
    middle = inner_row_bias(position, width, neighbourhood, radius, device).unsqueeze(1)
    there = cells.present.unflatten(1, (-1, width))[:, :, 0]  # [B, R], rows that are no padding
    # What is padding sees everything, as a softmax over nothing is not a number.
    seen = F.pad(there, (rows, rows)).unfold(1, n, 1) | ~there.unsqueeze(-1)  # [B, R, n]
    seen = seen.repeat_interleave(width, dim=-1)  # [B, R, n * W]
    return torch.where(seen[:, None, :, None], middle, -math.inf)


def inner_row_bias(
    position: Position,
    width: int,
    neighbourhood: str,
    radius: int,
    device: torch.device | str = "cpu",
) -> Tensor:
    """As `rows_bias`, of a row of W cells that has all the rows around it.

    Returns:
        [num_heads or 1, W, n * W].
    """
    rows = rows_around(neighbourhood, radius)
    assert rows is not None
    strip = Coordinates.canvas(2 * rows + 1, width, device=device)
    bias, _ = attention_bias(position, strip, neighbourhood, radius)
    assert bias is not None
    return bias[..., rows * width : (rows + 1) * width, :].view(-1, width, len(strip))


def bias_on_others(
    bias: Tensor | None, keys: Tensor | None, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """An `attention_bias` under which no token sees itself, but for those that see nothing else.

    Args:
        bias, keys: of an `attention_bias`.
        tokens: [B, S, D].

    Returns:
        The bias, and bool [B, S, 1] which tokens see nothing else.
    """
    index = torch.arange(tokens.shape[1], device=tokens.device)
    if bias is None:
        bias = tokens.new_zeros(1, 1, 1)
    if keys is not None:
        own = (keys == index.unsqueeze(-1)).unsqueeze(1)
    elif bias.ndim == 5:  # of rows
        width, seen = bias.shape[-2:]
        own = index[:width].unsqueeze(-1) + (seen - width) // 2 == index.new_tensor(range(seen))
    else:
        own = index.unsqueeze(-1) == index
    bias = bias + _OWN * own.to(bias)
    alone = (bias.detach().amax(dim=-1) < _OWN / 2).all(dim=-3 if bias.ndim == 5 else -2)
    alone = alone.flatten(-2) if bias.ndim == 5 else alone  # [B or none, S]
    return bias, alone.expand(tokens.shape[:2]).unsqueeze(-1)


def all_rows(bias: Tensor) -> Tensor:
    """The bias [B, heads, S, S] of all pairs from that of rows, see `rows_bias`."""
    batch, heads, rows, width, seen = bias.shape
    around = seen // width // 2
    full = bias.new_full((batch, heads, rows, width, rows + 2 * around, width), -math.inf)
    for row in range(rows):
        near = bias[:, :, row].unflatten(-1, (-1, width))
        full[:, :, row, :, row : row + 2 * around + 1] = near
    return full[..., around : around + rows, :].flatten(4, 5).flatten(2, 3)
