"""What came out of a study, setting by setting, and what it took."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from canvas.picture import GRID, INK
from trm.figures.row_errors import COLOURS, MARKS
from trm.sweeps.report import Gathered

_LINE = 0.32  # inches of a setting
_WIDE = 4  # times the least cost, from which on costs are drawn on a logarithmic scale


def study_figure(evaluations: dict[str, Sequence[Gathered]]) -> Figure | None:
    """Every seed's share of whole solutions right, by setting and against training's operations.

    A row for each evaluation. A mark is a seed, a bar the mean of a setting's.

    Args:
        evaluations: what was found, by name.

    Returns:
        None where nothing is evaluated yet.
    """
    some = {name: found for name, found in evaluations.items() if found}
    if not some:
        return None
    heights = [1.6 + _LINE * len(found) * len(found[0].shares) for found in some.values()]
    figure = Figure(figsize=(12, sum(heights)), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    rows: Any = figure.subplots(
        len(some), 2, squeeze=False, height_ratios=heights, width_ratios=(3, 2)
    )
    for (name, found), (left, right) in zip(some.items(), rows, strict=True):
        _by_setting(left, found)
        _by_cost(right, found)
        left.set_title(name, loc="left", fontsize=11, color=INK)
    return figure


def _style(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKS[i % len(MARKS)]}


def _by_setting(axes: Axes, found: Sequence[Gathered]) -> None:
    columns = list(found[0].shares)
    for place, one in enumerate(found):
        for i, column in enumerate(columns):
            y = place + (i + 1) / (len(columns) + 1) - 0.5
            values = [share.value for share in one.shares[column]]
            label = column if place == 0 else None
            axes.plot(values, [y] * len(values), linestyle="", label=label, alpha=0.8, **_style(i))
            if values:
                mean = sum(values) / len(values)
                axes.plot([mean] * 2, [y - 0.1, y + 0.1], color=COLOURS[i % len(COLOURS)])
        if place:
            axes.axhline(place - 0.5, color=GRID, linewidth=0.8)
    axes.set_yticks(range(len(found)), [one.setting.name for one in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlim(-0.03, 1.03)
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("whole solutions right")
    axes.legend(fontsize=8, loc="best")


def _by_cost(axes: Axes, found: Sequence[Gathered]) -> None:
    known = [one for one in found if one.flops]
    if not known:
        axes.set_axis_off()
        return
    for i, column in enumerate(found[0].shares):
        for one in known:
            values = [share.value for share in one.shares[column]]
            cost = [(one.flops or 0) / 1e12] * len(values)
            axes.plot(cost, values, linestyle="", alpha=0.8, **_style(i))
    costs = [one.flops or 0 for one in known]
    if max(costs) > _WIDE * min(costs):
        axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("TFLOP of training")
    axes.grid(color=GRID, linewidth=0.5)
