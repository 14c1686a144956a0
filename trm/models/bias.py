"""What attention sees: a position's bias within a neighbourhood, of all pairs or of few keys."""

import math

import torch
from torch import Tensor

from trm.models.coordinates import Cells, nearest_keys, neighbourhood_mask, offset_classes
from trm.models.positions import Position, Relative2D


def attention_bias(
    position: Position, cells: Cells, neighbourhood: str, radius: int, written: Tensor | None = None
) -> Tensor | None:
    """Position bias with minus infinity outside the neighbourhood.

    [num_heads or 1, S, S], with a batch dimension in front if it differs between samples. For the
    arguments see `neighbourhood_mask`.
    """
    bias = position.bias(cells)
    allowed = neighbourhood_mask(cells, neighbourhood, radius, written)
    if allowed is None:
        return bias
    allowed = allowed.unsqueeze(-3)
    if bias is None:
        bias = torch.zeros(1, len(cells), len(cells), device=allowed.device)
    return torch.where(allowed, bias, -math.inf)


def few_keys(
    position: Position, cells: Cells, radius: int, written: Tensor
) -> tuple[Tensor, Tensor]:
    """What `attention_bias` says of a `horizon`, without a table of all pairs.

    Args:
        position: `Relative2D`, or one without a bias.
        cells, radius, written: see `nearest_keys`.

    Returns:
        Keys int64 [B, S, K] that each query sees, and the bias [B, num_heads or 1, S, K], minus
        infinity where a key is none.
    """
    keys = nearest_keys(cells, radius, written)
    there = (keys >= 0).unsqueeze(1)
    keys = keys.clamp(min=0)
    if not isinstance(position, Relative2D):
        zero = torch.zeros((), device=keys.device)
        return keys, torch.where(there, zero, -math.inf)
    rows, columns = (x.expand(len(keys), -1) for x in (cells.rows, cells.columns))
    down, right = (
        x.gather(1, keys.flatten(1)).view_as(keys) - x.unsqueeze(-1) for x in (rows, columns)
    )
    return keys, torch.where(
        there, position.of(offset_classes(down, right, position.radius)), -math.inf
    )


def all_pairs(keys: Tensor, bias: Tensor) -> Tensor:
    """The bias [B, heads, S, S] of all pairs from that of a few keys, see `few_keys`."""
    batch, heads, length, _ = bias.shape
    pairs = bias.new_full((batch, heads, length, length), -math.inf)
    # What is no key stands at key 0, where it must not hide one that is.
    return pairs.scatter_reduce(3, keys.unsqueeze(1).expand_as(bias), bias, "amax")
