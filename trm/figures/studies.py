"""What came out of a study: by setting, as lines, and as maps.

A mark is a seed, the line through it its Wilson interval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from canvas.picture import GRID
from trm.evaluation.statistics import Share
from trm.figures.style import COLOURS, LINES, colours, draw_table, mark, new_figure, tidy


@dataclass(frozen=True)
class Found:
    """What an evaluation found of one run; None: not known."""

    shares: dict[str, Share]  # of whole solutions right, by cell or region
    cost: dict[str, float] | None = None  # flops, samples and seconds of training
    loss: float | None = None  # of the checkpoint on validation, where losses are equal
    flops: float | None = None  # of solving a problem, the mean of the cells


@dataclass(frozen=True)
class Gathered:
    """What an evaluation found of one setting: its name, its label on each axis, and its seeds."""

    name: str
    labels: dict[str, str]
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


def _evaluated(evaluations: Evaluations) -> dict[str, Sequence[Gathered]]:
    return {name: settings for name, settings in evaluations.items() if settings}


def _columns(settings: Sequence[Gathered]) -> list[str]:
    return list(settings[0].seeds[0].shares)


def _mean(shares: Sequence[Share]) -> float:
    return sum(share.value for share in shares) / len(shares)


def study_figure(evaluations: Evaluations) -> Figure | None:
    """Every seed's share of whole solutions right, by setting, with a bar at the mean of the seeds.

    A panel for each evaluation. None where there is none yet.
    """
    some = _evaluated(evaluations)
    if not some:
        return None
    heights = [1.6 + 0.32 * len(held) * len(_columns(held)) for held in some.values()]
    figure = new_figure(9, sum(heights))
    panels = figure.subplots(len(some), 1, squeeze=False, height_ratios=heights)[:, 0]
    for (name, settings), axes in zip(some.items(), panels, strict=True):
        columns = _columns(settings)
        for y, one in enumerate(settings):
            for i, column in enumerate(columns):
                at, style = y + (i + 1) / (len(columns) + 1) - 0.5, mark(i)
                label, shares = "" if y else column, one.shares(column)
                values = [share.value for share in shares]
                axes.plot(values, [at] * len(values), alpha=0.8, ls="", label=label, **style)
                for share in shares:
                    axes.plot(share.interval, [at, at], color=style["color"], linewidth=0.8)
                if shares:
                    ends = [at - 0.1, at + 0.1]
                    axes.plot([_mean(shares)] * 2, ends, color=style["color"])
            axes.axhline(y - 0.5, color=GRID, linewidth=0.8)
        axes.set_yticks(range(len(settings)), [one.name for one in settings])
        axes.set(ylim=(len(settings) - 0.5, -0.5), xlim=(-0.03, 1.03))
        axes.set_xlabel("whole solutions right")
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.legend(fontsize=8, loc="best")
        axes.set_title(name, loc="left", fontsize=11)
    return figure


def _seeds(axes: Axes, shares: Mapping[float, list[Share]], color: str, marker: str) -> None:
    """A mark for each seed at each place, the line through it its interval."""
    for x, some in shares.items():
        for share in some:
            axes.vlines(x, *share.interval, color=color, linewidth=0.8, alpha=0.7)
        values = [share.value for share in some]
        axes.plot([x] * len(some), values, marker, color=color, markersize=4.5, alpha=0.8)


def study_lines(evaluations: Evaluations, axis: str, values: Mapping[str, float]) -> Figure | None:
    """The share of whole solutions right against a number that the study varies.

    A panel for each size of problem or region of each evaluation; in it a line for each combination
    of the other axes, through the means of the seeds, a little beside the others so that none hides
    another. The values, those of each setting by name, stand evenly apart.
    """
    some = _evaluated(evaluations)
    panels = [(name, column) for name, held in some.items() for column in _columns(held)]
    if not panels:
        return None
    lines: dict[str, dict[str, list[Gathered]]] = {}  # by the other axes, then by evaluation
    for name, held in some.items():
        for one in sorted(held, key=lambda one: values[one.name]):
            other = ", ".join(label for of, label in one.labels.items() if of != axis)
            lines.setdefault(other, {}).setdefault(name, []).append(one)
    # Strokes tell lines of one colour apart.
    styles = [mark(i) | {"linestyle": LINES[i // len(COLOURS) % 4]} for i in range(len(lines))]
    ticks = sorted(set(values.values()))
    across = min(4, ceil(len(panels) / ceil(len(panels) / 4)))
    down = ceil(len(panels) / across)
    size = across * 3.4 + 0.1 * max(map(len, lines)), max(down * 2.8, 0.21 * len(lines))
    figure = new_figure(*size)
    grid: Any = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, (name, column) in zip(grid.flat, panels, strict=False):
        for i, (by_name, style) in enumerate(zip(lines.values(), styles, strict=True)):
            aside = 0.3 * ((i + 0.5) / len(lines) - 0.5)
            drawn = {
                ticks.index(values[one.name]) + aside: shares
                for one in by_name.get(name, ())
                if (shares := one.shares(column))
            }
            means = [_mean(shares) for shares in drawn.values()]
            axes.plot(list(drawn), means, linewidth=1.4, **style | {"marker": ""})
            _seeds(axes, drawn, style["color"], style["marker"])
        axes.set_xticks(range(len(ticks)), [f"{value:g}" for value in ticks])
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        tidy(axes)
        title = f"{name}: {column}" if len(some) > 1 else column
        axes.set_title(title, fontsize=10, loc="left")
    figure.supxlabel(axis.rpartition(".")[2].replace("_", " "), fontsize=10)
    figure.supylabel("whole solutions right", fontsize=10)
    if len(lines) > 1:
        drawn_as = zip(lines, styles, strict=True)
        handles = [Line2D([], [], label=line, **style) for line, style in drawn_as]
        figure.legend(handles=handles, loc="outside right upper", fontsize=9, frameon=False)
    return figure


def study_maps(evaluations: Evaluations) -> Figure | None:
    """The mean share of whole solutions right over a setting's seeds, in percent, of two axes.

    A row of maps for each evaluation, a map for each of its sizes of problem or regions, the first
    axis down, the second across; every cell shows its mean and, with several seeds, the lowest and
    the highest. None where nothing is evaluated yet.
    """
    some = _evaluated(evaluations)
    if not some:
        return None
    labels = [[*one.labels.values()] for held in some.values() for one in held]
    down, across = (list(dict.fromkeys(pair[axis] for pair in labels)) for axis in (0, 1))
    most = max(len(_columns(held)) for held in some.values())
    several = any(len(one.seeds) > 1 for held in some.values() for one in held)
    note = "mean of the seeds in percent; below it the lowest and highest" if several else ""
    width = 1.5 + most * (0.8 * len(across) + 0.2)
    figure = new_figure(width, len(some) * (0.34 * len(down) + 1.7), note=note)
    panels: Any = figure.subplots(len(some), most, squeeze=False, sharey=True)
    for (name, held), row in zip(some.items(), panels, strict=True):
        columns = _columns(held)
        for axes in row[len(columns) :]:
            axes.set_axis_off()
        for axes, column in zip(row, columns, strict=False):
            means = np.full((len(down), len(across)), np.nan)
            texts = np.full(means.shape, "", dtype=object)
            for one in held:
                if shares := one.shares(column):
                    first, second = one.labels.values()
                    at, mean = (down.index(first), across.index(second)), 100 * _mean(shares)
                    ends = [f"{100 * of(share.value for share in shares):.0f}" for of in (min, max)]
                    texts[at] = f"{mean:.1f}" + (f"\n{'–'.join(ends)}" if shares[1:] else "")
                    means[at] = mean
            draw_table(axes, means, texts, down, across, colours("viridis"), above=False)
            axes.tick_params(axis="x", rotation=45)
            axes.set_title(f"{name}\n{column}" if len(some) > 1 else column, fontsize=9)
    return figure
