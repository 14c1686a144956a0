"""A heat map of what meets in a cell: how often in training, and where a model is wrong."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from canvas.picture import GRID, INK
from trm.evaluation.contexts import ENDS, ContextCoverage
from trm.figures.style import WRONG, new_figure

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
    once = _PER / coverage.digits
    share = (coverage.trained * once).clip(min=once)
    scale = LogNorm(once, max(share.max(), 10 * once))
    # Where most meets, and of these cells the most frequent: inner ones before others.
    example = int(np.lexsort((share, contexts[:, 4] == 1, (contexts[:, 1:4] > 0).sum(axis=1)))[-1])
    digit, factor, others, carry = contexts[example, :4].tolist()
    note = (
        f"Example, framed: digit {digit} × factor {factor}, {others} from other addends, carry "
        f"{carry}: {digit} × {factor} + {others} + {carry} = {digit * factor + others + carry}, of "
        f"which the last digit is written. {coverage.trained[example] * once:,.3g} times in "
        f"{_PER:,} digits of training; right in {coverage.right[example]} of "
        f"{coverage.shown[example]} rows that were shown.\nWhite: met in none of the problems. "
        "Orange circles: wrong, the larger the more often."
    )
    figure = new_figure(14, 1.5 + 4.6 * len(kinds), title, note)
    axes = figure.subplots(len(kinds), len(ENDS), squeeze=False)
    for line, kind in zip(axes, kinds, strict=True):
        for end, panel in enumerate(line):
            mine = np.flatnonzero((contexts[:, 4] == end) & (contexts[:, 5] == kind))
            if len(mine):
                _panel(panel, coverage, mine, share, scale, example)
            panel.set_title(f"{_TITLE[ENDS[end]]}, {_ROWS[kind]}: {len(mine):,}", fontsize=11)
    images = next(panel.images for panel in axes.flat if panel.images)
    bar = figure.colorbar(images[0], ax=list(axes.flat), shrink=0.7, pad=0.01)
    bar.set_label(f"times in {_PER:,} digits of training")
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
    cells = np.full(((factors - first) * digits, sums * carries), np.nan)
    cells[down, across] = share[mine]
    axes.imshow(cells, norm=scale, cmap="viridis", aspect="auto", interpolation="nearest")
    wrong = 1 - coverage.right[mine] / coverage.shown[mine]
    bad, sizes = wrong > 0, 40 + 200 * wrong
    circles = {"facecolors": "none", "edgecolors": WRONG, "linewidths": 1.6}
    axes.scatter(across[bad], down[bad], sizes[bad], **circles)  # type: ignore[arg-type]
    if (at := mine == example).any():
        axes.plot(across[at], down[at], "s", mfc="none", mec=INK, mew=1.8, markersize=13)
    groups = [f"× {factor}" for factor in range(first, factors)]
    _ticks(axes.yaxis, digits, groups, "digit", "factor; within each, digit 0 and up")
    for group in range(digits, len(cells), digits):
        axes.axhline(group - 0.5, color=GRID, linewidth=0.5)
    groups = [str(i) for i in range(sums)]
    _ticks(axes.xaxis, carries, groups, "carry", "other addends; within each, carry 0 and up")


def _ticks(axis: Axis, size: int, groups: list[str], alone: str, grouped: str) -> None:
    """Name groups of so many lines each at their middle, or the lines of a single group."""
    if len(groups) == 1:
        axis.set_ticks(range(size))
    else:
        at = np.arange(0, len(groups), -(-len(groups) // 12))
        axis.set_ticks(at * size + (size - 1) / 2, [groups[i] for i in at])
    axis.set_label_text(alone if len(groups) == 1 else grouped, fontsize=9)
