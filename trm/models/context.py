"""What a batch of canvases is to a model, and the way from its tokens to the cells and back."""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from trm.models.layers import RelativeKeys, Rotation


@dataclass
class Context:
    """What a batch of canvases is to the model, worked out once for all supervision steps.

    Attributes:
        inputs: input embeddings, [B, P + S, D]; P prefix tokens in front of S cells: all H * W of
            them, or those that are not blank, padded to the sample that has most.
        halt_weights: what each token counts for the halting head, [B, P + S]; None: first token.
        height: H.
        width: W.
        places: int64 [B, S], where on the canvas each cell is (H * W: padding), if blank ones are
            no tokens; else None.
        rotation: cosines and sines for queries and keys, or None.
        bias: attention bias, [heads or 1, P + S, P + S], or None. Where samples differ in their
            tokens, or in what they see, rotation and bias have a batch dimension in front. Where
            tokens are rows of a grid that see the rows around them alone, [B, heads or 1, R, W,
            n * W], see `trm.models.layers.attend_to_rows`.
        bias_on_others: the bias of a token that is not to see itself, of the same shape as bias, or
            None: there is no such token.
        alone: bool [B, P + S, 1], which tokens see no other under that bias; None with it.
        keys: which tokens each token sees, int64 [B, S, K], where these are few and the canvas is
            large; bias is then [B, heads or 1, S, K].
        relative: vectors added to keys, or None.
    """

    inputs: Tensor
    halt_weights: Tensor | None
    height: int
    width: int
    places: Tensor | None
    rotation: Rotation | None = None
    bias: Tensor | None = None
    bias_on_others: Tensor | None = None
    alone: Tensor | None = None
    keys: Tensor | None = None
    relative: RelativeKeys | None = None

    @property
    def lengths(self) -> Tensor:
        """How many tokens of each sample are not padding, prefix included, int64 [B]."""
        batch, length, _ = self.inputs.shape
        if self.places is None:
            return torch.full((batch,), length, device=self.inputs.device)
        return length - (self.places == self.height * self.width).sum(dim=1)

    def select(self, index: Tensor) -> "Context":
        """The same for some samples, by bool [B] or int64 indices."""
        parts: dict[str, Any] = {"inputs": self.inputs[index]}
        for name in ("halt_weights", "places", "keys", "alone"):
            part = getattr(self, name)
            parts[name] = None if part is None else part[index]
        for name in ("bias", "bias_on_others"):
            part = getattr(self, name)
            if part is not None and part.ndim > 3:
                parts[name] = part[index]
        if self.rotation is not None and self.rotation[0].ndim == 4:
            parts["rotation"] = (self.rotation[0][index], self.rotation[1][index])
        if self.relative is not None and self.relative.classes.ndim == 3:
            parts["relative"] = self.relative._replace(classes=self.relative.classes[index])
        return replace(self, **parts)


def on_canvas(tokens: Tensor, context: Context, elsewhere: Tensor | None = None) -> Tensor:
    """What belongs to cells [B, S, N] where these are, [B, H, W, N].

    Args:
        tokens: without a prefix.
        context: of the same samples.
        elsewhere: [N], of cells that are no tokens; None: 0.
    """
    if context.places is not None:
        size, batch = context.height * context.width, len(tokens)
        full = tokens.new_zeros(batch, size + 1, tokens.shape[-1])
        if elsewhere is not None:
            full = full + elsewhere
        tokens = full.scatter(1, context.places.unsqueeze(-1).expand_as(tokens), tokens)[:, :size]
    return tokens.unflatten(1, (context.height, context.width))


def on_tokens(cells: Tensor, context: Context) -> Tensor:
    """What belongs to the cells of canvases [B, H, W] for each token [B, P + S].

    0 for padding; the largest number of the dtype for a prefix.
    """
    flat = cells.flatten(1)
    if context.places is not None:
        flat = F.pad(flat, (0, 1)).gather(1, context.places)
    prefix = context.inputs.shape[1] - flat.shape[1]
    return F.pad(flat, (prefix, 0), value=torch.iinfo(cells.dtype).max)
