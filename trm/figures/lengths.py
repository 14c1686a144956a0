"""Accuracy against length."""

from textwrap import fill
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from canvas.picture import INK
from trm.evaluation.grid import FIGURES, Grid, Model, cells_of, pooled
from trm.evaluation.names import by_setting
from trm.evaluation.statistics import Share
from trm.figures.style import mark, new_figure, tidy


def lengths_figure(grid: Grid, figure_of: str = "solutions") -> Figure:
    """The share that is right against the digits of the operands.

    Of two operands both have that length, where a grid has several such cells; elsewhere the
    longest has it, and all its cells are pooled. A line for each setting: the mean of its seeds, in
    a band from the lowest to the highest; of one seed in a band of Wilson's 95 % interval. Dotted:
    the longest of training.
    """
    pairs = {key for model in grid.models for key in cells_of(model) if key[0] == key[1]}
    alike = grid.axes == ("digits_a", "digits_b") and len(pairs) > 1
    notes = f"{grid.problems_asked}. Bands: of several seeds from the lowest to the highest, of "
    notes += "one the Wilson 95\u00a0% interval. Dotted: the longest of training. "
    notes += " ".join(grid.caveats)
    figure = new_figure(9, 5.6, note=fill(notes, 135))
    axes, every = figure.subplots(), set[int]()
    for i, (name, models) in enumerate(by_setting(grid.models).items()):
        style, seeds = mark(i), [_by_length(grid, model, figure_of, alike) for model in models]
        x = [n for n in seeds[0] if all(n in seed for seed in seeds)]
        values = [[100 * seed[n].value for seed in seeds] for n in x]
        ends = [(min(some), max(some)) for some in values]
        if len(models) == 1:
            ends = [(100 * low, 100 * high) for low, high in (seeds[0][n].interval for n in x)]
        label = f"{name}, mean of {len(models)} seeds" if len(models) > 1 else name
        axes.plot(x, [sum(some) / len(some) for some in values], label=label, zorder=3, **style)
        low, high = zip(*ends, strict=True) if ends else ((), ())
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
        every |= set(x)
        ranges = (models[0]["ranges"] or {}).items()
        if longest := [most for axis, (_, most) in ranges if axis.startswith("digits")]:
            most = min(longest) if alike else max(longest)
            axes.axvline(most, color=style["color"], linestyle=":", linewidth=1.2)
    lengths = sorted(every)
    if lengths and lengths[-1] > 2 * len(lengths):  # a few sizes far apart
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(lengths, [str(n) for n in lengths])
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    what = "digits of each operand" if alike else "digits of the longest operand, pooled"
    axes.set(ylim=(-2, 102), xlabel=what, ylabel="right, %")
    tidy(axes)
    axes.set_title(FIGURES[figure_of], loc="left", weight="bold", fontsize=12, color=INK)
    axes.legend(frameon=False, fontsize=9, loc="best")
    return figure


def _by_length(grid: Grid, model: Model, figure_of: str, alike: bool) -> dict[int, Share]:
    """What is right of the problems of each length, from short to long; of families together."""
    cells: dict[int, list[dict[str, Any]]] = {}
    for size, cell in cells_of(model).items():
        sizes = zip(grid.axes, size, strict=True)
        length = max(int(n) for axis, n in sizes if axis.startswith("digits"))
        if not alike or size[0] == size[1]:
            cells.setdefault(length, []).append(cell)
    found = {n: pooled(some, figure_of) for n, some in sorted(cells.items())}
    return {n: right for n, right in found.items() if right.total}
