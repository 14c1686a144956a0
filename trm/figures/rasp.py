"""Heads beside the selectors of a program: on one problem, and in figures over many.

Drawn with matplotlib's `Figure` on the Agg canvas, without pyplot and its global state.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from canvas.picture import HIGHLIGHT, INK, PAPER
from trm.figures.introspection import attention_figure
from trm.rasp.language import Selector
from trm.rasp.overlap import Head
from trm.rasp.page import NAMES

_PAIRS = (4, 2)  # maps in a line: two heads with their selectors, or one
_CELL = (0.42, 0.3)  # inches of a cell of the table
_NAMES = (1.9, 2.3)  # inches for the names of heads and of selectors
_SMALL: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8}
_FRAME: dict[str, Any] = {"edgecolor": "#D55E00", "linewidth": 2}
_SEEN = 0.1  # an overlap that makes a selector worth a column
_ORDER = {name: i for i, name in enumerate(NAMES)}
_DARK = 0.6  # from here on a number is written in the colour of the paper


def rasp_figure(
    canvas: np.ndarray,
    cell: tuple[int, int],
    attention: Mapping[str, np.ndarray],
    selectors: Mapping[str, Selector],
    heads: Sequence[Head],
    title: str,
) -> Figure:
    """What one cell selects by the selector that matches a head best, and what the head looks at.

    Args:
        canvas: ``uint8 [H, W]``, what the model saw.
        cell: row and column of the cell, framed in every map.
        attention: by the name of the tensor that is updated, ``float [layers, heads, H * W,
            H * W]``.
        selectors: by name, bool [H * W, H * W] or with one canvas in front.
        heads: of the same model, with figures over many problems.
        title: of the figure.
    """
    height, width = canvas.shape
    query = cell[0] * width + cell[1]
    blocks: dict[str, tuple[list[np.ndarray], list[str]]] = {}
    several = len(attention) > 1
    for head in heads:
        layer = f"layer {head.layer}"
        name = f"{head.update}, {layer}" if several else layer
        maps, captions = blocks.setdefault(name, ([], []))
        best = head.best
        chosen = selectors[best.selector].chosen.reshape(-1, height * width, height * width)
        weights = attention[head.update][head.layer - 1, head.head - 1, query]
        maps += [chosen[0, query].astype(np.float64), weights]
        captions += [f"select {best.selector}", f"head {head.head}: {best.overlap:.2f} on it"]
    pairs = np.array([maps for maps, _ in blocks.values()])
    return attention_figure(
        canvas,
        cell,
        pairs.reshape(*pairs.shape[:2], height, width),
        list(blocks),
        title,
        [captions for _, captions in blocks.values()],
        _PAIRS,
    )


def overlap_figure(heads: Sequence[Head], title: str) -> Figure:
    """A heat map: the attention of each head on what each selector selects, the best one framed.

    Selectors at which no head looks are left out; a star marks those of the program.
    """
    best = {head.best.selector for head in heads}
    told = [
        one
        for one in heads[0].overlaps
        if one.in_program
        or one.selector in best
        or any(head.of(one.selector).overlap >= _SEEN for head in heads)
    ]
    told.sort(key=lambda one: (not one.in_program, _ORDER.get(one.selector, len(_ORDER))))
    names = [one.selector for one in told]
    values = np.array([[head.of(name).overlap for name in names] for head in heads])
    size = _NAMES[0] + _CELL[0] * len(names), _NAMES[1] + _CELL[1] * len(heads)
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(values, cmap=matplotlib.colormaps["Blues"], vmin=0, vmax=1, aspect="auto")
    for (i, j), overlap in np.ndenumerate(values):
        colour = PAPER if overlap > _DARK else INK
        axes.text(j, i, f"{overlap:.2f}"[-3:] if overlap < 0.995 else "1", color=colour, **_SMALL)
    for i, head in enumerate(heads):
        j = names.index(head.best.selector)
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, **_FRAME))
    starred = [f"{one.selector} *" if one.in_program else one.selector for one in told]
    axes.set_xticks(range(len(names)), starred, rotation=60, ha="left", rotation_mode="anchor")
    several = len({head.update for head in heads}) > 1
    axes.set_yticks(range(len(heads)), [head_name(head, several) for head in heads])
    axes.tick_params(
        length=0, labelsize=9, top=False, labeltop=True, bottom=False, labelbottom=False
    )
    figure.suptitle(title, fontsize=10, weight="bold", color=HIGHLIGHT)
    return figure


def head_name(head: Head, several: bool) -> str:
    """Like layer 1, head 3; with the tensor in front where several are updated."""
    place = f"layer {head.layer}, head {head.head}"
    return f"{head.update}, {place}" if several else place
