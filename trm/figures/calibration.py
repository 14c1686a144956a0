"""Whether a confidence can be trusted: risk against coverage, and calibration."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from canvas.picture import GREY, PAPER, blank_figure
from trm.evaluation.selective_prediction import BINS, Reliability, RiskCoverage
from trm.figures.lengths import plain_logarithmic

_FEW = 20  # problems from which on a share is worth a line
_MARKS = ("o", "s", "^", "D")
_STYLES = ("-", "--", ":", "-.")  # no curve is highest by its colour alone
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito


def trust_figure(
    curves: Mapping[str, RiskCoverage], reliabilities: Mapping[str, Reliability], problems: int
) -> Figure:
    """Risk against coverage, and confidence against the share that is right, by their names."""
    figure = blank_figure(1100, 620)
    grid = figure.add_gridspec(2, 2, height_ratios=(4, 1))
    left = figure.add_subplot(grid[:, 0])
    for i, (name, curve) in enumerate(curves.items()):
        style: dict[str, Any] = {"color": _COLOURS[i % len(_COLOURS)]}
        low, high = curve.interval
        x, many = 100 * curve.coverage, curve.answered >= _FEW
        left.fill_between(x, 100 * low, 100 * high, step="pre", alpha=0.1, linewidth=0, **style)
        style |= {"linestyle": _STYLES[i % len(_STYLES)], "drawstyle": "steps-pre"}
        left.plot(x, 100 * curve.risk, linewidth=0.7, alpha=0.5, **style)
        label = f"{name} (mean risk {100 * curve.area:.2f} %)"
        dots = "." if len(curve.risk) < 20 else None
        risk = np.where(many, 100 * curve.risk, np.nan)
        left.plot(x, risk, marker=dots, label=label, **style)
    left.set(xlabel="coverage: answered, %", ylabel="risk: wrong among the answered, %")
    left.set(xlim=(0, 101), title=f"If only the surest are answered ({problems:,} problems)")
    # A little above every risk that more than a few problems support.
    highest = max(c.risk[c.answered >= _FEW].max(initial=0) for c in curves.values())
    left.set_ylim(0, min(101, max(5, 125 * highest) if highest else 101))
    left.legend(loc="best", fontsize=9).set_in_layout(False)  # names may be long
    right = figure.add_subplot(grid[0, 1])
    _calibration(right, figure.add_subplot(grid[1, 1], sharex=right), reliabilities)
    return _noted(figure, "Bands and bars", "Thin lines and hollow marks")


def _noted(figure: Figure, intervals: str, few: str) -> Figure:
    # Not a label of the layout: the axes would make room for it at their sides.
    note = f"{intervals}: Wilson 95 % intervals. {few}: fewer than {_FEW}."
    figure.text(0.01, 0.012, note, fontsize=9, color=GREY)
    figure.set_layout_engine("constrained", rect=(0, 0.05, 1, 0.95))
    return figure


def reliability_figure(reliabilities: Mapping[str, Reliability]) -> Figure:
    """Confidence against the share that is right, and how many problems stand behind it."""
    figure = blank_figure(460, 500)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    _calibration(above, below, reliabilities)
    above.set_title("Is 90 % right 90 times in 100?", fontsize=11)
    return _noted(figure, "Bars", "Hollow")


def _calibration(axes: Axes, counts: Axes, reliabilities: Mapping[str, Reliability]) -> None:
    """Shares with their intervals, and below them the problems in each bin.

    Bins of few problems are hollow and joined to no other.
    """
    axes.plot([0, 100], [0, 100], color="#8C8C8C", linewidth=1)
    wide = 80 / BINS / max(1, len(reliabilities))
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
        label = f"{name} (calibration error {100 * bins.error:.1f} %)"
        style = {"marker": _MARKS[i % len(_MARKS)], "linestyle": _STYLES[i % len(_STYLES)]}
        axes.plot([], [], color=colour, label=label, **style)
        bin_index = np.minimum(bins.confidence * BINS, BINS - 1).astype(int)
        start = (bin_index + 0.1) * 100 / BINS + i * wide
        counts.bar(start, bins.problems, wide, align="edge", color=colour)
    axes.set(ylabel="right, %", xlim=(0, 101), ylim=(0, 101))
    axes.set_title("Is a confidence of 90 % right 90 times in 100?")
    axes.tick_params(labelbottom=False)
    counts.set(xlabel="confidence, %", ylabel="problems", yscale="log", ylim=(0.7, None))
    plain_logarithmic(counts.yaxis)
    counts.set_xticks(range(0, 101, 10))
    for side in ("top", "right"):
        counts.spines[side].set_visible(False)
    shown = axes.get_legend_handles_labels()  # without them an empty one would be warned of
    axes.legend(*shown, loc="upper left", fontsize=9).set_in_layout(False)
