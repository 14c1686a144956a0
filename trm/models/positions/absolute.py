"""Vectors that are added to the embeddings and tell where a token is."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.models.configs import RANDOMISED_RANGE
from trm.models.coordinates import Coordinates
from trm.models.layers import truncated_normal_
from trm.models.positions.base import Position, angles_of, check_canvas, fits
from trm.models.vocabulary import DIGIT_ZERO


class Learned(Position):
    """One learned vector per flat position, prefix included (GPT-2; ABS_LEARNED).

    Needs exactly the canvas that it was made for: on another width the same flat position is
    another cell.
    """

    exact = True

    def __init__(
        self, hidden_size: int, height: int, width: int, prefix_length: int = 0, std: float = 0.02
    ):
        super().__init__()
        self.height, self.width = height, width
        self._make(hidden_size, prefix_length, std)

    def _make(self, hidden_size: int, prefix_length: int, std: float) -> None:
        places = prefix_length + self.height * self.width
        self.weight = nn.Parameter(torch.empty(places, hidden_size))
        truncated_normal_(self.weight, std)

    def accepts(self, cells: Coordinates) -> bool:
        """Whether they lie on a canvas that the vectors were made for."""
        return fits(cells, self.height, self.width, self.exact)

    def vectors(self, cells: Coordinates, generator: torch.Generator | None = None) -> Tensor:
        """Learned vectors, [S, hidden_size]."""
        check_canvas("learned", cells, self.height, self.width, self.exact)
        return F.embedding(cells.index, self.weight)


class Learned2D(Learned):
    """A learned vector per row plus one per column (position coupling, CUSTOM_PID).

    Prefix tokens have learned vectors of their own. Smaller canvases use the top left part.
    """

    exact = False

    def _make(self, hidden_size: int, prefix_length: int, std: float) -> None:
        # Row and column are summed: each carries half of the variance.
        std = std / math.sqrt(2)
        self.rows = nn.Parameter(torch.empty(self.height, hidden_size))
        self.columns = nn.Parameter(torch.empty(self.width, hidden_size))
        truncated_normal_(self.rows, std)
        truncated_normal_(self.columns, std)
        # Not an empty parameter: one that never gets a gradient stalls distributed training.
        self.prefix: nn.Parameter | None = None
        if prefix_length:
            self.prefix = nn.Parameter(torch.empty(prefix_length, hidden_size))
            truncated_normal_(self.prefix, std * math.sqrt(2))

    def vectors(self, cells: Coordinates, generator: torch.Generator | None = None) -> Tensor:
        """Sums of row and column vectors, [S, hidden_size]."""
        check_canvas("learned_2d", cells, self.height, self.width, self.exact)
        p = cells.prefix_length
        on_canvas = self.rows[cells.rows[..., p:]] + self.columns[cells.columns[..., p:]]
        if self.prefix is None:
            return on_canvas
        prefix = self.prefix.expand(*on_canvas.shape[:-2], -1, -1)
        return torch.cat((prefix, on_canvas), dim=-2)


class Sinusoidal(Position):
    """Fixed sines (even channels) and cosines (odd channels) of the flat position.

    Vaswani et al. 2017, section 3.5, times ``amplitude``.
    """

    def __init__(self, hidden_size: int, amplitude: float = 1.0):
        super().__init__()
        self.hidden_size, self.amplitude = hidden_size, amplitude

    def vectors(self, cells: Coordinates, generator: torch.Generator | None = None) -> Tensor:
        """The fixed table's first S rows, float32 [S, hidden_size]."""
        return self._table(cells.index)

    def _table(self, positions: Tensor) -> Tensor:
        angles = angles_of(positions, self.hidden_size, 10000.0)
        return self.amplitude * torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


class Randomised(Sinusoidal):
    """Sinusoids at a random, sorted choice of a longer range of positions (Ruoss et al. 2023).

    Places further out than a training sequence is long are then no news at evaluation. Only the
    order of the positions means anything.
    """

    def __init__(
        self, hidden_size: int, position_range: int = RANDOMISED_RANGE, amplitude: float = 1.0
    ):
        super().__init__(hidden_size, amplitude)
        self.position_range = position_range

    def accepts(self, cells: Coordinates) -> bool:
        """Whether there are no more tokens than positions."""
        return cells.places <= self.position_range

    def vectors(self, cells: Coordinates, generator: torch.Generator | None = None) -> Tensor:
        """A choice drawn from the generator, or always the same one; float32 [S, hidden_size]."""
        if not self.accepts(cells):
            raise ValueError(
                f"randomised draws from {self.position_range} positions, got {cells.places} "
                "tokens: take a smaller canvas."
            )
        generator = generator or torch.Generator().manual_seed(0)
        drawn = torch.randperm(self.position_range, generator=generator, device=generator.device)
        places = drawn[: cells.places].sort().values.to(cells.rows.device)
        return self._table(places[cells.index])


class Abacus(Position):
    """A learned vector for a digit's place in its number, at a random offset (Abacus embeddings).

    McLeish et al. 2024, "Transformers can do arithmetic with the right embeddings" (arXiv
    2405.17399): digits that run on count 1, 2, 3, ... from the first of them, which sequences of
    canvases begin with the lowest, and behind a blank they count from 1 again; all other tokens
    count 0 and are given nothing. In training one
    number is added to all counts of a batch, drawn so that the longest number still fits, and all
    vectors get practice; then it is 0. Digits beyond the last vector share it.

    Of sequences alone, and of their places in numbers alone: a causal model finds out the rest as
    it does without a position encoding.

    Args:
        hidden_size: channels of a token.
        max_digits: how many vectors there are.
        std: of the vectors at the start.
    """

    absolute = False

    def __init__(self, hidden_size: int, max_digits: int = 128, std: float = 0.02):
        super().__init__()
        if max_digits < 1:
            raise ValueError(f"max_digits must be 1 or more, got {max_digits}.")
        self.weight = nn.Parameter(torch.empty(max_digits, hidden_size))
        truncated_normal_(self.weight, std)

    def token_vectors(self, ids: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The vectors of digits, [B, T, D]; without a generator the offset is 0."""
        digit = (ids >= DIGIT_ZERO) & (ids < DIGIT_ZERO + 10)
        index = torch.arange(1, ids.shape[1] + 1, device=ids.device).expand_as(ids)
        count = index - index.masked_fill(digit, 0).cummax(dim=1).values  # of others 0
        most = len(self.weight)
        offset = 0
        if generator is not None:
            spare = max(most - int(count.max()), 0)
            offset = int(torch.randint(spare + 1, (), generator=generator, device=generator.device))
        chosen = F.embedding((count + offset - 1).clamp(0, most - 1), self.weight)
        return chosen * digit.unsqueeze(-1)
