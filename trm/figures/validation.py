"""Figures of a validation: where problems are right, and after how many steps rows are."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from canvas.picture import GREY, HIGHLIGHT
from trm.evaluation.statistics import Share
from trm.figures.style import colours, draw_table, new_figure, tidy

_MOST_WRITTEN = 12  # lengths a side whose shares are written into their cells


def size_figure(
    rows: np.ndarray, columns: np.ndarray, solved: np.ndarray, axes_names: tuple[str, str]
) -> Figure:
    """Whole solutions, solved ``bool [B]``, by sizes along both axes, ``int64 [B]`` from 1 up."""
    figure, axes = _figure(2.8, f"solutions right, % of {len(solved):,}")
    tall, wide = int(rows.max()), int(columns.max())
    asked, right = (np.zeros((tall, wide)) for _ in range(2))
    np.add.at(asked, (rows - 1, columns - 1), 1)
    np.add.at(right, (rows - 1, columns - 1), solved)
    share = np.divide(100 * right, asked, out=np.full_like(right, np.nan), where=asked > 0)
    texts = np.char.mod("%.0f", share)
    texts[(asked == 0) | (max(tall, wide) > _MOST_WRITTEN)] = ""
    names = [[str(n + 1) for n in range(side)] for side in (tall, wide)]
    draw_table(axes, share, texts, names[0], names[1], colours("cividis"), above=False)
    axes.grid(visible=False)
    axes.set(xlabel=axes_names[1], ylabel=axes_names[0])
    return figure


def steps_figure(right: np.ndarray, trained: int) -> Figure:
    """Rows that are right, ``bool [T, N]``, after each supervision step; training takes a part."""
    figure, axes = _figure(2.6, f"{right.shape[1]} rows after each step, 95 % intervals")
    shares, x = [Share(int(step.sum()), right.shape[1]) for step in right], range(1, len(right) + 1)
    low, high = 100 * np.array([share.interval for share in shares]).T
    axes.fill_between(x, low, high, color=HIGHLIGHT, alpha=0.2, linewidth=0)
    axes.plot(x, [100 * share.value for share in shares], "o-", color=HIGHLIGHT, markersize=4)
    axes.axvline(trained, color=GREY, linestyle="--", linewidth=1)
    axes.text(trained, 3, " most in training", color=GREY)
    axes.set(xlabel="supervision step", ylabel="rows right, %", ylim=(0, 102))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _figure(height: float, title: str) -> tuple[Figure, Axes]:
    """As wide as TensorBoard shows a picture without shrinking it much."""
    figure = new_figure(4.2, height)
    axes = figure.subplots()
    axes.set_title(title, fontsize=11)
    tidy(axes)
    return figure, axes
