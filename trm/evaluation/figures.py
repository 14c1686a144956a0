"""Figures for TensorBoard and for papers.

Drawn with matplotlib's `Figure` on the Agg canvas, without pyplot and its global state. Canvases
are placed pixel for pixel, so that symbols stay sharp.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from canvas.picture import GRID, HIGHLIGHT, INK, PAPER, to_image
from canvas.render import RowSteps
from canvas.symbols import BLANK
from trm.solving.rollout import Curve, Look

_DPI = 100
_PANEL = 300  # pixels that a canvas is to be wide at most; large canvases exceed it
_CELLS = (14, 28)  # pixels of a cell, fewest and most
_CHART = (400, 130)  # pixels of a chart's axes, width and least height
_GAP = 28  # between panels
_EDGE = 16  # around the figure
_HEAD = 64  # legend and headings
_TITLE = 30  # above each sample
_TICKS = (34, 26)  # room for a chart's tick labels, left and below
_RAISED = 8  # images stand this much higher, for they have a margin of their own
_GREY = "#595959"
_HALT: dict[str, Any] = {"color": INK, "linewidth": 7, "alpha": 0.18}  # the mark of halting
_HEADINGS = ("input", "label", "prediction")


def sample_panels(steps: RowSteps, given: np.ndarray, seen: Look, titles: Sequence[str]) -> Figure:
    """What a model makes of some row steps, a line of panels each.

    The panels are the input, the label, the prediction and how sure the model is along the way.
    Rows that are blank in every
    panel are left out where all lines can spare them.

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
    columns = steps.inputs.shape[2]
    cell = max(_CELLS[0], min(_CELLS[1], _PANEL // columns))
    predictions = np.where(steps.answer, seen.answers, steps.inputs)
    rows = steps.answer.any(axis=2).argmax(axis=1).tolist()
    curves = seen.curves(steps.labels)
    panels = [
        [
            to_image(
                canvas[cut],
                truth=steps.labels[i, cut],
                given=given[i, cut],
                highlight_row=rows[i] - cut.start,
                cell=cell,
            )
            for canvas in (steps.inputs[i], steps.labels[i], predictions[i])
        ]
        for i, cut in enumerate(_rows_in_use(steps))
    ]
    wide, high = panels[0][0].size
    line = max(high - _RAISED, _CHART[1] + _TICKS[1]) + _TITLE
    left = [_EDGE + i * (wide + _GAP) for i in range(4)]
    left[3] += _TICKS[0]
    width = left[3] + _CHART[0] + _EDGE
    height = _HEAD + line * len(titles) + _EDGE

    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)

    def write(x: float, y: float, text: str, **style: Any) -> None:
        figure.text(x / width, 1 - y / height, text, color=INK, va="center", **style)

    for x, size, heading in zip(
        left, (wide, wide, wide, _CHART[0]), (*_HEADINGS, seen.heading), strict=True
    ):
        write(x + size / 2, _HEAD - 14, heading, ha="center", fontsize=10, weight="bold")
    halts = any(curve.halt for curve in curves)
    _legend(figure, (left[3] + _CHART[0]) / width, 1 - 6 / height, halts)
    for i, title in enumerate(titles):
        top = _HEAD + i * line
        write(_EDGE + cell // 2, top + _TITLE / 2, title, fontsize=11, weight="bold")
        bottom = height - top - _TITLE
        for x, image in zip(left, panels[i], strict=False):
            figure.figimage(np.asarray(image), x, bottom - high + _RAISED, origin="upper")
        chart = line - _TITLE - _TICKS[1]
        box = (left[3] / width, (bottom - chart) / height, _CHART[0] / width, chart / height)
        _confidence(figure.add_axes(box), curves[i])
        write(
            left[3] + _CHART[0],
            top + _TITLE / 2,
            curves[i].outcome,
            ha="right",
            fontsize=10,
        )
    return figure


def pixels(figure: Figure) -> np.ndarray:
    """A figure as an image, ``uint8 [height, width, 3]``."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _rows_in_use(steps: RowSteps) -> list[slice]:
    """The rows to show of each canvas, the same number of each: the working and a row around it."""
    used = (steps.labels != BLANK).any(axis=2) | steps.answer.any(axis=2)  # [B, H]
    height = used.shape[1]
    first, end = used.argmax(axis=1), height - used[:, ::-1].argmax(axis=1)
    tall = min(height, int((end - first).max()) + 2)
    start = np.clip(first - 1, 0, height - tall).tolist()
    return [slice(top, top + tall) for top in start]


def _confidence(axes: Axes, curve: Curve) -> None:
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
    axes.tick_params(labelsize=9, colors=_GREY, length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GREY)


def _legend(figure: Figure, right: float, top: float, halts: bool) -> None:
    """What the marks of the charts mean, in the figure's upper right corner."""
    dot: dict[str, Any] = {"color": HIGHLIGHT, "marker": "o", "markersize": 7, "linewidth": 1.2}
    handles = [
        Line2D([], [], label="right", **dot),
        Line2D([], [], label="wrong", markerfacecolor=PAPER, **dot),
    ]
    if halts:
        handles += [
            Line2D(
                [],
                [],
                label="above it, and unchanged, a row halts",
                color=_GREY,
                linestyle="--",
                linewidth=1,
            ),
            Line2D([], [], label="halts", **_HALT),
        ]
    figure.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(right, top),
        ncols=4,
        fontsize=9,
        frameon=False,
        labelcolor=INK,
        borderaxespad=0,
        columnspacing=1.2,
        handlelength=1.6,
    )
