"""How far a model's own confidence, or the agreement of its views, can be trusted.

Who answers only where a score is high enough answers fewer problems, and should err on fewer of
those: the risk-coverage curve (El-Yaniv and Wiener 2010). Whether a confidence of 90 % is right 90
times in 100 is its calibration (Guo et al. 2017).
"""

from dataclasses import dataclass

import numpy as np

from trm.evaluation.statistics import Share

COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
BINS = 10


@dataclass(frozen=True)
class RiskCoverage:
    """What is risked at each coverage that a threshold on a score can give, in rising order.

    Attributes:
        coverage: ``float [M]``, share of problems with at least that score; the last is 1.
        risk: ``float [M]``, share of wrong ones among them.
        answered: ``int64 [M]``, how many they are.
    """

    coverage: np.ndarray
    risk: np.ndarray
    answered: np.ndarray

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the risks' Wilson 95 % intervals, ``float [M]`` each."""
        return _intervals(self.risk, self.answered)

    def at(self, coverage: float) -> float:
        """The risk of the smallest coverage that is at least as large."""
        return float(self.risk[np.searchsorted(self.coverage, coverage - 1e-12)])

    @property
    def area(self) -> float:
        """The mean risk over coverages from 0 to 1; the lower, the better errors are foreseen."""
        return float((np.diff(self.coverage, prepend=0.0) * self.risk).sum())


def risk_coverage(score: np.ndarray, right: np.ndarray) -> RiskCoverage:
    """The curve of a score, problems of equal scores taken together.

    Args:
        score: ``float [N]``, higher for what is held right; N at least 1.
        right: ``bool [N]``.

    Raises:
        ValueError: a score is not a number.
    """
    if np.isnan(score).any():
        raise ValueError("a score that problems are ranked by is not a number")
    order = np.argsort(-score, kind="stable")
    wrong = np.cumsum(~right[order].astype(bool))
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))  # of each run of equal scores
    answered = last + 1
    return RiskCoverage(answered / len(score), wrong[last] / answered, answered)


@dataclass(frozen=True)
class Reliability:
    """Bins of confidence, those without a problem left out.

    Attributes:
        confidence: ``float [M]``, the mean in each bin.
        right: ``float [M]``, the share that is right.
        problems: ``int64 [M]``.
    """

    confidence: np.ndarray
    right: np.ndarray
    problems: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error: mean distance of the two, weighted by problems."""
        distance = np.abs(self.confidence - self.right)
        return float((distance * self.problems).sum() / self.problems.sum())

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the shares' Wilson 95 % intervals, ``float [M]`` each."""
        return _intervals(self.right, self.problems)


def reliability(confidence: np.ndarray, right: np.ndarray) -> Reliability:
    """Ten bins of equal width.

    Args:
        confidence: ``float [N]``, 0 to 1.
        right: ``bool [N]``.
    """
    bin_index = np.minimum((confidence * BINS).astype(int), BINS - 1)
    problems = np.bincount(bin_index, minlength=BINS)
    kept = problems > 0
    sums = (np.bincount(bin_index, weights=x, minlength=BINS)[kept] for x in (confidence, right))
    mean, share = (total / problems[kept] for total in sums)
    return Reliability(mean, share, problems[kept])


def _intervals(shares: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    counts = np.rint(shares * totals).astype(int)
    ends = [Share(*c).interval for c in zip(counts.tolist(), totals.tolist(), strict=True)]
    low, high = np.array(ends).T
    return low, high
