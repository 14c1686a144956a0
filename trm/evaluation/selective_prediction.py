"""How far a model's own confidence, or the agreement of its views, can be trusted.

Who answers only where a score is high enough answers fewer problems, and should err on fewer of
those: the risk-coverage curve (El-Yaniv and Wiener 2010). Whether a confidence of 90 % is right 90
times in 100 is its calibration (Guo et al. 2017).
"""

from typing import NamedTuple

import numpy as np

from trm.evaluation.statistics import Share

COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
BINS = 10

Ends = tuple[np.ndarray, np.ndarray]  # of Wilson 95 % intervals, float [M] each


class RiskCoverage(NamedTuple):
    """What is risked at each coverage that a threshold on a score can give, in rising order."""

    coverage: np.ndarray  # float [M], share of problems with at least that score; the last is 1
    risk: np.ndarray  # float [M], share of wrong ones among them
    answered: np.ndarray  # int64 [M], how many they are

    @property
    def interval(self) -> Ends:
        """Of the risks."""
        return _intervals(self.risk, self.answered)

    def at(self, coverage: float) -> float:
        """The risk of the smallest coverage that is at least as large."""
        return float(self.risk[np.searchsorted(self.coverage, coverage - 1e-12)])

    @property
    def area(self) -> float:
        """The mean risk over coverages from 0 to 1; the lower, the better errors are foreseen."""
        return float((np.diff(self.coverage, prepend=0.0) * self.risk).sum())


def risk_coverage(score: np.ndarray, right: np.ndarray) -> RiskCoverage:
    """The curve of a score ``float [N]``, N at least 1, problems of equal scores taken together.

    Higher is what is held ``right``, bool [N]. ValueError if a score is not a number.
    """
    if np.isnan(score).any():
        raise ValueError("a score that problems are ranked by is not a number")
    order = np.argsort(-score, kind="stable")
    wrong = np.cumsum(~right[order].astype(bool))
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))  # of each run of equal scores
    answered = last + 1
    return RiskCoverage(answered / len(score), wrong[last] / answered, answered)


class Reliability(NamedTuple):
    """Bins of confidence, those without a problem left out."""

    confidence: np.ndarray  # float [M], the mean in each bin
    right: np.ndarray  # float [M], the share that is right
    problems: np.ndarray  # int64 [M]

    @property
    def error(self) -> float:
        """The expected calibration error: mean distance of the two, weighted by problems."""
        return float(np.average(np.abs(self.confidence - self.right), weights=self.problems))

    @property
    def interval(self) -> Ends:
        """Of the shares."""
        return _intervals(self.right, self.problems)


def reliability(confidence: np.ndarray, right: np.ndarray) -> Reliability:
    """Ten bins of equal width, of confidences ``float [N]`` and answers ``bool [N]``."""
    bin_index = np.minimum((confidence * BINS).astype(int), BINS - 1)
    problems = np.bincount(bin_index, minlength=BINS)
    kept = problems > 0
    sums = (np.bincount(bin_index, weights=x, minlength=BINS)[kept] for x in (confidence, right))
    mean, share = (total / problems[kept] for total in sums)
    return Reliability(mean, share, problems[kept])


def _intervals(shares: np.ndarray, totals: np.ndarray) -> Ends:
    counts = np.rint(shares * totals).astype(int)
    ends = [Share(*c).interval for c in zip(counts.tolist(), totals.tolist(), strict=True)]
    low, high = np.array(ends).T
    return low, high
