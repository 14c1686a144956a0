"""Figures of what goes on inside a recursive model: attention over the canvas, changes of states.

Drawn with matplotlib's `Figure` on the Agg canvas, without pyplot and its global state.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from canvas.picture import GRID, HIGHLIGHT, INK, PAPER, for_people
from canvas.symbols import BLANK, MASK
from trm.figures.sheet import DPI, Sheet

_WIDTH = 1000  # pixels of a figure
_CELL = (8, 22)  # pixels of a cell, fewest and most
_WRITTEN = 14  # pixels of a cell that has room for its symbol
_SIGN = 0.75  # a symbol's font in its cell
_SEEN = 0.05  # an attention weight that is worth a row at the edge of the canvas
_ACROSS = (4, 3)  # maps in a line
_EDGE, _GAP, _HEAD, _LAYER, _BAR = 16, 14, 50, 44, 70  # pixels, see `attention_figure`
_COLOURS = matplotlib.colormaps["Blues"]
_LINES = ("-", "--", ":", "-.")
_MOST_NAMES = 16  # rows in a legend; of more, a scale


def attention_figure(
    canvas: np.ndarray,
    cell: tuple[int, int],
    maps: np.ndarray,
    names: Sequence[str],
    title: str,
    captions: Sequence[Sequence[str]] | None = None,
    across: Sequence[int] = _ACROSS,
) -> Figure:
    """What a cell looks at: a map over the canvas for each head, in a block for each layer.

    Symbols are written where they can be read, on canvases of up to some 20 columns. Rows at the
    edges that are blank and not looked at are left out.

    Args:
        canvas: ``uint8 [H, W]``, what the model saw.
        cell: row and column of the cell, framed in every map.
        maps: ``float [L, heads, H, W]``, attention weights.
        names: what each of the L blocks is.
        title: of the figure.
        captions: of the maps of each block; None: head 1, head 2, …
        across: how many maps may stand in a line; the first number with which symbols can be read.
    """
    used = np.flatnonzero((canvas != BLANK).any(axis=1) | (maps >= _SEEN).any(axis=(0, 1, 3)))
    rows = slice(used[0], used[-1] + 1)
    canvas, maps, cell = canvas[rows], maps[:, :, rows], (cell[0] - rows.start, cell[1])
    layers, heads, height, width = maps.shape
    room = {n: (_WIDTH - _EDGE - _BAR) // n - _GAP for n in across}
    beside = next((n for n in across if room[n] // width >= _WRITTEN), across[0])
    side = min(_CELL[1], max(_CELL[0], room[beside] // width))
    beside = min(beside, heads)
    wide, high = side * width, side * height
    lines = -(-heads // beside)
    block = _LAYER + lines * (high + _LAYER // 2)
    total = (_EDGE + beside * (wide + _GAP) + _BAR, _HEAD + layers * block + _EDGE)
    sheet = Sheet(*total)
    scale = Normalize(0, 1)

    sheet.write(_EDGE, 22, title, fontsize=11, weight="bold")
    for layer, name in enumerate(names):
        top = _HEAD + layer * block
        sheet.write(_EDGE, top + 10, name, fontsize=11, weight="bold", color=HIGHLIGHT)
        for head in range(heads):
            line, column = divmod(head, beside)
            x, y = _EDGE + column * (wide + _GAP), top + _LAYER + line * (high + _LAYER // 2)
            caption = captions[layer][head] if captions else f"head {head + 1}"
            sheet.write(x, y - 11, caption, fontsize=9)
            _map(sheet.axes(x, y, wide, high), canvas, cell, maps[layer, head], side)
    x, y, long = total[0] - _BAR + 10, _HEAD + _LAYER, min(240, total[1] - _HEAD - _LAYER - _EDGE)
    bar = sheet.axes(x, y, 12, long)
    sheet.figure.colorbar(ScalarMappable(scale, _COLOURS), cax=bar)
    bar.tick_params(labelsize=8)
    return sheet.figure


def _map(
    axes: Axes, canvas: np.ndarray, cell: tuple[int, int], weights: np.ndarray, side: int
) -> None:
    """One head's weights, with the canvas written on them."""
    axes.imshow(weights, cmap=_COLOURS, norm=Normalize(0, 1), aspect="auto")
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "clip_on": True}
    for (i, j), symbol in np.ndenumerate(canvas) if side >= _WRITTEN else ():
        size = _SIGN * side * 72 / DPI * (0.6 if symbol == MASK else 1)
        colour = PAPER if weights[i, j] > 0.6 else INK
        axes.text(j, i, for_people(int(symbol)), fontsize=size, color=colour, **style)
    frame = (cell[1] - 0.5, cell[0] - 0.5)
    axes.add_patch(Rectangle(frame, 1, 1, fill=False, edgecolor="#D55E00", linewidth=2))
    axes.set(xticks=[], yticks=[])


def changes_figure(changes: dict[str, np.ndarray], names: Sequence[str], title: str) -> Figure:
    """How far the states went in each of their updates, on a logarithmic scale.

    Args:
        changes: by the state's name, ``float [T, C, B]``: T supervision steps of C updates each, a
            curve for each of B rows.
        names: of the rows.
        title: of the figure.
    """
    figure = Figure(figsize=(_WIDTH / DPI, 3.8), dpi=DPI, layout="constrained")
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
    if len(names) <= _MOST_NAMES:  # beside the curves, whose ends it would hide
        handles, labels = all_axes[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=9, frameon=False)
    else:
        rows = ScalarMappable(Normalize(1, len(names)), ListedColormap(colours))
        figure.colorbar(rows, ax=all_axes, label="row", ticks=MaxNLocator(integer=True))
    figure.suptitle(title, fontsize=11, weight="bold", color=HIGHLIGHT)
    return figure
