"""All that a position encoding says of one sequence, worked out once and cut as it is written."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trm.models.coordinates import Coordinates
from trm.models.layers import RelativeKeys, Rotation
from trm.models.positions.base import Position


@dataclass(frozen=True)
class PositionTerms:
    """What a position encoding says of a whole canvas' sequence of S tokens.

    Attributes:
        vectors: to be added to embeddings, [S, D] or [B, S, D], or None.
        rotation: cosines and sines for queries and keys, [S, head_dim / 2] each, or None.
        bias: on attention scores, [num_heads, S, S], or None.
        relative: added to keys, or None.
    """

    vectors: Tensor | None
    rotation: Rotation | None
    bias: Tensor | None
    relative: RelativeKeys | None

    @staticmethod
    def of(
        position: Position,
        cells: Coordinates,
        dtype: torch.dtype,
        generator: torch.Generator | None = None,
    ) -> "PositionTerms":
        """Of all tokens; of ``dtype`` is what attention reads."""
        rotation, bias = position.rotation(cells), position.bias(cells)
        return PositionTerms(
            position.vectors(cells, generator),
            None if rotation is None else (rotation[0].to(dtype), rotation[1].to(dtype)),
            None if bias is None else bias.to(dtype),
            position.relative_keys(cells),
        )

    def select(self, first: int, last: int) -> "PositionTerms":
        """The same for tokens ``first`` to ``last - 1``, which attend to 0 to ``last - 1``."""
        new = slice(first, last)
        of_keys = self.relative
        return PositionTerms(
            None if self.vectors is None else self.vectors[..., new, :],
            None if self.rotation is None else (self.rotation[0][new], self.rotation[1][new]),
            None if self.bias is None else self.bias[:, new, :last],
            None if of_keys is None else of_keys._replace(classes=of_keys.classes[new, :last]),
        )

    def with_tokens(self, vectors: Tensor | None) -> "PositionTerms":
        """And what `Position.token_vectors` gives these tokens, [B, S, D], if anything."""
        if vectors is None:
            return self
        return replace(self, vectors=vectors if self.vectors is None else self.vectors + vectors)
