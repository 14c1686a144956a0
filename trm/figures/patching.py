"""What activation patching changes: maps over the canvas, heads in layers, states after steps."""

from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from canvas.picture import GRID, INK, PAPER, for_people
from trm.figures.sheet import DPI, Sheet
from trm.probing.patching import Patching

_WIDE = 1100  # pixels that maps side by side take at most, unless one alone takes more
_CELL = (8, 26)  # pixels of a cell, fewest and most
_WRITTEN = 12  # pixels of a cell that has room for its symbol
_HEAD = (52, 30)  # pixels of a head, across and down
_EDGE, _TITLE, _NOTE, _NAME, _GAP, _BAR, _NAMES = 16, 30, 20, 22, 18, 90, 150
_COLOURS = matplotlib.colormaps["RdBu_r"]  # red and blue, never green: readable by everyone
_SCALE = Normalize(-1, 1)
_DIFFERENT, _SCORED = "#E69F00", "#1A1A1A"
_LETTER, _LEAST = 11, 780  # pixels that a letter of the title takes, and the notes
_INSET = 0.07  # of a frame, of its cell
_GREY = "#595959"
_NOTES = (
    "effect: 0, A's answer stands; 1, the model says B's as clearly as in the run on B "
    "(normalised logit difference)",
    "framed: A and B differ here; black in the row by which the effect is measured",
)


def patching_figure(found: Patching, names: tuple[str, str], title: str) -> Figure:
    """A map over the canvas for each site, or all heads or supervision steps in one.

    Args:
        found: what was patched.
        names: of A and B.
        title: of the figure.
    """
    in_one = bool(found.things)
    if not in_one:  # rows below that no model reads
        last = int(np.argwhere(~np.isnan(found.effects))[:, 1].max()) + 1
        found = replace(
            found,
            effects=found.effects[:, :last],
            pages=found.pages[:, :last],
            scored=found.scored[:last],
        )
    h, w = found.pages.shape[1:]
    cell = int(np.clip(360 // w, *_CELL))
    down, across = _HEAD[1] * len(found.sites), _HEAD[0] * found.effects.shape[-1]
    high, wide = (down, across) if in_one else (cell * h, cell * w)
    several = 1 if in_one else max(2, _WIDE // (wide + _GAP))
    lines = 1 if in_one else -(-len(found.sites) // several)
    beside = min(several, len(found.sites))
    left = _EDGE + (_NAMES if in_one else 0)
    pages = _EDGE + _TITLE + 2 * _NOTE + _NAME
    top = pages + cell * h + _GAP + _NAME
    size = (
        max(
            2 * _EDGE + _LETTER * len(title),
            left + beside * (wide + _GAP) + _BAR,
            2 * (cell * w + _GAP) + _EDGE,
            _LEAST,
        ),
        top + lines * (high + _NAME + _GAP),
    )
    sheet = Sheet(*size)
    sheet.write(_EDGE, _EDGE + 8, title, fontsize=11.5, weight="bold")
    for number, note in enumerate(_NOTES):
        sheet.write(_EDGE, _EDGE + _TITLE + 2 + number * _NOTE, note, fontsize=9, color=_GREY)
    differ = found.pages[0] != found.pages[1]
    for number, (letter, name) in enumerate(zip("AB", names, strict=True)):
        x = _EDGE + number * (cell * w + _GAP)
        sheet.write(x, pages - 11, f"{letter}: {name}", fontsize=9)
        page = sheet.axes(x, pages, cell * w, cell * h)
        _map(page, found.pages[number], np.zeros((h, w)), cell)
        _frames(page, differ, found.scored)
    if in_one:
        axes = sheet.axes(left, top, wide, high)
        _table(axes, found)
        for number, site in enumerate(found.sites):
            sheet.write(left - 8, top + (number + 0.5) * _HEAD[1], site, fontsize=9, ha="right")
        bar_x = left + wide + _GAP
    else:
        for number, site in enumerate(found.sites):
            line, column = divmod(number, several)
            x, y = left + column * (wide + _GAP), top + line * (high + _NAME + _GAP)
            sheet.write(x, y - 11, site, fontsize=9)
            axes = sheet.axes(x, y, wide, high)
            _map(axes, found.pages[0], found.effects[number], cell)
            _frames(axes, differ, found.scored)
        bar_x = left + beside * (wide + _GAP)
    bar = sheet.axes(bar_x, top, 12, min(200, max(high, 90)))
    sheet.figure.colorbar(
        ScalarMappable(_SCALE, _COLOURS), cax=bar, extend="both", ticks=[-1, 0, 1]
    )
    bar.tick_params(labelsize=8)
    return sheet.figure


def _map(axes: Axes, page: np.ndarray, effects: np.ndarray, cell: int) -> None:
    """Effects ``float [h, w]`` under the page's symbols; grey where there is no token."""
    axes.set_facecolor(GRID)
    axes.imshow(effects, cmap=_COLOURS, norm=_SCALE, aspect="auto", interpolation="none")
    for (i, j), symbol in np.ndenumerate(page) if cell >= _WRITTEN else ():
        ink = PAPER if abs(effects[i, j]) > 0.6 else INK
        style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": ink}
        font = 0.66 * cell * 72 / DPI
        axes.text(j, i, for_people(int(symbol)), fontsize=font, parse_math=False, **style)
    axes.set(xticks=[], yticks=[])


def _table(axes: Axes, found: Patching) -> None:
    """Layers or steps down, heads or tensors of the state across, each with its effect."""
    axes.imshow(found.effects, cmap=_COLOURS, norm=_SCALE, aspect="auto", interpolation="none")
    for (i, j), effect in np.ndenumerate(found.effects):
        ink = PAPER if abs(effect) > 0.6 else INK
        text = f"{effect + 0.0:.2f}".replace("-0.00", "0.00")
        axes.text(j, i, text, ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(found.things)), found.things, fontsize=7.5)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_yticks([])


def _frames(axes: Axes, differ: np.ndarray, scored: np.ndarray) -> None:
    """Frames inside the edges of cells ``bool [h, w]``."""
    for i, j in np.argwhere(differ):
        colour = _SCORED if scored[i, j] else _DIFFERENT
        corner = (j - 0.5 + _INSET, i - 0.5 + _INSET)
        side = 1 - 2 * _INSET
        frame = Rectangle(corner, side, side, fill=False, edgecolor=colour, linewidth=1.8)
        axes.add_patch(frame)
