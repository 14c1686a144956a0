"""Figures of what goes on inside a recursive model: attention over the canvas, changes of states.

Drawn with matplotlib's `Figure` on the Agg canvas, without pyplot and its global state.
"""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from canvas.picture import GRID, HIGHLIGHT
from canvas.symbols import BLANK, CHARACTERS, MASK, TIMES

_DPI = 100
_MAP = 180  # pixels that a map is wide, about
_CELL = (9, 24)  # pixels of a cell, fewest and most
_WRITTEN = 12  # pixels of a cell that has room for its symbol
_COLOURS = matplotlib.colormaps["Blues"]
_LINES = ("-", "--", ":", "-.")
_MOST_NAMES = 12  # rows in a legend


def attention_figure(
    canvas: np.ndarray, cell: tuple[int, int], maps: np.ndarray, names: Sequence[str], title: str
) -> Figure:
    """What a cell looks at: a map over the canvas for each head, a line of them for each layer.

    Args:
        canvas: ``uint8 [H, W]``, what the model saw.
        cell: row and column of the cell, framed in every map.
        maps: ``float [L, heads, H, W]``, attention weights.
        names: what each of the L lines is.
        title: of the figure.
    """
    lines, heads, height, width = maps.shape
    side = min(_CELL[1], max(_CELL[0], _MAP // width))
    wide, high, gap, head, left = side * width, side * height, 12, 58, 96
    total = (left + heads * (wide + gap) + 70, head + lines * (high + gap) + 12)
    figure = Figure(figsize=(total[0] / _DPI, total[1] / _DPI), dpi=_DPI)
    FigureCanvasAgg(figure)
    scale = Normalize(0, 1)
    for line in range(lines):
        bottom = total[1] - head - (line + 1) * high - line * gap
        for number in range(heads):
            x = left + number * (wide + gap)
            box = (x / total[0], bottom / total[1], wide / total[0], high / total[1])
            axes = figure.add_axes(box)
            axes.imshow(maps[line, number], cmap=_COLOURS, norm=scale, aspect="auto")
            if side >= _WRITTEN:
                _write(axes, canvas, maps[line, number], side)
            frame = (cell[1] - 0.5, cell[0] - 0.5)
            axes.add_patch(Rectangle(frame, 1, 1, fill=False, edgecolor="#D55E00", linewidth=2))
            axes.set(xticks=[], yticks=[])
            if not line:
                axes.set_title(f"head {number + 1}", fontsize=9)
        middle = (bottom + high / 2) / total[1]
        figure.text(
            (left - 10) / total[0], middle, names[line], ha="right", va="center", fontsize=9
        )
    figure.text(left / total[0], 1 - 18 / total[1], title, fontsize=11, weight="bold", va="center")
    bar = figure.add_axes(
        ((total[0] - 58) / total[0], 0.25, 12 / total[0], max(0.3, 0.5 - head / total[1]))
    )
    figure.colorbar(matplotlib.cm.ScalarMappable(scale, _COLOURS), cax=bar)
    bar.tick_params(labelsize=8)
    return figure


def _write(axes: Axes, canvas: np.ndarray, weights: np.ndarray, side: int) -> None:
    for (i, j), symbol in np.ndenumerate(canvas):
        if symbol == BLANK:
            continue
        said = {MASK: "·", TIMES: "×"}.get(int(symbol), CHARACTERS[symbol])
        colour = "white" if weights[i, j] > 0.6 else "#404040"
        axes.text(
            j, i, said, ha="center", va="center", fontsize=0.5 * side, color=colour, clip_on=True
        )


def changes_figure(changes: dict[str, np.ndarray], names: Sequence[str], title: str) -> Figure:
    """How far the states went in each of their updates, on a logarithmic scale.

    Args:
        changes: by the state's name, ``float [T, C, B]``: T supervision steps of C updates each, a
            curve for each of B rows.
        names: of the rows.
        title: of the figure.
    """
    figure = Figure(figsize=(5.2 * len(changes), 3.8), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(names)))
    all_axes = np.atleast_1d(figure.subplots(1, len(changes), sharey=True))
    for axes, (state, values) in zip(all_axes, changes.items(), strict=True):
        steps, updates, _ = values.shape
        x = np.arange(1, steps * updates + 1) / updates + 1 - 1 / updates
        for row, name in enumerate(names):
            style = _LINES[row % len(_LINES)]
            curve = values[:, :, row].reshape(-1)
            axes.plot(x, curve, style, color=colours[row], label=name, linewidth=1.4)
        axes.set(yscale="log", xlabel="supervision step", title=f"change of {state} per update")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    all_axes[0].set_ylabel("root mean square (the states have 1)")
    if len(names) <= _MOST_NAMES:
        all_axes[-1].legend(fontsize=8, loc="upper right")
    figure.suptitle(title, fontsize=11, weight="bold", color=HIGHLIGHT)
    return figure
