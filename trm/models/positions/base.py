"""What a position encoding is, and what those for one size of canvas check."""

import torch
from torch import Tensor, nn

from trm.models.coordinates import Coordinates
from trm.models.layers import RelativeKeys, Rotation


class Position(nn.Module):
    """A position encoding. A subclass says one or more of these things, and leaves the rest.

    Its constructor is given the settings that its parameters name, see `make_position`.

    Attributes:
        absolute: whether it tells where a token is, not only how two of them lie to each other.
    """

    absolute = True

    def accepts(self, cells: Coordinates) -> bool:
        """Whether the encoding serves these cells."""
        return True

    def vectors(
        self, cells: Coordinates, generator: torch.Generator | None = None
    ) -> Tensor | None:
        """What to add to the embeddings, [S, hidden_size]; ``generator`` is for ``randomised``."""
        return None

    def token_vectors(self, ids: Tensor, generator: torch.Generator | None = None) -> Tensor | None:
        """What to add to the embeddings where that depends on the tokens, [B, T, hidden_size].

        Asked of sequences alone, int64 [B, T] from their first token on; what a token is given
        depends on none after it.
        """
        return None

    def rotation(self, cells: Coordinates) -> Rotation | None:
        """Cosines and sines to rotate queries and keys with, float32 [S, head_dim / 2] each."""
        return None

    def bias(self, cells: Coordinates) -> Tensor | None:
        """What to add to the attention scores of query i and key j, [num_heads, S, S]."""
        return None

    def relative_keys(self, cells: Coordinates) -> RelativeKeys | None:
        """What to add to key j when query i looks at it, of [S, S] pairs."""
        return None

    @property
    def by_query(self) -> bool:
        """Whether what two tokens are to each other depends on what the query holds."""
        return type(self).relative_keys is not Position.relative_keys


class NoPosition(Position):
    """No information at all.

    A causal model without a position encoding (NoPE) still tells places apart: each token sees how
    many precede it.
    """

    absolute = False


def angles_of(positions: Tensor, size: int, theta: float) -> Tensor:
    """Angles of ``size / 2`` frequencies from 1 down towards 1 / theta, float32 [.., size / 2]."""
    powers = torch.arange(0, size, 2, dtype=torch.float32, device=positions.device) / size
    return positions.float().unsqueeze(-1) * theta**-powers


def fits(cells: Coordinates, height: int, width: int, exact: bool) -> bool:
    """Whether a table made for height x width serves these cells."""
    smaller = cells.height <= height and cells.width <= width
    return (cells.height, cells.width) == (height, width) or (smaller and not exact)


def check_canvas(name: str, cells: Coordinates, height: int, width: int, exact: bool) -> None:
    """Raise a ValueError unless a table made for height x width serves these cells."""
    if fits(cells, height, width, exact):
        return
    raise ValueError(
        f"{name} was made for canvases of {'exactly' if exact else 'at most'} {height} x {width}, "
        f"got {cells.height} x {cells.width}. Build the model with that height and width, or use "
        "rope_1d, rope_2d, sinusoidal, alibi, fire, shaw or relative_2d, which take any size."
    )
