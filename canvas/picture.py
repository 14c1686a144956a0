"""Canvases for people: as text, in a terminal, and as shapes for PNG, SVG and GIF.

Right, wrong, given and masked cells are distinguished by colour (Okabe & Ito's palette, readable by
colour-blind people) and again without it: a wrong cell is framed, with the right symbol on a dark
tag in its corner, a masked cell holds a small square, and a cell that is read off is dark.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image
from rich.text import Text

from canvas.layouts import CellIndex
from canvas.shapes import INK, PAPER, Box, Label, Shape, Sketch
from canvas.symbols import BLANK, CHARACTERS, MASK, TIMES, decode

GRID = "#D4D4D4"
GIVEN = "#F0F0F0"
MASKED, MASK_INK = "#D9D9D9", "#6B6B6B"
FILLED, FILLED_INK = "#C6E2F4", "#00507E"
WRONG, WRONG_INK = "#FBE3CF", "#C04F00"
HIGHLIGHT = READ = "#0072B2"
POINTER = "►"
CELL = 24  # pixels of a cell by default


_SIGNS = {TIMES: "×", MASK: "■", BLANK: ""}


def to_text(canvas: np.ndarray, *, blank: str = "_", frame: bool = False) -> str:
    """One line of text per canvas row.

    Args:
        canvas: `uint8 [H, W]`.
        blank: the character for a blank cell, `"_"` as in the vocabulary or `" "` or `"·"`.
        frame: draw a box around the canvas.

    Raises:
        ValueError: not a two-dimensional array of symbol ids.
    """
    canvas = _checked(canvas)
    lines = [decode(row).replace(CHARACTERS[BLANK], blank) for row in canvas]
    if frame:
        edge = "─" * canvas.shape[1]
        lines = [f"┌{edge}┐", *(f"│{line}│" for line in lines), f"└{edge}┘"]
    return "\n".join(lines)


def to_terminal(
    canvas: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
    confidence: Sequence[float] | None = None,
    read: Sequence[CellIndex] = (),
) -> Text:
    """The canvas for a terminal, as rich text; `.plain` is the same without colour.

    Wrong cells stand in brackets and reverse video; below their row is what it should be, without
    the cells that were given.

    Args:
        canvas: `uint8 [H, W]`.
        truth: `uint8 [H, W]`, the right canvas.
        given: `bool [H, W]`, the cells that were given and not filled in.
        highlight_row: the row being filled, marked with an arrow.
        confidence: one probability per row, written beside it; NaN for none.
        read: cells that are read off, underlined.

    Raises:
        ValueError: shapes that differ, ids outside the vocabulary, a row off the canvas.
    """
    canvas = _checked(canvas, truth, given, highlight_row)
    if confidence is not None and len(confidence) != len(canvas):
        raise ValueError(f"{len(confidence)} confidences for {len(canvas)} rows; give one per row")
    wrong = _wrong(canvas, truth, given)
    if given is None:
        given = np.full(canvas.shape, truth is None)
    text = Text()
    for i, row in enumerate(canvas):
        text.append(f"{POINTER} " if i == highlight_row else "  ", style="bold blue")
        for j, symbol in enumerate(row):
            style = "" if given[i, j] else "bold blue"
            if wrong[i, j]:
                text.append(f"[{for_people(symbol) or '·'}]", style="bold reverse yellow")
            elif symbol in (BLANK, MASK):
                text.append(f" {for_people(symbol) or '·'} ", style="dim")
            elif (i, j) in read:
                text.append(" ").append(for_people(symbol), f"{style} underline").append(" ")
            else:
                text.append(f" {for_people(symbol)} ", style=style)
        if confidence is not None and np.isfinite(confidence[i]):
            text.append(f"  {confidence[i]:4.0%}")
        if truth is not None and wrong[i].any():
            text.append("\n  ")
            for symbol, shown in zip(truth[i], given[i], strict=True):
                sign = " " if shown else for_people(symbol) or "·"
                text.append(f" {sign} ", style="yellow")
            text.append("  ↑ should be", style="yellow")
        text.append("\n" if i + 1 < len(canvas) else "")
    return text


def to_sketch(
    canvas: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
    read: Sequence[CellIndex] = (),
    cell: int = CELL,
) -> Sketch:
    """The canvas on a grid, as shapes.

    Given cells are grey, cells filled in rightly blue, wrong ones orange and framed, with the
    right symbol on a tag in the corner (empty where blank is right, or below 20 pixels).
    Without `truth` and `given` nothing is judged and all cells are plain.

    Args:
        canvas: `uint8 [H, W]`.
        truth: `uint8 [H, W]`, the right canvas.
        given: `bool [H, W]`, the cells that were given and not filled in; these are not judged.
        highlight_row: the row being filled, framed and pointed at.
        read: cells that are read off, dark.
        cell: the side of a cell in pixels.

    Raises:
        ValueError: shapes that differ, ids outside the vocabulary, a row off the canvas, or cells
            of fewer than 12 pixels.
    """
    canvas = _checked(canvas, truth, given, highlight_row)
    if cell < 12:
        raise ValueError(f"a cell of {cell} pixels is too small to read; give 12 or more")
    height, width = canvas.shape
    wrong = _wrong(canvas, truth, given)
    plain = truth is None and given is None
    if given is None:
        given = np.full(canvas.shape, plain)
    margin = cell // 2
    shapes: list[Shape] = []
    for (i, j), symbol in np.ndenumerate(canvas):
        box = _cell_box(i, j, cell)
        fill, ink = (PAPER if plain else GIVEN, INK) if given[i, j] else (FILLED, FILLED_INK)
        if (i, j) in read:
            fill, ink = READ, PAPER
        elif symbol in (BLANK, MASK):
            fill = MASKED if symbol == MASK else PAPER
        shapes.append(replace(box, fill=fill, border=GRID))
        if not wrong[i, j]:
            shapes += _symbol(box, int(symbol), MASK_INK if symbol == MASK else ink)
    if truth is not None:  # after the others, whose fill would cover the frames
        for i, j in np.argwhere(wrong).tolist():
            box = _cell_box(i, j, cell)
            shapes += _wrong_cell(box, int(canvas[i, j]), int(truth[i, j]), (i, j) in read)
    if highlight_row is not None:
        stroke = max(2, round(cell / 12))
        half, top = stroke // 2, margin + highlight_row * cell
        right, bottom = margin + width * cell + half, top + cell + half
        frame = Box(margin - half, top - half, right, bottom, None, HIGHLIGHT, stroke)
        point = Label(margin - stroke, top + cell / 2, POINTER, 0.4 * cell, HIGHLIGHT, "end")
        shapes += [frame, point]
    edges = 2 * margin + 1
    return Sketch(width * cell + edges, height * cell + edges, tuple(shapes))


def to_image(
    canvas: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
    cell: int = CELL,
) -> Image.Image:
    """`to_sketch` of the same arguments, drawn, RGB."""
    sketch = to_sketch(canvas, truth=truth, given=given, highlight_row=highlight_row, cell=cell)
    return sketch.image()


def for_people(symbol: int) -> str:
    """The sign that stands for a symbol in pictures and in the terminal; a blank has none."""
    return _SIGNS.get(symbol, CHARACTERS[symbol])


def _cell_box(row: int, column: int, cell: int) -> Box:
    left, top = cell // 2 + column * cell, cell // 2 + row * cell
    return Box(left, top, left + cell, top + cell)


def _symbol(box: Box, symbol: int, ink: str, size: float = 0.66) -> list[Label]:
    """A symbol in the middle of a box, its font ``size`` boxes high."""
    if symbol == BLANK:
        return []
    x, y, side = (box.left + box.right) / 2, (box.top + box.bottom) / 2, box.bottom - box.top
    size *= 0.6 if symbol == MASK else 1
    return [Label(x, y, for_people(symbol), max(8, round(size * side)), ink)]


def _wrong_cell(box: Box, symbol: int, right_symbol: int, read: bool) -> list[Shape]:
    """A framed cell: what stands there, and what should stand there on a tag in the corner."""
    side = box.bottom - box.top
    frame = max(2, round(side / 14))
    fill, ink = (READ, PAPER) if read else (WRONG, INK)
    reach = round(0.48 * side)
    tag = Box(box.right - reach, box.top, box.right, box.top + reach, WRONG_INK)
    shapes: list[Shape] = [replace(box, fill=fill, border=WRONG_INK, stroke=frame)]
    shapes += _symbol(box.moved(-(side // 7), side // 10), symbol, ink, size=0.58)
    shapes.append(tag)
    if side >= 20:
        shapes += _symbol(tag, right_symbol, PAPER, size=0.85)
    return shapes


def _wrong(canvas: np.ndarray, truth: np.ndarray | None, given: np.ndarray | None) -> np.ndarray:
    """The cells filled in with another symbol than the truth's, `bool [H, W]`."""
    if truth is None:
        return np.zeros(canvas.shape, dtype=bool)
    wrong = (canvas != truth) & (canvas != MASK)
    return wrong if given is None else wrong & ~given


def _checked(
    canvas: np.ndarray,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
) -> np.ndarray:
    """The canvas, after refusing arguments that do not fit together."""
    canvas = np.asarray(canvas)
    if canvas.ndim != 2 or canvas.size == 0 or canvas.dtype.kind not in "ui":
        raise ValueError(
            f"a canvas to draw is uint8 [H, W], got {canvas.dtype} {list(canvas.shape)}"
        )
    for name, array in (("truth", truth), ("given", given)):
        if array is not None and np.shape(array) != canvas.shape:
            raise ValueError(
                f"{name} must have the canvas's shape {list(canvas.shape)}, "
                f"got {list(np.shape(array))}"
            )
    if given is not None and np.asarray(given).dtype != np.bool_:
        raise ValueError(f"given must be bool, got {np.asarray(given).dtype}")
    if highlight_row is not None and not 0 <= highlight_row < len(canvas):
        raise ValueError(f"row {highlight_row} is not on a canvas of {len(canvas)} rows")
    for array in (canvas, truth):
        if array is not None:
            decode(np.ravel(array))
    return canvas
