"""From what a model says of its answer to the probability that the answer is right."""

from dataclasses import dataclass

import numpy as np

_NEWTON_STEPS = 50


@dataclass(frozen=True)
class Calibration:
    """P(right) = 1 / (1 + exp(−(scale · score + offset))) of a score (Platt 1999).

    As made, it passes mean log-probabilities on almost as they are near certainty and close to
    even odds nowhere: it is fitted before anybody trusts it.
    """

    scale: float = 1.0
    offset: float = 0.0

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities ``float32`` of the scores' shape."""
        z = np.clip(self.scale * scores + self.offset, -80, 80)
        return (1 / (1 + np.exp(-z))).astype(np.float32)


def fit_calibration(scores: np.ndarray, right: np.ndarray) -> Calibration:
    """The most likely calibration of answers that were judged.

    Platt's targets, (right + 1) / (right + 2) for 1 and 1 / (wrong + 2) for 0, keep it finite where
    the scores part right from wrong, or where all are right.

    Args:
        scores: ``float [N]``, higher for answers that the model likes better.
        right: ``bool [N]``.

    Raises:
        ValueError: there is nothing to fit to.
    """
    if not len(scores):
        raise ValueError("a calibration needs at least one judged answer")
    scores = np.asarray(scores, dtype=np.float64)
    right = np.asarray(right, dtype=bool)
    hits, misses = int(right.sum()), int((~right).sum())
    targets = np.where(right, (hits + 1) / (hits + 2), 1 / (misses + 2))
    # Standardised, so that one ridge suits any scores; it only decides what they leave open.
    mean, deviation = scores.mean(), scores.std() or 1.0
    x = np.stack([(scores - mean) / deviation, np.ones_like(scores)], axis=1)  # [N, 2]
    ridge = np.array([1e-3, 1e-6]) * len(scores)
    weights = np.zeros(2)
    loss = _loss(x, targets, weights, ridge)
    for _ in range(_NEWTON_STEPS):
        p = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (p - targets) + ridge * weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while (new := _loss(x, targets, weights - size * step, ridge)) > loss and size > 1e-6:
            size /= 2
        weights, gain, loss = weights - size * step, loss - new, new
        if gain < 1e-10 * len(scores):
            break
    scale = max(float(weights[0]), 0.0) / float(deviation)  # never likes a worse score better
    return Calibration(scale, float(weights[1]) - scale * float(mean))


def _loss(x: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: np.ndarray) -> float:
    z = x @ weights
    return float((np.logaddexp(0, z) - targets * z).sum() + (ridge * weights**2).sum() / 2)
