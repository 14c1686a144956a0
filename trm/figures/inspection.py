"""Figures of a model at work on one problem: attention, states, fields, lens, and patching.

Canvases are drawn by `canvas.picture`, in cells whose colour is a figure; matplotlib lays them out.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from canvas import picture
from canvas.picture import draw_canvas, draw_cells, for_people
from canvas.symbols import BLANK, CHARACTERS
from canvas.windows import UNDEFINED
from trm.analysis.lens import Lens
from trm.analysis.patch import Patching
from trm.solving.iteration import right_cells

SHARES = ScalarMappable(Normalize(0, 1), matplotlib.colormaps["Blues"])
EFFECTS = ScalarMappable(Normalize(-1, 1), matplotlib.colormaps["RdBu_r"])  # never green
_SIGNS = np.array([for_people(symbol) for symbol in range(len(CHARACTERS))])
_FRAME, _SCORED, _DIFFERENT = "#D55E00", "#1A1A1A", "#E69F00"
_CELL = (0.1, 0.24)  # inches of a cell, fewest and most
_WIDE = 10.0  # inches that maps side by side take, with cells of the smallest size more
_NO_TICKS: dict[str, Any] = {"xticks": [], "yticks": []}  # which take long to be laid out
_SEEN = 0.05  # an attention weight that is worth a row at the edge of the canvas
_LINES = ("-", "--", ":", "-.")
_MOST_NAMES = 16  # rows in a legend; of more, a scale


def new_figure(width: float, height: float, title: str, note: str = "") -> Figure:
    """A figure of so many inches, laid out by matplotlib, without pyplot's global state."""
    figure = Figure((width, height), picture.DPI, facecolor=picture.PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11, weight="bold", parse_math=False)
    if note:  # below
        figure.supxlabel(note, fontsize=8.5, color=picture.GREY)
    return figure


def own_scale(colours: ScalarMappable) -> ScalarMappable:
    """A copy for one figure: images and bars register with theirs, and a module's outlives them."""
    return ScalarMappable(Normalize(*colours.get_clim()), colours.get_cmap())


def draw_table(
    axes: Axes,
    values: np.ndarray,
    texts: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    colours: ScalarMappable = SHARES,
) -> None:
    """Figures ``float [R, C]`` as colours, each with a text; names of columns above, rows left."""
    scale: Any = own_scale(colours)
    axes.imshow(values, cmap=scale.cmap, norm=scale.norm, aspect="auto")
    for (i, j), text in np.ndenumerate(texts):
        ink = _ink(to_hex(scale.to_rgba(values[i, j])))
        axes.text(j, i, text, ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(columns)), columns, fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8.5)
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)


def draw_map(axes: Axes, canvas: np.ndarray, values: np.ndarray, colours: ScalarMappable) -> None:
    """A canvas ``uint8 [h, w]`` in cells whose colours are figures; grey where there is none."""
    fills = np.array([[to_hex(c) for c in line] for line in colours.to_rgba(values)])
    fills[np.isnan(values)] = picture.GRID
    draw_cells(axes, _SIGNS[canvas], fills, np.vectorize(_ink)(fills))


def _within(figure: Figure) -> Figure:
    """The figure, laid out by its axes alone: what is drawn within them takes long to measure."""
    for axes in figure.axes:
        for artist in (*axes.collections, *axes.patches, *axes.images):
            artist.set_in_layout(False)
    return figure


def _ink(colour: str) -> str:
    """What can be read on a colour."""
    red, green, blue = to_rgb(colour)
    return picture.PAPER if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else picture.INK


def _frame(axes: Axes, cell: tuple[int, int], colour: str) -> None:
    corner = (cell[1] - 0.44, cell[0] - 0.44)
    frame = Rectangle(corner, 0.88, 0.88, fill=False, edgecolor=colour, linewidth=1.8, zorder=3)
    axes.add_patch(frame)


def _panels(
    figure: Any, number: int, shape: tuple[int, int], across: int, titles: Sequence[str]
) -> list[Axes]:
    """Axes for maps of a shape, so many in a line, those that are too many hidden."""
    grid = figure.subplots(-(-number // across), across, squeeze=False, subplot_kw=_NO_TICKS)
    axes = grid.ravel().tolist()
    for one in axes[number:]:
        one.set_visible(False)
    for one, title in zip(axes, titles, strict=False):
        one.set_title(title, fontsize=8.5, loc="left", pad=3, parse_math=False)
    return list(axes[:number])


def _cell_size(width: int, across: int) -> float:
    return float(np.clip(_WIDE / (across * (width + 1.5)), *_CELL))


def attention_figure(
    canvas: np.ndarray,
    cell: tuple[int, int],
    maps: np.ndarray,
    titles: Sequence[str],
    title: str,
) -> Figure:
    """What a cell attends to: a map over the canvas for each head.

    Of a canvas ``uint8 [H, W]``, as the model saw it, the cell (row, column) is framed in every map
    of attention weights, ``float [N, H, W]``. Rows at the edges that are blank and get no attention
    are left out.
    """
    used = np.flatnonzero((canvas != BLANK).any(axis=1) | (maps >= _SEEN).any(axis=(0, 2)))
    canvas, maps = canvas[used[0] : used[-1] + 1], maps[:, used[0] : used[-1] + 1]
    height, width = canvas.shape
    across = min(len(maps), 4 if width < 22 else 2)
    side = _cell_size(width, across)
    lines = -(-len(maps) // across)
    high = lines * (side * (height + 1) + 0.3 + 0.13 * titles[0].count("\n")) + 0.7
    figure = new_figure(side * across * (width + 1.5) + 0.9, high, title)
    axes = _panels(figure, len(maps), canvas.shape, across, titles)
    for one, weights in zip(axes, maps, strict=True):
        draw_map(one, canvas, weights, SHARES)
        _frame(one, (cell[0] - int(used[0]), cell[1]), _FRAME)
    figure.colorbar(
        own_scale(SHARES), ax=axes, aspect=25, shrink=min(1, 3 / high), pad=0.01, anchor=(0, 1)
    )
    return _within(figure)


def changes_figure(changes: dict[str, np.ndarray], title: str) -> Figure:
    """How far the states went in each of their updates, on a logarithmic scale.

    By the state's name ``float [T, C, B]``: T supervision steps of C updates each, a curve for each
    of B rows.
    """
    figure = new_figure(_WIDE, 3.8, title)
    rows = next(iter(changes.values())).shape[-1]
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, rows))
    all_axes = np.atleast_1d(figure.subplots(1, len(changes), sharey=True))
    for axes, (state, values) in zip(all_axes, changes.items(), strict=True):
        steps, updates, _ = values.shape
        x = np.arange(1, steps * updates + 1) / updates + 1 - 1 / updates
        for row in range(rows):
            style = {"linestyle": _LINES[row % len(_LINES)], "color": colours[row]}
            axes.plot(x, values[:, :, row].reshape(-1), label=f"row {row + 1}", **style)
        axes.set(yscale="log", xlabel="supervision step", title=f"change of {state} per update")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(color=picture.GRID, linewidth=0.6)
    all_axes[0].set_ylabel("root mean square (the states have 1)")
    if rows <= _MOST_NAMES:  # beside the curves, whose ends it would hide
        handles, labels = all_axes[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=9, frameon=False)
    else:
        scale = ScalarMappable(Normalize(1, rows), ListedColormap(colours))
        figure.colorbar(scale, ax=all_axes, label="row", ticks=MaxNLocator(integer=True))
    return figure


def lens_figure(lens: Lens, canvas: np.ndarray, truth: np.ndarray, title: str) -> Figure:
    """The row below the canvas, a line for each site in the model, column under column.

    The symbol is the likeliest there, the colour the probability of the true one; wrong symbols are
    framed, with the right one in the corner. Cells of the row that are given are grey. Canvas and
    truth are ``uint8 [H, W]``, what the model saw, and the row as it should be.
    """
    lines, (height, width) = len(lens.sites), canvas.shape
    right = truth[lens.row]
    said = np.tile(right, (lines + 1, 1))
    said[:-1, lens.columns] = lens.symbols
    shown = np.full(said.shape, np.nan)
    shown[:-1, lens.columns] = np.exp(lens.of(truth))
    side = _cell_size(width, 1)
    names = 0.075 * max(map(len, lens.sites))
    high = 1.15 * side * (height + lines + 3) + 0.9
    wide = max(side * (width + 1) + names + 1.2, 0.09 * len(title) + 0.4, 6)
    note = "colour: probability of the true symbol. Framed: another symbol is likelier"
    figure = new_figure(wide, high, title, note)
    above, below = figure.subplots(2, 1, height_ratios=(height + 1, lines + 2))
    draw_canvas(above, canvas, highlight_row=lens.row)
    above.text(
        -1.3, height / 2, "what the model sees", ha="right", fontsize=8.5, color=picture.GREY
    )
    fills = np.array([[to_hex(colour) for colour in line] for line in SHARES.to_rgba(shown)])
    fills[np.isnan(shown)] = picture.GIVEN
    fills[-1] = picture.PAPER
    wrong = said != right
    signs = np.where(np.isnan(shown) & (np.arange(lines + 1) < lines)[:, None], "", _SIGNS[said])
    inks = np.vectorize(_ink)(fills)
    draw_cells(below, signs, fills, inks, wrong=wrong, right=np.tile(_SIGNS[right], (lines + 1, 1)))
    for line, name in enumerate([*lens.sites, "true"]):
        bold: dict[str, Any] = (
            {"weight": "bold", "color": picture.HIGHLIGHT} if line == lines else {}
        )
        below.text(-1.3, line, name, ha="right", va="center", fontsize=8.5, **bold)
    for one in (above, below):
        one.set_anchor("N")
    figure.colorbar(
        own_scale(SHARES), ax=[above, below], aspect=20, shrink=min(1, 2.5 / high), pad=0.01
    )
    return _within(figure)


def class_sign(chosen: int) -> str:
    """The sign of a class on a map: its number from 0, nothing where there is none."""
    return "" if chosen in (0, UNDEFINED) else str(chosen - 1)


def fields_figure(
    canvas: np.ndarray, row: int, fields: dict[str, tuple[np.ndarray, np.ndarray]], title: str
) -> Figure:
    """Maps over the canvas of what cells decide, a line for each field: what is right beside it.

    Of a canvas ``uint8 [H, W]``, as the model saw it, the row that it fills in is framed. By field
    what was decided and what is right, ``uint8 [H, W]``, see `canvas.windows.draw_fields`.
    """
    used = canvas != BLANK
    used[row] |= not used.any()
    down, across = (
        slice(max(0, np.flatnonzero(line)[0] - 1), np.flatnonzero(line)[-1] + 2)
        for line in (used.any(axis=1), used.any(axis=0))
    )
    shown, row = canvas[down, across], row - down.start
    height, width = shown.shape
    side = _cell_size(width, 2)
    size = side * (width + 1.5), side * (height + 1) + 0.28
    note = "white: no such quantity. Grey: not defined, or not read. Framed: wrong, with the right"
    note += " class in the corner"
    figure = new_figure(max(2 * size[0] + 0.3, 8), (1 + len(fields)) * size[1] + 1, title, note)
    grid = figure.subplots(1 + len(fields), 2, squeeze=False, subplot_kw=_NO_TICKS)
    draw_canvas(grid[0, 0], shown, highlight_row=row)
    grid[0, 0].set_title("what the model sees", fontsize=8.5, loc="left", pad=2)
    grid[0, 1].set_visible(False)
    for line, (name, (decided, right)) in zip(grid[1:], fields.items(), strict=True):
        good, counted = right_cells(decided, right)
        found = f"as it writes: {good.sum()} of {counted.sum()}"
        bold: dict[str, Any] = {"weight": "bold", "color": picture.HIGHLIGHT}
        for axes, classes, heading, style in zip(
            line, (right, decided), (name, found), (bold, {}), strict=True
        ):
            axes.set_title(heading, fontsize=8.5, loc="left", pad=2, **style)
            due, held = right[down, across], classes[down, across]
            unknown = (due == UNDEFINED) | (held == UNDEFINED)
            wrong = ~right_cells(held, due)[0] & ~unknown
            signs, signs_due = (np.vectorize(class_sign, otypes=[str])(of) for of in (held, due))
            fills = np.where(signs == "", picture.PAPER, picture.FILLED)
            fills[unknown], fills[wrong], signs[unknown] = picture.MASKED, picture.WRONG, ""
            inks = np.where(wrong, picture.INK, picture.FILLED_INK)
            draw_cells(axes, signs, fills, inks, wrong=wrong, right=signs_due, row=row)
    return _within(figure)


def patching_figure(found: Patching, names: tuple[str, str], title: str) -> Figure:
    """A map over the canvas for each site, or all heads or supervision steps in one table.

    The names are those of A and B.
    """
    effects, canvases, scored = found.effects, found.canvases, found.scored
    in_one = bool(found.things)
    if not in_one:  # rows below that no model reads
        last = int(np.argwhere(~np.isnan(effects))[:, 1].max()) + 1
        effects, canvases, scored = effects[:, :last], canvases[:, :last], scored[:last]
    h, w = canvases.shape[1:]
    across = 2 if in_one or len(found.sites) < 3 or w >= 22 else 4
    side = _cell_size(w, across)
    head = side * (h + 1) + 0.3
    lines = -(-len(found.sites) // across)
    high = 0.3 * len(found.sites) + 0.4 if in_one else lines * head
    table = 0.62 * len(found.things) + 1.8
    wide = max(side * across * (w + 1.5) + 1, table, 7.6)
    note = "effect: 0, A's answer stands; 1, the model says B's as clearly as in the run on B\n"
    note += (
        "(normalised logit difference). Framed: A and B differ here; black: in the row by which\n"
    )
    figure = new_figure(wide, head + high + 1.1, title, f"{note}the effect is measured")
    parts: Any = figure.subfigures(2, 1, height_ratios=(head, high))
    above, below = parts
    titles = [f"{letter}: {name}" for letter, name in zip("AB", names, strict=True)]
    differ = canvases[0] != canvases[1]
    panels = _panels(above, 2, (h, w), max(2, across), titles)
    panels[-1].figure.set_facecolor(picture.PAPER)
    for axes, canvas in zip(panels, canvases, strict=True):
        draw_map(axes, canvas, np.zeros((h, w)), EFFECTS)
    if in_one:
        axes = below.subplots()
        texts = np.vectorize(lambda effect: f"{effect + 0.0:.2f}".replace("-0.00", "0.00"))(effects)
        draw_table(axes, effects, texts, found.sites, found.things, EFFECTS)
        maps = [axes]
    else:
        maps = _panels(below, len(found.sites), (h, w), across, found.sites)
        for axes, values in zip(maps, effects, strict=True):
            draw_map(axes, canvases[0], values, EFFECTS)
    for axes in panels if in_one else [*panels, *maps]:
        for i, j in np.argwhere(differ):
            _frame(axes, (int(i), int(j)), _SCORED if scored[i, j] else _DIFFERENT)
    bar: Any = {"extend": "both", "ticks": [-1, 0, 1], "aspect": 15, "pad": 0.01}
    below.colorbar(own_scale(EFFECTS), ax=maps, shrink=min(1, 2 / high), **bar)
    return _within(figure)
