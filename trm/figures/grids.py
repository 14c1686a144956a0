"""The digits × digits grid as heat maps: how far each model gets, and where two of them differ.

Colours run from dark to light with the share (viridis), so they stay in order when printed grey;
every cell says its number as well, and no mark depends on colour alone. Drawn with matplotlib's
`Figure` on the Agg canvas, without pyplot and its global state.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import Normal, Stroke

from canvas.picture import GIVEN, GREY, GRID, INK, PAPER, blank_figure
from trm.evaluation.grid import (
    FIGURES,
    INSIDE,
    LABELS,
    LENGTHS,
    PICTURE,
    REGIONS,
    REPORT,
    SHORTER,
    TABLE,
    UNKNOWN,
    Contrast,
    Key,
    Model,
    asked_unlike,
    axes_of,
    cells_of,
    contrasts,
    described,
    differing_problems,
    figure_shown,
    in_order,
    reference_of,
    rows_of,
    share,
    write_table,
)
from trm.evaluation.report import markdown
from trm.evaluation.statistics import Share, difference
from trm.figures.lengths import lengths_figure, mark
from trm.files import replacing

_ACROSS = 4  # panels in a line at most
_ROOM = (620, 520, 440, 400)  # pixels for a panel's cells where 1, 2, 3 or 4 stand in a line
_CELL = (24, 64)  # pixels of a cell, least and most
_SLOT = 300  # pixels of a panel's width, least: its title has to fit
_PRINT = 6.0  # points of an interval in a cell, least
_CHART = 130  # pixels of a chart's height, least
_RANGE: dict[str, Any] = {"edgecolor": INK, "linewidth": 2.2, "fill": False}
_HATCH: dict[str, Any] = {"facecolor": GIVEN, "edgecolor": "#A6A6A6", "linewidth": 0}
_HOW_TO_READ = (
    "Below every other model: its share minus the reference's, in percentage points. Purple: it "
    "gets more right, orange: fewer. Small print, where there is room{}: the difference's "
    "95\u00a0% interval (Newcombe). Bold, with a dot: the two models' own intervals do not overlap."
)


class _Paint(NamedTuple):
    """What a panel's cells show: value, number, small print, and which are marked."""

    scale: ScalarMappable
    values: Mapping[Key, float]
    words: Mapping[Key, str]
    small: Mapping[Key, str]
    marked: frozenset[Key] = frozenset()


def write_files(grid: dict[str, Any], output: Path) -> None:
    """A grid's pictures, its report and its table, into a folder."""
    figure_of = figure_shown(grid)
    figures = {LENGTHS: lengths_figure(grid, figure_of), PICTURE: grid_figure(grid, figure_of)}
    for name, figure in figures.items():
        with replacing(output / name) as part:
            figure.savefig(part, format="png")
    with replacing(output / REPORT) as part:
        part.write_text(markdown(grid, LENGTHS, PICTURE), encoding="utf-8")
    with replacing(output / TABLE) as part:
        write_table(rows_of(grid), part)


def grid_figure(grid: dict[str, Any], figure_of: str = "solutions") -> Figure:
    """A heat map for each model of a grid, on one shared scale of 0 to 100 %.

    Cells of the training range are outlined, those that a model cannot be asked are hatched, and
    those without problems are left blank.
    """
    page = _Page(grid, FIGURES[figure_of])
    for model, (panel,) in zip(page.models, page.panels, strict=True):
        page.draw(panel, model, _shares(model, figure_of))
    page.bar(_scale("viridis", 0, 100), "%", page.lines)
    return page.figure


def comparison_figure(
    grid: dict[str, Any], reference: str | None = None, figure_of: str = "solutions"
) -> Figure:
    """Heat maps of several models and, below each, its difference from a reference model.

    Below the reference, which has no difference from itself, differences are pooled by region.
    ValueError if there is no such model (None: the first), or fewer than two.
    """
    base = reference_of(grid, reference)
    seen = {m["name"]: contrasts(m, base, figure_of) for m in grid["models"] if m is not base}
    page = _Page(grid, FIGURES[figure_of], compared=True, charted=any(seen.values()))
    furthest = max((abs(c.points) for cells in seen.values() for c in cells), default=0.0)
    reach = max(20, 20 * int(np.ceil(furthest / 20)))
    points = _scale("PuOr", -reach, reach)  # orange below the reference, purple above
    for model, (above, below) in zip(page.models, page.panels, strict=True):
        page.draw(above, model, _shares(model, figure_of))
        if model is base:
            if page.charted:
                _by_region(below, {name: found for name, found in seen.items() if found})
            else:
                below.set_axis_off()
            continue
        found = seen[model["name"]]
        ends = {c.key: difference(c.mine, c.theirs) for c in found}
        paint = _Paint(
            points,
            {c.key: c.points for c in found},
            {c.key: _signed(c.points) for c in found},
            {key: " to ".join(_signed(100 * end) for end in both) for key, both in ends.items()},
            frozenset(c.key for c in found if c.told_apart),
        )
        page.draw(below, model, paint, base)
    page.bar(_scale("viridis", 0, 100), "%", page.lines[::2])
    page.bar(points, "points", page.lines[1::2])
    return page.figure


class _Page:
    """A figure of panels, up to four across; each model has one, or with ``compared`` two."""

    def __init__(
        self, grid: dict[str, Any], heading: str, compared: bool = False, charted: bool = False
    ):
        self.models: list[Model] = grid["models"]
        cells = [key for model in self.models for key in cells_of(model)]
        self.axes_of = axes_of(grid)
        self.rows, self.columns = (in_order(key[k] for key in cells) for k in (0, 1))
        tall = 2 if compared else 1
        blocks = -(-len(self.models) // _ACROSS)
        across = -(-len(self.models) // blocks)
        longest = max(len(self.rows), len(self.columns))
        self.cell = int(np.clip(_ROOM[across - 1] // longest, *_CELL))  # pixels
        self.high, wide = self.cell * len(self.rows), self.cell * len(self.columns)
        self.charted = charted and self.high >= _CHART
        # A chart's regions need more room than the names of most rows.
        labels = 45 + max(50 * compared, 6 * max(len(str(row)) for row in self.rows))
        slot = labels + max(_SLOT - 45, wide)
        self.letters = (slot - labels + 45) // 10  # of a name, which stands above the cells
        width = slot * across + 90
        told = [f"{described(grid)}. Intervals: Wilson, 95\u00a0%."]
        told += [f"Not the same problems: {of}." for of in [differing_problems(grid)] if of]
        unlike = [f"{name}: {how}" for name, how in asked_unlike(grid).items()]
        told += [f"Not asked alike: {'; '.join(unlike)}."] if unlike else []
        told += [_HOW_TO_READ.format(" and bars" if self.charted else "")] if compared else []
        notes = "\n".join(fill(note, int(width / 7.2)) for note in told)
        foot = 30 + 16 * (notes.count("\n") + 2)
        held = [cell for model in self.models for cell in model["cells"]]
        refused = not all(cell["applicable"] for cell in held)
        empty = any(cell["applicable"] and not cell["problems"] for cell in held)
        empty = empty or len({frozenset(cells_of(model)) for model in self.models}) > 1
        dot: dict[str, Any] = {"color": INK, "marker": "o", "markersize": 4, "linestyle": "none"}
        marks = (
            (any(cell["region"] == INSIDE for cell in held), Patch(label="trained on", **_RANGE)),
            (refused, Patch(hatch="////", label="n/a: not applicable", **_HATCH)),
            (empty, Patch(facecolor=PAPER, edgecolor=GREY, label="blank: no problems asked")),
            (compared, Line2D([], [], label="intervals do not overlap", **dot)),
        )
        height = (self.high + 95) * tall * blocks + 40 + foot
        self.figure = blank_figure(width, height)
        self.figure.set_layout_engine("constrained")
        self.figure.suptitle(heading, x=0.01, ha="left", weight="bold", fontsize=12, color=INK)
        self.figure.legend(
            handles=[handle for there, handle in marks if there],
            title=notes,
            title_fontsize=9,
            fontsize=9,
            labelcolor=INK,
            loc="outside lower left",
            alignment="left",
            ncols=min(4, width // 170),
            frameon=False,
        )
        axes = self.figure.subplots(tall * blocks, across, squeeze=False)
        self.lines = [list(line) for line in axes]
        blocked = axes.reshape(blocks, tall, across).swapaxes(1, 2).reshape(-1, tall)
        self.panels = blocked[: len(self.models)].tolist()
        for unused in blocked[len(self.models) :].flat:
            unused.set_axis_off()

    def draw(self, axes: Axes, model: Model, paint: _Paint, minus: Model | None = None) -> None:
        """One heat map; ``minus`` is the model whose shares were taken off."""
        known, layout = model["parameters"], model["task"]["layout"]
        words = [model["family"], layout, None if known is None else f"{known:,} parameters"]
        kind = ", ".join(filter(None, words)) or "nothing known of the model"
        style: dict[str, Any] = {"fontsize": 9, "color": GREY, "parse_math": False}
        bold = style | {"fontsize": 10, "color": INK, "weight": "bold"}
        axes.set_title(_cut(model["name"], self.letters), loc="left", pad=17, **bold)
        below = _cut(f"minus {minus['name']}" if minus else kind, self.letters * 4 // 3)
        axes.annotate(below, (0, 1), (0, 5), "axes fraction", "offset points", **style)
        at = {(a, b): (i, j) for i, a in enumerate(self.rows) for j, b in enumerate(self.columns)}
        image = np.full((len(self.rows), len(self.columns)), np.nan)
        for key, value in paint.values.items():
            image[at[key]] = value
        low, high = paint.scale.get_clim()
        axes.imshow(image, paint.scale.cmap, vmin=low, vmax=high, aspect="auto")
        for axis, names, labelled in zip(
            (axes.yaxis, axes.xaxis), (self.rows, self.columns), self.axes_of, strict=True
        ):
            axis.set_ticks(range(len(names)), [str(name) for name in names])
            axis.set_ticks(np.arange(1, len(names)) - 0.5, minor=True)
            axis.set_label_text(LABELS[labelled], fontsize=9, color=INK)
        axes.grid(which="minor", color=PAPER, linewidth=0.7)
        axes.tick_params(which="both", labelsize=8.5, colors=GREY, length=0)
        axes.spines[:].set_color(GIVEN)
        self._write(axes, paint, at)
        asked = [cell for one in (model, minus) if one for cell in cells_of(one).items()]
        for i, j in {at[key] for key, cell in asked if not cell["applicable"]}:
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, hatch="////", **_HATCH))
            behind = {"facecolor": GIVEN, "linewidth": 0, "pad": 1}
            axes.text(j, i, "n/a", ha="center", va="center", color=GREY, fontsize=7, bbox=behind)
        inside = [at[key] for key, cell in cells_of(model).items() if cell["region"] == INSIDE]
        if inside:  # all between two ends of each axis, with a pale edge to show on any colour
            (top, left), (bottom, right) = np.min(inside, axis=0), np.max(inside, axis=0)
            corner, size = (left - 0.5, top - 0.5), (right - left + 1, bottom - top + 1)
            halo = [Stroke(linewidth=5, foreground=PAPER), Normal()]
            box = Rectangle(corner, *size, path_effects=halo, clip_on=False, zorder=4, **_RANGE)
            axes.add_patch(box)

    def _write(self, axes: Axes, paint: _Paint, at: Mapping[Key, tuple[int, int]]) -> None:
        """The numbers of all cells, with intervals where there is room for them."""
        size = float(np.clip(0.25 * self.cell, 6.5, 11))  # points
        longest = max(map(len, paint.small.values()), default=1)
        print_size = min(0.64 * size, 0.15 * self.cell, 0.95 * self.cell / longest)
        dot: dict[str, Any] = {"markersize": min(4, 0.12 * self.cell), "markeredgewidth": 0.6}
        for key, value in paint.values.items():
            row, column = at[key]
            ink = _ink(paint.scale.to_rgba(np.array(value)))
            style: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
            style |= {"in_layout": False, "weight": "bold" if key in paint.marked else "normal"}
            with_small = print_size >= _PRINT
            axes.text(column, row - 0.13 * with_small, paint.words[key], fontsize=size, **style)
            if with_small:
                axes.text(column, row + 0.24, paint.small[key], fontsize=print_size, **style)
            if key in paint.marked:  # its edge tells the dot from the outline that it may touch
                edge = PAPER if ink == INK else INK
                axes.plot(column + 0.37, row - 0.37, "o", color=ink, markeredgecolor=edge, **dot)

    def bar(self, scale: ScalarMappable, unit: str, lines: Sequence[list[Axes]]) -> None:
        """A colour bar beside each of these lines of panels."""
        for line in lines:
            bar = self.figure.colorbar(scale, ax=line, aspect=max(5, self.high / 14), pad=0.01)
            low, high = scale.get_clim()
            ticks = np.linspace(low, high, 5 if self.high >= 150 else 3).astype(int).tolist()
            bar.set_ticks(ticks, labels=[_signed(t) if low else str(t) for t in ticks])
            bar.outline.set_visible(False)
            bar.ax.set_title(unit, fontsize=9, color=INK, loc="left")
            bar.ax.tick_params(labelsize=8.5, colors=GREY, length=3)


def _scale(colours: str, low: int, high: int) -> ScalarMappable:
    return ScalarMappable(Normalize(low, high), matplotlib.colormaps[colours])


def _shares(model: Model, figure_of: str) -> _Paint:
    shares = {key: share(cell, figure_of) for key, cell in cells_of(model).items()}
    known = {key: s for key, s in shares.items() if s is not None and s.total}
    values = {key: 100 * s.value for key, s in known.items()}
    words, small = (
        {k: s.percent for k, s in known.items()},
        {k: s.span() for k, s in known.items()},
    )
    return _Paint(_scale("viridis", 0, 100), values, words, small)


def _signed(points: float) -> str:
    """A whole difference with its sign, a true minus."""
    return f"{round(points):+d}".replace("-", "−") if round(points) else "0"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[1 - most // 2 :]}"


def _ink(colour: Any) -> str:
    """Dark or light, whichever reads better on a colour (RGBA), also when it is printed grey."""
    channels = np.asarray(colour)[:3]
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    # WCAG's relative luminance. At 0.2 both have the same contrast; grey prints are darker.
    return INK if linear @ (0.2126, 0.7152, 0.0722) > 0.25 else PAPER


def _by_region(axes: Axes, models: Mapping[str, Sequence[Contrast]]) -> None:
    """A point with its interval for each model and region, regions below one another."""
    there = {c.region for found in models.values() for c in found}
    regions = [region for region in (*REGIONS, SHORTER, UNKNOWN) if region in there]
    for i, (name, found) in enumerate(models.items()):
        style = mark(i)
        for row, region in enumerate(regions):
            if here := [c for c in found if c.region == region]:
                mine = sum((c.mine for c in here), Share(0, 0))
                theirs = sum((c.theirs for c in here), Share(0, 0))
                y = row + (i - (len(models) - 1) / 2) * 0.7 / len(models)
                low, high = difference(mine, theirs)
                axes.hlines(y, 100 * low, 100 * high, color=style["color"])
                axes.plot(100 * (mine.value - theirs.value), y, markeredgecolor=PAPER, **style)
        axes.plot([], [], label=_cut(name, 28), linestyle="none", **style)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(regions)), regions)
    axes.set_ylim(len(regions) - 0.5, -0.5)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title("all cells of a region together, points", fontsize=9, loc="left", color=INK)
    axes.tick_params(labelsize=8.5, length=0)
    axes.spines[:].set_visible(False)
    if len(models) > 1:
        axes.legend(fontsize=7.5, loc="best", framealpha=0.7, borderpad=0.2)
