"""What came out of a study: by setting, and by what it took.

A mark is a seed, the line through it its Wilson interval.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from canvas.picture import GRID
from trm.evaluation.grid import REGIONS, SHORTER, Cell, Grid, Model, pooled, size_name
from trm.evaluation.statistics import Share
from trm.figures.style import mark, new_figure, tidy

_CELLS = 8  # that are told one by one; more are put together by region
_FAR = 4  # times the least cost, from which on costs are drawn on a logarithmic scale


def columns_of(grid: Grid) -> list[str]:
    """What is told of each model: sizes of problems, or where these are many, their regions."""
    cells = [cell for model in grid.models for cell in model["cells"]]
    sizes = dict.fromkeys(size_name(grid.axes, (cell["row"], cell["column"])) for cell in cells)
    there = {cell["region"] for cell in cells}
    return list(sizes) if len(sizes) <= _CELLS else [r for r in (*REGIONS, SHORTER) if r in there]


def by_name(grid: Grid) -> dict[str, list[Model]]:
    """The seeds of each setting."""
    names = dict.fromkeys(model["name"] for model in grid.models)
    return {name: [one for one in grid.models if one["name"] == name] for name in names}


def shares_of(grid: Grid, seeds: Sequence[Model], column: str) -> list[Share]:
    """Whole solutions right in one of the columns, of the seeds that were asked something there."""

    def within(cell: Cell) -> bool:
        return column in (cell["region"], size_name(grid.axes, (cell["row"], cell["column"])))

    found = [pooled(filter(within, seed["cells"])) for seed in seeds]
    return [share for share in found if share.total]


def costs_of(seeds: Sequence[Model]) -> dict[str, float | None]:
    """What it took, by name, the mean of the seeds of which it is known; None: of none."""
    known = [cost for seed in seeds if (cost := seed["cost"])]
    flops = [[n / 1e6 for c in seed["cells"] if (n := c["flops_per_problem"])] for seed in seeds]
    values: dict[str, list[Any]] = {
        "TFLOP of training": [cost["flops"] / 1e12 for cost in known],
        "minutes of training": [cost["seconds"] / 60 for cost in known],
        "MFLOP of solving a problem": [np.mean(some) for some in flops if some],
    }
    return {name: float(np.mean(some)) if some else None for name, some in values.items()}


def study_figure(evaluations: Mapping[str, Grid]) -> Figure | None:
    """Every seed's share of whole solutions right: by setting, and against what it takes.

    A row for each evaluation: the settings with a bar at the mean of the seeds, operations and
    minutes of training, operations of solving a problem. None where there is no evaluation yet.
    """
    if not evaluations:
        return None
    heights = [1.6 + 0.32 * len(by_name(g)) * len(columns_of(g)) for g in evaluations.values()]
    figure = new_figure(18, sum(heights))
    ratios: dict[str, Any] = {"height_ratios": heights, "width_ratios": (5, 3, 3, 3)}
    rows: Any = figure.subplots(len(heights), 4, squeeze=False, **ratios)
    for (name, grid), (first, *others) in zip(evaluations.items(), rows, strict=True):
        settings, columns = by_name(grid), columns_of(grid)
        for i, column in enumerate(columns):
            style = mark(i)
            for y, seeds in enumerate(settings.values()):
                at, shares = y + (i + 1) / (len(columns) + 1) - 0.5, shares_of(grid, seeds, column)
                values, label = [share.value for share in shares], "" if y else column
                first.plot(values, [at] * len(values), alpha=0.8, ls="", label=label, **style)
                for share in shares:
                    first.plot(share.interval, [at, at], color=style["color"], linewidth=0.8)
                if shares:
                    ends = [at - 0.1, at + 0.1]
                    first.plot([np.mean(values)] * 2, ends, color=style["color"])
        for y in range(len(settings)):
            first.axhline(y - 0.5, color=GRID, linewidth=0.8)
        first.set_yticks(range(len(settings)), list(settings))
        first.set(ylim=(len(settings) - 0.5, -0.5), xlim=(-0.03, 1.03))
        first.set_xlabel("whole solutions right")
        first.xaxis.set_major_formatter(PercentFormatter(1))
        first.legend(fontsize=8, loc="best")
        first.set_title(name, loc="left", fontsize=11)
        for axes, what in zip(others, costs_of(grid.models), strict=True):
            known = [(n, seeds) for seeds in settings.values() if (n := costs_of(seeds)[what])]
            if not known:
                axes.set_axis_off()
                continue
            for (cost, seeds), (i, column) in product(known, enumerate(columns)):
                style = mark(i)
                for share in shares_of(grid, seeds, column):
                    line: Any = {"color": style["color"], "linewidth": 0.8, "alpha": 0.7}
                    axes.vlines(cost, *share.interval, **line)
                    axes.plot([cost], [share.value], markersize=4.5, alpha=0.8, ls="", **style)
            costs = [cost for cost, _ in known]
            if max(costs) > _FAR * min(costs):
                axes.set_xscale("log")
            else:  # costs that are nearly alike stand near each other, not at both ends
                axes.set_xlim(0.9 * min(costs), max(costs) / 0.9)
                axes.locator_params(axis="x", nbins=4)
            axes.set(xlabel=what, ylim=(-0.03, 1.03))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            tidy(axes)
    return figure
