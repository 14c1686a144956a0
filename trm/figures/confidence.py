"""Figure of confidence: risk against coverage, and calibration."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from canvas.picture import PAPER
from trm.evaluation.statistics import BINS, Reliability, RiskCoverage
from trm.figures.style import COLOURS, HATCHES, LINES, mark, new_figure, tidy

_FEW = 20  # answered problems below which a risk does not affect the scale


def trust_figure(
    curves: Mapping[str, RiskCoverage], reliabilities: Mapping[str, Reliability]
) -> Figure:
    """Draw risk against coverage, and accuracy against confidence, by name.

    Names of ``reliabilities`` are some of those of the curves, and have their colours. If curves
    have different numbers of problems, each label includes its number.
    """
    counts_of = {curve.problems for curve in curves.values()}
    alike = len(counts_of) == 1
    figure = new_figure(11, 6.2 + 0.2 * len(curves))
    grid = figure.add_gridspec(2, 2, height_ratios=(4, 1))
    left = figure.add_subplot(grid[:, 0])
    highest = 0.0  # highest risk over more than a few problems
    for i, (name, curve) in enumerate(curves.items()):
        style: dict[str, Any] = {"color": COLOURS[i % len(COLOURS)]}
        low, high = curve.interval
        x, risk = 100 * curve.coverage, 100 * curve.risk
        left.fill_between(x, 100 * low, 100 * high, step="pre", alpha=0.1, linewidth=0, **style)
        style |= {"linestyle": LINES[i % len(LINES)], "drawstyle": "steps-pre"}
        of = "" if alike else f"{curve.problems:,} problems, "
        label = f"{name}: {of}mean risk {100 * curve.area:.2f} %"
        if name in reliabilities:
            label += f", calibration error {100 * reliabilities[name].error:.1f} %"
        left.plot(x, risk, marker="." if len(risk) < 20 else None, label=label, **style)
        highest = max(highest, risk[curve.answered >= _FEW].max(initial=0))
    left.set(xlabel="coverage: answered, %", ylabel="risk: incorrect among the answered, %")
    problems = f" ({counts_of.pop():,} problems)" if alike else ""
    left.set(xlim=(0, 101), title=f"If only the surest are answered{problems}")
    left.set_ylim(0, min(101, max(5, 1.25 * highest) if highest else 101))
    axes = figure.add_subplot(grid[0, 1])
    counts = figure.add_subplot(grid[1, 1], sharex=axes)  # of the problems in each bin
    axes.plot([0, 100], [0, 100], color="#8C8C8C", linewidth=1)
    wide = 80 / BINS / max(1, len(reliabilities))
    for i, name in enumerate(curves):
        if (bins := reliabilities.get(name)) is None:
            continue
        style = mark(i) | {"linestyle": LINES[i % len(LINES)], "clip_on": False}
        x, colour = 100 * bins.confidence, style["color"]
        low, high = bins.interval
        axes.vlines(x, 100 * low, 100 * high, color=colour, linewidth=1.2, alpha=0.7)
        axes.plot(x, 100 * bins.accuracy, **style)
        bin_index = np.minimum(bins.confidence * BINS, BINS - 1).astype(int)
        start = (bin_index + 0.1) * 100 / BINS + i * wide
        hatch = ("", *HATCHES)[i % (1 + len(HATCHES))]
        bar: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": PAPER, "linewidth": 0}
        counts.bar(start, bins.problems, wide, align="edge", **bar)
    axes.set(ylabel="correct, %", xlim=(0, 101), ylim=(0, 101))
    axes.set_title("Is 90 % correct 90 times in 100?")
    axes.tick_params(labelbottom=False)
    counts.set(xlabel="confidence, %", ylabel="problems", yscale="log", ylim=(0.7, None))
    counts.yaxis.set_major_formatter("{x:,.0f}")
    counts.set_xticks(range(0, 101, 10))
    tidy(counts, "y")
    place: dict[str, Any] = {"loc": "outside lower left", "frameon": False, "fontsize": 9}
    note = "Bands and bars: Wilson 95 % intervals."
    figure.legend(title=note, title_fontsize=9, alignment="left", **place)  # names may be long
    return figure
