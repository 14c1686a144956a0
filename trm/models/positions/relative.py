"""Biases on attention scores, and vectors added to keys, by how two tokens lie to each other."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.models.coordinates import Coordinates, offset_classes, relative_classes
from trm.models.layers import RelativeKeys, truncated_normal_
from trm.models.positions.base import Position

# Rows down and columns right of the eight directions, clockwise from up.
_DIRECTIONS_CLOCKWISE = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


class Alibi(Position):
    """A penalty on scores, proportional to the flat distance (ALiBi, Press et al. 2022).

    Head h of n subtracts 2 ** (-8 (h + 1) / n) per token. A causal model meets distances to the
    past only; in a bidirectional one the penalty is the same either way.
    """

    absolute = False

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads

    def bias(self, cells: Coordinates) -> Tensor:
        """Penalties, float32 [num_heads, S, S]."""
        index = cells.index.float()
        heads = torch.arange(1, self.num_heads + 1, device=index.device)
        slopes = torch.exp2(-8 * heads / self.num_heads)
        distance = (index.unsqueeze(-2) - index.unsqueeze(-1)).abs()
        return -slopes[:, None, None] * distance.unsqueeze(-3)


class Fire(Position):
    """A learned function of the flat distance, relative to how far on a token is (FIRE).

    Functional interpolation for relative position encodings, Li et al. 2024 (arXiv 2310.04418): a
    small network f gives each head's bias for the token at place i that looks at place j,

        f(ψ(|i - j|) / ψ(max(L, i, j))),  ψ(x) = log(c x + 1).

    Its argument stays between 0 and 1 however long the sequence is. L and c are learned, too. Of a
    causal model j comes before i, as in the paper; in a bidirectional one the later of both counts.

    Args:
        num_heads: of attention.
        hidden: channels inside f.
        threshold: L at the beginning, the length up to which distances are not made relative.
        slope: c at the beginning.
    """

    absolute = False

    def __init__(
        self, num_heads: int, hidden: int = 32, threshold: float = 64.0, slope: float = 0.1
    ):
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(threshold))
        self.slope = nn.Parameter(torch.tensor(slope))
        self.inner, self.outer = nn.Linear(1, hidden), nn.Linear(hidden, num_heads)
        for layer in (self.inner, self.outer):
            truncated_normal_(layer.weight, 1 / math.sqrt(layer.in_features))
            nn.init.zeros_(layer.bias)

    def bias(self, cells: Coordinates) -> Tensor:
        """Biases, [num_heads, S, S]: query i, key j."""
        places = cells.index.float()
        i, j = places.unsqueeze(-1), places.unsqueeze(-2)
        longest = torch.maximum(torch.maximum(i, j), self.threshold.abs())
        relative = self._squeezed((i - j).abs()) / self._squeezed(longest)
        return self.outer(F.relu(self.inner(relative.unsqueeze(-1)))).movedim(-1, -3).contiguous()

    def _squeezed(self, distance: Tensor) -> Tensor:
        """ψ of a distance."""
        return torch.log1p(self.slope.abs() * distance)


class Shaw(Position):
    """A learned vector for each distance, added to the keys (Shaw et al. 2018).

    Self-attention with relative position representations (arXiv 1803.02155), equation 4: the score
    of query i and key j is q_i · (k_j + a_clip(j - i)) / sqrt(head_dim), with flat places i and j.
    The vectors are shared by the heads, as there, and here by the layers, too. Its second kind of
    vector, added to the values, is left out: their table 3 finds no gain in it.

    Args:
        head_dim: of attention.
        max_distance: distances beyond this, in either direction, count as this one.
    """

    absolute = False

    def __init__(self, head_dim: int, max_distance: int = 16):
        super().__init__()
        if max_distance < 1:
            raise ValueError(f"max_distance must be 1 or more, got {max_distance}.")
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        truncated_normal_(self.weight, 1 / math.sqrt(head_dim))

    def relative_keys(self, cells: Coordinates) -> RelativeKeys:
        """The vectors, and for each pair the clipped distance: the first is that far before."""
        farthest = self.max_distance
        distance = cells.index.unsqueeze(-2) - cells.index.unsqueeze(-1)
        return RelativeKeys(self.weight, distance.clamp(-farthest, farthest) + farthest)


class Relative2D(Position):
    """A learned bias per head for the offset from query to key; fits a canvas of any size.

    Offsets of up to ``radius`` rows and columns are distinguished exactly. Beyond, only the
    direction counts: one class for each of the four axes and four diagonals and the eight octants
    between them. Pairs with a prefix token have three classes of their own. After Shaw et al.
    2018 and T5's buckets, on two axes; starts at zero. The table is [num_heads, classes].

    The bias is ``bias_scale`` times the table. A bias has to reach several units before a head
    looks one way only, and Adam moves each number by about its learning rate a step: unscaled, at a
    rate that suits embeddings, it takes thousands of steps.

    With ``direction_bias`` above 0 each head starts out preferring one of the eight directions, the
    first head up and so on clockwise, by that many units at any distance.
    """

    absolute = False

    def __init__(
        self, num_heads: int, radius: int = 2, bias_scale: float = 1.0, direction_bias: float = 0.0
    ):
        super().__init__()
        if radius < 0:
            raise ValueError(f"radius must be 0 or more, got {radius}.")
        self.radius, self.scale = radius, bias_scale
        # Filled in on the CPU: on the meta device such arithmetic imports PyTorch's compiler.
        start = torch.zeros(num_heads, (2 * radius + 1) ** 2 + 16 + 3, device="cpu")
        distance = torch.arange(1, radius + 2, device="cpu")
        for head in range(num_heads):
            down, right = _DIRECTIONS_CLOCKWISE[head % len(_DIRECTIONS_CLOCKWISE)]
            ray = offset_classes(distance * down, distance * right, radius)
            start[head, ray] = direction_bias / bias_scale
        self.weight = nn.Parameter(torch.empty(start.shape).copy_(start))

    def bias(self, cells: Coordinates) -> Tensor:
        """Biases, [num_heads, S, S]: query i, key j."""
        return self.of(relative_classes(cells, self.radius))

    def of(self, classes: Tensor) -> Tensor:
        """The biases of classes [.., Q, K]: [.., num_heads, Q, K]."""
        table = (self.weight * self.scale).t()
        # The cache is kept small; the gradient with int32 indices takes three times as long.
        bias = table.index_select(0, classes.flatten().long()).view(*classes.shape, -1)
        return bias.movedim(-1, -3).contiguous()
