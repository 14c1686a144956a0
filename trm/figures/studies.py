"""What came out of a study, setting by setting, and what it took."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
)

from canvas.picture import GRID, INK
from trm.figures.grids import mark
from trm.sweeps.report import Gathered

_COSTS: tuple[tuple[str, float, Callable[[Gathered], float | None]], ...] = (
    ("TFLOP of training", 1e12, lambda one: one.cost("flops")),
    ("minutes of training", 60, lambda one: one.cost("seconds")),
    ("MFLOP of solving a problem", 1e6, lambda one: one.flops),
    ("ms of solving a problem, by the clock", 1e-3, lambda one: one.seconds),
)
_LINE, _HIGHEST = 0.32, 150.0  # inches of a setting, and of all
_WIDE = 4  # times the least cost, from which on costs are drawn on a logarithmic scale
_LEAST = 0.9  # times the least cost, where an even scale begins


def study_figure(evaluations: Mapping[str, Sequence[Gathered]]) -> Figure | None:
    """Every seed's share of whole solutions right: by setting, and against what it takes.

    A row for each evaluation: the settings, operations and minutes of training, operations and
    time of solving a problem. A mark is a seed, the line through it its Wilson interval, a bar the
    mean of a setting's.

    Args:
        evaluations: what was found, by name.

    Returns:
        None where nothing is evaluated yet.
    """
    some = {name: settings for name, settings in evaluations.items() if settings}
    if not some:
        return None
    heights = [1.6 + _LINE * len(held) * len(_columns(held)) for held in some.values()]
    figure = Figure(figsize=(22, min(sum(heights), _HIGHEST)), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    rows: Any = figure.subplots(
        len(some), 5, squeeze=False, height_ratios=heights, width_ratios=(5, 3, 3, 3, 3)
    )
    for (name, settings), (first, *others) in zip(some.items(), rows, strict=True):
        _by_setting(first, settings)
        for axes, (what, unit, cost) in zip(others, _COSTS, strict=True):
            known = [(one, n / unit) for one in settings if (n := cost(one))]
            _against(axes, known, what)
        first.set_title(name, loc="left", fontsize=11, color=INK)
    return figure


def _columns(settings: Sequence[Gathered]) -> list[str]:
    return list(settings[0].seeds[0].shares)


def _by_setting(axes: Axes, settings: Sequence[Gathered]) -> None:
    columns = _columns(settings)
    for place, one in enumerate(settings):
        for i, column in enumerate(columns):
            y = place + (i + 1) / (len(columns) + 1) - 0.5
            shares = one.shares(column)
            values = [share.value for share in shares]
            label = column if place == 0 else None
            axes.plot(values, [y] * len(values), linestyle="", label=label, alpha=0.8, **mark(i))
            for share in shares:
                axes.plot(share.interval, [y, y], color=mark(i)["color"], linewidth=0.8)
            if values:
                mean = sum(values) / len(values)
                axes.plot([mean] * 2, [y - 0.1, y + 0.1], color=mark(i)["color"])
        if place:
            axes.axhline(place - 0.5, color=GRID, linewidth=0.8)
    axes.set_yticks(range(len(settings)), [one.setting.name for one in settings])
    axes.set_ylim(len(settings) - 0.5, -0.5)
    axes.set_xlim(-0.03, 1.03)
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("whole solutions right")
    axes.legend(fontsize=8, loc="best")


def _against(axes: Axes, settings: Sequence[tuple[Gathered, float]], what: str) -> None:
    """Shares against a cost of the settings of which it is known."""
    if not settings:
        axes.set_axis_off()
        return
    for i, column in enumerate(_columns([one for one, _ in settings])):
        for one, cost in settings:
            shares = one.shares(column)
            values = [share.value for share in shares]
            axes.plot([cost] * len(values), values, linestyle="", alpha=0.8, **mark(i))
            for share in shares:
                axes.plot([cost] * 2, share.interval, color=mark(i)["color"], linewidth=0.8)
    costs = [cost for _, cost in settings]
    if max(costs) > _WIDE * min(costs):
        axes.set_xscale("log")
        # Plain figures at 1, 2 and 5: over less than a few decades the usual ones run together.
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        # Costs that are nearly alike stand near each other, not at both ends.
        axes.set_xlim(_LEAST * min(costs), max(costs) / _LEAST)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 6))
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel(what)
    axes.grid(color=GRID, linewidth=0.5)
