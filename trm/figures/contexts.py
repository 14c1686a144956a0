"""A heat map of what meets in a cell: how often in training, and where a model is wrong."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
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
    shown. Circles: wrong, the larger the more often. One cell is framed, and put into words below.
    """
    contexts = coverage.contexts
    kinds = np.unique(contexts[:, 5]).tolist()
    figure = blank_figure(1400, int(150 + 460 * len(kinds)))
    figure.set_layout_engine("constrained")
    figure.suptitle(title, fontsize=13, color=INK)
    axes = figure.subplots(len(kinds), len(ENDS), squeeze=False)
    once = _PER / coverage.digits
    share = (_PER * coverage.trained / coverage.digits).clip(min=once)
    scale = LogNorm(once, max(share.max(), 10 * once))
    # Where most meets, and of these cells the most frequent: inner ones before others.
    example = int(np.lexsort((share, contexts[:, 4] == 1, (contexts[:, 1:4] > 0).sum(axis=1)))[-1])
    for line, kind in zip(axes, kinds, strict=True):
        for end, panel in enumerate(line):
            mine = np.flatnonzero((contexts[:, 4] == end) & (contexts[:, 5] == kind))
            if len(mine):
                _panel(panel, coverage, mine, share, scale, example)
            panel.set_title(f"{_TITLE[ENDS[end]]}, {_ROWS[kind]}: {len(mine):,}", fontsize=11)
    colours = next(image for panel in axes.flat for image in panel.images)
    bar = figure.colorbar(colours, ax=list(axes.flat), shrink=0.7, pad=0.01)
    bar.set_label(f"times in {_PER:,} digits of training")
    digit, factor, others, carry = contexts[example, :4].tolist()
    figure.supxlabel(
        f"Example, framed: digit {digit} × factor {factor}, {others} from other addends, carry "
        f"{carry}: {digit} × {factor} + {others} + {carry} = {digit * factor + others + carry}, of "
        f"which the last digit is written. {coverage.trained[example] * once:,.3g} times in "
        f"{_PER:,} digits of training; right in {coverage.right[example]} of "
        f"{coverage.shown[example]} rows that were shown.\nWhite: met in none of the problems. "
        "Orange circles: wrong, the larger the more often.",
        fontsize=10,
        color=INK,
    )
    return figure


def _panel(
    axes: Axes,
    coverage: ContextCoverage,
    mine: np.ndarray,
    share: np.ndarray,
    scale: LogNorm,
    example: int,
) -> None:
    """The contexts of one end and kind of row, on axes that all ends of that kind share."""
    every = coverage.contexts[coverage.contexts[:, 5] == coverage.contexts[mine[0], 5]]
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
    if len(at := np.flatnonzero(mine == example)):
        frame: dict[str, Any] = {"mfc": "none", "mec": INK, "mew": 1.8, "markersize": 13}
        axes.plot(across[at], down[at], "s", **frame)
    groups = [f"× {first + i}" for i in range(factors - first)]
    _ticks(axes.yaxis, digits, groups, "digit", "factor; within each, digit 0 and up")
    if shape[0] > digits:
        for group in range(0, shape[0], digits):
            axes.axhline(group - 0.5, color=GRID, linewidth=0.5)
    groups = [str(i) for i in range(sums)]
    _ticks(axes.xaxis, carries, groups, "carry", "other addends; within each, carry 0 and up")


def _ticks(axis: Axis, size: int, groups: list[str], alone: str, grouped: str) -> None:
    """Name groups of so many lines each at their middle, or the lines of a single group."""
    step = 1 if len(groups) <= 10 else max(1, len(groups) // 10)
    if len(groups) == 1:
        axis.set_ticks(range(size))
    else:
        at = np.arange(0, len(groups), step)
        axis.set_ticks(at * size + (size - 1) / 2, groups[::step])
    axis.set_label_text(alone if len(groups) == 1 else grouped, fontsize=9)
