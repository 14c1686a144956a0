"""From how probable a model holds its own answer to the probability that the answer is right."""

from dataclasses import dataclass

import numpy as np

_SURE = (
    -50.0,
    -1e-6,
)  # log-probabilities that are distinguished: beyond lies the rounding of float32
_NEWTON_STEPS = 50


@dataclass(frozen=True)
class Calibration:
    """P(right) = σ(scale · logit(p) + offset) of an answer that the model wrote with probability p.

    Platt scaling (Platt 1999) of the model's own log-odds. As made it changes nothing: a row is as
    probably right as the model was sure of writing it.
    """

    scale: float = 1.0
    offset: float = 0.0

    def __call__(self, log_probs: np.ndarray) -> np.ndarray:
        """Probabilities ``float32`` of answers of log-probability ``log_probs``, minus infinity
        included.
        """
        odds = self.scale * log_odds(log_probs) + self.offset
        return np.where(np.isneginf(log_probs), 0, 1 / (1 + np.exp(-odds))).astype(np.float32)


def log_odds(log_probs: np.ndarray) -> np.ndarray:
    """log(p / (1 − p)) from log p, ``float64``."""
    log_p = np.clip(np.asarray(log_probs, dtype=np.float64), *_SURE)
    return log_p - np.log(-np.expm1(log_p))


def fit_calibration(log_probs: np.ndarray, right: np.ndarray) -> Calibration:
    """The most probable calibration of answers that were judged.

    Scale and offset have normal priors of deviation 1 about 1 and 0. Where a model is nearly always
    right there is little to learn from, and it is then taken at its word: a fit without the prior
    would find that all answers are right whatever the model says, and believe the worst ones.

    Args:
        log_probs: ``float [N]``, of whole answers; those of minus infinity say nothing.
        right: ``bool [N]``.

    Raises:
        ValueError: a log-probability is not a number.
    """
    if np.isnan(log_probs).any():
        raise ValueError(
            "log-probabilities are not finite: the weights are damaged, or training diverged"
        )
    known = ~np.isneginf(log_probs)
    odds, right = log_odds(np.asarray(log_probs)[known]), np.asarray(right, dtype=float)[known]
    x = np.stack([odds, np.ones_like(odds)], axis=1)  # [N, 2]
    prior = np.array([1.0, 0.0])
    weights, loss = prior, _loss(x, right, prior, prior)
    for _ in range(_NEWTON_STEPS):
        p = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (p - right) + weights - prior
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(2)
        step, size = np.linalg.solve(hessian, gradient), 1.0
        while (new := _loss(x, right, weights - size * step, prior)) > loss and size > 1e-6:
            size /= 2
        weights, gain, loss = weights - size * step, loss - new, new
        if gain < 1e-9 * (1 + abs(loss)):
            break
    # A model that is the surer the more it errs is not to be believed at all.
    return Calibration(max(float(weights[0]), 0.0), float(weights[1]))


def _loss(x: np.ndarray, right: np.ndarray, weights: np.ndarray, prior: np.ndarray) -> float:
    z = x @ weights
    return float((np.logaddexp(0, z) - right * z).sum() + ((weights - prior) ** 2).sum() / 2)
