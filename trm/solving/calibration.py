"""Platt scaling of a model's probabilities: calibrated confidence in rows and symbols."""

from dataclasses import dataclass

import numpy as np

# Range of log-probabilities: outside it float32 rounding decides.
_SURE = (-50.0, -1e-6)


@dataclass(frozen=True)
class Calibration:
    """Platt scaling of the model's own log-odds (Platt 1999).

    P(correct) = σ(scale · logit(p) + offset) for an answer of probability p. The default
    changes nothing: P(correct) = p.
    """

    scale: float = 1.0
    offset: float = 0.0

    def __call__(self, log_probs: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities: float32 [...], for log-probabilities float [...].

        A log-probability of minus infinity gives 0.
        """
        odds = self.scale * log_odds(log_probs) + self.offset
        return np.where(np.isneginf(log_probs), 0, 1 / (1 + np.exp(-odds))).astype(np.float32)


def log_odds(log_probs: np.ndarray) -> np.ndarray:
    """Return log(p / (1 − p)), float64 [...], from log p, float [...]."""
    log_p = np.clip(np.asarray(log_probs, dtype=np.float64), *_SURE)
    return log_p - np.log(-np.expm1(log_p))


def fit_calibration(log_probs: np.ndarray, correct: np.ndarray) -> Calibration:
    """Fit the maximum a posteriori calibration to scored answers.

    Scale and offset have normal priors with standard deviation 1 around 1 and 0. A model that is
    nearly always correct leaves little to learn from, and then keeps its own probabilities. A fit
    without the prior would conclude that all answers are correct and trust the worst ones.

    Args:
        log_probs: of whole answers, float [N]; minus infinity is ignored.
        correct: whether each answer is correct, bool [N].

    Raises:
        ValueError: a log-probability is not a number.
    """
    from scipy.optimize import minimize  # which takes longer to import than a row to write
    from scipy.special import expit

    if np.isnan(log_probs).any():
        raise ValueError(
            "log-probabilities are not finite: the weights are damaged, or training diverged"
        )
    known = ~np.isneginf(log_probs)
    odds, correct = log_odds(np.asarray(log_probs)[known]), np.asarray(correct, dtype=float)[known]
    x = np.stack([odds, np.ones_like(odds)], axis=1)  # [N, 2]
    prior = np.array([1.0, 0.0])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        z, off = x @ weights, weights - prior
        value = (np.logaddexp(0, z) - correct * z).sum() + (off**2).sum() / 2
        return value, x.T @ (expit(z) - correct) + off

    def curvature(weights: np.ndarray) -> np.ndarray:
        p = expit(x @ weights)
        return (x.T * (p * (1 - p))) @ x + np.eye(2)

    best = minimize(loss, prior, jac=True, hess=curvature, method="trust-exact").x
    # A negative scale would trust a model more the less confident it is: 0 ignores the model.
    return Calibration(max(float(best[0]), 0.0), float(best[1]))
