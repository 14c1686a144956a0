"""Heads that read hints from every token's state, and states that keep only what these decide."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from trm.models.layers import Linear, truncated_normal_


class HintHeads(nn.Module):
    """A linear head for each hint.

    Args:
        hidden_size: channels of a token.
        classes: of each hint by its name.
        kept: whether decisions are written back into states, see `decided`.
    """

    def __init__(self, hidden_size: int, classes: Mapping[str, int], kept: bool = False):
        super().__init__()
        self.classes = dict(classes)
        self.head = Linear(hidden_size, sum(self.classes.values()), bias=True)
        self.embed: nn.Embedding | None = None
        self.scale = (hidden_size / max(1, len(self.classes))) ** 0.5
        if kept:
            self.embed = nn.Embedding(sum(self.classes.values()), hidden_size)
            truncated_normal_(self.embed.weight, hidden_size**-0.5)

    def forward(self, z: Tensor) -> dict[str, Tensor]:
        """Logits of each hint's classes, [..., C] each, from [..., D]."""
        parts = self.head(z).split(list(self.classes.values()), dim=-1)
        return dict(zip(self.classes, parts, strict=True))

    def written(self, classes: Mapping[str, Tensor]) -> Tensor:
        """Tokens [..., D] that hold given classes, as `decided` would hold them.

        Args:
            classes: of each hint, integers [...]; those beyond its last class are of no cell.
        """
        assert self.embed is not None
        parts = []
        for name, number in self.classes.items():
            found = classes[name].long()
            known = (found < number).to(self.embed.weight.dtype).unsqueeze(-1)
            found = found.clamp(max=number - 1).unsqueeze(-1)
            empty = known.new_zeros(*known.shape[:-1], number)
            parts.append(empty.scatter(-1, found, known))
        return torch.cat(parts, dim=-1) @ (self.embed.weight * self.scale)

    def decided(self, z: Tensor, threshold: float) -> Tensor:
        """Tokens [..., D] that hold nothing but what the heads are sure of.

        The sum of an embedding of each hint's likeliest class where its probability is above
        ``threshold``. Through the decisions flows no gradient.
        """
        assert self.embed is not None
        decisions = []
        with torch.no_grad():
            for logits in self(z).values():
                probability, chosen = logits.float().softmax(dim=-1).max(dim=-1, keepdim=True)
                sure = (probability > threshold).to(logits)
                decisions.append(torch.zeros_like(logits).scatter_(-1, chosen, sure))
        # A product with what is 0 or 1 takes a third of the time of looking the vectors up.
        table = (self.embed.weight * self.scale).to(z.dtype)
        return torch.cat(decisions, dim=-1).to(z.dtype) @ table
