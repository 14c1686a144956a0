"""What a model makes of single rows: input, label, prediction, and how sure it is on the way."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from canvas.picture import GREY, GRID, HIGHLIGHT, INK, PAPER, blank_figure, draw_canvas
from canvas.render import RowSteps
from canvas.symbols import BLANK
from trm.solving.iteration import ConfidenceCurve, Trace

_CELLS = (14, 22)  # pixels of a cell, fewest and most
_PANEL = (150, 310)  # pixels that a canvas is wide: with larger cells than the fewest, at most
_CHART = 84  # pixels of a chart's height
_EDGE = 14  # around a sample
_HEAD = 66  # title, outcome and headings
_BETWEEN = 36  # from canvases to the chart, for its legend
_TICKS = (28, 26)  # for a chart's tick labels, left and below
_LEAST = 500  # pixels that a title and a legend need
_MARGIN = 1  # blank rows and columns that are kept around what is written


def sample_panels(steps: RowSteps, given: np.ndarray, seen: Trace, titles: Sequence[str]) -> Figure:
    """What a model makes of some row steps, a block each, all of one size, below one another.

    A block has the input, the label and the prediction side by side, and below them how sure the
    model is along the way. Rows and columns that are blank in every canvas are left out where all
    samples can spare them.

    Cells that were shown from the start are ``given``, ``bool [B, H, W]``; titles say what each
    sample is, and how it went is added.
    """
    predictions = np.where(steps.answer, seen.answers, steps.inputs)
    used = (steps.labels != BLANK) | (predictions != BLANK)  # [B, H, W]
    rows = _in_use(used.any(axis=2) | steps.answer.any(axis=2))
    columns = _in_use(used.any(axis=1))
    down, across = (part[0].stop - part[0].start for part in (rows, columns))
    cell = min(max(_CELLS[0], min(_CELLS[1], _PANEL[0] // across)), _PANEL[1] / (across + 1))
    wide, high = round((across + 1) * cell), round((down + 1) * cell)
    width = max(_LEAST, 3 * wide + 20) + 2 * _EDGE
    block = _HEAD + high + _BETWEEN + _CHART + _TICKS[1] + _EDGE
    height = block * len(titles)
    figure = blank_figure(width, height)

    def axes_at(x: float, y: float, w: float, h: float) -> Axes:
        box = (x / width, 1 - (y + h) / height, w / width, h / height)
        return figure.add_axes(box)

    for i, (title, curve) in enumerate(zip(titles, seen.curves(steps.labels), strict=True)):
        top = i * block
        for y, text, weight in ((16, title, "bold"), (36, curve.outcome, "normal")):
            at = _EDGE / width, 1 - (top + y) / height
            style: dict[str, Any] = {"fontsize": 11, "va": "center", "color": INK}
            figure.text(*at, text, weight=weight, parse_math=False, **style)
        canvases = {"input": steps.inputs, "label": steps.labels, "prediction": predictions}
        part = i, rows[i], columns[i]
        for k, (heading, canvas) in enumerate(canvases.items()):
            x = _EDGE + k * ((width - 2 * _EDGE - 3 * wide) // 2 + wide)
            axes = axes_at(x, top + _HEAD, wide, high)
            row = int(steps.answer[part].any(axis=1).argmax())
            known: dict[str, Any] = {"truth": steps.labels[part], "given": given[part]}
            draw_canvas(axes, canvas[part], **known, highlight_row=row)
            axes.set_title(heading, fontsize=11, color=INK, pad=2)
        y = top + _HEAD + high + _BETWEEN
        axes = axes_at(_EDGE + _TICKS[0], y, width - _TICKS[0] - 2 * _EDGE, _CHART)
        _draw_curve(axes, curve, seen.heading)
    return figure


def _in_use(used: np.ndarray) -> list[slice]:
    """What to show of each sample's rows, or columns, ``bool [B, N]``: the same number of each."""
    size = used.shape[1]
    first, end = used.argmax(axis=1), size - used[:, ::-1].argmax(axis=1)
    kept = min(size, int((end - first).max()) + 2 * _MARGIN)
    start = np.clip(first - _MARGIN, 0, size - kept).tolist()
    return [slice(begin, begin + kept) for begin in start]


def _draw_curve(axes: Axes, curve: ConfidenceCurve, heading: str) -> None:
    confidence, T = curve.confidence, len(curve.confidence)
    x = np.arange(1, T + 1)
    axes.axhline(0.5, color=GREY, linestyle="--", linewidth=1)
    axes.plot(x, confidence, color=HIGHLIGHT, linewidth=1.2)
    for right, label, fill in ((True, "right", HIGHLIGHT), (False, "wrong", PAPER)):
        where = curve.right == right
        style: dict[str, Any] = {"label": label, "mfc": fill, "mec": HIGHLIGHT, "mew": 1.3}
        style["markersize"] = 7 if T <= 24 else 4
        axes.plot(x[where], confidence[where], "o", clip_on=False, **style)
    if curve.halt:
        axes.axvline(curve.halt, color=INK, linewidth=7, alpha=0.18, label="halts")
    axes.set(xlim=(0.5, T + 0.5), ylim=(-0.04, 1.04), yticks=(0, 0.5, 1))
    axes.set_yticks((0, 0.5, 1), ("0", "0.5", "1"))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    axes.tick_params(labelsize=10.5, colors=GREY, length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)
    axes.set_title(heading, loc="left", fontsize=11, color=INK, pad=9)
    place: dict[str, Any] = {"bbox_to_anchor": (1, 1.05), "ncols": 3, "borderaxespad": 0}
    place |= {"columnspacing": 1, "handlelength": 0.8, "handletextpad": 0.5}
    axes.legend(loc="lower right", fontsize=10, frameon=False, **place)
