"""The surest cells first: what a model is certain of is given when it decides the rest.

A model that fills in all cells at once decides each of them without knowing the others. Here a few
cells are written at a time, those with the highest probability, and the model works on the canvas
again. So the canvas itself decides the order, as with masked diffusion (Kim et al. 2025, "Train for
the worst, plan for the best", arXiv 2502.06768). The model has to know canvases of which a part of
the solution is given (`data.revealed`), and the cells to fill in a symbol of their own.
"""

from collections.abc import Callable

import numpy as np

from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.predictor import Predictor
from trm.solving.rows import Prediction


class SurestFirst(Predictor):
    """Fills in canvases by an iterative model, a few cells at a time, see `surest_first`.

    Args:
        predictor: fills in all cells at once.
        cells: most cells to write after each pass.
    """

    def __init__(self, predictor: IterativePredictor, cells: int) -> None:
        self.model, self.options = predictor.model, predictor.options
        self.translation_invariant = predictor.translation_invariant
        self.max_steps, self._predictor, self._cells = predictor.max_steps, predictor, cells

    def __call__(self, inputs: np.ndarray, rollouts: np.ndarray | None = None) -> Prediction:
        """Fill in canvases, whatever is unknown of them."""
        unknown, predict = self.options.unknown(inputs), self._predictor.with_certainty
        return surest_first(predict, inputs, rollouts, unknown, self._cells)


def surest_first(
    predict: Callable[[np.ndarray, np.ndarray | None], tuple[Prediction, np.ndarray]],
    inputs: np.ndarray,
    rollouts: np.ndarray | None,
    unknown: np.ndarray,
    cells: int,
) -> Prediction:
    """Fill in canvases, the surest cells first.

    Each pass is a solution of its own, with a confidence. That of the whole is their mean, which is
    calibrated better than the lowest or the last one. Its steps are those of all passes, and it has
    settled if all of them have.

    Args:
        predict: called with canvases, uint8 [N, H, W], and their rollouts, int64 [N] or None; fills
            in all cells at once, and also returns the probability of each symbol, float [N, H, W].
        inputs: canvases, uint8 [B, H, W].
        rollouts: see `trm.solving.predictor.Predictor`.
        unknown: cells to fill in, bool [B, H, W].
        cells: most cells to write after each pass; the first of equally sure ones in reading order.
    """
    canvases, unknown = inputs.copy(), unknown.copy()
    trust, passes = np.zeros(len(inputs), np.float32), np.zeros(len(inputs), np.int64)
    steps, settled = np.zeros(len(inputs), np.int64), np.ones(len(inputs), dtype=bool)
    while len(left := np.flatnonzero(unknown.any(axis=(1, 2)))):
        found, certainty = predict(canvases[left], None if rollouts is None else rollouts[left])
        known = np.nan_to_num(certainty)  # NaN if weights are far too large
        surest = _highest(np.where(unknown[left], known, -1), cells) & unknown[left]
        canvases[left] = np.where(surest, found.canvases, canvases[left])
        unknown[left] &= ~surest
        trust[left] += found.confidence
        passes[left] += 1
        steps[left] += found.steps
        settled[left] &= found.settled
    confidence = np.divide(trust, passes, out=np.ones_like(trust), where=passes > 0)
    return Prediction(canvases, confidence, steps, settled)


def _highest(scores: np.ndarray, number: int) -> np.ndarray:
    """Return a mask of the highest scores of each canvas, bool [B, H, W], of float [B, H, W]."""
    flat = scores.reshape(len(scores), -1)
    chosen = np.zeros(flat.shape, dtype=bool)
    best = np.argsort(-flat, axis=1, kind="stable")[:, :number]
    np.put_along_axis(chosen, best, True, axis=1)
    return chosen.reshape(scores.shape)
