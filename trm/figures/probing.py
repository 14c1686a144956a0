"""A probing study as a picture: accuracy by size and over steps, and the compositionality gap.

Drawn with matplotlib's `Figure` on the Agg canvas, without pyplot and its global state. Colours are
viridis, or Okabe and Ito's; no curve and no bar differs by its colour alone.
"""

import re
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator
from matplotlib.transforms import offset_copy

from canvas.picture import GRID, INK, PAPER
from trm.evaluation.grid import INSIDE
from trm.probing.report import JUDGES, curve, regions, site
from trm.probing.results import READERS, ProbeStudy

_DPI = 100
_ACROSS = 4  # curves' panels in a line
_TICKS = 12  # steps named below a panel, at most
_GREY = "#595959"
_CURVES: dict[tuple[str, str], dict[str, Any]] = {
    ("probe", "in range"): {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    ("probe", "beyond"): {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    ("head", "in range"): {"color": "#009E73", "linestyle": "-.", "marker": "^"},
    ("head", "beyond"): {"color": "#CC79A7", "linestyle": "-.", "marker": "v"},
    ("control", "in range"): {"color": _GREY, "linestyle": ":", "marker": "x"},
    ("majority", "in range"): {"color": "#A6A6A6", "linestyle": (0, (6, 3))},
}
_NAMES = {
    "probe": "probe",
    "head": "trained head",
    "control": "control task",
    "majority": "majority",
}
_PARTS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # of the bars: field, words, style
    ("both", "sub-tasks right, answer right", {"facecolor": "#0072B2"}),
    ("gap", "sub-tasks right, answer wrong: the gap", {"facecolor": "#D55E00", "hatch": "////"}),
    ("otherwise", "a sub-task wrong, answer right", {"facecolor": "#56B4E9", "hatch": "...."}),
    ("neither", "both wrong", {"facecolor": "#D4D4D4"}),
)


def probing_figure(study: ProbeStudy) -> Figure:
    """Sub-task by size at the last step, rows by what is right in them, and curves over steps.

    Args:
        study: with figures of at least one size.
    """
    heads = any(r.head is not None for size in study.measured for r in size.readings)
    hints = [h for h in study.hints if any(s.at(h, study.main, study.last) for s in study.measured)]
    across = min(_ACROSS, len(hints))
    lines = -(-len(hints) // across)
    top = 1.5 + 0.36 * max(len(hints), 4)
    height = top + 2.2 * lines + 1.2
    figure = Figure(figsize=(12.5, height), dpi=_DPI, facecolor=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    parts: Any = figure.subfigures(2, 1, height_ratios=(top, height - top))
    above, below = parts
    maps = ["probe", *(["head"] if heads else [])]
    ratios = [len(study.measured) + 2] * len(maps) + [max(4, len(study.measured))]
    axes = above.subplots(1, len(maps) + 1, width_ratios=ratios, squeeze=False)[0]
    for i, reader in enumerate(maps):
        _map(axes[i], study, hints, reader, first=not i)
    _bars(axes[-1], study)
    name = study.model.get("name", "")
    title = f"{name}: {site(study)}" if name else site(study)
    above.suptitle(title, fontsize=11, weight="bold", x=0.01, ha="left", color=INK)
    panels = below.subplots(lines, across, sharex=True, sharey=True, squeeze=False)
    unit = "block" if study.curve != study.main else "supervision step"
    for k, panel in enumerate(panels.flat):
        if k >= len(hints):
            panel.set_visible(False)
            continue
        _curves(panel, study, hints[k])
        panel.tick_params(labelbottom=k + across >= len(hints))
        if k + across >= len(hints):
            panel.set_xlabel(unit, fontsize=9)
        if k % across == 0:
            panel.set_ylabel("right, %", fontsize=9)
    over = f"{unit}s of {study.curve}" if study.curve == study.main else f"{unit}s"
    below.suptitle(
        f"cells of the working row right over {over}, sizes pooled",
        fontsize=10,
        x=0.01,
        ha="left",
        color=INK,
    )
    drawn = [key for key in _CURVES if _drawn(study, hints, *key)]
    handles = [
        Line2D([], [], label=f"{_NAMES[reader]}, {where}", markersize=4, **_CURVES[reader, where])
        for reader, where in drawn
    ]
    below.legend(handles=handles, loc="outside lower left", ncols=6, fontsize=8.5, frameon=False)
    return figure


def _map(axes: Axes, study: ProbeStudy, hints: list[str], reader: str, first: bool) -> None:
    """Accuracy of a reader, sub-tasks by sizes."""
    assert reader in READERS
    sizes = study.measured
    found = [[size.at(hint, study.main, study.last) for size in sizes] for hint in hints]
    values = np.array(
        [[np.nan if r is None else _value(r.value(reader)) for r in row] for row in found]
    )
    colours = matplotlib.colormaps["viridis"]
    axes.imshow(values, cmap=colours, vmin=0, vmax=100, aspect="auto", interpolation="nearest")
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        light = value > 60
        words = "100" if value == 100 else f"{min(value, 99.9):.1f}"
        axes.text(j, i, words, ha="center", va="center", fontsize=9, color=INK if light else PAPER)
    inside = [j for j, size in enumerate(sizes) if size.region == INSIDE]
    whole: Any = axes.figure
    below = offset_copy(axes.get_xaxis_transform(), whole, y=-4, units="points")
    bar: dict[str, Any] = {"color": INK, "linewidth": 4, "solid_capstyle": "butt", "clip_on": False}
    for j in inside:
        axes.plot([j - 0.5, j + 0.5], [0, 0], transform=below, scalex=False, scaley=False, **bar)
    ticks = [_short(size.name) for size in sizes]
    axes.set_xticks(range(len(sizes)), ticks, fontsize=8.5)
    axes.set_yticks(range(len(hints)), hints if first else [], fontsize=9)
    axes.tick_params(length=0, pad=8)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(f"{_NAMES[reader]}: cells right, %", fontsize=9.5, loc="left")
    if first:
        axes.set_xlabel("size of the problems; bar: trained on", fontsize=8.5, color=_GREY)


def _bars(axes: Axes, study: ProbeStudy) -> None:
    """Rows by whether sub-tasks and answer are right, a bar for each size."""
    sizes = [size for size in study.measured if size.gap is not None]
    left = np.zeros(len(sizes))
    places = np.arange(len(sizes))
    style: dict[str, Any]
    for part, _, style in _PARTS:
        counts = [(getattr(s.gap.rows, part), s.gap.rows.total) for s in sizes if s.gap]
        shares = np.array([100 * n / total if total else 0.0 for n, total in counts])
        axes.barh(places, shares, left=left, height=0.62, edgecolor=PAPER, linewidth=0.6, **style)
        left += shares
    axes.set_yticks(
        places, [f"{_short(s.name)}\n{s.gap.rows.total} rows" for s in sizes if s.gap], fontsize=8
    )
    axes.set(xlim=(0, 100), ylim=(len(sizes) - 0.5, -0.5))
    axes.tick_params(length=0, labelsize=8)
    for name in ("top", "right", "left"):
        axes.spines[name].set_visible(False)
    judge = JUDGES[sizes[0].gap.judge] if sizes and sizes[0].gap else ""
    axes.set_title(f"rows, %, judged by {judge.removeprefix('the ')}", fontsize=9.5, loc="left")
    handles = [Patch(label=words, edgecolor=PAPER, **style) for _, words, style in _PARTS]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, -0.09),
        fontsize=8,
        frameon=False,
        borderaxespad=0.2,
    )


def _curves(axes: Axes, study: ProbeStudy, hint: str) -> None:
    """Accuracy over steps of one sub-task; one place a step, as the last may be far away."""
    for (reader, where), style in _CURVES.items():
        sizes = regions(study).get(where)
        if not sizes:
            continue
        steps, values = curve(study, hint, sizes, reader)
        if steps:
            line = {"linewidth": 1.4, "markersize": 4, **style}
            places = [study.steps.index(step) for step in steps]
            axes.plot(places, [100 * value for value in values], clip_on=False, **line)
    axes.set_title(hint, fontsize=9.5, loc="left", pad=3)
    axes.set_ylim(0, 102)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, length=2)
    axes.xaxis.set_major_locator(FixedLocator(range(len(study.steps)), nbins=_TICKS))
    axes.xaxis.set_major_formatter(lambda place, _: str(study.steps[round(place)]))
    for name in ("top", "right"):
        axes.spines[name].set_visible(False)


def _drawn(study: ProbeStudy, hints: list[str], reader: str, where: str) -> bool:
    sizes = regions(study).get(where, [])
    return any(curve(study, hint, sizes, reader)[0] for hint in hints)


def _value(share: float | None) -> float:
    return np.nan if share is None else 100 * share


def _short(name: str) -> str:
    """A size without the names of its measures, which are those of all sizes: 4 × 3."""
    return " × ".join(re.findall(r"\d+", name))
