"""Rotations of queries and keys, under which scores depend on how two tokens lie to each other."""

import torch
from torch import Tensor

from trm.models.coordinates import Coordinates
from trm.models.layers import Rotation
from trm.models.positions.base import Position, angles_of


class Rope1D(Position):
    """Rotation by the flat position, prefix included (RoFormer, Su et al. 2021)."""

    absolute = False
    multiple = 2  # of which the head size is

    def __init__(self, head_dim: int, rope_theta: float = 10000.0):
        super().__init__()
        if head_dim % self.multiple:
            raise ValueError(
                f"this rotation needs a head size that is a multiple of {self.multiple}, got "
                f"{head_dim}; change hidden_size or num_heads."
            )
        self.head_dim, self.theta = head_dim, rope_theta

    def rotation(self, cells: Coordinates) -> Rotation:
        """Cosines and sines, float32 [S, head_dim / 2] each."""
        angles = self._angles(cells)
        return angles.cos(), angles.sin()

    def _angles(self, cells: Coordinates) -> Tensor:
        return angles_of(cells.index, self.head_dim, self.theta)


class Rope2D(Rope1D):
    """Half of the rotated pairs turn with the column, half with the row.

    The pairs are channels i and i + head_dim / 2; the first half of them belongs to the column.
    Prefix tokens sit at row -1, column -1.
    """

    multiple = 4

    def _angles(self, cells: Coordinates) -> Tensor:
        places = (cells.columns, cells.rows)
        return torch.cat([angles_of(x, self.head_dim // 2, self.theta) for x in places], dim=-1)
