"""How far a model's own confidence, or the agreement of its views, can be trusted.

Who answers only where a score is high enough answers fewer problems, and should err on fewer of
those: the risk-coverage curve (El-Yaniv and Wiener 2010). Whether a confidence of 90 % is right 90
times in 100 is its calibration (Guo et al. 2017).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from canvas.picture import PAPER
from trm.evaluation.statistics import Share

COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_BINS = 10
_FEW = 20  # problems from which on a share is worth a line
_GREY = "#595959"
_NOTE = f"{{}}: Wilson 95 % intervals. {{}}: fewer than {_FEW}."
_MARKS = ("o", "s", "^", "D")
_STYLES = ("-", "--", ":", "-.")  # no curve is highest by its colour alone
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


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
    bin_index = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    problems = np.bincount(bin_index, minlength=_BINS)
    kept = problems > 0
    sums = (np.bincount(bin_index, weights=x, minlength=_BINS)[kept] for x in (confidence, right))
    mean, share = (total / problems[kept] for total in sums)
    return Reliability(mean, share, problems[kept])


def _intervals(shares: np.ndarray, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    counts = np.rint(shares * totals).astype(int)
    ends = [Share(*c).interval for c in zip(counts.tolist(), totals.tolist(), strict=True)]
    low, high = np.array(ends).T
    return low, high


def trust_figure(
    curves: Mapping[str, RiskCoverage], reliabilities: Mapping[str, Reliability], problems: int
) -> Figure:
    """Risk against coverage, and confidence against the share that is right.

    Args:
        curves, reliabilities: by what they are of.
        problems: how many there are, of each.
    """
    figure = Figure(figsize=(11, 6.2), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 2, height_ratios=(4, 1))
    left = figure.add_subplot(grid[:, 0])
    for i, (name, curve) in enumerate(curves.items()):
        style: dict[str, Any] = {"color": _COLOURS[i % len(_COLOURS)]}
        low, high = curve.interval
        x, many = 100 * curve.coverage, curve.answered >= _FEW
        left.fill_between(x, 100 * low, 100 * high, step="pre", alpha=0.1, linewidth=0, **style)
        style |= {"linestyle": _STYLES[i % len(_STYLES)], "drawstyle": "steps-pre"}
        left.plot(x, 100 * curve.risk, linewidth=0.7, alpha=0.5, **style)
        left.plot(
            x,
            np.where(many, 100 * curve.risk, np.nan),
            marker="." if len(curve.risk) < 20 else None,
            label=f"{name} (mean risk {100 * curve.area:.2f} %)",
            **style,
        )
    left.set(xlabel="coverage: answered, %", ylabel="risk: wrong among the answered, %")
    left.set(xlim=(0, 100), title=f"If only the surest are answered ({problems:,} problems)")
    left.set_ylim(0, _ceiling(curves))
    left.legend(loc="best", fontsize=9)
    right = figure.add_subplot(grid[0, 1])
    _calibration(right, figure.add_subplot(grid[1, 1], sharex=right), reliabilities)
    _note(figure, "Bands and bars", "Thin lines and hollow marks")
    return figure


def _note(figure: Figure, intervals: str, few: str) -> None:
    # Not a label of the layout: the axes would make room for it at their sides.
    figure.text(0.01, 0.012, _NOTE.format(intervals, few), fontsize=9, color=_GREY)
    figure.set_layout_engine("constrained", rect=(0, 0.05, 1, 0.95))


def _ceiling(curves: Mapping[str, RiskCoverage]) -> float:
    """A little above every risk that more than a few problems support, %."""
    highest = [100 * curve.risk[curve.answered >= _FEW].max(initial=0) for curve in curves.values()]
    return min(100, max(5, 1.25 * max(highest)) if any(highest) else 100)


def reliability_figure(reliabilities: Mapping[str, Reliability]) -> Figure:
    """Confidence against the share that is right, and how many problems stand behind it.

    Args:
        reliabilities: by what they are of.
    """
    figure = Figure(figsize=(4.6, 5.0), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    _calibration(above, below, reliabilities)
    above.set_title("Is 90 % right 90 times in 100?", fontsize=11)
    _note(figure, "Bars", "Hollow")
    return figure


def _calibration(axes: Axes, counts: Axes, reliabilities: Mapping[str, Reliability]) -> None:
    """Shares with their intervals, and below them the problems in each bin.

    Bins of few problems are hollow and joined to no other.
    """
    axes.plot([0, 100], [0, 100], color="#8C8C8C", linewidth=1)
    wide = 80 / _BINS / max(1, len(reliabilities))
    for i, (name, bins) in enumerate(reliabilities.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        x, y, many = 100 * bins.confidence, 100 * bins.right, bins.problems >= _FEW
        low, high = bins.interval
        axes.vlines(x, 100 * low, 100 * high, color=colour, linewidth=1.2, alpha=0.7)
        axes.plot(x, np.where(many, y, np.nan), _STYLES[i % len(_STYLES)], color=colour)
        for which, fill in ((many, colour), (~many, PAPER)):
            style: dict[str, Any] = {"markerfacecolor": fill, "markeredgecolor": colour}
            marks = axes.plot(x[which], y[which], _MARKS[i % len(_MARKS)], clip_on=False, **style)
            marks[0].set_in_layout(False)  # without any, they would squeeze the axes
        axes.plot(
            [],
            [],
            f"{_MARKS[i % len(_MARKS)]}{_STYLES[i % len(_STYLES)]}",
            color=colour,
            label=f"{name} (calibration error {100 * bins.error:.1f} %)",
        )
        bin_index = np.minimum(bins.confidence * _BINS, _BINS - 1).astype(int)
        start = (bin_index + 0.1) * 100 / _BINS + i * wide
        counts.bar(start, bins.problems, wide, align="edge", color=colour)
    axes.set(ylabel="right, %", xlim=(0, 101), ylim=(0, 101))
    axes.set_title("Is a confidence of 90 % right 90 times in 100?")
    axes.tick_params(labelbottom=False)
    counts.set(xlabel="confidence, %", ylabel="count", yscale="log", ylim=(0.7, None))
    counts.yaxis.set_major_formatter("{x:,.0f}")
    for side in ("top", "right"):
        counts.spines[side].set_visible(False)
    axes.legend(*axes.get_legend_handles_labels(), loc="upper left", fontsize=9)
