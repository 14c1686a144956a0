"""Panels of single rows: input, label, prediction, and confidence step by step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from canvas.boxes import ends
from canvas.drawing import RowSteps
from canvas.picture import GREY, HIGHLIGHT, INK, PAPER, blank_figure, draw_canvas
from canvas.symbols import BLANK
from trm.evaluation.statistics import Share
from trm.figures.style import new_figure, panels, tidy
from trm.solving.trace import ConfidenceCurve, Trace

_CELLS = (0.14, 0.22)  # inches of a cell, fewest and most
_PANEL = (1.5, 3.1)  # inches of a canvas's width: with enlarged cells, and at most
_LEAST = 5.3  # inches that a title and a legend need
_MARGIN = 1  # blank rows and columns that stay around the symbols


def sample_panels(steps: RowSteps, given: np.ndarray, seen: Trace, titles: Sequence[str]) -> Figure:
    """Draw row steps as blocks of one size, below one another.

    A block has the input, the label and the prediction side by side, and below them the model's
    confidence step by step. Rows and columns that are blank in every canvas of a sample are left
    out, the same number in all samples.

    ``given``, ``bool [B, H, W]``, marks the cells that are given from the start. Each sample has a
    title; its outcome is added.
    """
    predictions = np.where(steps.answer, seen.answers, steps.inputs)
    used = (steps.labels != BLANK) | (predictions != BLANK)  # [B, H, W]
    rows = _in_use(used.any(axis=2) | steps.answer.any(axis=2))
    columns = _in_use(used.any(axis=1))
    down, across = (1 + part[0].stop - part[0].start for part in (rows, columns))
    cell = min(float(np.clip(_PANEL[0] / across, *_CELLS)), _PANEL[1] / across)
    # In inches: title, outcome and headings; canvases; the chart's legend; the chart; its ticks.
    width, parts = max(_LEAST, 3 * across * cell + 0.4), (0.68, down * cell, 0.35, 0.85, 0.58)
    height = sum(parts)
    figure = blank_figure(round(100 * width), round(100 * height) * len(titles))
    blocks: Any = figure.subfigures(len(titles), 1, squeeze=False)
    curves = zip(blocks[:, 0], titles, seen.curves, strict=True)
    for i, (block, title, curve) in enumerate(curves):
        for line, text in enumerate((title, curve.outcome)):
            style: dict[str, Any] = {"weight": "bold" if line == 0 else None, "va": "center"}
            y = 1 - (0.16 + 0.2 * line) / height
            block.text(0.02, y, text, fontsize=11, color=INK, parse_math=False, **style)
        above: dict[str, Any] = {"left": 0.02, "right": 0.98, "wspace": 0.1}
        above |= {"top": 1 - parts[0] / height, "bottom": 1 - sum(parts[:2]) / height}
        panels = block.add_gridspec(1, 3, **above)
        part = i, rows[i], columns[i]
        known: dict[str, Any] = {"truth": steps.labels[part], "given": given[part]}
        known["highlight_row"] = int(steps.answer[part].any(axis=1).argmax())
        canvases = {"input": steps.inputs, "label": steps.labels, "prediction": predictions}
        for column, (heading, canvas) in enumerate(canvases.items()):
            axes = block.add_subplot(panels[column])
            draw_canvas(axes, canvas[part], **known)
            axes.set_title(heading, fontsize=11, color=INK, pad=2)
        chart = 0.08, parts[-1] / height, 0.9, parts[-2] / height
        _draw_curve(block.add_axes(chart), curve, seen.heading, seen.points)
    return figure


def samples_figure(canvases: np.ndarray, titles: Sequence[str]) -> Figure:
    """Draw canvases, uint8 [N, H, W], four in a line, each with a title."""
    lines, (height, width) = -(-len(canvases) // 4), canvases.shape[1:]
    cell = min(_CELLS[1], _PANEL[1] / max(height, width))
    across, down = 0.3 + max(width * cell, 2.1), 0.6 + height * cell
    figure = blank_figure(round(400 * across), round(100 * down * lines))
    every = panels(figure, len(canvases), 4)
    for axes, canvas, title in zip(every, canvases, titles, strict=True):
        draw_canvas(axes, canvas)
        axes.set_title(title, fontsize=9, color=INK, pad=3)
    figure.subplots_adjust(0.02, 0.02, 0.98, 1 - 0.45 / (down * lines), 0.1, 0.4)
    return figure


def _in_use(used: np.ndarray) -> list[slice]:
    """Select rows or columns ``bool [B, N]`` to draw, the same number for each sample."""
    size = used.shape[1]
    first, end = ends(used)
    kept = min(size, int((end - first).max()) + 2 * _MARGIN)
    start = np.clip(first - _MARGIN, 0, size - kept).tolist()
    return [slice(begin, begin + kept) for begin in start]


def _draw_curve(axes: Axes, curve: ConfidenceCurve, heading: str, points: str) -> None:
    confidence, T = curve.confidence, len(curve.confidence)
    x = np.arange(1, T + 1)
    axes.axhline(0.5, color=GREY, linestyle="--", linewidth=1)
    axes.plot(x, confidence, color=HIGHLIGHT, linewidth=1.2)
    for correct, label, fill in ((True, "correct", HIGHLIGHT), (False, "incorrect", PAPER)):
        where = curve.correct == correct
        style: dict[str, Any] = {"label": label, "mfc": fill, "mec": HIGHLIGHT, "mew": 1.3}
        style["markersize"] = 7 if T <= 24 else 4
        axes.plot(x[where], confidence[where], "o", clip_on=False, **style)
    if curve.halt:
        axes.axvline(curve.halt, color=INK, linewidth=7, alpha=0.18, label="halts")
    axes.set(xlim=(0.5, T + 0.5), ylim=(-0.04, 1.04))
    axes.set_xlabel(points, fontsize=9, color=INK)
    axes.set_yticks((0, 0.5, 1), ("0", "0.5", "1"))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, min_n_ticks=1))
    axes.tick_params(colors=GREY, length=3)
    tidy(axes, "y")
    axes.set_title(heading, loc="left", fontsize=11, color=INK)
    place: dict[str, Any] = {"bbox_to_anchor": (1, 1.02), "ncols": 3, "borderaxespad": 0}
    place |= {"columnspacing": 1, "handlelength": 0.8, "handletextpad": 0.5}
    axes.legend(loc="lower right", fontsize=9, frameon=False, **place)


def steps_figure(right: np.ndarray, what: str = "rows") -> Figure:
    """Draw the share of correct rows after each supervision step; ``right`` is ``bool [T, N]``."""
    figure = new_figure(4.2, 2.6)  # which TensorBoard shows without shrinking it much
    axes = figure.subplots()
    axes.set_title(f"{right.shape[1]} {what} after each step, 95 % intervals", fontsize=11)
    tidy(axes)
    shares, x = [Share(int(step.sum()), right.shape[1]) for step in right], range(1, len(right) + 1)
    low, high = 100 * np.array([share.interval for share in shares]).T
    axes.fill_between(x, low, high, color=HIGHLIGHT, alpha=0.2, linewidth=0)
    axes.plot(x, [100 * share.value for share in shares], "o-", color=HIGHLIGHT, markersize=4)
    axes.set(xlabel="supervision step", ylabel=f"{what} correct, %", ylim=(0, 102))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
