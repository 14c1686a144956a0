"""Figures of a grid's accuracy, and of the confidence of its models.

These are accuracy and steps against length, heat maps of digits × digits, risk against coverage,
and calibration. Colours run from dark to light with the share (viridis), so they stay in order in
grey prints; every cell contains its number as well.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import NullFormatter

from canvas.picture import GIVEN, GREY, INK, PAPER, pixels
from trm.checkpoints.names import FAMILY_NAMES
from trm.evaluation.comparison import by_setting
from trm.evaluation.diagnosis import KINDS, OTHER
from trm.evaluation.grid import (
    Grid,
    Model,
    by_length,
    cells_by_length,
    cells_in,
    cells_of,
    errors,
    in_order,
    trust,
)
from trm.evaluation.grid_cells import INSIDE
from trm.evaluation.grid_format import (
    COMPARED,
    ERRORS,
    LENGTHS,
    LENGTHS_PICTURE,
    PICTURE,
    REPORT,
    SHARES,
    STEPS,
    TABLE,
    TRUST,
)
from trm.evaluation.grid_report import markdown
from trm.evaluation.statistics import reliability, risk_coverage
from trm.figures.confidence import trust_figure
from trm.figures.style import HATCHES, colours, draw_table, mark, new_figure, panels, save, tidy
from trm.io.files import replacing, write_text

_CURVES = (6.2, 4.4)  # inches of curves over length: legible in a column of a paper, too
_ACROSS = 4  # most panels in a line
_COLUMNS = 24  # most columns of all panels in a line: numbers are legible across a page of text
_ROOM = (6.2, 5.2, 4.4, 4.0)  # inches for a panel's cells with 1, 2, 3 or 4 panels in a line
_CELL = (0.24, 0.64)  # inches of a cell, least and most
_PANEL = 3.0  # least width of a panel in inches: its title has to fit
_LETTER = 0.05  # inches of a cell's small print
_TITLE: dict[str, Any] = {"weight": "bold", "fontsize": 12, "color": INK}
_RANGE: dict[str, Any] = {"edgecolor": INK, "linewidth": 2.2, "fill": False}
_HATCH: dict[str, Any] = {"facecolor": GIVEN, "edgecolor": "#A6A6A6", "linewidth": 0}
_HATCH["hatch"] = "////"
_SHADES = ("#56b4e9", "#f0e442", "#e69f00", "#cc79a7", "#009e73", "#d55e00", "#0072b2")


def write_files(grid: Grid, output: Path) -> None:
    """Write a grid's pictures, report and table into a folder."""
    for name, figure in _figures(grid).items():
        if figure is None:
            (output / name).unlink(missing_ok=True)  # of an earlier run with other settings
        else:
            save(figure, output / name)
    write_text(output / REPORT, markdown(grid))
    rows = grid.rows
    with replacing(output / TABLE) as part, part.open("w", encoding="utf-8", newline="") as lines:
        table = csv.DictWriter(lines, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def _figures(grid: Grid) -> dict[str, Figure | None]:
    """Return the figures of a grid by the names of their files; None: there is none."""
    return {
        LENGTHS_PICTURE: lengths_figure(grid),
        PICTURE: grid_figure(grid),
        COMPARED: compared_figure(grid),
        TRUST: confidence_figure(grid),
        ERRORS: errors_figure(grid),
        STEPS: steps_figure(grid) if grid.shows_steps else None,
    }


def write_events(grid: Grid, folder: Path) -> None:
    """Write a grid's pictures, report and accuracy by length as TensorBoard events.

    Those of an earlier call are replaced.
    """
    from torch.utils.tensorboard import SummaryWriter

    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    with SummaryWriter(str(folder)) as writer:
        for name, figure in _figures(grid).items():
            if figure is not None:
                picture = pixels(figure)  # uint8 [H, W, 3]
                writer.add_image(f"evaluation/{Path(name).stem}", picture, dataformats="HWC")
        writer.add_text("evaluation/report", markdown(grid))
        for model in grid.models:
            for length, value in by_length(grid, model).items():
                writer.add_scalar(f"evaluation/accuracy_by_length/{model['name']}", value, length)


def lengths_figure(grid: Grid) -> Figure:
    """Draw accuracy against the digits of the operands.

    If a grid of two operands has several cells with equal lengths, only these are drawn. Otherwise
    the length is that of the longest operand, and all its cells are pooled. Each setting has a
    line: the mean of its seeds, in a band from the lowest to the highest. With one seed the band is
    Wilson's 95 % interval. Dotted: the longest of training.
    """
    alike = grid.equal_lengths
    notes = f"{grid.problems_in_words}. Bands: of several seeds from the lowest to the highest, of "
    notes += "one the Wilson 95\u00a0% interval. Dotted: the longest of training. "
    notes += " ".join(grid.caveats)
    figure = new_figure(*_CURVES, note=notes)
    axes, every = figure.subplots(), set[int]()
    for i, (name, models) in enumerate(by_setting(grid.models).items()):
        style = mark(i)
        seeds = [
            {n: grid.pooled(cells) for n, cells in cells_by_length(grid, model).items()}
            for model in models
        ]
        x = [n for n in seeds[0] if all(n in seed for seed in seeds)]
        values = [[100 * seed[n].value for seed in seeds] for n in x]
        ends = [(min(of), max(of)) for of in values]
        if len(models) == 1:
            ends = [(100 * low, 100 * high) for low, high in (seeds[0][n].interval for n in x)]
        label = f"{name}, mean of {len(models)} seeds" if len(models) > 1 else name
        axes.plot(x, [sum(of) / len(of) for of in values], label=label, zorder=3, **style)
        low, high = zip(*ends, strict=True) if ends else ((), ())
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
        every |= set(x)
        ranges = (models[0]["ranges"] or {}).items()
        if longest := [most for axis, (_, most) in ranges if axis in LENGTHS]:
            most = min(longest) if alike else max(longest)
            axes.axvline(most, color=style["color"], linestyle=":", linewidth=1.2)
    _finish_lengths(axes, every, grid.length_in_words)
    axes.set(ylim=(-2, 102), ylabel="correct, %")
    axes.set_title(SHARES[grid.share_shown], loc="left", **_TITLE)
    axes.legend(frameon=False, fontsize=8.5, loc="best")
    return figure


def compared_figure(grid: Grid) -> Figure:
    """Draw accuracy, agreement, confidence and seconds a problem against the length.

    Lengths are those of `lengths_figure`. Each model has a line in each panel.
    """
    notes = f"{grid.problems_in_words}. Means over problems. " + " ".join(grid.caveats)
    meanings: dict[str, tuple[str, float]] = {
        "": ("correct, %", 100),
        "confidence": ("mean confidence, %", 100),
        "seconds_per_problem": ("seconds a problem", 1),
        "agreement": ("agreement of the views, %", 100),
    }
    lines = {key: [by_length(grid, model, key) for model in grid.models] for key in meanings}
    drawn = [key for key in meanings if not key or any(lines[key])]  # agreement: of votes alone
    figure = new_figure(len(drawn) * 0.8 * _CURVES[0], _CURVES[1], note=notes)
    for axes, key in zip(panels(figure, len(drawn), len(drawn)), drawn, strict=True):
        label, scale = meanings[key]
        for i, (model, means) in enumerate(zip(grid.models, lines[key], strict=True)):
            values = [scale * mean for mean in means.values()]
            axes.plot([*means], values, label=model["name"], zorder=3, **mark(i))
        _finish_lengths(axes, set().union(*lines[key]), grid.length_in_words)
        axes.set(ylabel=label)
        if scale == 100:
            axes.set(ylim=(-2, 102))
        else:
            axes.set_yscale("log")
        if not key:
            axes.legend(frameon=False, fontsize=8, loc="best")
            axes.set_title("By length", loc="left", **_TITLE)
    return figure


def confidence_figure(grid: Grid) -> Figure | None:
    """Draw risk over coverage, and calibration, of each model in range and beyond.

    None: the confidence in each problem is not known.
    """
    curves, bins = {}, {}
    for model in grid.models:
        beyond = [cell for cell in model["cells"] if cell["region"] != INSIDE]
        for where, cells in (("in range", cells_in(model, INSIDE)), ("beyond", beyond)):
            confidence, right = trust(cells)
            if len(confidence):
                name = f"{model['name']}, {where}"
                curves[name] = risk_coverage(confidence, right)
                bins[name] = reliability(confidence, right)
    return trust_figure(curves, bins) if curves else None


def steps_figure(grid: Grid) -> Figure:
    """Draw the mean supervision steps against the digits of the operands.

    Lengths are those of `lengths_figure`. Each model has a line. For a model that fills in all rows
    together a dashed line shows the most steps that its canvases can need.
    """
    every = set[int]()
    notes = f"{grid.problems_in_words}. Free-running, means over problems. "
    notes += "Dashed: the longest chain of cells, the most steps until nothing changes. "
    figure = new_figure(*_CURVES, note=notes + " ".join(grid.caveats))
    axes = figure.subplots()
    for i, model in enumerate(grid.models):
        steps = by_length(grid, model, "steps")
        chains = by_length(grid, model, "longest_chain")
        if steps:
            axes.plot([*steps], [*steps.values()], label=model["name"], zorder=3, **mark(i))
        if chains:
            axes.plot([*chains], [*chains.values()], linestyle="--", color=mark(i)["color"])
        every |= {*steps, *chains}
    _finish_lengths(axes, every, grid.length_in_words)
    together = all(cell["steps"] is None or cell.get("longest_chain")
                   for model in grid.models for cell in model["cells"])  # fmt: skip
    axes.set(ylim=(0, None), ylabel=f"supervision steps of a {'canvas' if together else 'row'}")
    axes.set_title("Supervision steps", loc="left", **_TITLE)
    axes.legend(frameon=False, fontsize=8.5, loc="best")
    return figure


def _finish_lengths(axes: Axes, every: set[int], what: str) -> None:
    """Label the axis of lengths as ``what``."""
    lengths = sorted(every)
    if lengths and lengths[-1] > 2 * len(lengths):  # a few sizes far apart
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(lengths, [str(n) for n in lengths])
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axes.set(xlabel=what)
    tidy(axes)


def grid_figure(grid: Grid) -> Figure:
    """Draw a heat map for each model of a grid, up to four in a line, on one scale of 0 to 100 %.

    A line has fewer heat maps if they have many columns, so that its width suits a page. Cells of
    the training range are outlined, cells that are not applicable to a model are hatched, and cells
    without problems are blank.
    """
    cells = [cell for model in grid.models for cell in model["cells"]]
    rows, columns = (in_order(cell[key] for cell in cells) for key in ("row", "column"))
    most = min(_ACROSS, max(1, _COLUMNS // len(columns)))
    down = -(-len(grid.models) // most)
    across = -(-len(grid.models) // down)
    side = float(np.clip(_ROOM[across - 1] / max(len(rows), len(columns)), *_CELL))
    labels = 0.45 + 0.06 * max(len(str(row)) for row in rows)
    panel = labels + max(_PANEL - 0.45, side * len(columns))
    width = panel * across + 0.9
    lines = [f"{grid.problems_in_words}. Intervals: Wilson, 95\u00a0%.", *grid.caveats]
    notes = "\n".join(fill(line, int(14 * width)) for line in lines)
    height = (side * len(rows) + 1.1) * down + 0.7 + 0.16 * (notes.count("\n") + 2)
    figure = new_figure(width, height)
    what = SHARES[grid.share_shown]
    figure.suptitle(what, x=0.01, ha="left", **_TITLE)
    marks = (
        (any(cell["region"] == INSIDE for cell in cells), "trained on", _RANGE),
        (not all(cell["applicable"] for cell in cells), "n/a: not applicable", _HATCH),
    )
    handles = [Patch(label=label, **style) for there, label, style in marks if there]
    place: dict[str, Any] = {"loc": "outside lower left", "alignment": "left", "frameon": False}
    place |= {"title_fontsize": 9, "fontsize": 9, "labelcolor": INK, "ncols": 4}
    figure.legend(handles=handles, title=notes, **place)
    every, scale = panels(figure, len(grid.models), across), colours("viridis")
    letters = int(13 * (panel - labels + 0.4))  # most letters of a title, above the cells
    for axes, model in zip(every, grid.models, strict=True):
        _draw_shares(axes, grid, model, rows, columns, side, scale)
        layout, known = model["task"]["layout"], model["parameters"]
        family = FAMILY_NAMES.get(model["family"], model["family"])
        about = ", ".join(filter(None, (family, layout))) or "nothing known of the model"
        size = "" if known is None else f"{known:,} parameters"
        title = "\n".join(_cut(line, letters) for line in (model["name"], about, size))
        axes.set_title(title, loc="left", fontsize=9, color=INK, parse_math=False)
        axes.set_ylabel(grid.labels[grid.axes[0]], fontsize=9, color=INK)
        axes.set_xlabel(grid.labels[grid.axes[1]], fontsize=9, color=INK)
    for end in range(across, len(every) + 1, across):
        line = every[end - across : end]  # a bar beside an unused place would be of no heat map
        bar = figure.colorbar(scale, ax=line, aspect=15, pad=0.01)
        bar.outline.set_visible(False)
        bar.ax.set_title("%", fontsize=9, color=INK, loc="left")
        bar.ax.tick_params(labelsize=8.5, colors=GREY, length=3)
    return figure


def _draw_shares(
    axes: Axes,
    grid: Grid,
    model: Model,
    rows: Sequence[Any],
    columns: Sequence[Any],
    side: float,
    scale: ScalarMappable,
) -> None:
    """Draw one heat map with cells that are ``side`` inches wide."""
    at = {(a, b): (i, j) for i, a in enumerate(rows) for j, b in enumerate(columns)}
    shape = len(rows), len(columns)
    values, texts, small = np.full(shape, np.nan), np.full(shape, "", "O"), np.full(shape, "", "O")
    for key, cell in cells_of(model).items():
        if (found := grid.pooled([cell])).total:
            values[at[key]], texts[at[key]] = 100 * found.value, found.percent
            small[at[key]] = found.span()
    more: dict[str, Any] = {"above": False, "size": float(np.clip(22 * side, 6.5, 11))}
    more["small"] = small if side >= _LETTER * max(map(len, small.flat)) else None
    draw_table(axes, values, texts, list(map(str, rows)), list(map(str, columns)), scale, **more)
    for key, cell in cells_of(model).items():
        if not cell["applicable"]:
            i, j = at[key]
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **_HATCH))
            behind = {"facecolor": GIVEN, "linewidth": 0, "pad": 1}
            axes.text(j, i, "n/a", ha="center", va="center", color=GREY, fontsize=7, bbox=behind)
    inside = [at[cell["row"], cell["column"]] for cell in cells_in(model, INSIDE)]
    if inside:  # a rectangle around all of them, with a pale edge that is visible on any colour
        (top, left), (bottom, right) = np.min(inside, axis=0), np.max(inside, axis=0)
        corner, size = (left - 0.5, top - 0.5), (right - left + 1, bottom - top + 1)
        halo = [Stroke(linewidth=5, foreground=PAPER), Normal()]
        box = Rectangle(corner, *size, path_effects=halo, clip_on=False, zorder=4, **_RANGE)
        axes.add_patch(box)


def errors_figure(grid: Grid) -> Figure | None:
    """Draw the kinds of errors of each size as a stacked bar, a panel for each model.

    A bar is all incorrect problems of a cell. Its parts are the kinds of their first wrong cells,
    see `trm.evaluation.diagnosis`, each with its own colour and hatching. Beside it stands the
    number of incorrect problems. None: no problem is incorrect, or nothing is known of errors.
    """
    drawn = []
    for model in grid.models:
        found = {key: (errors([cell]), cell) for key, cell in cells_of(model).items()}
        bars = [
            (f"{a} x {b}", {kind: share for kind, (share, _) in kinds.items()}, cell["problems"])
            for (a, b), (kinds, cell) in found.items()
            if any(share.total for share, _ in kinds.values())
        ]
        if bars:
            drawn.append((model["name"], bars))
    if not drawn:
        return None
    longest = max(len(bars) for _, bars in drawn)
    across = min(len(drawn), 2)
    down = -(-len(drawn) // across)
    shown = [
        (kind, fill(f"{kind}: {KINDS[kind].meaning}" if kind in KINDS else kind, 62 * across))
        for kind in grid.kinds
    ]
    lines = sum(text.count("\n") + 1 for _, text in shown)
    height = down * (0.26 * longest + 1.1) + 0.2 * lines + 0.7  # inches: panels, legend, title
    figure = new_figure(5.4 * across + 0.4, height)
    title = "First wrong cells, by the explanation that fits"
    figure.suptitle(title, x=0.01, ha="left", **_TITLE)
    styles: dict[str, dict[str, Any]] = {
        kind: {"facecolor": _SHADES[i % len(_SHADES)], "hatch": HATCHES[i % len(HATCHES)]}
        for i, kind in enumerate(dict.fromkeys([*KINDS, *grid.kinds]))
    }
    styles[OTHER] = {"facecolor": GIVEN, "hatch": ""}
    edge: dict[str, Any] = {"edgecolor": INK, "linewidth": 0.5}
    for axes, (name, bars) in zip(panels(figure, len(drawn), across), drawn, strict=True):
        for y, (_, shares, problems) in enumerate(bars):
            left = 0.0
            for kind in (kind for kind in grid.kinds if kind in shares):
                wide = 100 * shares[kind].value
                if wide:
                    axes.barh(y, wide, left=left, height=0.72, **styles[kind], **edge)
                left += wide
            wrong = max(share.total for share in shares.values())
            axes.text(102, y, f"{wrong} of {problems}", va="center", fontsize=8, color=GREY)
        axes.set_yticks(range(len(bars)), [size for size, *_ in bars], fontsize=8.5)
        axes.set_ylim(longest - 0.4, -0.6)
        axes.set_xlim(0, 122)
        axes.set_xticks(range(0, 101, 20))
        axes.set_xlabel("% of incorrect problems; their number", fontsize=9, color=INK)
        axes.set_title(_cut(name, 60), loc="left", fontsize=9, color=INK, parse_math=False)
        tidy(axes, "x")
    handles = [Patch(label=label, **styles[kind], **edge) for kind, label in shown]
    place: dict[str, Any] = {"loc": "outside lower left", "frameon": False, "fontsize": 8.5}
    figure.legend(handles=handles, labelcolor=INK, **place)
    return figure


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[1 - most // 2 :]}"
