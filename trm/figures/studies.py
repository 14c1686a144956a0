"""What came out of a study: by setting, and by what it took.

A mark is a seed, the line through it its Wilson interval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from canvas.picture import GRID
from trm.evaluation.statistics import Share
from trm.figures.style import mark, new_figure, tidy


@dataclass(frozen=True)
class Found:
    """What an evaluation found of one run; None: not known."""

    shares: dict[str, Share]  # of whole solutions right, by cell or region
    cost: dict[str, float] | None = None  # flops, samples and seconds of training
    loss: float | None = None  # of the checkpoint on validation, where losses are equal
    flops: float | None = None  # of solving a problem, the mean of the cells


@dataclass(frozen=True)
class Gathered:
    """What an evaluation found of one setting: its name, and its seeds."""

    name: str
    parameters: int
    seeds: tuple[Found, ...]

    def shares(self, column: str) -> list[Share]:
        """Of the seeds that were asked something there."""
        return [share for seed in self.seeds if (share := seed.shares[column]).total]

    def mean(self, what: Callable[[Found], Any]) -> float | None:
        """The mean of a figure over the seeds of which it is known."""
        known = [value for seed in self.seeds if (value := what(seed)) is not None]
        return sum(known) / len(known) if known else None


Evaluations = Mapping[str, Sequence[Gathered]]  # what was found, by name

_COSTS: tuple[tuple[str, Callable[[Found], Any]], ...] = (
    ("TFLOP of training", lambda one: one.cost and one.cost["flops"] / 1e12),
    ("minutes of training", lambda one: one.cost and one.cost["seconds"] / 60),
    ("MFLOP of solving a problem", lambda one: one.flops and one.flops / 1e6),
)
_FAR = 4  # times the least cost, from which on costs are drawn on a logarithmic scale


def study_figure(evaluations: Evaluations) -> Figure | None:
    """Every seed's share of whole solutions right: by setting, and against what it takes.

    A row for each evaluation: the settings with a bar at the mean of the seeds, operations and
    minutes of training, operations of solving a problem. None where there is none yet.
    """
    some = {name: settings for name, settings in evaluations.items() if settings}
    if not some:
        return None
    shown = {name: list(settings[0].seeds[0].shares) for name, settings in some.items()}
    heights = [1.6 + 0.32 * len(some[name]) * len(columns) for name, columns in shown.items()]
    figure = new_figure(18, sum(heights))
    ratios: dict[str, Any] = {"height_ratios": heights, "width_ratios": (5, 3, 3, 3)}
    rows: Any = figure.subplots(len(some), 4, squeeze=False, **ratios)
    for (name, settings), (first, *others) in zip(some.items(), rows, strict=True):
        columns = shown[name]
        for y, one in enumerate(settings):
            for i, column in enumerate(columns):
                at, style = y + (i + 1) / (len(columns) + 1) - 0.5, mark(i)
                label, shares = "" if y else column, one.shares(column)
                values = [share.value for share in shares]
                first.plot(values, [at] * len(values), alpha=0.8, ls="", label=label, **style)
                for share in shares:
                    first.plot(share.interval, [at, at], color=style["color"], linewidth=0.8)
                if shares:
                    ends = [at - 0.1, at + 0.1]
                    first.plot([np.mean(values)] * 2, ends, color=style["color"])
            first.axhline(y - 0.5, color=GRID, linewidth=0.8)
        first.set_yticks(range(len(settings)), [one.name for one in settings])
        first.set(ylim=(len(settings) - 0.5, -0.5), xlim=(-0.03, 1.03))
        first.set_xlabel("whole solutions right")
        first.xaxis.set_major_formatter(PercentFormatter(1))
        first.legend(fontsize=8, loc="best")
        first.set_title(name, loc="left", fontsize=11)
        for axes, (what, cost) in zip(others, _COSTS, strict=True):
            known = [(one, n) for one in settings if (n := one.mean(cost))]
            if known:
                _against(axes, known, columns)
                axes.set_xlabel(what)
            else:
                axes.set_axis_off()
    return figure


def _against(
    axes: Axes, settings: Sequence[tuple[Gathered, float]], columns: Sequence[str]
) -> None:
    """Shares against a cost of the settings of which it is known."""
    for i, column in enumerate(columns):
        style = mark(i)
        for one, cost in settings:
            for share in one.shares(column):
                axes.vlines(cost, *share.interval, color=style["color"], linewidth=0.8, alpha=0.7)
                axes.plot([cost], [share.value], markersize=4.5, alpha=0.8, ls="", **style)
    costs = [cost for _, cost in settings]
    if max(costs) > _FAR * min(costs):
        axes.set_xscale("log")
    else:  # costs that are nearly alike stand near each other, not at both ends
        axes.set_xlim(0.9 * min(costs), max(costs) / 0.9)
        axes.locator_params(axis="x", nbins=4)
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    tidy(axes)
