"""A study of two axes as maps: one axis down, the other across, a map for each size of problem."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from canvas.picture import INK
from trm.sweeps.plan import Planned
from trm.sweeps.report import Gathered, has_map

_CELL_WIDTH, _CELL_HEIGHT = 0.8, 0.34  # inches
_NAMES, _GAP, _ABOVE, _BELOW = 1.5, 0.2, 0.7, 1.0  # inches around the cells of a map
_LARGEST = 150.0  # inches of the whole figure, either way
_DARK = 60  # percent up to which viridis is dark enough for white figures

Cells = Mapping[tuple[str, str], Sequence[float]]  # labels of both axes to seeds, in percent


def study_maps(
    settings: Sequence[Planned], evaluations: Mapping[str, Sequence[Gathered]]
) -> Figure | None:
    """The mean share of whole solutions right over a setting's seeds, in percent.

    A row of maps for each evaluation, a map for each of its sizes of problem or regions. Colours
    run from dark to light with the share (viridis); every cell shows its mean and, with several
    seeds, the lowest and the highest.

    Args:
        settings: all of the study; they give the axes their order.
        evaluations: what was found, by name.

    Returns:
        None where nothing is evaluated yet, or the study has another number of axes than two.
    """
    some = {name: held for name, held in evaluations.items() if held}
    if not some or not has_map(settings):
        return None
    down, across = (
        list(dict.fromkeys([*one.labels.values()][axis] for one in settings)) for axis in (0, 1)
    )
    columns = {name: list(held[0].seeds[0].shares) for name, held in some.items()}
    most = max(map(len, columns.values()))
    width = _NAMES + most * (_CELL_WIDTH * len(across) + _GAP)
    height = len(some) * (_CELL_HEIGHT * len(down) + _ABOVE + _BELOW)
    size = (min(width, _LARGEST), min(height, _LARGEST))
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(len(some), most, squeeze=False, sharey=True)
    for (name, held), row in zip(some.items(), panels, strict=True):
        for axes, column in zip(row, columns[name], strict=False):
            _draw(axes, down, across, _cells(held, column))
            axes.set_title(f"{name}\n{column}" if len(some) > 1 else column, fontsize=9, color=INK)
        for axes in row[len(columns[name]) :]:
            axes.set_axis_off()
    if any(len(one.seeds) > 1 for held in some.values() for one in held):
        figure.supxlabel(
            "mean of the seeds in percent; below it the lowest and highest", fontsize=8
        )
    return figure


def _cells(settings: Sequence[Gathered], column: str) -> Cells:
    found = {}
    for one in settings:
        if values := [100 * share.value for share in one.shares(column)]:
            y, x = one.setting.labels.values()
            found[y, x] = values
    return found


def _draw(axes: Axes, down: Sequence[str], across: Sequence[str], cells: Cells) -> None:
    means = {where: sum(values) / len(values) for where, values in cells.items()}
    shown = [[means.get((y, x), float("nan")) for x in across] for y in down]
    axes.imshow(shown, cmap="viridis", vmin=0, vmax=100, aspect="auto")
    axes.set_xticks(range(len(across)), across, rotation=45, ha="right", fontsize=8)
    axes.set_yticks(range(len(down)), down, fontsize=8)
    middle: Any = {"ha": "center", "va": "center"}
    for row, y in enumerate(down):
        for column, x in enumerate(across):
            values = cells.get((y, x))
            if values is None:
                axes.text(column, row, "–", fontsize=8, color=INK, **middle)
                continue
            several, colour = len(values) > 1, "white" if means[y, x] < _DARK else "black"
            above = row - 0.14 * several
            axes.text(column, above, f"{means[y, x]:.1f}", fontsize=9, color=colour, **middle)
            if several:
                spread = f"{min(values):.0f}–{max(values):.0f}"
                axes.text(column, row + 0.27, spread, fontsize=6, color=colour, **middle)
