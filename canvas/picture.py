"""Pictures of canvases: as text, in a terminal, and drawn with matplotlib as PNG, SVG or GIF.

Cells are distinguished by colour (Okabe & Ito's palette), and without colour, too. An incorrect
cell is framed, with the correct symbol on a tag. A masked cell contains a square. A cell of the
answer is dark. matplotlib is imported by the functions that draw, so text in a terminal does not
wait for it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from canvas.layouts import CellIndex
from canvas.symbols import ALL_CHARACTERS, BLANK, MASK, TIMES, decode

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path as Outline

PAPER, INK, GREY = "#FFFFFF", "#1A1A1A", "#595959"
PALE = "#D4D4D4"
GIVEN = "#F0F0F0"
MASKED, MASK_INK = "#D9D9D9", "#6B6B6B"
FILLED, FILLED_INK = "#C6E2F4", "#00507E"
WRONG, WRONG_INK = "#FBE3CF", "#C04F00"
HIGHLIGHT = READ = "#0072B2"
POINTER = "►"
CELL = 24  # pixels of a cell by default
DPI = 100

_SIGNS = {TIMES: "×", MASK: "■", BLANK: ""}
_MOST_PIXELS = 2**26


def for_people(symbol: int) -> str:
    """Return the sign of a symbol in pictures and in the terminal; a blank has none."""
    return _SIGNS.get(symbol, ALL_CHARACTERS[symbol])


def to_text(canvas: np.ndarray) -> str:
    """Return a canvas, uint8 [H, W], as text with one line a row."""
    return "\n".join(decode(row) for row in canvas)


def to_terminal(
    canvas: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
    confidence: Sequence[float] | None = None,
    read: Sequence[CellIndex] = (),
) -> Text:
    """Return the canvas for a terminal, as rich text; `.plain` is the same without colour.

    Incorrect cells are in brackets, and the correct row is below theirs, without given cells.

    Args:
        canvas: uint8 [H, W].
        truth: uint8 [H, W], the correct symbols; None: nothing is compared.
        given: bool [H, W], cells that are not compared.
        highlight_row: the row being filled in, with an arrow beside it.
        confidence: of each row, printed beside it; NaN: none.
        read: cells of the answer, which are underlined.
    """
    wrong, given = _judged(canvas, truth, given)
    text, read_cells = Text(), set(read)
    for i, row in enumerate(canvas):
        text.append(f"{POINTER} " if i == highlight_row else "  ", style="bold blue")
        for j, symbol in enumerate(row):
            style, sign = "" if given[i, j] else "bold blue", for_people(symbol) or "·"
            if wrong[i, j]:
                text.append(f"[{sign}]", style="bold reverse yellow")
            elif (i, j) in read_cells and symbol not in (BLANK, MASK):
                text.append(" ").append(sign, f"{style} underline").append(" ")
            else:
                text.append(f" {sign} ", style="dim" if symbol in (BLANK, MASK) else style)
        if confidence is not None and np.isfinite(confidence[i]):
            text.append(f"  {confidence[i]:4.0%}")
        if truth is not None and wrong[i].any():
            text.append("\n  ")
            for symbol, skipped in zip(truth[i], given[i], strict=True):
                sign = " " if skipped else for_people(symbol) or "·"
                text.append(f" {sign} ", style="yellow")
            text.append("  ↑ should be", style="yellow")
        text.append("\n" if i + 1 < len(canvas) else "")
    return text


def draw_canvas(
    axes: "Axes",
    canvas: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    given: np.ndarray | None = None,
    highlight_row: int | None = None,
    read: Sequence[CellIndex] = (),
) -> None:
    """Draw a canvas on axes, see `draw_cells`.

    Args:
        axes: to draw on.
        canvas: uint8 [H, W].
        truth: uint8 [H, W], the correct symbols. Correct cells are blue, incorrect ones orange and
            framed. Without ``truth`` and ``given`` all cells are plain.
        given: bool [H, W], cells that are not compared. They are grey.
        highlight_row: a row that is framed.
        read: cells of the answer. They are dark.
    """
    plain = truth is None and given is None
    wrong, given = _judged(canvas, truth, given)
    fills = np.where(given, PAPER if plain else GIVEN, FILLED)
    fills[canvas == BLANK] = PAPER
    fills[canvas == MASK] = MASKED
    fills[wrong] = WRONG
    inks = np.where(given | wrong, INK, FILLED_INK)
    inks[canvas == MASK] = MASK_INK
    for cell in read:
        fills[cell], inks[cell] = READ, PAPER
    signs = np.array([for_people(symbol) for symbol in range(len(ALL_CHARACTERS))])
    right = None if truth is None else signs[truth]
    draw_cells(axes, signs[canvas], fills, inks, wrong=wrong, right=right, row=highlight_row)


def draw_cells(
    axes: "Axes",
    signs: np.ndarray,
    fills: np.ndarray,
    inks: np.ndarray,
    *,
    wrong: np.ndarray | None = None,
    right: np.ndarray | None = None,
    row: int | None = None,
) -> None:
    """Draw a grid of cells with a sign each; ticks and frame of the axes are removed.

    The centre of cell (i, j) is at x = j, y = i. The margin around the grid is half a cell wide.

    Args:
        axes: to draw on.
        signs: str [H, W], text of each cell.
        fills: str [H, W], background colours.
        inks: str [H, W], text colours.
        wrong: bool [H, W], incorrect cells, which are framed.
        right: str [H, W], correct signs, on a tag in the corner of incorrect cells.
        row: a row that is framed, with an arrow beside it.
    """
    from matplotlib.patches import Rectangle
    from matplotlib.path import Path as Outline

    def put(signs: np.ndarray, where: np.ndarray, inks: np.ndarray, size: float, *at: Any) -> None:
        here = where & (signs != "")
        _stamp(axes, [_outline(sign) for sign in signs[here]], here, inks[here], size, *at)

    height, width = signs.shape
    axes.set(xlim=(-1, width), ylim=(height, -1), aspect="equal")
    axes.set_axis_off()
    square = [Outline.unit_rectangle().transformed(_moved(-0.5, -0.5))]
    everywhere = np.ones(signs.shape, dtype=bool)
    wrong = ~everywhere if wrong is None else wrong
    _stamp(axes, square, everywhere, fills[everywhere], edgecolors=PALE, linewidths=0.7)
    put(signs, ~wrong, inks, 0.66)
    if wrong.any():
        corner = (0.26, -0.26)
        frame: dict[str, Any] = {"edgecolors": WRONG_INK, "linewidths": 1.6}
        _stamp(axes, square, wrong, fills[wrong], 0.95, **frame)
        put(signs, wrong, inks, 0.58, (-0.13, 0.1))
        _stamp(axes, square, wrong, WRONG_INK, 0.48, corner)
        if right is not None:
            put(right, wrong, np.full(signs.shape, PAPER), 0.4, corner)
    if row is not None:
        outline = Rectangle((-0.5, row - 0.5), width, 1, fill=False, color=HIGHLIGHT, linewidth=1.5)
        axes.add_patch(outline)
        here = np.arange(height) == row
        _stamp(axes, [_outline(POINTER)], here[:, None], HIGHLIGHT, 0.45, (-0.78, 0))


def _moved(right: float, down: float, scale: float = 1) -> Any:
    from matplotlib.transforms import Affine2D

    return Affine2D().scale(scale).translate(right, down)


def _stamp(
    axes: "Axes",
    outlines: list["Outline"],
    where: np.ndarray,
    colours: np.ndarray | str,
    size: float = 1,
    shift: tuple[float, float] = (0, 0),
    **style: Any,
) -> None:
    """Draw an outline in each of the cells, bool [H, W], or one in all; faster than texts."""
    from matplotlib.collections import PathCollection

    places = (np.argwhere(where)[:, ::-1] + shift).tolist()
    outlines = outlines if len(outlines) == len(places) else outlines * len(places)
    cells = zip(outlines, places, strict=True)
    paths = [outline.transformed(_moved(x, y, size)) for outline, (x, y) in cells]
    stamps = PathCollection(paths, facecolors=colours, **({"linewidths": 0} | style))
    axes.add_collection(stamps, autolim=False)


@lru_cache(maxsize=256)
def _outline(sign: str) -> "Outline":
    """Return the outline of a sign in a font of size 1, centred at the origin, y downwards."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    # DejaVu Sans comes with matplotlib and has all signs; its digits are 0.73 high.
    path = TextPath((0, 0), sign, size=1, prop=FontProperties(family="DejaVu Sans"))
    box, size = path.get_extents(), 0.6 if sign == _SIGNS[MASK] else 1
    return path.transformed(_moved(-(box.x0 + box.x1) / 2, -0.365).scale(size, -size))


def to_figure(canvas: np.ndarray, **options: Any) -> "Figure":
    """Return a figure of a canvas, with the options of `draw_canvas`."""
    height, width = canvas.shape
    figure = blank_figure((width + 1) * CELL, (height + 1) * CELL)
    draw_canvas(figure.add_axes((0, 0, 1, 1)), canvas, **options)
    return figure


def blank_figure(width: int, height: int) -> "Figure":
    """Return an empty figure of a size in pixels, without pyplot's global state.

    Raises:
        ValueError: the figure is too large.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if width * height > _MOST_PIXELS:
        raise ValueError(
            f"a picture of {width:,} x {height:,} pixels is too large: draw smaller cells or a "
            "smaller canvas"
        )
    # matplotlib rounds a size in inches down to whole pixels: 0.1 keeps rounding errors out.
    figure = Figure(((width + 0.1) / DPI, (height + 0.1) / DPI), DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def pixels(figure: "Figure") -> np.ndarray:
    """Return a figure as an image, uint8 [height, width, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    agg = FigureCanvasAgg(figure)
    agg.draw()
    return np.asarray(agg.buffer_rgba())[:, :, :3].copy()


def to_svg(figure: "Figure") -> str:
    """Return a figure as an SVG element, for a web page or a notebook."""
    import matplotlib

    buffer = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "canvas"}):  # the same ids every time
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save_gif(path: str | Path, frames: Iterable[tuple["Figure", float]]) -> None:
    """Write an endless animation.

    Args:
        path: of the GIF file.
        frames: figures of one size, each with the number of seconds for which it stays.
    """
    from PIL import Image

    images, durations = [], []
    for figure, seconds in frames:
        images.append(Image.fromarray(pixels(figure)).quantize(dither=Image.Dither.NONE))
        durations.append(round(1000 * seconds))
    first, *rest = images
    first.save(path, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _judged(
    canvas: np.ndarray, truth: np.ndarray | None, given: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return incorrect cells and given cells, bool [H, W] each."""
    if given is None:
        given = np.full(canvas.shape, truth is None)
    return (canvas != (canvas if truth is None else truth)) & (canvas != MASK) & ~given, given
