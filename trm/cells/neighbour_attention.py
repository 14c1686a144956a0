"""Attention of cells to the messages of their neighbours."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.models.attention import Attention


class AddedMessages(nn.Module):
    """Takes the place of attention in a cell without heads: all its messages are added."""

    def __init__(self, hidden_size: int, num_heads: int) -> None:
        super().__init__()

    def keys_values(self, x: Tensor) -> Tensor:
        """Return messages [..., D] as they are."""
        return x

    def forward(self, x: Tensor, total: Tensor) -> Tensor:
        """Return the sum of all messages, [N, D], whatever the state x is."""
        return total


class NeighbourKV(NamedTuple):
    """Keys and values that N cells attend to."""

    # For each layer keys and values, [N, directions, heads, D / heads] each; without heads, instead
    # of each the sum of all messages, [N, D].
    keys_values: list[tuple[Tensor, Tensor]]
    absent: Tensor  # [N, directions, 1], minus infinity for a neighbour that is missing, else 0
    alone: Tensor  # bool [N, 1], cells without any neighbour; their `absent` is 0


class NeighbourDotProduct(nn.Module):
    """Softmax attention of N cells to their neighbours' messages, without parameters.

    Queries are [N, 1, heads, D / heads], keys and values [N, directions, heads, D / heads]. The
    bias is [directions, heads]; `NeighbourKV` describes the other arguments.
    """

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, absent: Tensor, alone: Tensor
    ) -> Tensor:
        """Return the means of values, [N, heads, D / heads]; 0 for a cell without neighbours."""
        weights = self._softmax(q, k, v, bias, absent).to(v.dtype)
        return (weights.unsqueeze(-1) * v).sum(1).masked_fill(alone.unsqueeze(-1), 0)

    def weights(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, absent: Tensor, alone: Tensor
    ) -> Tensor:
        """Return the attention weights of the same call, at least float32 [N, heads, directions].

        They are 0 for a cell without neighbours.
        """
        return self._softmax(q, k, v, bias, absent).mT.masked_fill(alone.unsqueeze(-1), 0)

    def average(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return the output of `forward` for other weights, [N, heads, D / heads]."""
        return (weights.mT.to(values.dtype).unsqueeze(-1) * values).sum(1)

    def _softmax(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, absent: Tensor) -> Tensor:
        scores = (q * k.shape[-1] ** -0.5 * k).sum(-1) + bias + absent  # [N, directions, heads]
        exact = torch.promote_types(v.dtype, torch.float32)
        return torch.softmax(scores, dim=1, dtype=exact)


class NeighbourAttention(Attention):
    """Attention of cells to keys and values of their neighbours' messages."""

    def __init__(self, hidden_size: int, num_heads: int) -> None:
        super().__init__(hidden_size, num_heads)
        self.dot_product = NeighbourDotProduct()

    def queries(self, x: Tensor) -> Tensor:
        """Return queries [..., D] from [..., D], the heads side by side; without a bias."""
        return F.linear(x, self.qkv.weight[: x.shape[-1]])

    def keys_values(self, x: Tensor) -> Tensor:
        """Return keys and then values, [..., 2 * D] from [..., D]; without a bias."""
        return F.linear(x, self.qkv.weight[x.shape[-1] :])

    def forward(  # type: ignore[override]
        self, x: Tensor, k: Tensor, v: Tensor, bias: Tensor, absent: Tensor, alone: Tensor
    ) -> Tensor:
        """Map [N, D] to [N, D]; the other arguments are as for `NeighbourDotProduct`."""
        q = self.queries(x).unflatten(-1, (1, *k.shape[2:]))
        return self.out(self.dot_product(q, k, v, bias, absent, alone).flatten(1))
