"""Position encodings of pairs of tokens: biases of attention scores, and vectors added to keys.

Shapes are those of `trm.models.positions`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.models.attention import RelativeKeys, truncated_normal_
from trm.models.coordinates import DIRECTIONS, Coordinates, offset_classes, relative_classes
from trm.models.positions import RelativePosition, random_vectors


class Alibi(RelativePosition):
    """Penalty on scores, proportional to the flat distance (ALiBi, Press et al. 2022).

    Head h of n subtracts 2 ** (-8 (h + 1) / n) per token. In a bidirectional model the penalty is
    the same in both directions.
    """

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads

    def bias(self, cells: Coordinates) -> Tensor:
        index = cells.index.float()
        heads = torch.arange(1, self.num_heads + 1, dtype=torch.float32, device=index.device)
        slopes = torch.exp2(-8 * heads / self.num_heads)
        distance = (index.unsqueeze(-2) - index.unsqueeze(-1)).abs()
        return -slopes[:, None, None] * distance.unsqueeze(-3)


class Fire(RelativePosition):
    """Learned function of the flat distance, relative to the place of the later token (FIRE).

    Functional interpolation for relative position encodings, Li et al. 2024 (arXiv 2310.04418). A
    small network f computes each head's bias for a query at place i and a key at place j,

        f(ψ(|i - j|) / ψ(max(L, i, j))),  ψ(x) = log(c x + 1).

    Its argument is between 0 and 1 for any length of the sequence. L and c are learned, too. In a
    causal model j ≤ i, as in the paper.
    """

    def __init__(self, num_heads: int, hidden: int = 32):
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(64.0))  # L
        self.slope = nn.Parameter(torch.tensor(0.1))  # c
        self.inner, self.outer = nn.Linear(1, hidden), nn.Linear(hidden, num_heads)
        for layer in (self.inner, self.outer):
            truncated_normal_(layer.weight, 1 / math.sqrt(layer.in_features))
            nn.init.zeros_(layer.bias)

    def bias(self, cells: Coordinates) -> Tensor:
        places = cells.index.float()
        i, j = places.unsqueeze(-1), places.unsqueeze(-2)
        longest = torch.maximum(torch.maximum(i, j), self.threshold.abs())
        c = self.slope.abs()
        relative = torch.log1p(c * (i - j).abs()) / torch.log1p(c * longest)
        return self.outer(F.relu(self.inner(relative.unsqueeze(-1)))).movedim(-1, -3).contiguous()


class Shaw(RelativePosition):
    """Learned vector for each distance, added to the keys (Shaw et al. 2018).

    Self-attention with relative position representations (arXiv 1803.02155), equation 4: the score
    of query i and key j is q_i · (k_j + a_clip(j - i)) / sqrt(head_dim), with flat places i and j.
    The heads share the vectors, as in the paper; here the layers share them, too. Vectors added to
    the values are left out: table 3 of the paper shows no gain. Distances beyond ``max_distance``
    are clipped to it, in both directions.
    """

    def __init__(self, head_dim: int, max_distance: int = 16):
        super().__init__()
        self.max_distance = max_distance
        self.weight = random_vectors(2 * max_distance + 1, head_dim, 1 / math.sqrt(head_dim))

    def relative_keys(self, cells: Coordinates) -> RelativeKeys:
        """Return the vectors, and their index for each pair; index 0 is −``max_distance``."""
        farthest = self.max_distance
        distance = cells.index.unsqueeze(-2) - cells.index.unsqueeze(-1)
        return RelativeKeys(self.weight, distance.clamp(-farthest, farthest) + farthest)


class Deberta(Shaw):
    """`Shaw` with both terms: also a learned vector for each distance, added to the queries.

    DeBERTa, He et al. 2021 (arXiv 2006.03654), equation 4: the score of query i and key j is
    (q_i · k_j + q_i · a_clip(j - i) + b_clip(j - i) · k_j) / sqrt(head_dim). The second term is
    content to position, the third one position to content. The third one is also the key's term of
    Transformer-XL (Dai et al. 2019), u · k_j, with a u for each distance.

    As in `Shaw` heads and layers share the vectors. The paper projects vectors of its own for each
    layer, and divides by sqrt(3 head_dim).
    """

    def __init__(self, head_dim: int, max_distance: int = 16):
        super().__init__(head_dim, max_distance)
        self.queries = random_vectors(2 * max_distance + 1, head_dim, 1 / math.sqrt(head_dim))

    def relative_keys(self, cells: Coordinates) -> RelativeKeys:
        """Return the vectors of both terms, and their index for each pair, as in `Shaw`."""
        return super().relative_keys(cells)._replace(queries=self.queries)


class T5(RelativePosition):
    """Learned bias per head for the bucket of the distance from query to key (T5).

    Raffel et al. 2020 (arXiv 1910.10683), section 2.1. Half of the buckets of a direction are of
    one distance each. The other half grow logarithmically up to ``max_distance``, and the last one
    has all farther distances. A causal model has all buckets for earlier keys; another one has half
    of them for each direction. With 32 buckets and ``causal``, distances of 0 to 15 have a bucket
    each, 128 and more share the last one.

    As in the paper all layers share the table, [num_heads, buckets]. It starts at zero, and the
    bias is ``bias_scale`` times the table, as in `Relative2D`.
    """

    def __init__(
        self,
        num_heads: int,
        buckets: int = 32,
        max_distance: int = 128,
        causal: bool = False,
        bias_scale: float = 1.0,
    ):
        super().__init__()
        self.max_distance, self.causal, self.scale = max_distance, causal, bias_scale
        self.weight = nn.Parameter(torch.zeros(num_heads, buckets))

    def buckets(self, offset: Tensor) -> Tensor:
        """Return the bucket of each offset from query to key, int64 of any shape."""
        count = self.weight.shape[1] if self.causal else self.weight.shape[1] // 2
        distance, exact = (-offset).clamp(0) if self.causal else offset.abs(), count // 2
        # log2 is exact where a bucket begins at a power of two.
        octaves = torch.log2(distance.clamp(exact) / exact)
        share = octaves / math.log2(self.max_distance / exact)
        far = (exact + (share * (count - exact)).long()).clamp(max=count - 1)
        bucket = torch.where(distance < exact, distance, far)
        return bucket if self.causal else bucket + count * (offset > 0)

    def bias(self, cells: Coordinates) -> Tensor:
        offset = cells.index.unsqueeze(-2) - cells.index.unsqueeze(-1)
        return _biases(self.weight * self.scale, self.buckets(offset))


class Relative2D(RelativePosition):
    """Learned bias per head for the offset from query to key; supports canvases of any size.

    Offsets of up to ``radius`` rows and columns have a class each. Beyond, only the direction
    counts: there are 16 classes, for four axis directions, four diagonals, and the eight octants
    between them. Pairs with a prefix token have three more classes. After Shaw et al. 2018 and T5's
    buckets, on two axes. The table, [num_heads, classes], starts at zero.

    The bias is ``bias_scale`` times the table. A head attends in one direction alone only with a
    bias of several units, and Adam changes a parameter by about its learning rate a step. Unscaled,
    at a rate that suits embeddings, that takes thousands of steps.

    With ``direction_bias`` above 0 each head begins with that bias for one of the eight directions,
    at any distance: the first head up, and so on clockwise.
    """

    def __init__(
        self, num_heads: int, radius: int = 2, bias_scale: float = 1.0, direction_bias: float = 0.0
    ):
        super().__init__()
        self.radius, self.scale = radius, bias_scale
        # Filled in on the CPU: on the meta device such arithmetic imports PyTorch's compiler.
        start = torch.zeros(num_heads, (2 * radius + 1) ** 2 + 16 + 3, device="cpu")
        distance = torch.arange(1, radius + 2, device="cpu")
        for head in range(num_heads):
            down, right = DIRECTIONS[head % len(DIRECTIONS)]
            ray = offset_classes(distance * down, distance * right, radius)
            start[head, ray] = direction_bias / bias_scale
        self.weight = nn.Parameter(torch.empty(start.shape).copy_(start))

    def bias(self, cells: Coordinates) -> Tensor:
        # The cache is kept small; the gradient with int32 indices takes three times as long.
        classes = relative_classes(cells, self.radius).long()
        return _biases(self.weight * self.scale, classes)


def _biases(table: Tensor, classes: Tensor) -> Tensor:
    """Return biases [..., heads, S, S] from a table [heads, C] and classes, int64 [..., S, S]."""
    bias = table.t().index_select(0, classes.flatten()).view(*classes.shape, -1)
    return bias.movedim(-1, -3).contiguous()
