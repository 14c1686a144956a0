"""What a causal model keeps of the tokens that it has seen."""

import torch
from torch import Tensor


class KeyValueCache:
    """Keys and values of a layer for the tokens seen so far, in memory taken once.

    Args:
        shape: [B, heads, S, head_dim], S being the longest sequence to come.
        dtype: of keys and values.
        device: where they are kept.
    """

    def __init__(self, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device):
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty_like(self.keys)
        self.length = 0

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append [B, heads, N, head_dim] each; returns all keys and all values so far."""
        new = slice(self.length, self.length + keys.shape[2])
        self.keys[:, :, new], self.values[:, :, new] = keys, values
        self.length = new.stop
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]
