"""How often a single row is wrong, against the length of the numbers."""

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from canvas.picture import GRID, INK
from trm.evaluation.grid_schema import Model, axes_of, share
from trm.evaluation.statistics import Share

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKS = ("o", "s", "D", "^", "v", "P", "X")


def mark(i: int) -> dict[str, Any]:
    """A colour and a shape, another pair for each of as many things as there are pairs."""
    turn, colour = divmod(i, len(_COLOURS))
    return {"color": _COLOURS[colour], "marker": _MARKS[(colour + turn) % len(_MARKS)]}


def row_errors_figure(grid: dict[str, Any]) -> Figure | None:
    """Wrong rows of problems with operands of one length, each row from the true ones before it.

    With 95 % intervals (Wilson), on a logarithmic scale. Where none was wrong, a hollow mark with
    an arrow stands at the interval's upper end. Dashed: the longest of training.

    Args:
        grid: what `trm evaluate` measured, or several of these side by side.

    Returns:
        None where no cell of the grid has two operands of one length.
    """
    lines = {model["name"]: _wrong(model) for model in grid["models"]}
    if axes_of(grid) != ("digits_a", "digits_b") or not any(lines.values()):
        return None
    figure = Figure(figsize=(9, 5.2), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    ends = []  # of intervals and arrows, below
    lines = {name: wrong for name, wrong in lines.items() if wrong}  # others wrote no rows
    for i, (name, wrong) in enumerate(lines.items()):
        # Models measured at the same lengths would hide one another's intervals.
        apart = 1.02 ** (i - (len(lines) - 1) / 2)
        style = mark(i)
        colour = style["color"]
        some = {n * apart: rows for n, rows in wrong.items() if rows.right}
        shares = [rows.value for rows in some.values()]
        axes.plot(list(some), shares, label=name, linewidth=1, **style)
        for n, rows in some.items():
            axes.vlines(n, *rows.interval, color=colour, linewidth=1.5, alpha=0.6)
            ends.append(rows.interval[0])
        for n, rows in wrong.items():
            if not rows.right:
                top = rows.interval[1]
                ends.append(top / 2)
                axes.plot([n * apart], [top], markerfacecolor="white", linestyle="", **style)
                axes.annotate(
                    "",
                    (n * apart, top / 2),
                    (n * apart, top / 1.15),
                    arrowprops={"arrowstyle": "->", "color": colour},
                )
    longest = {
        min(ends[1] for ends in model["ranges"].values())
        for model in grid["models"]
        if model["ranges"]
    }
    for most in longest:
        axes.axvline(most, color=INK, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=min(ends) / 1.5)
    lengths = sorted({n for wrong in lines.values() for n in wrong})
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set(xlabel="digits of each operand", ylabel="rows wrong, %, each from the true rows above")
    axes.set_title("Hollow, with an arrow: none wrong, upper end of the 95 % interval", fontsize=10)
    axes.legend(frameon=False)
    return figure


def _wrong(model: Model) -> dict[int, Share]:
    """Rows that are wrong, by the length of both operands."""
    found = {}
    for cell in sorted(model["cells"], key=lambda cell: str(cell["row"])):
        right = share(cell, "rows_teacher_forced") if cell["row"] == cell["column"] else None
        if right and right.total:
            found[int(cell["row"])] = Share(right.total - right.right, right.total)
    return dict(sorted(found.items()))
