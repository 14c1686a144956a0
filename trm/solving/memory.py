"""What a model wrote on canvases and decided of them, kept until they come again."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from canvas.symbols import BLANK, MASK
from trm.models.iterative import Loop
from trm.models.rowwise import RowwiseLoop
from trm.solving.rollout import Prediction

T = TypeVar("T")

_MOST = 4096  # canvases


class Memory:
    """Of one model; canvases are found by what stands on them.

    A canvas that comes again is not worked out again. Nor are the finished rows of one that comes
    with its next row masked, where the model has a `RowwiseLoop`: what it decided of them holds, as
    that follows from what stands above alone. Nothing of what is kept changes an answer.
    """

    def __init__(self) -> None:
        self._predictions: OrderedDict[bytes, Prediction] = OrderedDict()
        self._decided: OrderedDict[bytes, Tensor] = OrderedDict()

    def filled(self, inputs: np.ndarray, fill: Callable[[np.ndarray], Prediction]) -> Prediction:
        """What a model writes on canvases ``uint8 [B, H, W]``.

        Args:
            inputs: canvases with a masked row.
            fill: asked for those that are new, each once.
        """
        keys = [canvas.tobytes() for canvas in inputs]
        found = {key: self._predictions[key] for key in keys if key in self._predictions}
        new = {key: i for i, key in enumerate(keys) if key not in found}
        if new:
            prediction = fill(inputs[list(new.values())])
            for i, key in enumerate(new):
                found[key] = prediction.take(np.array([i]))
                _keep(self._predictions, key, found[key])
        return Prediction.joined([found[key] for key in keys])

    def add(self, loop: Loop, filled: Tensor, which: Tensor) -> None:
        """Keep what a loop has decided.

        Args:
            loop: at its end.
            filled: uint8 [B, H, W], its canvases with what it wrote.
            which: bool [B], the samples to keep.
        """
        if not isinstance(loop, RowwiseLoop):
            return
        kept = loop.decided_cells()[which].cpu()
        for canvas, cells in zip(filled[which].cpu().numpy(), kept, strict=True):
            _keep(self._decided, canvas.tobytes(), cells)

    def recall(self, loop: Loop, tokens: Tensor) -> None:
        """Let a loop that has not begun start from what is known of its canvases [B, H, W]."""
        if not isinstance(loop, RowwiseLoop) or not self._decided:
            return
        before = tokens.masked_fill(tokens == MASK, BLANK).cpu().numpy()
        found = [self._decided.get(canvas.tobytes()) for canvas in before]
        like = next((cells for cells in found if cells is not None), None)
        if like is None:
            return
        cells = torch.stack([torch.zeros_like(like) if one is None else one for one in found])
        known = torch.tensor([one is not None for one in found])
        loop.go_on(cells.to(tokens.device), known.to(tokens.device))


def _keep(memory: "OrderedDict[bytes, T]", key: bytes, what: T) -> None:
    """In place of what is oldest, if need be."""
    memory[key] = what
    if len(memory) > _MOST:
        memory.popitem(last=False)
