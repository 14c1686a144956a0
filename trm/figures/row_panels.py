"""Figures for TensorBoard and for papers.

Drawn with matplotlib's `Figure` on the Agg canvas, without pyplot and its global state. Canvases
are placed pixel for pixel, so that symbols stay sharp.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from PIL import Image
from PIL.Image import Resampling

from canvas.picture import GRID, HIGHLIGHT, INK, PAPER, pixels, to_figure
from canvas.render import RowSteps
from canvas.symbols import BLANK
from trm.figures.sheet import Sheet
from trm.solving.rollout import ConfidenceCurve, Look

_CELLS = (14, 22)  # pixels of a cell, fewest and most
_PANEL = (150, 310)  # pixels that a canvas is wide: with larger cells than the fewest, at most
_CHART = 84  # pixels of a chart's height
_GAP = 10  # between canvases
_EDGE = 14  # around a sample
_HEAD = 66  # title, outcome and headings
_LEGEND = 36  # above a chart
_TICKS = (28, 26)  # room for a chart's tick labels, left and below
_LEAST = 500  # pixels that a title and a legend need
_MARGIN = 1  # blank rows and columns that are kept around a working
_GREY = "#595959"
_HALT: dict[str, Any] = {"color": INK, "linewidth": 7, "alpha": 0.18}  # the mark of halting
_HEADINGS = ("input", "label", "prediction")


def sample_panels(steps: RowSteps, given: np.ndarray, seen: Look, titles: Sequence[str]) -> Figure:
    """What a model makes of some row steps, a block each, all of one size, below one another.

    A block has the input, the label and the prediction side by side, and below them how sure the
    model is along the way. Rows and columns that are blank in every canvas are left out where all
    samples can spare them.

    Args:
        steps: B row steps.
        given: ``bool [B, H, W]``, cells that were shown from the start.
        seen: how a model filled in the inputs.
        titles: what each sample is; how it went is added.

    Raises:
        ValueError: no samples, or numbers of them that differ.
    """
    samples = (len(steps.inputs), len(given), len(seen.answers), len(titles))
    if not samples[0] or len(set(samples)) > 1:
        raise ValueError(
            "give one given canvas, one answer and one title a row step, and one row step or "
            "more; got {1}, {2} and {3} for {0} row steps".format(*samples)
        )
    predictions = np.where(steps.answer, seen.answers, steps.inputs)
    canvases = (steps.inputs, steps.labels, predictions)
    used = (steps.labels != BLANK) | (predictions != BLANK)  # [B, H, W]
    rows = _in_use(used.any(axis=2) | steps.answer.any(axis=2))
    columns = _in_use(used.any(axis=1))
    cell = max(_CELLS[0], min(_CELLS[1], _PANEL[0] // (columns[0].stop - columns[0].start)))
    masked = steps.answer.any(axis=2).argmax(axis=1).tolist()
    panels = [
        [
            to_figure(
                canvas[i, down, across],
                truth=steps.labels[i, down, across],
                given=given[i, down, across],
                highlight_row=masked[i] - down.start,
                cell=cell,
            )
            for canvas in canvases
        ]
        for i, (down, across) in enumerate(zip(rows, columns, strict=True))
    ]
    images = [[Image.fromarray(pixels(figure)) for figure in line] for line in panels]
    if images[0][0].width > _PANEL[1]:
        size = (_PANEL[1], round(images[0][0].height * _PANEL[1] / images[0][0].width))
        images = [[image.resize(size, Resampling.LANCZOS) for image in line] for line in images]
    wide, high = images[0][0].size
    width = max(_LEAST, 3 * wide + 2 * _GAP) + 2 * _EDGE
    block = _HEAD + high + _LEGEND + _CHART + _TICKS[1] + _EDGE
    height = block * len(titles)
    apart = (width - 2 * _EDGE - 3 * wide) // 2 + wide  # from one canvas to the next

    sheet = Sheet(width, height)
    for i, (title, curve) in enumerate(zip(titles, seen.curves(steps.labels), strict=True)):
        top = i * block
        sheet.write(_EDGE, top + 16, title, fontsize=11.5, weight="bold")
        sheet.write(_EDGE, top + 36, curve.outcome, fontsize=11)
        for index, (heading, image) in enumerate(zip(_HEADINGS, images[i], strict=True)):
            x = _EDGE + index * apart
            sheet.write(x + wide / 2, top + 58, heading, ha="center", fontsize=11)
            sheet.put(x, top + _HEAD, np.asarray(image))
        y = top + _HEAD + high + _LEGEND
        room = width - _TICKS[0] - 2 * _EDGE
        axes = sheet.axes(_EDGE + _TICKS[0], y, room, _CHART)
        _confidence(axes, curve)
        _legend(axes, seen.heading, bool(curve.halt))
    return sheet.figure


def _in_use(used: np.ndarray) -> list[slice]:
    """What to show of each sample's rows, or columns, ``bool [B, N]``: the same number of each."""
    size = used.shape[1]
    first, end = used.argmax(axis=1), size - used[:, ::-1].argmax(axis=1)
    kept = min(size, int((end - first).max()) + 2 * _MARGIN)
    start = np.clip(first - _MARGIN, 0, size - kept).tolist()
    return [slice(begin, begin + kept) for begin in start]


def _confidence(axes: Axes, curve: ConfidenceCurve) -> None:
    """One sample's confidence; filled markers where what it held was right."""
    confidence, T = curve.confidence, len(curve.confidence)
    x = np.arange(1, T + 1)
    size = 7 if T <= 24 else 4
    axes.axhline(0.5, color=_GREY, linestyle="--", linewidth=1)
    if curve.halt:
        axes.axvline(curve.halt, solid_capstyle="butt", **_HALT)
    axes.plot(x, confidence, color=HIGHLIGHT, linewidth=1.2, zorder=3)
    for right, fill in ((True, HIGHLIGHT), (False, PAPER)):
        where = curve.right == right
        axes.plot(
            x[where],
            confidence[where],
            "o",
            markersize=size,
            markerfacecolor=fill,
            markeredgecolor=HIGHLIGHT,
            markeredgewidth=1.3,
            clip_on=False,
            zorder=4,
        )
    axes.set(
        xlim=(0.5, T + 0.5), ylim=(-0.04, 1.04), yticks=(0, 0.5, 1), yticklabels=("0", "0.5", "1")
    )
    axes.set_yticklabels(("0", "0.5", "1"))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    axes.tick_params(labelsize=10.5, colors=_GREY, length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GREY)


def _legend(axes: Axes, heading: str, halts: bool) -> None:
    """What a chart shows and what its marks mean, above it."""
    dot: dict[str, Any] = {"color": HIGHLIGHT, "marker": "o", "markersize": 7, "linewidth": 0}
    handles = [
        Line2D([], [], label="right", **dot),
        Line2D([], [], label="wrong", markerfacecolor=PAPER, **dot),
    ]
    if halts:
        handles.append(Line2D([], [], label="halts", **_HALT))
    axes.set_title(heading, loc="left", fontsize=11, color=INK, pad=9)
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1, 1.05),
        ncols=3,
        fontsize=10,
        frameon=False,
        labelcolor=INK,
        borderaxespad=0,
        columnspacing=1,
        handlelength=0.8,
        handletextpad=0.5,
    )
