"""A heat map of what meets in a cell: how often in training, and where a model is wrong."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from canvas.picture import GRID, INK, blank_figure
from trm.evaluation.contexts import ENDS, ContextCoverage

_WRONG = "#d55e00"
_PER = 100_000  # digits of training
_ROWS = ("rows with one addend", "sums")
_TITLE = {"first": "lowest digit of a row", "inner": "inner digits", "last": "highest digit"}


def contexts_figure(coverage: ContextCoverage, title: str) -> Figure:
    """One panel for each end of a row, and for rows that are sums and rows that are not.

    Down: the digit of the row's last addend, factor by factor. Across: the carry, within what the
    other addends bring to the column. Colour: how often in training, at least once. White: not
    shown. Circles: wrong, the larger the more often.
    """
    kinds = np.unique(coverage.contexts[:, 5]).tolist()
    figure = blank_figure(1400, int(110 + 460 * len(kinds)))
    figure.set_layout_engine("constrained")
    figure.suptitle(title, fontsize=13, color=INK)
    axes = figure.subplots(len(kinds), len(ENDS), squeeze=False)
    once = _PER / coverage.digits
    share = (_PER * coverage.trained / coverage.digits).clip(min=once)
    scale = LogNorm(once, max(share.max(), 10 * once))
    for line, kind in zip(axes, kinds, strict=True):
        for end, panel in enumerate(line):
            mine = (coverage.contexts[:, 4] == end) & (coverage.contexts[:, 5] == kind)
            if mine.any():
                _panel(panel, coverage, mine, share, scale)
            panel.set_title(f"{_TITLE[ENDS[end]]}, {_ROWS[kind]}: {mine.sum():,}", fontsize=11)
    colours = next(image for panel in axes.flat for image in panel.images)
    bar = figure.colorbar(colours, ax=list(axes.flat), shrink=0.7, pad=0.01)
    bar.set_label(f"times in {_PER:,} digits of training")
    return figure


def _panel(
    axes: Axes, coverage: ContextCoverage, mine: np.ndarray, share: np.ndarray, scale: LogNorm
) -> None:
    """The contexts of one end and kind of row, on axes that all ends of that kind share."""
    every = coverage.contexts[coverage.contexts[:, 5] == coverage.contexts[mine][0, 5]]
    digit, factor, others, carry = coverage.contexts[mine, :4].T
    digits, factors, sums, carries = (every[:, :4].max(axis=0) + 1).tolist()
    first = int(every[:, 1].min())  # a mere sum has no factor but 1
    down, across = (factor - first) * digits + digit, others * carries + carry
    shape = (factors - first) * digits, sums * carries
    cells = np.full(shape, np.nan)
    cells[down, across] = share[mine]
    axes.imshow(cells, norm=scale, cmap="viridis", aspect="auto", interpolation="nearest")
    wrong = 1 - coverage.right[mine] / coverage.shown[mine]
    bad = wrong > 0
    circles: dict[str, Any] = {"facecolors": "none", "edgecolors": _WRONG, "linewidths": 1.6}
    axes.scatter(across[bad], down[bad], s=40 + 200 * wrong[bad], **circles)
    if shape[0] == digits:
        axes.set_yticks(range(digits))
        axes.set_ylabel("digit", fontsize=9)
    else:
        groups = np.arange(0, shape[0], digits)
        signs = [f"× {first + i}" for i in range(len(groups))]
        axes.set_yticks(groups + (digits - 1) / 2, signs)
        axes.set_ylabel("factor; within each, digit 0 and up", fontsize=9)
        for group in groups:
            axes.axhline(group - 0.5, color=GRID, linewidth=0.5)
    if shape[1] == carries:
        axes.set_xticks(range(carries))
        axes.set_xlabel("carry", fontsize=9)
    else:
        step = max(1, shape[1] // carries // 10)
        ends = np.arange(0, shape[1], carries * step)
        axes.set_xticks(ends + (carries - 1) / 2, [str(i * step) for i in range(len(ends))])
        axes.set_xlabel("other addends; within each, carry 0 and up", fontsize=9)
