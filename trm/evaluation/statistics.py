"""Shares with intervals, paired comparisons, and measures of confidence.

Two models with the same problems are compared problem by problem. McNemar's exact test (1947)
assumes that a problem which only one of them solves is equally likely to be solved by either.
Intervals of differences are Newcombe's (Statistics in Medicine 17, 873 and 2635, 1998, method 10 of
each). With several seeds, seeds and problems are resampled with replacement (the percentile
bootstrap, Efron 1979). Few seeds do not show the spread of further ones, so such an interval is
then too narrow.

A confidence threshold lowers coverage, and should lower the risk among the answered problems: the
risk-coverage curve (El-Yaniv and Wiener 2010). Calibration compares confidence with accuracy: of
answers with a confidence of 90 %, 90 in 100 should be correct (Guo et al. 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import hypot, prod, sqrt
from typing import Any, NamedTuple

import numpy as np

_CONFIDENCE = 0.950004209703559  # z = 1.96
_RESAMPLES = 2_000
COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
BINS = 10  # of confidence
SEEDS_MEANING = (
    "of several seeds the mean, the lowest and the highest in brackets; then Wilson's 95 % "
    "interval for the number of problems of each seed, which are the same ones"
)


@dataclass(frozen=True)
class Share:
    """Share of ``right`` in ``total``, with its 95 % interval."""

    right: int
    total: int
    # Ends of an interval by another method; None: Wilson's score interval (Wilson 1927).
    ends: tuple[float, float] | None = field(default=None, kw_only=True)

    @property
    def value(self) -> float:
        """Value of the share; NaN if ``total`` is 0."""
        return self.right / self.total if self.total else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the interval; (0, 1) if ``total`` is 0.

        Raises:
            ValueError: ``right`` exceeds ``total``.
        """
        if self.ends is not None:
            return self.ends
        return _wilson(self.right, self.total) if self.total else (0.0, 1.0)

    def data(self) -> dict[str, float]:
        """Return the share as in files: right, total, and both ends of the interval."""
        low, high = self.interval
        return {"right": self.right, "total": self.total, "low": low, "high": high}

    @property
    def percent(self) -> str:
        """Whole percent as text; 0 and 100 only if none or all are correct.

        Examples: 1 of 1,000 → ``<1``, 999 of 1,000 → ``>99``, 0 of 0 → an empty text.
        """
        if not self.total:
            return ""
        rounded = round(100 * self.value)
        if 0 < self.right < self.total:
            return {0: "<1", 100: ">99"}.get(rounded, str(rounded))
        return str(rounded)

    def span(self, decimals: int = 0) -> str:
        """Return the interval in percent, like ``41–59``."""
        return "–".join(f"{100 * end:.{decimals}f}" for end in self.interval)

    @property
    def short(self) -> str:
        """Text like ``50.0 % (45.7–54.3)``; a dash if ``total`` is 0."""
        return f"{100 * self.value:.1f} % ({self.span(1)})" if self.total else "–"

    def __add__(self, other: "Share") -> "Share":
        return Share(self.right + other.right, self.total + other.total)

    def __str__(self) -> str:
        if not self.total:
            return "none"
        return (
            f"{100 * self.value:.1f} % ({self.right} of {self.total}; "
            f"95 % interval {self.span(1).replace('–', ' to ')} %)"
        )


@lru_cache(maxsize=4096)
def _wilson(right: int, total: int) -> tuple[float, float]:
    from scipy.stats import binomtest  # takes most of a second

    found = binomtest(right, total).proportion_ci(_CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)


def of_seeds(shares: Sequence[Share]) -> str:
    """Return a text for the shares of several seeds, in percent: see `SEEDS_MEANING`."""
    if not shares:
        return "–"
    values = [100 * share.value for share in shares]
    mean = sum(values) / len(values)
    total = max(share.total for share in shares)
    spread = f" [{min(values):.1f}–{max(values):.1f}]" if len(values) > 1 else ""
    return f"{mean:.1f}{spread} ({Share(round(mean / 100 * total), total).span(1)})"


def difference(one: Share, other: Share, correlation: float = 0.0) -> tuple[float, float]:
    """Return the ends of the 95 % interval of one share minus another, from -1 to 1.

    The shares are of independent samples; or of the same problems, with a correlation.
    """
    p, q = one.value, other.value
    (low, high), (least, most) = one.interval, other.interval

    def reach(a: float, b: float) -> float:
        return sqrt(max(0.0, hypot(a, b) ** 2 - 2 * correlation * a * b))

    return p - q - reach(p - low, most - q), p - q + reach(high - p, q - least)


def bootstrap(values: np.ndarray, of: np.ndarray | None = None, seed: int = 0) -> tuple[Any, Any]:
    """Return the ends of the 95 % percentile bootstrap interval of a mean over the first axis.

    ``values`` is ``float [N, ...]``. With ``of``, also ``[N, ...]``, the interval is that of the
    ratio of the sums of both, as for shares.
    """
    n = len(values)
    chosen = np.random.default_rng(seed).integers(n, size=(_RESAMPLES, n))
    flat = (
        chosen + n * np.arange(_RESAMPLES)[:, None]
    ).ravel()  # to count choices in each resample
    weights = np.bincount(flat, minlength=chosen.size).reshape(chosen.shape) / n
    with np.errstate(invalid="ignore"):  # resamples whose total is 0 are left out
        means = np.tensordot(weights, values, axes=1)
        means = means if of is None else means / np.tensordot(weights, of, axes=1)
    low, high = np.nanpercentile(means, (2.5, 97.5), axis=0)
    return low, high


class Paired(NamedTuple):
    """Comparison of two settings on the same problems."""

    problems: int  # number of problems, the same for every seed of both
    difference: float  # mean share solved by mine minus that by theirs
    interval: tuple[float, float]  # of the difference; 95 % for two single models, else roughly
    alone: tuple[int, int] | None  # problems that only mine, only theirs solves; None: seeds
    p: float | None  # of McNemar's test; None: several seeds


def paired(mine: Sequence[Sequence[np.ndarray]], theirs: Sequence[Sequence[np.ndarray]]) -> Paired:
    """Compare two settings on the same problems, at least one.

    Each seed has an array for each cell, bool [N], which of its problems are solved.
    """
    first, second = (
        np.stack([np.concatenate(seed) for seed in seeds]) for seeds in (mine, theirs)
    )  # bool [seeds, problems]
    one, other = first[0], second[0]
    both, neither = int((one & other).sum()), int((~one & ~other).sum())
    alone = int((one & ~other).sum()), int((other & ~one).sum())
    single, n = len(first) == len(second) == 1, len(one)
    # A bootstrap has no spread where seeds agree on all problems.
    if single or ((first == one).all() and (second == one).all()):
        product = prod(alike + unlike for alike in (both, neither) for unlike in alone)
        excess: float = both * neither - alone[0] * alone[1]
        if excess > 0:
            excess = max(0.0, excess - n / 2)
        phi = excess / sqrt(product) if product else 0.0
        interval = difference(Share(both + alone[0], n), Share(both + alone[1], n), phi)
    else:
        interval = _over_seeds(first, second, np.cumsum([*map(len, mine[0])])[:-1])
    points = float(first.mean() - second.mean())
    if not single:
        return Paired(n, points, interval, None, None)
    from scipy.stats import binomtest

    p = float(binomtest(alone[0], sum(alone)).pvalue) if sum(alone) else 1.0
    return Paired(n, points, interval, alone, p)


def _over_seeds(first: np.ndarray, second: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Return the interval of the mean difference of two ``bool [seeds, n]``.

    ``ends`` are the ends of the cells; each cell is resampled on its own.
    """
    random = np.random.default_rng(0)
    seeds = [random.integers(len(v), size=(_RESAMPLES, len(v))) for v in (first, second)]
    sums = np.zeros(_RESAMPLES)
    for cell in np.split(np.arange(first.shape[1]), ends):
        if len(cell):
            one, other = (
                values[:, cell][chosen].mean(axis=1)
                for values, chosen in zip((first, second), seeds, strict=True)
            )  # [resamples, cell]
            chosen = random.integers(len(cell), size=(_RESAMPLES, len(cell)))
            sums += np.take_along_axis(one - other, chosen, axis=1).sum(axis=1)
    low, high = np.percentile(sums / first.shape[1], (2.5, 97.5))
    return float(low), float(high)


class RiskCoverage(NamedTuple):
    """Risk at each coverage that a threshold on a score can give, in rising order of coverage."""

    coverage: np.ndarray  # float [M], share of problems with at least that score; the last is 1
    risk: np.ndarray  # float [M], share of incorrect answers among them
    answered: np.ndarray  # int64 [M], number of these problems

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the risks' Wilson 95 % intervals, ``float [M]``."""
        return _intervals(self.risk, self.answered)

    def share_at(self, coverage: float) -> Share:
        """Return the share of incorrect answers at the smallest coverage that is as large."""
        place = int(np.searchsorted(self.coverage, coverage - 1e-12))
        answered = int(self.answered[place])
        return Share(round(float(self.risk[place]) * answered), answered)

    @property
    def problems(self) -> int:
        """Number of all problems."""
        return int(self.answered[-1])

    @property
    def area(self) -> float:
        """Mean risk over coverages from 0 to 1; lower is better."""
        return float((np.diff(self.coverage, prepend=0.0) * self.risk).sum())


def risk_coverage(score: np.ndarray, correct: np.ndarray) -> RiskCoverage:
    """Return the curve of a score; problems of equal scores are answered together.

    ``score`` is ``float [N]``, N at least 1; higher scores are for answers more likely to be
    correct. ``correct``: bool [N], whether each answer is.

    Raises:
        ValueError: a score is NaN.
    """
    if np.isnan(score).any():
        raise ValueError("a score that problems are ranked by is not a number")
    order = np.argsort(-score, kind="stable")
    wrong = np.cumsum(~correct[order].astype(bool))
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))  # of each run of equal scores
    answered = last + 1
    return RiskCoverage(answered / len(score), wrong[last] / answered, answered)


def auroc(score: np.ndarray, correct: np.ndarray) -> float | None:
    """Return the area under the ROC curve: how well a score separates correct answers from others.

    It is the probability that a correct answer has a higher score than an incorrect one; equal
    scores count half. None: all answers are correct, or none is.

    Example: scores 0.9 and 0.6 of correct answers, 0.7 of an incorrect one → 0.5.

    Args:
        score: float [N].
        correct: bool [N], whether each answer is.
    """
    from scipy.stats import mannwhitneyu

    correct = correct.astype(bool)
    mine, others = score[correct], score[~correct]
    if not len(mine) or not len(others):
        return None
    pairs = mannwhitneyu(mine, others, method="asymptotic").statistic  # in the right order
    return float(pairs / (len(mine) * len(others)))


class Reliability(NamedTuple):
    """Bins of confidence, without empty ones."""

    confidence: np.ndarray  # float [M], mean confidence in each bin
    accuracy: np.ndarray  # float [M], share of correct answers in each bin
    problems: np.ndarray  # int64 [M]

    @property
    def error(self) -> float:
        """Expected calibration error: mean |confidence - accuracy|, weighted by problems."""
        return float(np.average(np.abs(self.confidence - self.accuracy), weights=self.problems))

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the accuracies' Wilson 95 % intervals, ``float [M]``."""
        return _intervals(self.accuracy, self.problems)


def reliability(confidence: np.ndarray, correct: np.ndarray) -> Reliability:
    """Return ten bins of equal width.

    ``confidence`` is ``float [N]``; ``correct``: bool [N], whether each answer is.
    """
    bin_index = np.minimum((confidence * BINS).astype(int), BINS - 1)
    problems = np.bincount(bin_index, minlength=BINS)
    kept = problems > 0
    sums = (np.bincount(bin_index, weights=x, minlength=BINS)[kept] for x in (confidence, correct))
    mean, accuracy = (total / problems[kept] for total in sums)
    return Reliability(mean, accuracy, problems[kept])


def _intervals(shares: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    counts = np.rint(shares * totals).astype(int)
    ends = [Share(*c).interval for c in zip(counts.tolist(), totals.tolist(), strict=True)]
    low, high = np.array(ends).T
    return low, high
