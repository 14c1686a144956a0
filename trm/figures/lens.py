"""The logit lens of a row: what a model would write after each of its layers, line by line."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from canvas.picture import GIVEN, HIGHLIGHT, INK, PAPER, for_people, pixels, to_figure
from trm.figures.sheet import DPI, Sheet

_WIDE = 760  # pixels that the columns of the canvas are to take; with the smallest cells, more
_CELL = (8, 26)  # pixels of a cell, fewest and most
_WRITTEN = 12  # pixels of a cell that has room for its symbol
_LINE = 24  # pixels of a line, at least
_LETTER, _LEAST = 11, 520  # pixels that a letter of the title takes, and the note
_EDGE, _TITLE, _NOTE, _NAMES, _BAR, _GAP = 16, 30, 22, 190, 80, 16
_NAMED = 8  # pixels that a letter of a name takes, at most
_COLOURS = matplotlib.colormaps["Blues"]
_WRONG = "#D55E00"
_GREY = "#595959"


def lens_figure(
    canvas: np.ndarray,
    truth: np.ndarray,
    row: int,
    said: np.ndarray,
    log_probs: np.ndarray,
    names: Sequence[str],
    title: str,
) -> Figure:
    """The row below the canvas, a line for each place in the model, column under column.

    The symbol is the likeliest there, the colour the probability of the true one; wrong symbols are
    framed. Cells of the row that are given are grey.

    Args:
        canvas: ``uint8 [H, W]``, what the model saw.
        truth: ``uint8 [W]``, the row as it should be.
        row: of the canvas, the one that is filled in.
        said: ``uint8 [N, W]``, the likeliest symbols; of givens nothing is shown.
        log_probs: ``float32 [N, W]``, of the true symbols; not a number in cells that are given.
        names: of the N places.
        title: of the figure.
    """
    lines, width = said.shape
    cell = int(np.clip(_WIDE // width, *_CELL))
    line = max(cell, min(_LINE, 2 * cell))
    seen = pixels(to_figure(canvas, highlight_row=row, cell=cell))
    margin = (seen.shape[1] - width * cell) // 2  # around the cells of that picture
    high, wide = (lines + 1) * line, width * cell
    top = _EDGE + _TITLE + _NOTE + seen.shape[0] + _GAP
    left = max(_NAMES, _NAMED * max(map(len, names)) + _GAP)
    across = max(_EDGE + left + wide + _BAR, 2 * _EDGE + max(_LEAST, _LETTER * len(title)))
    sheet = Sheet(across, top + high + _EDGE)
    x = _EDGE + left
    sheet.write(_EDGE, _EDGE + 8, title, fontsize=11.5, weight="bold")
    note = "colour: probability of the true symbol. Framed: another symbol is likelier"
    sheet.write(_EDGE, _EDGE + _TITLE + 2, note, fontsize=9, color=_GREY)
    sheet.write(
        _EDGE, top - _GAP - seen.shape[0] / 2, "what the model sees", fontsize=9, color=_GREY
    )
    sheet.put(x - margin, top - _GAP - seen.shape[0], seen)
    for number, name in enumerate([*names, "true"]):
        bold = {"weight": "bold", "color": HIGHLIGHT} if number == lines else {}
        sheet.write(x - 8, top + (number + 0.5) * line, name, fontsize=9, ha="right", **bold)
    axes = sheet.axes(x, top, wide, high)
    axes.set_facecolor(GIVEN)
    shown = np.vstack([np.exp(log_probs), np.full(width, np.nan)])
    axes.imshow(shown, cmap=_COLOURS, norm=Normalize(0, 1), aspect="auto", interpolation="none")
    counted = ~np.isnan(log_probs)
    for (i, j), symbol in np.ndenumerate(np.vstack([said, truth])):
        last = i == lines
        if not last and not counted[i, j]:
            continue
        if cell >= _WRITTEN:
            ink = PAPER if not last and shown[i, j] > 0.6 else INK
            style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": ink}
            font = 0.7 * min(cell, line) * 72 / DPI
            axes.text(j, i, for_people(int(symbol)), fontsize=font, parse_math=False, **style)
        if not last and symbol != truth[j]:
            frame = Rectangle((j - 0.42, i - 0.42), 0.84, 0.84, fill=False, edgecolor=_WRONG)
            axes.add_patch(frame)
    axes.axhline(lines - 0.5, color=INK, linewidth=1)
    axes.set(xticks=[], yticks=[])
    long = min(240, high)
    bar = sheet.axes(x + wide + 18, top, 12, long)
    sheet.figure.colorbar(ScalarMappable(Normalize(0, 1), _COLOURS), cax=bar)
    bar.tick_params(labelsize=8)
    return sheet.figure
