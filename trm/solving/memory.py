"""What a model wrote on canvases and found out of them, kept until they come again."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import torch

from canvas.symbols import BLANK, MASK
from trm.models.ordered import RowCache
from trm.solving.rollout import Prediction

_Key = tuple[tuple[int, ...], bytes]

_MOST = 4096  # canvases
_MOST_BYTES = 2**28  # of what is known of the rows above


class Memory:
    """Of one model; canvases are found by what stands on them.

    A canvas that comes again is not worked out again. Nor is what is above the last row of one that
    comes with its next row masked, where the model works in order (`trm.models.ordered`). Nothing
    of what is kept changes an answer.
    """

    def __init__(self) -> None:
        self._predictions: OrderedDict[_Key, Prediction] = OrderedDict()
        self._above: OrderedDict[_Key, RowCache] = OrderedDict()  # of one canvas each

    def filled(self, inputs: np.ndarray, fill: Callable[[np.ndarray], Prediction]) -> Prediction:
        """What a model writes on canvases ``uint8 [B, H, W]``.

        Args:
            inputs: canvases with a masked row.
            fill: asked for those that are new, each once.
        """
        keys = [_key(canvas) for canvas in inputs]
        found = {key: self._predictions[key] for key in keys if key in self._predictions}
        new = {key: i for i, key in enumerate(keys) if key not in found}
        if new:
            prediction = fill(inputs[list(new.values())])
            for i, key in enumerate(new):
                found[key] = self._predictions[key] = prediction.take(np.array([i]))
            _forget(self._predictions, _MOST)
        return Prediction.joined([found[key] for key in keys])

    def keep(self, filled: np.ndarray, above: RowCache | None) -> None:
        """Keep what is known of canvases ``uint8 [B, H, W]`` as they have been filled in."""
        if above is None:
            return
        for canvas, seen, places in zip(filled, above.seen, above.places, strict=True):
            self._above[_key(canvas)] = RowCache(seen, places)
        each = above.seen[0].numel() * above.seen.element_size()
        _forget(self._above, max(1, min(_MOST, _MOST_BYTES // each)))

    def above(self, inputs: np.ndarray) -> RowCache | None:
        """What is known of canvases with their next row masked; None unless of all of them."""
        before = np.where(inputs == MASK, np.uint8(BLANK), inputs)
        found = [self._above.get(_key(canvas)) for canvas in before]
        known = [one for one in found if one is not None]
        if len(known) < len(found) or len({one.seen.shape for one in known}) > 1:
            return None
        return RowCache(*(torch.stack(parts) for parts in zip(*map(_parts, known), strict=True)))


def _key(canvas: np.ndarray) -> _Key:
    return canvas.shape, canvas.tobytes()


def _parts(above: RowCache) -> tuple[torch.Tensor, torch.Tensor]:
    return above.seen, above.places


def _forget(memory: OrderedDict, most: int) -> None:
    """What is oldest, if there is too much."""
    while len(memory) > most:
        memory.popitem(last=False)
