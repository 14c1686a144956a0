"""What all figures share: colours, marks, sizes, and tables whose cells are coloured and written.

No curve, bar or cell differs from another by its colour alone; colours are Okabe and Ito's, or maps
of matplotlib's that colour-blind people can read. Without pyplot and its global state.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from canvas.picture import DPI, GREY, GRID, INK, PAPER
from trm.files import replacing

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
WRONG = COLOURS[1]
LINES = ("-", "--", ":", "-.")
_MARKS = ("o", "s", "D", "^", "v", "P", "X")
_LARGEST = 150.0  # inches of a figure


def mark(i: int) -> dict[str, Any]:
    """A colour and a shape, another pair for each of as many things as there are pairs."""
    turn, colour = divmod(i, len(COLOURS))
    return {"color": COLOURS[colour], "marker": _MARKS[(colour + turn) % len(_MARKS)]}


def colours(name: str, low: float = 0, high: float = 100) -> ScalarMappable:
    """A map of colours between two ends; each figure takes its own, as images register there."""
    return ScalarMappable(Normalize(low, high), matplotlib.colormaps[name])


def new_figure(width: float, height: float, title: str = "", note: str = "") -> Figure:
    """A figure of so many inches, laid out by matplotlib; a note stands below."""
    size = min(width, _LARGEST), min(height, _LARGEST)
    figure = Figure(size, DPI, facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=11, weight="bold", color=INK, parse_math=False)
    if note:
        figure.supxlabel(note, x=0.01, ha="left", fontsize=8.5, color=GREY)
    return figure


def save(figure: Figure, file: Path) -> None:
    """The figure as PNG, written as `trm.files.replacing` does."""
    with replacing(file) as part:
        figure.savefig(part, format="png")


def tidy(axes: Axes, grid: str = "both") -> None:
    """A grid behind what is drawn, and no frame above and on the right."""
    axes.grid(axis=grid, color=GRID, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def ink(colour: Any) -> str:
    """Dark or light, whichever reads better on a colour (RGBA), also when it is printed grey."""
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
    """Figures ``float [R, C]`` as colours, each with a text; names of columns above or below.

    ``small`` has what stands below each text; size is in points.
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
