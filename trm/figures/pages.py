"""A figure of heat maps, placed pixel for pixel, so that nothing overlaps whatever their number.

Drawn with matplotlib's `Figure` on the Agg canvas, without pyplot and its global state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import Normal, Stroke

from canvas.picture import GIVEN, INK, PAPER
from trm.evaluation.grid_schema import (
    INSIDE,
    LABELS,
    Key,
    Model,
    axes_of,
    cells_of,
    described,
    differing_problems,
    in_order,
)

_DPI = 100
_ACROSS = 4  # panels in a line at most
_ROOM = (620, 520, 440, 400)  # pixels for a panel's cells where 1, 2, 3 or 4 stand in a line
_CELL = (24, 64)  # pixels of a cell, least and most
_PRINT = 6.3  # points of an interval in a cell, least
_SLOT = 290  # least width of a panel, so that its title fits
_HEAD, _TITLE = 40, 48  # above all panels, above each
_LEFT, _BELOW = 54, 54  # tick labels and the axis label
_LABELS = 92  # names of regions beside a chart
_GAP, _EDGE = 24, 16  # between panels, around the figure
_BAR, _BAR_ROOM = 14, 64  # the colour bar's width, and with its labels
_ENTRY, _LINE = 215, 18  # an entry of the legend, a line of the footer
_GREY = "#595959"
_RANGE: dict[str, Any] = {"color": INK, "linewidth": 2.2}  # the training range's outline
_HATCH: dict[str, Any] = {"facecolor": GIVEN, "edgecolor": "#A6A6A6", "linewidth": 0}
_DOT: dict[str, Any] = {"marker": "o", "linestyle": "none"}


@dataclass(frozen=True)
class Scale:
    """Colours for values from ``low`` to ``high``, the unit in a word."""

    colours: str
    low: int
    high: int
    unit: str

    @property
    def mappable(self) -> ScalarMappable:
        """From values to colours."""
        return ScalarMappable(Normalize(self.low, self.high), matplotlib.colormaps[self.colours])


@dataclass(frozen=True)
class Paint:
    """What a panel's cells show: value, number, small print, and which are marked."""

    scale: Scale
    values: dict[Key, float]
    words: dict[Key, str]
    small: dict[Key, str] = field(default_factory=dict)
    marked: frozenset[Key] = frozenset()


def signed(points: int) -> str:
    """A difference with its sign, a true minus."""
    return f"{points:+d}".replace("-", "−") if points else "0"


def _refused(model: Model) -> set[Key]:
    return {key for key, cell in cells_of(model).items() if not cell["applicable"]}


class Page:
    """A figure of panels, up to four across, placed by pixels.

    Each model has a column of as many panels as ``lines``; those of up to four models stand side
    by side and make a block, and blocks stand below one another.
    """

    def __init__(self, grid: dict[str, Any], heading: str, lines: int):
        self.models: list[Model] = grid["models"]
        if not self.models:
            raise ValueError("a grid without models has no figure")
        cells = [key for model in self.models for key in cells_of(model)]
        self._axes_of = axes_of(grid)
        self.digits = tuple(in_order(key[k] for key in cells) for k in (0, 1))
        self.lines = lines
        self.blocks = -(-len(self.models) // _ACROSS)
        self.across = -(-len(self.models) // self.blocks)
        longest = max(len(digits) for digits in self.digits)
        self.cell = int(np.clip(_ROOM[self.across - 1] // max(1, longest), *_CELL))
        self.type = float(np.clip(0.25 * self.cell, 6.5, 11))  # points
        self.high, self.wide = (self.cell * len(digits) for digits in self.digits)
        labels = max(_width(str(label), 8.5) for label in self.digits[0])
        self.left = max(_LEFT, _LEFT - 12 + int(labels))
        self.slot = max(_SLOT, self.left + self.wide + _GAP)
        self.line = _TITLE + self.high + _BELOW
        self.width = 2 * _EDGE + self.slot * self.across + _BAR_ROOM
        room = self.width - 2 * _EDGE
        notes = [text for note in _notes(grid) for text in _wrapped(note, room, 9)]
        handles = _legend(self.models, lines > 1)
        entries = min(len(handles), room // _ENTRY)  # in a line
        below = self._top(lines * self.blocks) + _LINE // 2
        foot = below + _LINE * (-(-len(handles) // entries) if handles else 0) + _LINE // 2
        self.height = foot + _LINE * len(notes) + _EDGE
        self.figure = Figure((self.width / _DPI, self.height / _DPI), _DPI, facecolor=PAPER)
        FigureCanvasAgg(self.figure)
        self._write(_EDGE, _EDGE + 8, heading, room, 12, weight="bold")
        for i, note in enumerate(notes):
            self._write(_EDGE, foot + _LINE * (i + 0.5), note, room, 9, color=_GREY)
        if handles:
            self.figure.legend(
                handles=handles,
                loc="upper left",
                bbox_to_anchor=((_EDGE - 2) / self.width, 1 - below / self.height),
                ncols=entries,
                fontsize=9,
                labelcolor=INK,
                frameon=False,
                borderaxespad=0,
                borderpad=0,
                handlelength=1.6,
                columnspacing=1.6,
            )

    def title(self, index: int, model: Model) -> None:
        """Who a column of panels is about."""
        x, y = self._corner(index, 0)
        known, layout = model["parameters"], model["task"]["layout"]
        words = [model["family"], layout, None if known is None else f"{known:,} parameters"]
        kind = ", ".join(filter(None, words)) or "nothing known of the model"
        self._write(x, y + 16, model["name"], self.slot - _GAP, 10.5, weight="bold")
        self._write(x, y + 34, kind, self.slot - _GAP, 9, color=_GREY)

    def panel(
        self, index: int, line: int, model: Model, paint: Paint, minus: Model | None = None
    ) -> None:
        """One heat map; ``minus`` is the model whose shares were taken off."""
        x, y = self._corner(index, line)
        if minus:
            room, style = self.slot - _GAP, {"weight": "bold"}
            self._write(x, y + 16, model["name"], room, 9.5, **style)
            self._write(x, y + 34, f"minus {minus['name']}", room, 9.5, **style)
        axes = self._axes(x + self.left, y + _TITLE, self.wide, self.high)
        places = {
            (a, b): (row, column)
            for row, a in enumerate(self.digits[0])
            for column, b in enumerate(self.digits[1])
        }
        axes.set(xlim=(-0.5, len(self.digits[1]) - 0.5), ylim=(len(self.digits[0]) - 0.5, -0.5))
        self._fill(axes, {key: places[key] for key in paint.values}, paint)
        for key in {key for of in (model, minus) if of for key in _refused(of)}:
            row, column = places[key]
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, hatch="////", **_HATCH))
            words = axes.text(column, row, "n/a", ha="center", va="center", color=_GREY)
            words.set(fontsize=0.8 * self.type)
            words.set_bbox({"facecolor": GIVEN, "linewidth": 0, "pad": 1})
        _outline(
            axes, {places[key] for key, cell in cells_of(model).items() if cell["region"] == INSIDE}
        )
        axes.set_xticks(range(len(self.digits[1])), [str(b) for b in self.digits[1]])
        axes.set_yticks(range(len(self.digits[0])), [str(a) for a in self.digits[0]])
        axes.set_xlabel(LABELS[self._axes_of[1]], fontsize=9, color=INK, labelpad=3)
        label = LABELS[self._axes_of[0]]
        axes.set_ylabel(label, fontsize=9, color=INK, labelpad=3)
        axes.tick_params(labelsize=8.5, colors=_GREY, length=0, pad=5)

    def note(
        self, index: int, line: int, heading: str, paragraphs: Sequence[str], charts: int
    ) -> Axes | None:
        """Words in the place of a panel, and axes in the room left below them.

        Args:
            index, line: the panel's place.
            heading, paragraphs: the words.
            charts: entries of the axes' legend, which stands below them. Without room, None.
        """
        x, y = self._corner(index, line)
        room, needs = self.slot - _GAP, 90 + 40 * charts
        end = y + self.line - _BELOW - max(0, _LINE * (charts - 1) - _LINE // 2)
        self._write(x, y + 16, heading, room, 9.5, weight="bold")
        y += 16 + _LINE
        for paragraph in paragraphs:
            for text in _wrapped(paragraph, room, 9):
                self._write(x, y, text, room, 9, color=_GREY)
                y += _LINE - 2
            y += _LINE // 3
        y += 2 * _LINE
        if end - y < needs:
            return None
        return self._axes(x + _LABELS, y, room - _LABELS, min(end - y, 2 * needs))

    def bar(self, scale: Scale, first: int, last: int) -> None:
        """A colour bar beside the lines of panels from first to last."""
        top = self._top(first) + _TITLE
        bottom = self._top(last) + _TITLE + self.high
        x = self.width - _EDGE - _BAR_ROOM + 4
        axes = self._axes(x, top, _BAR, bottom - top)
        steps = 4 if bottom - top >= 150 else 2
        ticks = np.linspace(scale.low, scale.high, steps + 1).astype(int).tolist()
        bar = self.figure.colorbar(scale.mappable, cax=axes)
        bar.set_ticks(ticks, labels=[signed(t) if scale.low else str(t) for t in ticks])
        bar.outline.set_visible(False)
        axes.tick_params(labelsize=8.5, colors=_GREY, length=3)
        self._write(x, top - 14, scale.unit, _BAR_ROOM, 9, color=INK)

    def _fill(self, axes: Axes, places: dict[Key, tuple[int, int]], paint: Paint) -> None:
        image = np.full([len(digits) for digits in self.digits], np.nan)
        for key, place in places.items():
            image[place] = paint.values[key]
        mappable = paint.scale.mappable
        axes.imshow(
            image,
            cmap=paint.scale.colours,
            vmin=paint.scale.low,
            vmax=paint.scale.high,
            aspect="auto",
            interpolation="nearest",
        )
        rows, columns = image.shape
        lines: dict[str, Any] = {"color": PAPER, "linewidth": 0.7}
        axes.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, **lines)
        axes.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, **lines)
        for side in axes.spines.values():
            side.set_color(GIVEN)
        widest = max((_width(text, 10, "bold") / 10 for text in paint.small.values()), default=1)
        print_size = min(0.64 * self.type, 0.15 * self.cell, 0.94 * self.cell / widest)
        small = paint.small if print_size >= _PRINT else {}
        style: dict[str, Any] = {"ha": "center", "va": "center"}
        for key, (row, column) in places.items():
            style["color"] = ink = _ink(mappable.to_rgba(np.array(paint.values[key])))
            style["weight"] = "bold" if key in paint.marked else "normal"
            up = 0.13 if key in small else 0
            axes.text(column, row - up, paint.words[key], fontsize=self.type, **style)
            if key in small:
                axes.text(column, row + 0.24, small[key], fontsize=print_size, **style)
            if key in paint.marked:
                size = min(4, 0.12 * self.cell)
                edge = PAPER if ink == INK else INK  # tells it from the outline that it may touch
                dot = _DOT | {"markersize": size, "markeredgecolor": edge, "markeredgewidth": 0.6}
                axes.plot(column + 0.37, row - 0.37, color=ink, zorder=5, **dot)

    def _axes(self, x: float, y: float, wide: float, high: float) -> Axes:
        w, h = self.width, self.height
        return self.figure.add_axes((x / w, 1 - (y + high) / h, wide / w, high / h))

    def _write(self, x: float, y: float, text: str, room: float, size: float, **style: Any) -> None:
        """Text from x, around y, cut to the room there is for it."""
        style = {"color": INK} | style
        self.figure.text(
            x / self.width,
            1 - y / self.height,
            _cut(text, room, size, style.get("weight", "normal")),
            fontsize=size,
            va="center",
            parse_math=False,
            **style,
        )

    def _corner(self, index: int, line: int) -> tuple[int, int]:
        block, column = divmod(index, self.across)
        return _EDGE + column * self.slot, self._top(block * self.lines + line)

    def _top(self, line: int) -> int:
        return _EDGE + _HEAD + line * self.line


def _outline(axes: Axes, inside: set[tuple[int, int]]) -> None:
    """A line around the cells (row, column), with a pale edge so that it shows on any colour."""
    # For each neighbour's direction (down, right), the ends of the side towards it.
    sides = {
        (-1, 0): ((-1, -1), (-1, 1)),
        (1, 0): ((1, -1), (1, 1)),
        (0, -1): ((-1, -1), (1, -1)),
        (0, 1): ((-1, 1), (1, 1)),
    }
    x: list[float] = []
    y: list[float] = []
    for row, column in inside:
        for (down, right), ((top, left), (bottom, end)) in sides.items():
            if (row + down, column + right) not in inside:
                x += [column + left / 2, column + end / 2, np.nan]
                y += [row + top / 2, row + bottom / 2, np.nan]
    halo = [Stroke(linewidth=5, foreground=PAPER), Normal()]
    axes.plot(x, y, clip_on=False, zorder=4, path_effects=halo, **_RANGE)


def _ink(colour: Any) -> str:
    """Dark or light, whichever reads better on a colour (RGBA), also when it is printed grey."""
    channels = np.asarray(colour)[:3]
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    # WCAG's relative luminance. At 0.2 both have the same contrast; grey prints are darker.
    return INK if linear @ (0.2126, 0.7152, 0.0722) > 0.25 else PAPER


def _legend(models: list[Model], dot: bool) -> list[Any]:
    """The marks that the panels of these models bear."""
    cells = [cell for model in models for cell in model["cells"]]
    handles: list[Any] = []
    if any(cell["region"] == INSIDE for cell in cells):
        handles.append(Line2D([], [], label="trained on", **_RANGE))
    if not all(cell["applicable"] for cell in cells):
        handles.append(Patch(hatch="////", label="n/a: not applicable", **_HATCH))
    empty = any(cell["applicable"] and not cell["problems"] for cell in cells)
    if empty or len({frozenset(cells_of(model)) for model in models}) > 1:
        handles.append(Patch(facecolor=PAPER, edgecolor=_GREY, label="blank: no problems asked"))
    if dot:
        handles.append(
            Line2D([], [], color=INK, markersize=4, label="intervals do not overlap", **_DOT)
        )
    return handles


def _notes(grid: dict[str, Any]) -> list[str]:
    notes = [f"{described(grid)}. Intervals: Wilson, 95\u00a0%."]
    if differing := differing_problems(grid):
        notes.append(f"Not the same problems: {differing}.")
    return notes


def _width(text: str, size: float, weight: str = "normal") -> float:
    """Pixels that a text takes."""
    renderer = FigureCanvasAgg(Figure(dpi=_DPI)).get_renderer()
    font = FontProperties(size=size, weight=weight)
    return renderer.get_text_width_height_descent(text, font, False)[0]


def _wrapped(text: str, room: float, size: float) -> list[str]:
    """The lines of a text that has so many pixels of room."""
    lines: list[str] = []
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _cut(text: str, room: float, size: float, weight: str) -> str:
    """The text, its middle left out where it is wider than ``room`` pixels."""
    for kept in range(len(text), 2, -1):
        short = text if kept == len(text) else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"
        if _width(short, size, weight) <= room:
            return short
    return text[:2]
