"""What a model believes of hints, cell by cell, as maps over the canvas: a line for each hint."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from canvas.hints import NONE, ORIENTATION, UNDEFINED
from canvas.layouts import ROW_KINDS
from canvas.picture import (
    FILLED,
    FILLED_INK,
    HIGHLIGHT,
    INK,
    MASKED,
    PAPER,
    WRONG,
    blank_figure,
    draw_cells,
    pixels,
    to_figure,
)
from canvas.symbols import BLANK
from trm.figures.sheet import Sheet
from trm.solving.iteration import right_cells

_CELLS = (14, 22)  # pixels of a cell, fewest and most
_WIDE = 2000  # pixels that all maps of a line are to take; with the smallest cells, more
_EDGE, _GAP = 16, 18  # around the figure, between maps
_TITLE, _NOTE = 30, 20  # above everything, the figure's title and a line of explanation
_NAME, _SHARE = 30, 18  # above the maps of a hint its name, above each map how much is right
_LEAST = 760  # pixels that the title and the explanation need
_ROW_KIND = "row_kind"  # the hint whose classes are kinds of rows, the others' are numbers
_GREY = "#595959"


def class_sign(hint: str, chosen: int) -> str:
    """The sign of a class on a map: a number, or the letter of a kind of row; none of `NONE`."""
    if hint == ORIENTATION and chosen != UNDEFINED:
        return str(chosen)  # in the order of the symmetries, as drawn being 0
    if chosen in (NONE, UNDEFINED):
        return ""
    if hint == _ROW_KIND and chosen <= len(ROW_KINDS):
        return ROW_KINDS[chosen - 1][0]
    return str(chosen - 1)


def hints_figure(
    canvas: np.ndarray,
    row: int,
    truth: dict[str, np.ndarray],
    believed: dict[str, np.ndarray],
    names: Sequence[str],
    title: str,
) -> Figure:
    """Maps of hints over the canvas: what is right, and what a model believes at some points.

    Args:
        canvas: ``uint8 [H, W]``, what the model saw.
        row: of the canvas, the one that it fills in; it is framed in every map.
        truth: of each hint ``uint8 [H, W]``, see `canvas.hints.draw_hints`.
        believed: of each hint ``uint8 [N, H, W]``, see `trm.solving.iteration.likeliest`.
        names: of the N points.
        title: of the figure.
    """
    down, across = _in_use(canvas, row)
    height, width = down.stop - down.start, across.stop - across.start
    maps = 1 + len(names)
    cell = int(np.clip((_WIDE - maps * _GAP) // (maps * width), *_CELLS))
    shown = canvas[down, across]
    seen = pixels(to_figure(shown, highlight_row=row - down.start, cell=cell))
    wide, high = cell * (width + 1), cell * (height + 1)
    block = _NAME + _SHARE + high
    head = _EDGE + _TITLE + _NOTE + seen.shape[0] + _GAP
    size = (
        max(_LEAST, maps * (wide + _GAP) - _GAP) + 2 * _EDGE,
        head + len(truth) * (block + _GAP) + _EDGE,
    )
    sheet = Sheet(*size)
    sheet.write(_EDGE, _EDGE + 8, title, fontsize=11.5, weight="bold")
    note = (
        "white: no such quantity. Grey: not defined, or not read. Framed: wrong, the right class "
        "in the corner"
    )
    sheet.write(_EDGE, _EDGE + _TITLE + 2, note, fontsize=9, color=_GREY)
    sheet.put(_EDGE, _EDGE + _TITLE + _NOTE, seen)
    sheet.write(
        _EDGE + seen.shape[1] + 8,
        _EDGE + _TITLE + _NOTE + seen.shape[0] / 2,
        "what the model sees",
        fontsize=9,
        color=_GREY,
    )
    for line, (name, right) in enumerate(truth.items()):
        top = head + line * (block + _GAP)
        sheet.write(_EDGE, top + 10, name, fontsize=11, weight="bold", color=HIGHLIGHT)
        kinds = ", ".join(f"{kind[0]} {kind}" for kind in _kinds_in(right))
        if name == _ROW_KIND:
            sheet.write(_EDGE + 90, top + 10, kinds, fontsize=9, color=_GREY)
        points = [("right", right), *zip(names, believed[name], strict=True)]
        for column, (point, classes) in enumerate(points):
            x = _EDGE + column * (wide + _GAP)
            good, counted = right_cells(classes, right)
            share = f": {good.sum()} of {counted.sum()}" if column else ""
            sheet.write(x, top + _NAME, f"{point}{share}", fontsize=9)
            part = _map(name, classes[down, across], right[down, across], row - down.start, cell)
            sheet.put(x, top + _NAME + _SHARE - 6, pixels(part))
    return sheet.figure


def _in_use(canvas: np.ndarray, row: int) -> tuple[slice, slice]:
    """The rows and columns with something on them, and one more on each side."""
    used = canvas != BLANK
    used[row] |= not used.any()
    found = []
    for line in (used.any(axis=1), used.any(axis=0)):
        index = np.flatnonzero(line)
        found.append(slice(max(0, index[0] - 1), min(len(line), index[-1] + 2)))
    return found[0], found[1]


def _kinds_in(truth: np.ndarray) -> list[str]:
    kinds = np.unique(truth[(truth != NONE) & (truth != UNDEFINED)])
    return [ROW_KINDS[kind - 1] for kind in kinds.tolist() if kind <= len(ROW_KINDS)]


def _map(name: str, classes: np.ndarray, truth: np.ndarray, row: int, cell: int) -> Figure:
    """A map of classes ``uint8 [h, w]``, the wrong ones marked."""
    unknown = (truth == UNDEFINED) | (classes == UNDEFINED)
    wrong = ~right_cells(classes, truth)[0] & ~unknown
    signs, right = (
        np.array([[class_sign(name, chosen) for chosen in line] for line in part.tolist()])
        for part in (classes, truth)
    )
    fills = np.where(signs == "", PAPER, FILLED)
    fills[unknown], fills[wrong], signs[unknown] = MASKED, WRONG, ""
    inks = np.where(wrong, INK, FILLED_INK)
    figure = blank_figure((classes.shape[1] + 1) * cell, (classes.shape[0] + 1) * cell)
    axes = figure.add_axes((0, 0, 1, 1))
    draw_cells(axes, signs, fills, inks, wrong=wrong, right=right, row=row)
    return figure
