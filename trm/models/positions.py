"""Position encodings: the places of a transformer's tokens on a canvas.

A position encoding adds vectors to the embeddings, rotates queries and keys, adds vectors to keys,
or biases attention scores. The first two kinds are here, the others, of pairs of tokens, in
`trm.models.position_biases`. Any can be combined with any neighbourhood (`trm.models.coordinates`).
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
from trm.models.coordinates import Coordinates
from trm.released import moved


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
        self.weight = random_vectors(prefix_length + height * width, hidden_size, std)

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
        self.rows = random_vectors(height, hidden_size, std / math.sqrt(2))
        self.columns = random_vectors(width, hidden_size, std / math.sqrt(2))
        # No empty parameter: one that never gets a gradient stalls distributed training.
        self.prefix = random_vectors(prefix_length, hidden_size, std) if prefix_length else None

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
        self.weight = random_vectors(max_digits, hidden_size, std)

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


def random_vectors(count: int, size: int, std: float) -> nn.Parameter:
    """Return learned vectors, [count, size], initially random."""
    return nn.Parameter(truncated_normal_(torch.empty(count, size), std))


def position_angles(positions: Tensor, size: int) -> Tensor:
    """Return angles of frequencies from 1 down towards 1 / 10000, float32 [..., size / 2]."""
    powers = torch.arange(0, size, 2, dtype=torch.float32, device=positions.device) / size
    return positions.float().unsqueeze(-1) * 10000.0**-powers


__getattr__ = moved(__name__)  # finds what is in `trm.models.position_biases` now
