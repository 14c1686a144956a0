"""How far a model's own confidence, or the agreement of its views, can be trusted.

Who answers only where a score is high enough answers fewer problems, and should err on fewer of
those: the risk-coverage curve (El-Yaniv and Wiener 2010). Whether a confidence of 90 % is right 90
times in 100 is its calibration (Guo et al. 2017).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_BINS = 10
_STYLES = ("-", "--", ":", "-.")  # no curve is told by its colour alone
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


@dataclass(frozen=True)
class Curve:
    """What is risked at each coverage that a threshold on a score can give, in rising order.

    Attributes:
        coverage: ``float [M]``, share of problems with at least that score; the last is 1.
        risk: ``float [M]``, share of wrong ones among them.
    """

    coverage: np.ndarray
    risk: np.ndarray

    def at(self, coverage: float) -> float:
        """The risk of the smallest coverage that is at least as large."""
        return float(self.risk[np.searchsorted(self.coverage, coverage - 1e-12)])

    @property
    def area(self) -> float:
        """The mean risk over coverages from 0 to 1; the lower, the better errors are foreseen."""
        return float((np.diff(self.coverage, prepend=0.0) * self.risk).sum())


def risk_coverage(score: np.ndarray, right: np.ndarray) -> Curve:
    """The curve of a score, problems of equal scores taken together.

    Args:
        score: ``float [N]``, higher for what is held right.
        right: ``bool [N]``.

    Raises:
        ValueError: there are no problems, or a score is not a number.
    """
    if len(score) == 0 or len(score) != len(right) or np.isnan(score).any():
        raise ValueError("a risk-coverage curve takes a score, which is a number, for each problem")
    order = np.argsort(-score, kind="stable")
    wrong = np.cumsum(~right[order].astype(bool))
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))  # of each run of equal scores
    answered = last + 1
    return Curve(answered / len(score), wrong[last] / answered)


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


def reliability(confidence: np.ndarray, right: np.ndarray) -> Reliability:
    """Ten bins of equal width.

    Args:
        confidence: ``float [N]``, 0 to 1.
        right: ``bool [N]``.
    """
    place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    problems = np.bincount(place, minlength=_BINS)
    kept = problems > 0
    sums = (np.bincount(place, weights=x, minlength=_BINS)[kept] for x in (confidence, right))
    mean, share = (total / problems[kept] for total in sums)
    return Reliability(mean, share, problems[kept])


def trust_figure(
    curves: Mapping[str, Curve], reliabilities: Mapping[str, Reliability], problems: int
) -> Figure:
    """Risk against coverage, and confidence against the share that is right.

    Args:
        curves, reliabilities: by what they are of.
        problems: how many there are, of each.
    """
    figure = Figure(figsize=(11, 5.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for i, (name, curve) in enumerate(curves.items()):
        left.plot(
            *(100 * curve.coverage, 100 * curve.risk),
            _STYLES[i % len(_STYLES)],
            color=_COLOURS[i % len(_COLOURS)],
            drawstyle="steps-pre",
            marker="." if len(curve.risk) < 20 else None,
            label=f"{name} (mean risk {100 * curve.area:.2f} %)",
        )
    left.set(xlabel="coverage: answered, %", ylabel="risk: wrong among the answered, %")
    left.set(xlim=(0, 100), title=f"If only the surest are answered ({problems:,} problems)")
    left.set_ylim(bottom=0)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    _calibration(right, reliabilities)
    return figure


def reliability_figure(reliabilities: Mapping[str, Reliability]) -> Figure:
    """Confidence against the share that is right.

    Args:
        reliabilities: by what they are of.
    """
    figure = Figure(figsize=(4.2, 4.0), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _calibration(axes, reliabilities)
    axes.set_title("Is 90 % right 90 times in 100?", fontsize=11)
    return figure


def _calibration(axes: Axes, reliabilities: Mapping[str, Reliability]) -> None:
    axes.plot([0, 100], [0, 100], color="#8C8C8C", linewidth=1)
    for i, (name, bins) in enumerate(reliabilities.items()):
        axes.plot(
            *(100 * bins.confidence, 100 * bins.right),
            f"o{_STYLES[i % len(_STYLES)]}",
            color=_COLOURS[i % len(_COLOURS)],
            label=f"{name} (calibration error {100 * bins.error:.1f} %)",
        )
    axes.set(xlabel="confidence, %", ylabel="right, %", xlim=(0, 101), ylim=(0, 101))
    axes.set_title("Is a confidence of 90 % right 90 times in 100?")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
