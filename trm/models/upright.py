"""Canvases in any of the eight symmetries of the square: turned upright first, then worked on.

A small classifier scores all eight orientations of a canvas by how upright they look; the network
works on the one that scores highest, and its output is turned back. A canvas and a turned one are
then the same to the network, and the classifier is as good in one view as in another, whatever it
was trained on: learned canonicalisation (Kaba et al. 2023, "Equivariance with Learned
Canonicalization Functions"). That a canvas can be turned is given; which way it lies is learned.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from augment.symmetry import SYMMETRIES, apply, invert
from canvas.hints import ORIENTATION
from trm.models.canvas_transformer import CanvasTransformer, Context
from trm.models.configs import UprightLoopedConfig, UprightRecursiveConfig
from trm.models.coordinates import Coordinates
from trm.models.looped import LoopedTransformer
from trm.models.recursive import TinyRecursiveModel


@dataclass
class TurnedContext(Context):
    """A context of canvases that have been turned."""

    orientation: Tensor = field(kw_only=True)  # logits of how each canvas lies, [B, 8]

    def select(self, index: Tensor) -> "TurnedContext":
        """See `Context`."""
        return replace(super().select(index), orientation=self.orientation[index])  # type: ignore


class OrientationClassifier(nn.Module):
    """How upright a canvas looks: two convolutions over the symbols, pooled over the written."""

    def __init__(self, vocab_size: int, blank_id: int, size: int):
        super().__init__()
        self.blank_id = blank_id
        self.embed = nn.Embedding(vocab_size, size, padding_idx=blank_id)
        self.layers = nn.ModuleList(
            nn.Conv2d(size, size, 3, padding=1, bias=False) for _ in range(2)
        )
        self.head = nn.Linear(size, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Of canvases [B, S, S] in each orientation, logits float32 [B, 8]."""
        batch, side, _ = tokens.shape
        seen = tokens.flatten(1)[:, _undone(side, tokens.device)].view(-1, side, side)
        x = self.embed(seen.int()).permute(0, 3, 1, 2)  # [B * 8, size, S, S]
        for layer in self.layers:
            x = F.gelu(layer(x))
        filled = (seen != self.blank_id).unsqueeze(1)
        number = filled.sum(dim=(2, 3)).clamp(min=1)
        pooled = (x.float() * filled).sum(dim=(2, 3)) / number
        return self.head(pooled.to(x.dtype)).float().view(batch, len(SYMMETRIES))


class _Upright(CanvasTransformer):
    """Turns canvases upright before they are encoded.

    As the classifier learns, it may turn a canvas differently than a step before: a state that was
    carried over would then be that of other cells.
    """

    config: Any
    can_carry = False

    def __init__(self, config: Any):
        own = {name: classes for name, classes in config.hints.items() if name != ORIENTATION}
        super().__init__(replace(config, hints=own))
        self.config = config
        if not config.crop:
            raise ValueError("an upright model sees the box of what is written: set crop: true")
        if ORIENTATION not in config.hints:
            raise ValueError(
                "an upright model learns how canvases lie: turn the samples of training "
                f"(data.views) and give the hint {ORIENTATION} a weight (model.hints)"
            )
        self.classifier = OrientationClassifier(
            config.vocab_size, config.blank_id, config.classifier_size
        )

    def embed(
        self, tokens: Tensor, prefix_ids: Tensor | None = None, rows: int | None = None
    ) -> tuple[TurnedContext, Coordinates, Tensor]:
        """See `CanvasTransformer`; of each canvas in its likeliest orientation."""
        height, width = tokens.shape[-2:]
        side = max(height, width)
        square = F.pad(tokens, (0, side - width, 0, side - height), value=self.config.blank_id)
        orientation = self.classifier(square)
        cell = _undone(side, tokens.device)[orientation.argmax(dim=1)]  # [B, side * side]
        turned = square.flatten(1).gather(1, cell).view_as(square)
        context, cells, written = super().embed(turned, prefix_ids, rows)
        assert context.places is not None
        # Where a token stands on the canvas as it lies; padding is behind the last cell.
        end = torch.full_like(cell[:, :1], side * side)
        places = torch.cat((cell, end), dim=1).gather(1, context.places)
        row, column = places // side, places % side
        inside = (row < height) & (column < width)
        places = torch.where(inside, row * width + column, height * width)
        parts = {**vars(context), "places": places, "height": height, "width": width}
        return TurnedContext(**parts, orientation=orientation), cells, written

    def hint_logits(self, z: Tensor, context: Context) -> dict[str, Tensor]:
        """See `CanvasTransformer`; the classifier's are the same for all cells of a canvas."""
        assert isinstance(context, TurnedContext)
        shape = (-1, context.height, context.width, -1)
        turned = context.orientation[:, None, None].expand(shape)
        return super().hint_logits(z, context) | {ORIENTATION: turned}


class UprightRecursiveModel(_Upright, TinyRecursiveModel):
    """A `TinyRecursiveModel` that turns canvases upright first."""

    config: UprightRecursiveConfig

    def __init__(self, config: UprightRecursiveConfig):
        super().__init__(config)


class UprightLoopedTransformer(_Upright, LoopedTransformer):
    """A `LoopedTransformer` that turns canvases upright first."""

    config: UprightLoopedConfig

    def __init__(self, config: UprightLoopedConfig):
        super().__init__(config)


@lru_cache(maxsize=64)
def _undone(side: int, device: torch.device) -> Tensor:
    """Which cell of a canvas each cell shows once a symmetry is undone, int64 [8, side * side]."""
    with torch.inference_mode(False):
        cells = torch.arange(side * side, device=device).view(side, side)
        return torch.stack([apply(invert(name), cells).flatten() for name in SYMMETRIES])
