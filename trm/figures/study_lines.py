"""A study with an axis of numbers as lines: accuracy against depth, say, a line for each width."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, exp, frexp, log
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator, PercentFormatter

from canvas.picture import GRID, INK
from trm.evaluation.statistics import Share
from trm.figures.grids import mark
from trm.sweeps.plan import Planned
from trm.sweeps.report import Gathered, numeric_axis

_WIDTH, _HEIGHT = 3.4, 2.8  # inches of a panel
_LETTER, _SAMPLE, _NAME = 0.075, 0.7, 0.21  # inches of the legend: width, and height of a name
_LARGEST = 150.0  # inches of the whole figure, either way
_ACROSS = 4  # panels up to which an evaluation has one row of them
_FAR = 10  # times the least value, from which on values are drawn on a logarithmic scale
_SPREAD = 0.3  # of the smallest step along the axis, over which the lines are spread
_STROKES = ("-", "--", ":", "-.")  # of lines whose colour is another one's, too


def study_lines(
    settings: Sequence[Planned], evaluations: Mapping[str, Sequence[Gathered]]
) -> Figure | None:
    """The share of whole solutions right against a number that the study varies.

    A panel for each size of problem or region of each evaluation; in it a line for each combination
    of the other axes. A mark is a seed, the bar through it its Wilson interval; lines go through
    the means of the seeds, and stand a little apart so that none hides another. The axis is
    logarithmic where its values are powers of two, or far apart.

    Args:
        settings: all of the study.
        evaluations: what was found, by name.

    Returns:
        None where nothing is evaluated yet, or no axis of the study has numbers as its values.
    """
    some = {name: held for name, held in evaluations.items() if held}
    axis, values = numeric_axis(settings)
    if not some or axis is None:
        return None
    styles = _styles(list(dict.fromkeys(_others(one, axis) for one in settings)))
    rows = [
        [(name, column) for column in part]
        for name, held in some.items()
        for part in _in_rows(list(held[0].seeds[0].shares))
    ]
    across = max(map(len, rows))
    legend = _SAMPLE + _LETTER * max(map(len, styles)) if len(styles) > 1 else 0.0
    width = min(across * _WIDTH + legend, _LARGEST)
    height = min(max(len(rows) * _HEIGHT, _NAME * (len(styles) + 3)), _LARGEST)
    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(len(rows), across, squeeze=False)
    scale = _Scale(sorted(set(values.values())), len(styles))
    for row, drawn in zip(panels, rows, strict=True):
        for axes, (name, column) in zip(row, drawn, strict=False):
            for i, (line, style) in enumerate(styles.items()):
                found = {
                    scale.place(values[one.setting.name], i): shares
                    for one in some[name]
                    if _others(one.setting, axis) == line and (shares := one.shares(column))
                }
                _draw(axes, dict(sorted(found.items())), style)
            scale.number(axes)
            title = f"{name}: {column}" if len(some) > 1 else column
            axes.set_title(title, fontsize=10, loc="left", color=INK)
        for axes in row[len(drawn) :]:
            axes.set_axis_off()
    figure.supxlabel(axis.rpartition(".")[2].replace("_", " "), fontsize=10)
    figure.supylabel("whole solutions right", fontsize=10)
    if legend:
        handles = [Line2D([], [], label=line, **style) for line, style in styles.items()]
        figure.legend(handles=handles, loc="outside right upper", fontsize=9, frameon=False)
    return figure


def _others(setting: Planned, axis: str) -> str:
    """The values of all axes but one, which are what a line is called."""
    return ", ".join(label for name, label in setting.labels.items() if name != axis)


def _styles(lines: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour, a shape of marks and a stroke for each line."""
    marks = {line: mark(i) for i, line in enumerate(lines)}
    colours = [one["color"] for one in marks.values()]
    return {
        line: style | {"linestyle": _STROKES[colours[:i].count(style["color"]) % len(_STROKES)]}
        for i, (line, style) in enumerate(marks.items())
    }


def _in_rows(columns: Sequence[str]) -> list[Sequence[str]]:
    """The panels of an evaluation, in rows of about the same length."""
    across = ceil(len(columns) / ceil(len(columns) / _ACROSS))
    return [columns[start : start + across] for start in range(0, len(columns), across)]


class _Scale:
    """Where the values of the axis stand, and the lines around each of them."""

    def __init__(self, values: Sequence[float], lines: int) -> None:
        least, most = values[0], values[-1]
        self._values, self._lines = values, lines
        halves = least > 0 and all(frexp(value)[0] == 0.5 for value in values)
        self._base = 2 if halves else 10 if least > 0 and most >= _FAR * least else None
        self._step = min(b - a for a, b in pairwise(map(self._along, values)))

    def _along(self, value: float) -> float:
        return log(value) if self._base else value

    def _at(self, along: float) -> float:
        return exp(along) if self._base else along

    def place(self, value: float, line: int) -> float:
        """Where a line's mark stands: beside those of other lines at the same value."""
        beside = _SPREAD * ((line + 0.5) / self._lines - 0.5)
        return self._at(self._along(value) + beside * self._step)

    def number(self, axes: Axes) -> None:
        """Limits and ticks."""
        if self._base:
            axes.set_xscale("log", base=self._base)
        ends = (self._along(self._values[0]), self._along(self._values[-1]))
        margin = max(0.05 * (ends[1] - ends[0]), _SPREAD * self._step)
        axes.set_xlim(self._at(ends[0] - margin), self._at(ends[1] + margin))
        axes.set_xticks(self._values, [f"{value:g}" for value in self._values])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.tick_params(labelsize=9)
        axes.grid(color=GRID, linewidth=0.5)
        axes.set_axisbelow(True)


def _draw(axes: Axes, found: Mapping[float, Sequence[Share]], style: dict[str, Any]) -> None:
    """A line, and the marks of its seeds; places on the axis to the shares there."""
    means = [sum(share.value for share in shares) / len(shares) for shares in found.values()]
    axes.plot(list(found), means, linewidth=1.4, **(style | {"marker": ""}))
    marks: Any = style | {"linestyle": "", "markersize": 4.5, "alpha": 0.8}
    for place, shares in found.items():
        for share in shares:
            axes.vlines(place, *share.interval, color=style["color"], linewidth=0.8, alpha=0.7)
        axes.plot([place] * len(shares), [share.value for share in shares], **marks)
