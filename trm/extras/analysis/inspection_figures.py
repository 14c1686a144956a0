"""Figures of a model's computation on one problem: attention, signals, lens, and patching.

`canvas.picture` draws canvases, in cells whose colours are values; matplotlib lays them out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from canvas import picture
from canvas.boxes import bounding_box, written_box
from canvas.cells.drawn import right_cells
from canvas.drawing import UNDEFINED
from canvas.picture import draw_canvas, draw_cells, for_people
from canvas.symbols import ALL_CHARACTERS, BLANK
from trm.extras.analysis.lens import Lens
from trm.extras.analysis.patch import Patching
from trm.extras.analysis.saliency import Saliency
from trm.figures.style import WRONG, colours, ink, new_figure, panels

_SIGNS = np.array([for_people(symbol) for symbol in range(len(ALL_CHARACTERS))])
_SCORED, _DIFFERENT = "#1A1A1A", "#E69F00"
_CELL = (0.1, 0.24)  # inches of a cell, fewest and most
_WIDE = 10.0  # inches of maps side by side; more if cells have the smallest size
_NO_TICKS: dict[str, Any] = {"xticks": [], "yticks": []}  # the layout of ticks takes long
_SEEN = 0.05  # least attention weight for which a row at the edge of the canvas is drawn


def effect_colours() -> ScalarMappable:
    """Return the colour map of patching effects: from blue to red, without green."""
    return colours("RdBu_r", -1, 1)


def draw_map(axes: Axes, canvas: np.ndarray, values: np.ndarray, scale: ScalarMappable) -> None:
    """Draw a canvas ``uint8 [h, w]`` in cells whose colours are values; NaN is grey."""
    draw_cells(axes, _SIGNS[canvas], *_colours(values, scale, picture.PALE))


def _colours(
    values: np.ndarray, scale: ScalarMappable, unknown: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the colours of cells, and of the symbols in them."""
    fills = np.array([[to_hex(colour) for colour in line] for line in scale.to_rgba(values)])
    fills[np.isnan(values)] = unknown
    return fills, np.vectorize(lambda colour: ink(to_rgb(colour)))(fills)


def _within(figure: Figure) -> Figure:
    """Lay out a figure by its axes only, as measuring the artists within them takes long."""
    for axes in figure.axes:
        for artist in (*axes.collections, *axes.patches, *axes.images):
            artist.set_in_layout(False)
    return figure


def _frame(axes: Axes, cell: Sequence[int], colour: str) -> None:
    corner = (cell[1] - 0.44, cell[0] - 0.44)
    frame = Rectangle(corner, 0.88, 0.88, fill=False, edgecolor=colour, linewidth=1.8, zorder=3)
    axes.add_patch(frame)


def _maps(figure: Any, across: int, titles: Sequence[str]) -> list[Axes]:
    """Return axes for maps with these titles, ``across`` in a line."""
    axes = panels(figure, len(titles), across, subplot_kw=_NO_TICKS)
    for one, title in zip(axes, titles, strict=True):
        one.set_title(title, fontsize=8.5, loc="left", pad=3, parse_math=False)
    return axes


def _cell_size(width: int, across: int) -> float:
    return float(np.clip(_WIDE / (across * (width + 1.5)), *_CELL))


def attention_figure(
    canvas: np.ndarray, cell: tuple[int, int], attention: dict[str, np.ndarray], title: str
) -> Figure:
    """Draw a cell's attention weights as a map over the canvas for each head.

    ``canvas`` is the model's input, ``uint8 [H, W]``. ``attention`` has weights by the name of the
    state's tensor, ``float [layers, heads, H * W, H * W]``. The cell (row, column) is framed in
    every map. Blank rows at the edges without attention are left out.
    """
    query = cell[0] * canvas.shape[1] + cell[1]
    maps = np.concatenate([of[:, :, query].reshape(-1, *canvas.shape) for of in attention.values()])
    titles = [
        f"{state}, layer {layer + 1}, head {head + 1}"
        for state, of in attention.items()
        for layer, head in np.ndindex(of.shape[:2])
    ]
    down, _ = bounding_box((canvas != BLANK) | (maps >= _SEEN).any(axis=0))
    canvas, maps = canvas[down], maps[:, down]
    height, width = canvas.shape
    across = min(len(maps), 4 if width < 22 else 2)
    side, lines = _cell_size(width, across), -(-len(maps) // across)
    high = lines * (side * (height + 1) + 0.3) + 0.7
    figure = new_figure(side * across * (width + 1.5) + 0.9, high, title)
    axes, scale = _maps(figure, across, titles), colours("Blues", 0, 1)
    for one, weights in zip(axes, maps, strict=True):
        draw_map(one, canvas, weights, scale)
        _frame(one, (cell[0] - down.start, cell[1]), WRONG)
    bar: Any = {"aspect": 25, "shrink": min(1, 3 / high), "pad": 0.01, "anchor": (0, 1)}
    figure.colorbar(scale, ax=axes, **bar).set_label("attention", fontsize=8.5)
    return _within(figure)


def saliency_figure(found: Saliency, title: str) -> Figure:
    """Draw the saliency of cells as maps over the canvas, a line for each method.

    The explained cell is framed. The strongest value of a method has the strongest colour. Blank
    rows at the edges are left out.
    """
    down, _ = written_box(found.canvas)
    shown, cell = found.canvas[down], (found.cell[0] - down.start, found.cell[1])
    (height, width), across = shown.shape, len(found.names)
    lines = 2 if across > 1 else 1  # methods below each other, or side by side
    side = _cell_size(width, max(across, 2))
    wide = max(side * max(across, 2) * (width + 1.5) + 1.0, 7.6)
    note = "Red: raises the logit of the written symbol, less the mean logit; blue: lowers it. The "
    note += "framed cell is explained. Integrated gradients: from a canvas without symbols"
    figure = new_figure(wide, lines * (side * (height + 1) + 0.3) + 1.1, title, note)
    parts: Any = figure.subfigures(lines, 3 - lines)
    methods = {"input x gradient": found.gradient, "integrated gradients": found.integrated}
    for part, (method, maps) in zip(parts, methods.items(), strict=True):
        most = float(np.nanmax(np.abs(maps[:, down]))) or 1.0
        scale = colours("RdBu_r", -most, most)
        axes = _maps(part, across, [f"{method}, {name}" for name in found.names])
        for one, values in zip(axes, maps[:, down], strict=True):
            draw_map(one, shown, values, scale)
            _frame(one, cell, _SCORED)
        bar: Any = {"aspect": 12, "pad": 0.01, "ticks": MaxNLocator(3, symmetric=True)}
        part.colorbar(scale, ax=axes, shrink=0.8, **bar)
    return _within(figure)


def settled_figure(
    canvas: np.ndarray, truth: np.ndarray, decided: np.ndarray, title: str, unit: str
) -> Figure:
    """Draw a worked canvas in cells whose colour is the step that decided them.

    ``canvas`` and ``truth`` are ``uint8 [H, W]``. ``decided`` has the steps, ``int64 [H, W]``; it
    is 0 in cells that were not decided, which are grey. Incorrect cells are framed, with the true
    symbol in the corner. ``unit`` is the name of the step.
    """
    used = bounding_box((canvas != BLANK) | (truth != BLANK) | (decided > 0))
    canvas, truth, decided = (part[used] for part in (canvas, truth, decided))
    height, width = canvas.shape
    side = 1.4 * _cell_size(width, 1)
    note = "grey: given. Framed: incorrect, with the correct symbol in the corner"
    wide = max(side * width + 1.5, 4.6)
    high = max(side * height, 1.6) + 1.0
    figure = new_figure(wide, high, title, note)
    axes = figure.subplots(subplot_kw=_NO_TICKS)
    scale = colours("viridis", 1, max(2, int(decided.max())))
    fills, inks = _colours(np.where(decided, decided, np.nan), scale, picture.PALE)
    draw_cells(axes, _SIGNS[canvas], fills, inks, wrong=canvas != truth, right=_SIGNS[truth])
    bar: Any = {"aspect": 15, "pad": 0.02, "ticks": MaxNLocator(6, integer=True)}
    figure.colorbar(scale, ax=axes, **bar).set_label(unit, fontsize=8.5)
    return _within(figure)


def lens_figure(lens: Lens, canvas: np.ndarray, truth: np.ndarray, title: str) -> Figure:
    """Draw the predictions of each site below the canvas, a line for each site.

    A cell has the likeliest symbol, and as its colour the probability of the true one. Incorrect
    symbols are framed, with the true one in the corner. Cells of the row that are given are grey.
    ``canvas`` is the model's input and ``truth`` the true canvas, ``uint8 [H, W]`` both.
    """
    lines, (height, width) = len(lens.sites), canvas.shape
    right = truth[lens.row]
    drawn = np.tile(right, (lines + 1, 1))
    drawn[:-1, lens.columns] = lens.symbols
    shown = np.full(drawn.shape, np.nan)
    shown[:-1, lens.columns] = np.exp(lens.of(truth))
    side, names = _cell_size(width, 1), 0.075 * max(map(len, lens.sites))
    high = 1.15 * side * (height + lines + 3) + 0.9
    wide = max(side * (width + 1) + names + 1.2, 6)
    note = "colour: probability of the true symbol. Framed: another symbol is likelier"
    figure, scale = new_figure(wide, high, title, note), colours("Blues", 0, 1)
    above, below = figure.subplots(2, 1, height_ratios=(height + 1, lines + 2))
    draw_canvas(above, canvas, highlight_row=lens.row)
    fills, inks = _colours(shown, scale, picture.GIVEN)
    fills[-1] = picture.PAPER
    signs = np.where(np.isnan(shown) & (np.arange(lines + 1) < lines)[:, None], "", _SIGNS[drawn])
    due = np.tile(_SIGNS[right], (lines + 1, 1))
    draw_cells(below, signs, fills, inks, wrong=drawn != right, right=due)
    beside: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 8.5}
    above.text(-1.3, (height - 1) / 2, "the model's input", **beside)
    for line, name in enumerate([*lens.sites, "true"]):
        below.text(-1.3, line, name, weight="bold" if line == lines else None, **beside)
    for one in (above, below):
        one.set_anchor("N")
    bar = figure.colorbar(scale, ax=[above, below], aspect=20, shrink=min(1, 2.5 / high), pad=0.01)
    bar.set_label("probability", fontsize=8.5)
    return _within(figure)


def signals_figure(
    canvas: np.ndarray, row: int, signals: dict[str, tuple[np.ndarray, np.ndarray]], title: str
) -> Figure:
    """Draw decided signals as maps over the canvas, a line for each signal, truth beside it.

    ``canvas`` is the model's input, ``uint8 [H, W]``; ``row``, which the model fills in, is framed.
    ``signals`` has the decided and the true classes of each signal, ``uint8 [H, W]`` both, see
    `canvas.cells.drawn.draw_signals`.
    """
    used = canvas != BLANK
    used[row] |= not used.any()
    down, across = (slice(max(0, line.start - 1), line.stop + 1) for line in bounding_box(used))
    shown, row = canvas[down, across], row - down.start
    height, width = shown.shape
    side = _cell_size(width, 2)
    size = side * (width + 1.5), side * (height + 1) + 0.28
    note = "white: no signal. Grey: not defined, or not read. Framed: incorrect, with the true"
    note += " class in the corner"
    figure = new_figure(max(2 * size[0] + 0.3, 8), (1 + len(signals)) * size[1] + 1, title, note)
    grid = figure.subplots(1 + len(signals), 2, squeeze=False, subplot_kw=_NO_TICKS)
    draw_canvas(grid[0, 0], shown, highlight_row=row)
    grid[0, 0].set_title("the model's input", fontsize=8.5, loc="left", pad=2)
    grid[0, 1].set_visible(False)
    for line, (name, (decided, right)) in zip(grid[1:], signals.items(), strict=True):
        good, counted = right_cells(decided, right)
        found = f"decided: {good.sum()} of {counted.sum()} correct"
        bold: dict[str, Any] = {"weight": "bold", "color": picture.HIGHLIGHT}
        for axes, classes, heading, style in zip(
            line,
            (right, decided),
            (f"{name.replace('_', ' ')}: true", found),
            (bold, {}),
            strict=True,
        ):
            axes.set_title(heading, fontsize=8.5, loc="left", pad=2, **style)
            due, held = right[down, across], classes[down, across]
            unknown = (due == UNDEFINED) | (held == UNDEFINED)
            wrong = ~right_cells(held, due)[0] & ~unknown
            # Class 0 is "no signal"; class n is drawn as n - 1.
            signs, signs_due = (np.where(of == 0, "", of.astype(int) - 1) for of in (held, due))
            fills = np.where(signs == "", picture.PAPER, picture.FILLED)
            fills[unknown], fills[wrong], signs[unknown] = picture.MASKED, picture.WRONG, ""
            inks = np.where(wrong, picture.INK, picture.FILLED_INK)
            draw_cells(axes, signs, fills, inks, wrong=wrong, right=signs_due, row=row)
    return _within(figure)


def patching_figure(found: Patching, names: tuple[str, str], title: str) -> Figure:
    """Draw the effects of cells as a map over the canvas for each site, below A and B."""
    # No model reads rows below the last.
    last = int(np.argwhere(~np.isnan(found.effects))[:, 1].max()) + 1
    effects, canvases = found.effects[:, :last], found.canvases[:, :last]
    scored = found.scored[:last]
    h, w = canvases.shape[1:]
    across = 2 if len(found.sites) < 3 or w >= 22 else 4
    side = _cell_size(w, across)
    head, lines = side * (h + 1) + 0.3, -(-len(found.sites) // across)
    high = lines * head
    wide = max(side * across * (w + 1.5) + 1, 7.6)
    note = "effect: 0, A's answer stays; 1, B's answer is as clear as in the run on B (normalised "
    note += "logit difference). Framed: A and B differ here; black: in the row by which the effect "
    figure = new_figure(wide, head + high + 1.1, title, f"{note}is measured")
    scale = effect_colours()
    parts: Any = figure.subfigures(2, 1, height_ratios=(head, high))
    above, below = parts
    titles = [f"{letter}: {name}" for letter, name in zip("AB", names, strict=True)]
    originals = _maps(above, max(2, across), titles)
    for axes, canvas in zip(originals, canvases, strict=True):
        draw_map(axes, canvas, np.zeros((h, w)), scale)
    maps = _maps(below, across, found.sites)
    for axes, values in zip(maps, effects, strict=True):
        draw_map(axes, canvases[0], values, scale)
    for axes in [*originals, *maps]:
        for i, j in np.argwhere(canvases[0] != canvases[1]).tolist():
            _frame(axes, (i, j), _SCORED if scored[i, j] else _DIFFERENT)
    bar: Any = {"extend": "both", "ticks": [-1, 0, 1], "aspect": 15, "pad": 0.01}
    below.colorbar(scale, ax=maps, shrink=min(1, 2 / high), **bar).set_label("effect", fontsize=8.5)
    return _within(figure)
