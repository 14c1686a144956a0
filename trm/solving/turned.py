"""A model that is shown every page in one and the same view."""

import numpy as np

from augment.symmetry import apply, invert, lookup
from trm.solving.rollout import Look, Prediction, Predictor


class TurnedPredictor(Predictor):
    """Turns every canvas before the model sees it, and turns back what the model writes.

    Tells how well a model works on pages that lie in a certain way; see
    `trm.solving.voting` for several views of a page, which vote.

    Args:
        predictor: the model.
        symmetry: one of `augment.symmetry.SYMMETRIES`.

    Raises:
        ValueError: there is no such symmetry, or the model writes in one direction alone.
    """

    def __init__(self, predictor: Predictor, symmetry: str) -> None:
        self.transposes = lookup(symmetry).transpose
        if not predictor.turns and symmetry != "e":
            raise ValueError("the model writes in one direction: it cannot work on turned canvases")
        self.predictor, self.symmetry = predictor, symmetry
        self.model, self.translation_invariant = predictor.model, predictor.translation_invariant

    def __call__(
        self, inputs: np.ndarray, keys: np.ndarray | None = None, log_probs: bool = False
    ) -> Prediction:
        """See `Predictor`."""
        seen = self.predictor(self._turned(inputs), keys, log_probs)
        back = invert(self.symmetry)
        log = None if seen.log_probs is None else apply(back, seen.log_probs, (1, 2))
        cells = np.ascontiguousarray(apply(back, seen.canvases))
        return Prediction(cells, seen.confidence, seen.steps, log, seen.settled)

    def perturbed(self, noise: float, temperature: float) -> "TurnedPredictor":
        """See `Predictor`."""
        return TurnedPredictor(self.predictor.perturbed(noise, temperature), self.symmetry)

    def with_cache(self) -> "TurnedPredictor":
        """See `Predictor`."""
        return TurnedPredictor(self.predictor.with_cache(), self.symmetry)

    def accepts(self, height: int, width: int) -> bool:
        """See `Predictor`."""
        size = (width, height) if self.transposes else (height, width)
        return self.predictor.accepts(*size)

    def pairs(self, height: int, width: int) -> int:
        """See `Predictor`."""
        return self.predictor.pairs(height, width)

    def look(self, inputs: np.ndarray, steps: int | None = None) -> Look:
        """See `Predictor`; what it says is of the turned canvases."""
        return self.predictor.look(self._turned(inputs), steps)

    def _turned(self, inputs: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(apply(self.symmetry, inputs))
