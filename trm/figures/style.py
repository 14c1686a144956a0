"""Style of all figures: colours, marks, sizes, and tables of coloured cells with texts.

No curve, bar or cell differs from another by its colour alone. Colours are Okabe and Ito's, or maps
of matplotlib's that colour-blind people can read. Figures do not use pyplot and its global state.
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from canvas.picture import DPI, GREY, INK, PALE, PAPER
from trm.io.files import replacing

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
WRONG = COLOURS[1]
HATCHES = ("++++", "....", "////", "\\\\\\\\", "xxxx", "----", "||||")
LINES = ("-", "--", ":", "-.")
_MARKS = ("o", "s", "D", "^", "v", "P", "X")
_SAVED = 150  # dots per inch of a file: sharp on screens with small dots, and in print
_LETTERS = {"title": 0.096, "note": 0.07}  # inches of a letter, on average
_LARGEST = 100.0  # largest side of a figure, in inches


def mark(i: int) -> dict[str, Any]:
    """Return the colour and shape of curve i, a different pair for each until pairs run out."""
    turn, colour = divmod(i, len(COLOURS))
    return {"color": COLOURS[colour], "marker": _MARKS[(colour + turn) % len(_MARKS)]}


def colours(name: str, low: float = 0, high: float = 100) -> ScalarMappable:
    """Return a new colour map between two ends; each figure needs its own, as images change it."""
    return ScalarMappable(Normalize(low, high), matplotlib.colormaps[name])


def new_figure(width: float, height: float, title: str = "", note: str = "") -> Figure:
    """Return a figure of a size in inches, laid out by matplotlib, with a note at the bottom.

    Title and note are wrapped to the width. A title of several lines makes the figure higher.
    """
    title, note = (
        _wrapped(title, width / _LETTERS["title"]),
        _wrapped(note, width / _LETTERS["note"]),
    )
    height += 0.2 * title.count("\n")
    size = min(width, _LARGEST), min(height, _LARGEST)
    figure = Figure(size, DPI, facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=11, weight="bold", color=INK, parse_math=False)
    if note:
        figure.supxlabel(note, x=0.01, ha="left", fontsize=8.5, color=GREY)
    return figure


def panels(figure: Any, number: int, across: int, **layout: Any) -> list[Axes]:
    """Return axes of panels, ``across`` in a line; unused places of the last line stay empty.

    Args:
        figure: a figure, or a part of one.
        number: of the panels.
        across: most panels in a line.
        layout: arguments of `matplotlib.figure.Figure.subplots`.
    """
    down = -(-number // across)
    axes: list[Axes] = figure.subplots(down, across, squeeze=False, **layout).ravel().tolist()
    for unused in axes[number:]:
        unused.set_visible(False)
    return axes[:number]


def _wrapped(text: str, letters: float) -> str:
    """Return a text in lines of at most so many letters; its own lines stay apart."""
    return "\n".join(fill(line, max(20, int(letters))) for line in text.split("\n"))


def save(figure: Figure, file: Path) -> None:
    """Save a figure as PNG, by `trm.io.files.replacing`."""
    with replacing(file) as part:
        figure.savefig(part, format="png", dpi=_SAVED)


def tidy(axes: Axes, grid: str = "both") -> None:
    """Draw a grid behind the curves, and remove the frame above and on the right."""
    axes.grid(axis=grid, color=PALE, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def ink(colour: Any) -> str:
    """Return the ink, dark or light, that is more legible on a colour (RGBA), also in grey."""
    channels = np.asarray(colour)[:3]
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    # WCAG's relative luminance. At 0.2 both have the same contrast; grey prints are darker.
    return INK if linear @ (0.2126, 0.7152, 0.0722) > 0.25 else PAPER


def draw_table(
    axes: Axes,
    values: np.ndarray,
    texts: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    scale: ScalarMappable,
    *,
    small: np.ndarray | None = None,
    size: float = 8,
    above: bool = True,
) -> None:
    """Draw values ``float [R, C]`` as colours, each with a text; column names are above or below.

    ``small`` has a second line for each text; ``size`` is in points.
    """
    axes.imshow(values, cmap=scale.cmap, norm=scale.norm, aspect="auto")  # type: ignore[arg-type]
    for (i, j), text in np.ndenumerate(texts):
        colour = ink(scale.to_rgba(values[i, j]))
        style: dict[str, Any] = {"ha": "center", "va": "center", "color": colour}
        style["in_layout"] = False
        below = "" if small is None else str(small[i, j])
        if text:
            axes.text(j, i - 0.13 * bool(below), text, fontsize=size, **style)
        if below:
            axes.text(j, i + 0.24, below, fontsize=max(6, 0.64 * size), **style)
    axes.set_xticks(range(len(columns)), columns, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8.5)
    axes.tick_params(length=0, top=False, labeltop=above, bottom=False, labelbottom=not above)
