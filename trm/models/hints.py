"""Heads that read hints from every token's state, and states that keep only what these decide."""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trm.models.layers import Linear, truncated_normal_

UNDECIDED = 255  # in place of a class: no head is sure


class HintHeads(nn.Module):
    """A linear head for each hint, of so many classes; where ``kept``, for `quantise`, too."""

    def __init__(self, hidden_size: int, classes: Mapping[str, int], kept: bool = False):
        super().__init__()
        self.classes, self.numbers = dict(classes), list(classes.values())
        self.head = Linear(hidden_size, sum(self.numbers), bias=True)
        self.embed: nn.Embedding | None = None
        self.scale = (hidden_size / max(1, len(self.classes))) ** 0.5
        if kept:
            self.embed = nn.Embedding(sum(self.numbers), hidden_size)
            truncated_normal_(self.embed.weight, hidden_size**-0.5)

    def forward(self, z: Tensor) -> dict[str, Tensor]:
        """Logits of each hint's classes, [..., C] each, from [..., D]."""
        return dict(zip(self.classes, self.head(z).split(self.numbers, dim=-1), strict=True))

    @torch.no_grad()
    def decisions(self, z: Tensor, threshold: float) -> Tensor:
        """What the heads are sure of in tokens [..., D]: a class of each hint, uint8 [..., N].

        The likeliest where its probability is above ``threshold``, else `UNDECIDED`.
        """
        # All hints side by side, those of fewer classes filled up with impossible ones.
        parts = [
            F.pad(part, (0, max(self.numbers) - part.shape[-1]), value=-math.inf)
            for part in self.head(z).float().split(self.numbers, dim=-1)
        ]
        probability, chosen = torch.stack(parts, dim=-2).softmax(dim=-1).max(dim=-1)
        return chosen.byte().masked_fill(probability <= threshold, UNDECIDED)

    def holding(self, decisions: Tensor, dtype: torch.dtype) -> Tensor:
        """Tokens [..., D] that hold nothing but decisions: the sum of an embedding of each.

        Decisions are integers [..., N]; those beyond a hint's last class, as `UNDECIDED`, are none.
        """
        assert self.embed is not None
        # Made on the device: a copy from the host would wait for all that the device has to do.
        number = torch.cat([decisions.new_full((1,), n, dtype=torch.long) for n in self.numbers])
        found, last = decisions.long(), sum(self.numbers)
        index = torch.where(found < number, found + number.cumsum(0) - number, last)
        # A product with what is 0 or 1 takes a third of the time of looking the vectors up.
        chosen = torch.zeros(*index.shape[:-1], last + 1, dtype=dtype, device=index.device)
        chosen.scatter_(-1, index, 1)
        return chosen[..., :last] @ (self.embed.weight * self.scale).to(dtype)

    def quantise(self, z: Tensor, threshold: float) -> Tensor:
        """Tokens [..., D] that hold only `decisions`, through which no gradient flows."""
        return self.holding(self.decisions(z, threshold), z.dtype)

    def written(self, classes: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """Tokens [..., D] that hold given classes, integers [...] of each hint, see `holding`."""
        return self.holding(torch.stack([classes[name] for name in self.classes], dim=-1), dtype)
