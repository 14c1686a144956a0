"""A study of two axes as maps: one axis down, the other across, a map for each size of problem."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from canvas.picture import INK
from trm.sweeps.report import Gathered

_CELL, _LINE = 0.8, 0.34  # inches of a cell: width and height
_NAMES, _ABOVE, _BELOW = 1.5, 0.7, 1.0  # inches beside, above and below the cells
_DARK = 0.6  # share up to which viridis is dark enough for white figures


def study_maps(evaluations: Mapping[str, Sequence[Gathered]]) -> Figure | None:
    """The mean share of whole solutions right over a setting's seeds, in percent.

    A row of maps for each evaluation, a map for each of its sizes of problem or regions. Colours
    run from dark to light with the share (viridis); every cell tells its number, and of several
    seeds the lowest and the highest.

    Args:
        evaluations: what was found, by name.

    Returns:
        None where nothing is evaluated yet, or the study has another number of axes than two.
    """
    some = {name: settings for name, settings in evaluations.items() if settings}
    if not some or any(len(one.setting.labels) != 2 for held in some.values() for one in held):
        return None
    every = [one for held in some.values() for one in held]
    down, across = (
        list(dict.fromkeys([*one.setting.labels.values()][axis] for one in every))
        for axis in (0, 1)
    )
    columns = max(len(held[0].seeds[0].shares) for held in some.values())
    width = _NAMES + columns * (_CELL * len(across) + 0.2)
    height = len(some) * (_LINE * len(down) + _ABOVE + _BELOW)
    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(len(some), columns, squeeze=False, sharey=True)
    for (name, settings), row in zip(some.items(), panels, strict=True):
        at = {tuple(one.setting.labels.values()): one for one in settings}
        for axes, column in zip(row, settings[0].seeds[0].shares, strict=False):
            values = [[_mean(at.get((y, x)), column) for x in across] for y in down]
            axes.imshow(values, cmap="viridis", vmin=0, vmax=1, aspect="auto")
            axes.set_title(f"{name}\n{column}" if len(some) > 1 else column, fontsize=9, color=INK)
            axes.set_xticks(range(len(across)), across, rotation=45, ha="right", fontsize=8)
            axes.set_yticks(range(len(down)), down, fontsize=8)
            _write(axes, [[at.get((y, x)) for x in across] for y in down], column)
        for axes in row[len(settings[0].seeds[0].shares) :]:
            axes.set_axis_off()
    return figure


def _mean(one: Gathered | None, column: str) -> float:
    shares = one.shares(column) if one else []
    return sum(share.value for share in shares) / len(shares) if shares else float("nan")


def _write(axes: Axes, cells: Sequence[Sequence[Gathered | None]], column: str) -> None:
    """Write each cell's mean in percent, and the lowest and highest seed below it."""
    for y, line in enumerate(cells):
        for x, one in enumerate(line):
            values = [100 * share.value for share in one.shares(column)] if one else []
            if not values:
                axes.text(x, y, "–", ha="center", va="center", fontsize=8, color=INK)
                continue
            mean = sum(values) / len(values)
            colour = "white" if mean < 100 * _DARK else "black"
            middle: Any = {"ha": "center", "va": "center", "color": colour}
            several = len(values) > 1
            axes.text(x, y - 0.14 * several, f"{mean:.1f}", fontsize=9, **middle)
            if several:
                axes.text(x, y + 0.27, f"{min(values):.0f}–{max(values):.0f}", fontsize=6, **middle)
