"""Canvases for people: as text, in a terminal, as PNG and as animated GIF.

Right, wrong, given and masked cells are told apart by colour (Okabe & Ito's palette, readable by
colour-blind people) and again without it: a wrong cell is framed, with the right symbol on a dark
tag in its corner, and a masked cell holds a dot. Drawn with Pillow and its built-in font.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.text import Text

from canvas.symbols import BLANK, CHARACTERS, MASK, TIMES, decode

PAPER = "#FFFFFF"
INK = "#1A1A1A"
GRID = "#D4D4D4"
GIVEN = "#F0F0F0"
MASKED, MASK_DOT = "#BDBDBD", "#6B6B6B"
FILLED, FILLED_INK = "#C6E2F4", "#00507E"
WRONG, WRONG_INK = "#FBE3CF", "#C04F00"
HIGHLIGHT = "#0072B2"


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
) -> Text:
    """The canvas for a terminal, as rich text; `.plain` is the same without colour.

    Wrong cells stand in brackets and reverse video, and their row ends with what it should be.

    Args:
        canvas: `uint8 [H, W]`.
        truth: `uint8 [H, W]`, the right canvas.
        given: `bool [H, W]`, the cells that were given and not filled in.
        highlight_row: the row being filled, marked with an arrow.
        confidence: one probability per row, written beside it; NaN for none.

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
        text.append("▶ " if i == highlight_row else "  ", style="bold blue")
        for j, symbol in enumerate(row):
            if wrong[i, j]:
                text.append(f"[{_for_people(symbol)}]", style="bold reverse yellow")
            elif symbol in (BLANK, MASK):
                text.append(" · " if symbol == BLANK else " ░ ", style="dim")
            else:
                text.append(f" {_for_people(symbol)} ", style="" if given[i, j] else "bold blue")
        if confidence is not None and np.isfinite(confidence[i]):
            text.append(f"  {confidence[i]:4.0%}")
        if truth is not None and wrong[i].any():
            text.append(f"  should be {decode(truth[i])}", style="yellow")
        text.append("\n" if i + 1 < len(canvas) else "")
    return text


def to_image(
    canvas: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
    cell: int = 24,
) -> Image.Image:
    """Draw the canvas on a grid, RGB.

    Given cells are grey, cells filled in rightly blue, wrong ones orange and framed, with the
    right symbol on a tag in the corner (empty where blank is right, or below 20 pixels).
    Without `truth` and `given` nothing is judged and all cells are plain.

    Args:
        canvas: `uint8 [H, W]`.
        truth: `uint8 [H, W]`, the right canvas.
        given: `bool [H, W]`, the cells that were given and not filled in; these are not judged.
        highlight_row: the row being filled, framed and pointed at.
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
    image = Image.new("RGB", (width * cell + 2 * margin + 1, height * cell + 2 * margin + 1), PAPER)
    draw = ImageDraw.Draw(image)
    for (i, j), symbol in np.ndenumerate(canvas):
        left, top = margin + j * cell, margin + i * cell
        box = (left, top, left + cell, top + cell)
        if symbol == MASK:
            draw.rectangle(box, fill=MASKED, outline=GRID)
            _draw_dot(draw, box)
        elif symbol == BLANK:
            draw.rectangle(box, outline=GRID)
        else:
            fill = FILLED if not given[i, j] else PAPER if plain else GIVEN
            draw.rectangle(box, fill=fill, outline=GRID)
            _draw_symbol(draw, box, int(symbol), INK if given[i, j] else FILLED_INK)
    if truth is not None:  # after the others, whose fill would cover the frames
        for i, j in np.argwhere(wrong).tolist():
            left, top = margin + j * cell, margin + i * cell
            box = (left, top, left + cell, top + cell)
            _draw_wrong(draw, box, int(canvas[i, j]), int(truth[i, j]))
    if highlight_row is not None:
        _draw_highlight(draw, margin, margin + highlight_row * cell, width * cell, cell)
    return image


def save_png(
    path: str | Path,
    canvas: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
    cell: int = 24,
) -> None:
    """Write `to_image` of the same arguments as a PNG file."""
    image = to_image(canvas, truth=truth, given=given, highlight_row=highlight_row, cell=cell)
    image.save(path, format="PNG", optimize=True)


def save_gif(
    path: str | Path,
    frames: Sequence[np.ndarray],
    *,
    truths: Sequence[np.ndarray] | None = None,
    given: np.ndarray | None = None,
    highlight_rows: Sequence[int | None] | None = None,
    seconds_per_frame: float = 0.6,
    hold_last: float = 2.0,
    cell: int = 24,
) -> None:
    """Write canvases as an animation that loops for ever.

    Args:
        path: the GIF file.
        frames: canvases `uint8 [H, W]` of one shape.
        truths: the right canvas for each frame. What is below a highlighted row is yet to come,
            and not compared.
        given: `bool [H, W]`, for all frames.
        highlight_rows: the row to point at in each frame.
        seconds_per_frame: how long each frame stays.
        hold_last: how long the last one stays, in seconds.
        cell: the side of a cell in pixels.

    Raises:
        ValueError: no frames, not one truth or row per frame, or as in `to_image`.
    """
    if not len(frames):
        raise ValueError("an animation needs at least one frame")
    for name, values in (("truths", truths), ("highlight_rows", highlight_rows)):
        if values is not None and len(values) != len(frames):
            raise ValueError(f"{len(values)} {name} for {len(frames)} frames; give one per frame")
    if len({np.shape(frame) for frame in frames}) > 1:
        raise ValueError("all frames of an animation must have the same height and width")
    images = []
    for i, frame in enumerate(frames):
        row = None if highlight_rows is None else highlight_rows[i]
        truth = None if truths is None else truths[i]
        if truth is not None and row is not None:
            to_come = np.arange(len(frame))[:, None] > row
            truth = np.where(to_come, frame, truth)
        image = to_image(frame, truth=truth, given=given, highlight_row=row, cell=cell)
        images.append(image.quantize(64, dither=Image.Dither.NONE))
    milliseconds = [round(1000 * seconds_per_frame)] * (len(images) - 1) + [round(1000 * hold_last)]
    images[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=milliseconds,
        loop=0,
        optimize=False,
    )


Box = tuple[int, int, int, int]


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def _for_people(symbol: int) -> str:
    return "×" if symbol == TIMES else CHARACTERS[symbol]


def _draw_symbol(
    draw: ImageDraw.ImageDraw, box: Box, symbol: int, ink: str, size: float = 0.66
) -> None:
    """A symbol in the middle of a box, `size` cells high."""
    left, top, right, bottom = box
    x, y, cell = (left + right) / 2, (top + bottom) / 2, bottom - top
    if symbol == TIMES:  # the built-in font has no multiplication sign
        arm = 0.25 * size * cell
        for slope in (-1, 1):
            ends = (x - arm, y - slope * arm, x + arm, y + slope * arm)
            draw.line(ends, fill=ink, width=max(1, round(cell / 18)))
        return
    # Centred on the height of a digit, or digits and other symbols would sit on different lines.
    font = _font(max(8, round(size * cell)))
    digit = font.getbbox("0", anchor="ls")
    baseline = y - (digit[1] + digit[3]) / 2
    draw.text((x, baseline), CHARACTERS[symbol], font=font, fill=ink, anchor="ms")


def _draw_dot(draw: ImageDraw.ImageDraw, box: Box) -> None:
    x, y, radius = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, (box[2] - box[0]) / 12
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=MASK_DOT)


def _draw_wrong(draw: ImageDraw.ImageDraw, box: Box, symbol: int, right_symbol: int) -> None:
    """A framed cell: what stands there, and what should stand there on a tag in the corner."""
    left, top, right, bottom = box
    cell = bottom - top
    draw.rectangle(box, fill=WRONG, outline=WRONG_INK, width=max(2, round(cell / 14)))
    if symbol != BLANK:
        aside, down = cell // 7, cell // 10
        beside = (left - aside, top + down, right - aside, bottom + down)
        _draw_symbol(draw, beside, symbol, INK, size=0.6)
    tag = (right - round(0.48 * cell), top, right, top + round(0.48 * cell))
    draw.rectangle(tag, fill=WRONG_INK)
    if right_symbol != BLANK and cell >= 20:
        _draw_symbol(draw, tag, right_symbol, PAPER, size=0.92)


def _draw_highlight(draw: ImageDraw.ImageDraw, left: int, top: int, width: int, cell: int) -> None:
    """A frame around a row and an arrow head in the left margin."""
    stroke = max(2, round(cell / 12))
    half = stroke // 2
    box = (left - half, top - half, left + width + half, top + cell + half)
    draw.rectangle(box, outline=HIGHLIGHT, width=stroke)
    middle, reach = top + cell / 2, cell / 5
    tip = left - stroke
    draw.polygon(
        [(tip - reach, middle - reach), (tip, middle), (tip - reach, middle + reach)],
        fill=HIGHLIGHT,
    )


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
