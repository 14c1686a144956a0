"""Whether a confidence can be trusted: risk against coverage, and calibration."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trm.evaluation.statistics import BINS, Reliability, RiskCoverage
from trm.figures.style import COLOURS, LINES, mark, new_figure, tidy

_FEW = 20  # answered problems below which no risk sets the scale
_NOTE = "Bands and bars: Wilson 95 % intervals."


def trust_figure(
    curves: Mapping[str, RiskCoverage], reliabilities: Mapping[str, Reliability], problems: int
) -> Figure:
    """Risk against coverage, and confidence against the share that is right, by their names."""
    figure = new_figure(11, 6.2, note=_NOTE)
    grid = figure.add_gridspec(2, 2, height_ratios=(4, 1))
    left = figure.add_subplot(grid[:, 0])
    highest = 0.0  # risk that more than a few problems support
    for i, (name, curve) in enumerate(curves.items()):
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)]}
        low, high = curve.interval
        x, risk = 100 * curve.coverage, 100 * curve.risk
        left.fill_between(x, 100 * low, 100 * high, step="pre", alpha=0.1, linewidth=0, **style)
        style |= {"linestyle": LINES[i % len(LINES)], "drawstyle": "steps-pre"}
        label = f"{name} (mean risk {100 * curve.area:.2f} %)"
        dots = "." if len(risk) < 20 else None
        left.plot(x, risk, marker=dots, label=label, **style)
        highest = max(highest, risk[curve.answered >= _FEW].max(initial=0))
    left.set(xlabel="coverage: answered, %", ylabel="risk: wrong among the answered, %")
    left.set(xlim=(0, 101), title=f"If only the surest are answered ({problems:,} problems)")
    left.set_ylim(0, min(101, max(5, 1.25 * highest) if highest else 101))
    left.legend(loc="best", fontsize=9).set_in_layout(False)  # names may be long
    right = figure.add_subplot(grid[0, 1])
    _calibration(right, figure.add_subplot(grid[1, 1], sharex=right), reliabilities)
    return figure


def _calibration(axes: Axes, counts: Axes, reliabilities: Mapping[str, Reliability]) -> None:
    """Shares with their intervals, and below them the problems in each bin."""
    axes.plot([0, 100], [0, 100], color="#8C8C8C", linewidth=1)
    wide = 80 / BINS / max(1, len(reliabilities))
    for i, (name, bins) in enumerate(reliabilities.items()):
        style = mark(i) | {"linestyle": LINES[i % len(LINES)], "clip_on": False}
        x, colour = 100 * bins.confidence, style["color"]
        low, high = bins.interval
        axes.vlines(x, 100 * low, 100 * high, color=colour, linewidth=1.2, alpha=0.7)
        label = f"{name} (calibration error {100 * bins.error:.1f} %)"
        axes.plot(x, 100 * bins.right, label=label, **style)
        bin_index = np.minimum(bins.confidence * BINS, BINS - 1).astype(int)
        start = (bin_index + 0.1) * 100 / BINS + i * wide
        counts.bar(start, bins.problems, wide, align="edge", color=colour)
    axes.set(ylabel="right, %", xlim=(0, 101), ylim=(0, 101))
    axes.set_title("Is 90 % right 90 times in 100?")
    axes.tick_params(labelbottom=False)
    counts.set(xlabel="confidence, %", ylabel="problems", yscale="log", ylim=(0.7, None))
    counts.yaxis.set_major_formatter("{x:,.0f}")
    counts.set_xticks(range(0, 101, 10))
    tidy(counts, "y")
    shown = axes.get_legend_handles_labels()  # without them an empty one would be warned of
    axes.legend(*shown, loc="upper left", fontsize=9).set_in_layout(False)
