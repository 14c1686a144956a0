"""The digits × digits grid as heat maps: how far each model gets, and where two of them differ.

Colours run from dark to light with the share (viridis), so they stay in order when printed grey;
every cell says its number as well.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import Normal, Stroke

from canvas.picture import GIVEN, GREY, INK, PAPER
from trm.evaluation.grid import (
    FIGURES,
    INSIDE,
    LABELS,
    LENGTHS,
    PICTURE,
    REPORT,
    TABLE,
    Grid,
    Key,
    Model,
    cells_of,
    in_order,
    share,
)
from trm.evaluation.report import markdown
from trm.evaluation.statistics import difference
from trm.figures.lengths import lengths_figure
from trm.figures.style import colours, draw_table, new_figure, save
from trm.files import replacing, write_text

_ACROSS = 4  # panels in a line at most
_ROOM = (6.2, 5.2, 4.4, 4.0)  # inches for a panel's cells where 1, 2, 3 or 4 stand in a line
_CELL = (0.24, 0.64)  # inches of a cell, least and most
_PANEL = 3.0  # inches of a panel's width, least: its title has to fit
_LETTER = 0.05  # inches of a cell's small print
_RANGE: dict[str, Any] = {"edgecolor": INK, "linewidth": 2.2, "fill": False}
_HATCH: dict[str, Any] = {"facecolor": GIVEN, "edgecolor": "#A6A6A6", "linewidth": 0}
_HATCH["hatch"] = "////"
_HOW_TO_READ = (
    "Below every other model: its share minus the reference's, in percentage points. Purple: it "
    "gets more right, orange: fewer. Small print, where there is room: the difference's "
    "95\u00a0% interval (Newcombe). Bold: the two models' own intervals do not overlap."
)


class _Cell(NamedTuple):
    """What a panel shows of a cell."""

    value: float  # which is coloured
    word: str
    small: str
    bold: bool = False


def write_files(grid: Grid, output: Path) -> None:
    """A grid's pictures, its report and its table, into a folder."""
    figure_of = grid.figure_shown
    figures = {LENGTHS: lengths_figure(grid, figure_of), PICTURE: grid_figure(grid, figure_of)}
    for name, figure in figures.items():
        save(figure, output / name)
    write_text(output / REPORT, markdown(grid, LENGTHS, PICTURE))
    rows = grid.rows
    with replacing(output / TABLE) as part, part.open("w", encoding="utf-8", newline="") as lines:
        table = csv.DictWriter(lines, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def grid_figure(grid: Grid, figure_of: str = "solutions") -> Figure:
    """A heat map for each model of a grid, on one shared scale of 0 to 100 %.

    Cells of the training range are outlined, those that a model cannot be asked are hatched, and
    those without problems are left blank.
    """
    page = _Page(grid, FIGURES[figure_of])
    for model, (panel,) in zip(page.models, page.panels, strict=True):
        page.draw(panel, model, colours("viridis"), _shares(model, figure_of))
    page.bar(colours("viridis"), "%", 0)
    return page.figure


def comparison_figure(grid: Grid, figure_of: str = "solutions") -> Figure:
    """Heat maps of several models and, below each, its difference from the first."""
    base, *others = grid.models
    found = {model["name"]: _differences(model, base, figure_of) for model in others}
    page = _Page(grid, FIGURES[figure_of], compared=True)
    furthest = max((abs(c.value) for cells in found.values() for c in cells.values()), default=0.0)
    reach = max(20, 20 * int(np.ceil(furthest / 20)))
    points = colours("PuOr", -reach, reach)  # orange below the reference, purple above
    for model, (above, below) in zip(page.models, page.panels, strict=True):
        page.draw(above, model, colours("viridis"), _shares(model, figure_of))
        if model is base:
            below.set_axis_off()
        else:
            page.draw(below, model, points, found[model["name"]], base)
    page.bar(colours("viridis"), "%", 0)
    page.bar(points, "points", 1)
    return page.figure


class _Page:
    """A figure of panels, up to four across; each model has one, or with ``compared`` two."""

    def __init__(self, grid: Grid, heading: str, compared: bool = False):
        self.models: list[Model] = grid.models
        cells = [key for model in self.models for key in cells_of(model)]
        self.axes_of = grid.axes
        self.rows, self.columns = (in_order(key[k] for key in cells) for k in (0, 1))
        self.tall = 2 if compared else 1
        blocks = -(-len(self.models) // _ACROSS)
        across = -(-len(self.models) // blocks)
        longest = max(len(self.rows), len(self.columns))
        self.cell = float(np.clip(_ROOM[across - 1] / longest, *_CELL))
        high, wide = self.cell * len(self.rows), self.cell * len(self.columns)
        labels = 0.45 + 0.06 * max(len(str(row)) for row in self.rows)
        panel = labels + max(_PANEL - 0.45, wide)
        self.letters = int(13 * (panel - labels + 0.4))  # of a title, which stands above the cells
        width = panel * across + 0.9
        said = [f"{grid.problems_asked}. Intervals: Wilson, 95\u00a0%.", *grid.caveats]
        said += [_HOW_TO_READ] if compared else []
        notes = "\n".join(fill(note, int(14 * width)) for note in said)
        height = (high + 0.95) * self.tall * blocks + 0.7 + 0.16 * (notes.count("\n") + 2)
        self.figure = new_figure(width, height)
        self.figure.suptitle(heading, x=0.01, ha="left", weight="bold", fontsize=12, color=INK)
        style: dict[str, Any] = {"title_fontsize": 9, "fontsize": 9, "labelcolor": INK, "ncols": 4}
        style |= {"loc": "outside lower left", "alignment": "left", "frameon": False}
        self.figure.legend(handles=self._marks(), title=notes, **style)
        axes = self.figure.subplots(self.tall * blocks, across, squeeze=False)
        self.lines = axes.tolist()
        blocked = axes.reshape(blocks, self.tall, across).swapaxes(1, 2).reshape(-1, self.tall)
        self.panels = blocked[: len(self.models)].tolist()
        for unused in blocked[len(self.models) :].flat:
            unused.set_axis_off()

    def _marks(self) -> list[Patch]:
        """What marks of cells mean, of those that there are."""
        held = [cell for model in self.models for cell in model["cells"]]
        marks = (
            (any(cell["region"] == INSIDE for cell in held), "trained on", _RANGE),
            (not all(cell["applicable"] for cell in held), "n/a: not applicable", _HATCH),
        )
        return [Patch(label=label, **style) for there, label, style in marks if there]

    def draw(
        self,
        axes: Axes,
        model: Model,
        scale: ScalarMappable,
        cells: Mapping[Key, _Cell],
        minus: Model | None = None,
    ) -> None:
        """One heat map; ``minus`` is the model whose shares were taken off."""
        known, layout = model["parameters"], model["task"]["layout"]
        words = [model["family"], layout, None if known is None else f"{known:,} parameters"]
        below = f"minus {minus['name']}" if minus else ", ".join(filter(None, words))
        lines = model["name"], below or "nothing known of the model"
        title = "\n".join(_cut(line, self.letters) for line in lines)
        axes.set_title(title, loc="left", fontsize=9, color=INK, parse_math=False)
        at = {(a, b): (i, j) for i, a in enumerate(self.rows) for j, b in enumerate(self.columns)}
        shape = len(self.rows), len(self.columns)
        values, bold = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        texts, small = (np.full(shape, "", dtype=object) for _ in range(2))
        for key, cell in cells.items():
            values[at[key]], texts[at[key]], small[at[key]], bold[at[key]] = cell
        room = self.cell >= _LETTER * max((len(cell.small) for cell in cells.values()), default=0)
        more: dict[str, Any] = {"small": small if room else None, "bold": bold}
        more["size"] = float(np.clip(22 * self.cell, 6.5, 11))
        names = [[str(name) for name in part] for part in (self.rows, self.columns)]
        draw_table(axes, values, texts, names[0], names[1], scale, above=False, **more)
        axes.set_ylabel(LABELS[self.axes_of[0]], fontsize=9, color=INK)
        axes.set_xlabel(LABELS[self.axes_of[1]], fontsize=9, color=INK)
        asked = [cell for one in (model, minus) if one for cell in cells_of(one).items()]
        for i, j in {at[key] for key, cell in asked if not cell["applicable"]}:
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **_HATCH))
            behind = {"facecolor": GIVEN, "linewidth": 0, "pad": 1}
            axes.text(j, i, "n/a", ha="center", va="center", color=GREY, fontsize=7, bbox=behind)
        inside = [at[key] for key, cell in cells_of(model).items() if cell["region"] == INSIDE]
        if inside:  # all between two ends of each axis, with a pale edge to show on any colour
            (top, left), (bottom, right) = np.min(inside, axis=0), np.max(inside, axis=0)
            corner, size = (left - 0.5, top - 0.5), (right - left + 1, bottom - top + 1)
            halo = [Stroke(linewidth=5, foreground=PAPER), Normal()]
            box = Rectangle(corner, *size, path_effects=halo, clip_on=False, zorder=4, **_RANGE)
            axes.add_patch(box)

    def bar(self, scale: ScalarMappable, unit: str, first: int) -> None:
        """A colour bar beside the lines of panels of one kind."""
        for line in self.lines[first :: self.tall]:
            bar = self.figure.colorbar(scale, ax=line, aspect=15, pad=0.01)
            bar.outline.set_visible(False)
            bar.ax.set_title(unit, fontsize=9, color=INK, loc="left")
            bar.ax.tick_params(labelsize=8.5, colors=GREY, length=3)


def _shares(model: Model, figure_of: str) -> dict[Key, _Cell]:
    shares = {key: share(cell, figure_of) for key, cell in cells_of(model).items()}
    known = {key: s for key, s in shares.items() if s is not None and s.total}
    return {key: _Cell(100 * s.value, s.percent, s.span()) for key, s in known.items()}


def _differences(model: Model, reference: Model, figure_of: str) -> dict[Key, _Cell]:
    """Where both were asked: points, with Newcombe's interval; bold if their own do not overlap."""
    cells, others = {}, cells_of(reference)
    for key, cell in cells_of(model).items():
        mine, theirs = (
            share(cell, figure_of),
            share(others[key], figure_of) if key in others else None,
        )
        if mine and theirs and mine.total and theirs.total:
            points = 100 * (mine.value - theirs.value)
            ends = " to ".join(_signed(100 * end) for end in difference(mine, theirs))
            (low, high), (least, most) = mine.interval, theirs.interval
            cells[key] = _Cell(points, _signed(points), ends, low > most or high < least)
    return cells


def _signed(points: float) -> str:
    """A whole difference with its sign, a true minus."""
    return f"{round(points):+d}".replace("-", "−") if round(points) else "0"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[1 - most // 2 :]}"
