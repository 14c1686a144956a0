"""Position encodings: the places of a transformer's tokens on a canvas.

A position encoding adds vectors to the embeddings, rotates queries and keys, adds vectors to keys,
or biases attention scores. It can be combined with any neighbourhood (`trm.models.coordinates`).
Unless stated otherwise, it suits bidirectional models (a grid of cells) and causal ones (the same
cells in reading order; row ends are one more column). Shapes are those of cells that a whole batch
shares. If each sample has its own cells, a batch dimension comes first.
"""

import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from canvas.choices import load_class
from canvas.symbols import DIGIT_IDS
from trm.models.attention import RelativeKeys, Rotation, Terms, truncated_normal_
from trm.models.configs import POSITIONS, RANDOMISED_RANGE
from trm.models.coordinates import DIRECTIONS, Coordinates, offset_classes, relative_classes


class Position(nn.Module):
    """Base class of position encodings. A subclass overrides one or more of the terms."""

    absolute = True  # encodes places of tokens, and not offsets between them alone

    def __init_subclass__(cls) -> None:
        """Let a subclass define `vectors` and `token_vectors` without a generator."""
        for name in {"vectors", "token_vectors"} & vars(cls).keys():
            method = vars(cls)[name]
            if len(inspect.signature(method).parameters) == 2:  # self, and cells or ids
                setattr(cls, name, _ignoring_generator(method))

    def accepts(self, cells: Coordinates) -> bool:
        """Return whether the encoding supports these cells."""
        return True

    def vectors(self, cells: Coordinates, generator: Generator | None = None) -> Tensor | None:
        """Return vectors to add to the embeddings, [S, hidden_size].

        ``randomised`` needs the generator.
        """
        return None

    def token_vectors(self, ids: Tensor, generator: Generator | None = None) -> Tensor | None:
        """Return vectors to add to the embeddings of a sequence, [B, T, hidden_size].

        The vector of a token does not depend on tokens after it.

        Args:
            ids: int64 [B, T], from the first token on.
            generator: see `trm.models.gpt.GPT.activations`.
        """
        return None

    def rotation(self, cells: Coordinates) -> Rotation | None:
        """Return cosines and sines of queries and keys, float32 [S, head_dim / 2] each."""
        return None

    def bias(self, cells: Coordinates) -> Tensor | None:
        """Return the bias of the attention score of query i and key j, [num_heads, S, S]."""
        return None

    def relative_keys(self, cells: Coordinates) -> RelativeKeys | None:
        """Return vectors to add to key j, and to query i, when i reads j, for [S, S] pairs."""
        return None

    def terms(
        self,
        cells: Coordinates,
        dtype: torch.dtype,
        allowed: Tensor | None = None,
        generator: Generator | None = None,
    ) -> Terms:
        """Return all terms for attention.

        Args:
            cells: places of the tokens.
            dtype: of the activations, and of the returned terms.
            allowed: keys that each query may read, from `neighbourhood_mask`; None: all.
            generator: see `vectors`.
        """
        rotation, bias = self.rotation(cells), self.bias(cells)
        if rotation is not None:
            # If samples differ, with a dimension for the heads.
            cos, sin = (x.unsqueeze(1) if x.ndim == 3 else x for x in rotation)
            rotation = cos.to(dtype), sin.to(dtype)
        if allowed is not None:
            zero = torch.zeros((), device=allowed.device)
            bias = torch.where(allowed.unsqueeze(-3), zero if bias is None else bias, -math.inf)
        bias = None if bias is None else bias.to(dtype)
        return Terms(self.vectors(cells, generator), rotation, bias, self.relative_keys(cells))


def _ignoring_generator(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: Position, given: Any, generator: Generator | None = None) -> Any:
        return method(self, given)

    return called


def make_position(name: str, **settings: Any) -> Position:
    """Return a position encoding. Its constructor gets the settings that it takes, by name.

    Args:
        name: one of ``POSITIONS``, or ``module.Class`` of your own.
        settings: hidden_size, num_heads, height and width of the canvas. Optional ones are
            prefix_length, radius, std (of learned vectors), amplitude (of sinusoids), bias_scale,
            direction_bias and causal (whether tokens attend to earlier ones alone). head_dim is
            computed.

    Raises:
        ValueError: the class requires another setting.
    """
    kind = load_class(POSITIONS.get(name, name), Position, "position")
    settings["head_dim"] = settings["hidden_size"] // settings["num_heads"]
    parameters = inspect.signature(kind).parameters
    try:
        return kind(**{name: settings[name] for name in parameters if name in settings})
    except TypeError as error:
        known = ", ".join(sorted(settings))
        raise ValueError(f"position {name}: {error}; there are {known}") from None


def check_canvas(model: Any, height: int, width: int) -> None:
    """Check that a model's positions support canvases of that size.

    Raises:
        ValueError: they do not.
    """
    config = model.config
    if not model.accepts(height, width):
        raise ValueError(
            f"this model's {config.position} positions do not serve a canvas of {height} x "
            f"{width}. Use its own, {config.height} x {config.width}, or train a model with "
            "rope_2d or sinusoidal, which take any."
        )


class RelativePosition(Position):
    """Position encoding that depends on offsets between tokens alone."""

    absolute = False


class NoPosition(RelativePosition):
    """No encoding (NoPE). A causal model can infer places from the number of tokens before."""


class Learned(Position):
    """One learned vector per flat position, prefix included (GPT-2; ABS_LEARNED).

    Supports exactly one canvas size: with another width the same flat position is another cell.
    """

    def __init__(
        self, hidden_size: int, height: int, width: int, prefix_length: int = 0, std: float = 0.02
    ):
        super().__init__()
        self.height, self.width = height, width
        self.weight = _random_vectors(prefix_length + height * width, hidden_size, std)

    def accepts(self, cells: Coordinates) -> bool:
        return (cells.height, cells.width) == (self.height, self.width)

    def vectors(self, cells: Coordinates, generator: Generator | None = None) -> Tensor:
        return F.embedding(cells.index, self.weight)


class Learned2D(Position):
    """One learned vector per row plus one per column (position coupling, CUSTOM_PID).

    Prefix tokens have learned vectors of their own. Smaller canvases use the top left part.
    """

    def __init__(
        self, hidden_size: int, height: int, width: int, prefix_length: int = 0, std: float = 0.02
    ):
        super().__init__()
        # Row and column are summed: each has half of the variance.
        self.rows = _random_vectors(height, hidden_size, std / math.sqrt(2))
        self.columns = _random_vectors(width, hidden_size, std / math.sqrt(2))
        # No empty parameter: one that never gets a gradient stalls distributed training.
        self.prefix = _random_vectors(prefix_length, hidden_size, std) if prefix_length else None

    def accepts(self, cells: Coordinates) -> bool:
        return cells.height <= len(self.rows) and cells.width <= len(self.columns)

    def vectors(self, cells: Coordinates, generator: Generator | None = None) -> Tensor:
        p = cells.prefix_length
        on_canvas = self.rows[cells.rows[..., p:]] + self.columns[cells.columns[..., p:]]
        if self.prefix is None:
            return on_canvas
        return torch.cat((self.prefix.expand(*on_canvas.shape[:-2], -1, -1), on_canvas), dim=-2)


class Sinusoidal(Position):
    """Fixed sines (even channels) and cosines (odd channels) of the flat position.

    From Vaswani et al. 2017, section 3.5, times ``amplitude``.
    """

    def __init__(self, hidden_size: int, amplitude: float = 1.0):
        super().__init__()
        self.hidden_size, self.amplitude = hidden_size, amplitude

    def vectors(self, cells: Coordinates, generator: Generator | None = None) -> Tensor:
        return self._table(cells.index)

    def _table(self, positions: Tensor) -> Tensor:
        angles = position_angles(positions, self.hidden_size)
        return self.amplitude * torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


class Randomised(Sinusoidal):
    """Sinusoids at a random, sorted choice of a longer range of positions (Ruoss et al. 2023).

    So training covers positions of longer sequences, too. Only the order of the positions carries
    information.
    """

    def __init__(
        self, hidden_size: int, position_range: int = RANDOMISED_RANGE, amplitude: float = 1.0
    ):
        super().__init__(hidden_size, amplitude)
        self.position_range = position_range

    def accepts(self, cells: Coordinates) -> bool:
        return cells.num_positions <= self.position_range

    def vectors(self, cells: Coordinates, generator: Generator | None = None) -> Tensor:
        """Return a random choice, float32 [S, hidden_size]; without a generator a fixed one."""
        generator = generator or Generator().manual_seed(0)
        every = torch.randperm(self.position_range, generator=generator, device=generator.device)
        places = every[: cells.num_positions].sort().values.to(cells.rows.device)
        return self._table(places[cells.index])


class Abacus(RelativePosition):
    """Learned vector for a digit's place in its number, at a random offset (Abacus embeddings).

    McLeish et al. 2024, "Transformers can do arithmetic with the right embeddings" (arXiv
    2405.17399). Digits of a number have the places 1, 2, 3, ... in the order of the sequence, the
    lowest first. After any other token they begin with 1 again. Other tokens have place 0 and no
    vector. Example: the places of ``#78_*`` are 0 1 2 0 0.

    In training a random offset is added to all places of a batch, so that all vectors are trained.
    The longest number still fits. Otherwise the offset is 0. Digits beyond the last of
    ``max_digits`` vectors share it. For sequences alone: the other places have no encoding.
    """

    def __init__(self, hidden_size: int, max_digits: int = 128, std: float = 0.02):
        super().__init__()
        self.weight = _random_vectors(max_digits, hidden_size, std)

    def token_vectors(self, ids: Tensor, generator: Generator | None = None) -> Tensor:
        """Return the vectors of digits, [B, T, D]; without a generator the offset is 0."""
        digit = torch.isin(ids, torch.tensor(DIGIT_IDS.tolist(), device=ids.device))
        index = torch.arange(1, ids.shape[1] + 1, device=ids.device).expand_as(ids)
        count = index - index.masked_fill(digit, 0).cummax(dim=1).values  # of others 0
        most, offset = len(self.weight), 0
        if generator is not None:
            spare = max(most - int(count.max()), 0)
            offset = int(torch.randint(spare + 1, (), generator=generator, device=generator.device))
        chosen = F.embedding((count + offset - 1).clamp(0, most - 1), self.weight)
        return chosen * digit.unsqueeze(-1)


class Rope1D(RelativePosition):
    """Rotation by the flat position, prefix included (RoFormer, Su et al. 2021)."""

    multiple = 2  # the head size must be a multiple of this

    def __init__(self, head_dim: int):
        super().__init__()
        if head_dim % self.multiple:
            raise ValueError(
                f"this rotation needs a head size that is a multiple of {self.multiple}, got "
                f"{head_dim}; change hidden_size or num_heads."
            )
        self.head_dim = head_dim

    def rotation(self, cells: Coordinates) -> Rotation:
        angles = position_angles(cells.index, self.head_dim)
        return angles.cos(), angles.sin()


class Rope2D(Rope1D):
    """Rotation of half of the channel pairs by the column, of the others by the row.

    The pairs are channels i and i + head_dim / 2. The first half of them is of the column. Prefix
    tokens have row −1 and column −1.
    """

    multiple = 4

    def rotation(self, cells: Coordinates) -> Rotation:
        places = (cells.columns, cells.rows)
        angles = torch.cat([position_angles(x, self.head_dim // 2) for x in places], dim=-1)
        return angles.cos(), angles.sin()


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
        self.weight = _random_vectors(2 * max_distance + 1, head_dim, 1 / math.sqrt(head_dim))

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
        self.queries = _random_vectors(2 * max_distance + 1, head_dim, 1 / math.sqrt(head_dim))

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


def _random_vectors(count: int, size: int, std: float) -> nn.Parameter:
    return nn.Parameter(truncated_normal_(torch.empty(count, size), std))


def position_angles(positions: Tensor, size: int) -> Tensor:
    """Return angles of frequencies from 1 down towards 1 / 10000, float32 [..., size / 2]."""
    powers = torch.arange(0, size, 2, dtype=torch.float32, device=positions.device) / size
    return positions.float().unsqueeze(-1) * 10000.0**-powers
