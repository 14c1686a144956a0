"""Sizes of canvases, and blank rows and columns that are inserted into them.

Blank lines between what belongs together keep a model from learning places by heart, as random
spaces do in sequences (Shen et al. 2023, "Positional description matters for transformers
arithmetic", arXiv 2311.14737).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from canvas.boxes import ends
from canvas.drawing import Drawing
from canvas.problems import MOST_CELLS, random_below
from canvas.task import Task


@dataclass
class Canvas:
    """Rule for the size of the canvases that problems are drawn on.

    Attributes:
        height, width: cells; null cuts a canvas to the longest problem on it.
        margin: a cut canvas gets 0 to this many more rows and columns, chosen anew for every
            batch of training; everything that is solved gets the middle of that.
        square: a cut canvas is made square, as quarter turns need it.
    """

    height: int | None = None
    width: int | None = None
    margin: int = 2
    square: bool = False

    def __post_init__(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ValueError("give a canvas both a height and a width, or neither to have it cut")
        if self.margin < 0:
            raise ValueError(f"a margin is 0 cells or more, not {self.margin}")

    @property
    def cut(self) -> bool:
        """True if the canvas is cut to the problems on it."""
        return self.height is None

    def check(self, task: Task, more: tuple[int, int] = (0, 0)) -> None:
        """ValueError if a task's longest problems, with blank rows and columns, do not fit."""
        rows, columns = task.extent()
        height, width = self.size(rows + more[0], columns + more[1], (self.margin, self.margin))
        if height * width > MOST_CELLS:
            blanks = ", fewer blank rows and columns" if any(more) else ""
            raise ValueError(
                f"canvases of up to {height:,} x {width:,} are more than {MOST_CELLS:,} cells: "
                f"take shorter numbers{blanks}, or a smaller canvas"
            )
        if not self.cut and (rows > height or columns > width):
            longest = " x ".join(map(str, task.longest))
            raise ValueError(
                f"{longest} digits in the {task.layout} layout need a canvas of at least "
                f"{rows} x {columns} (height x width), not {height} x {width}"
            )

    def size(
        self, rows: int, columns: int, spare: tuple[int, int] | None = None
    ) -> tuple[int, int]:
        """Height and width for so many rows and columns; of a cut canvas with ``spare`` ones.

        None: the middle of the margin.
        """
        if self.height is not None and self.width is not None:
            return self.height, self.width
        more = spare or ((self.margin + 1) // 2,) * 2
        height, width = rows + more[0], columns + more[1]
        return (max(height, width),) * 2 if self.square else (height, width)


@dataclass
class Blanks:
    """Largest numbers of blank rows and columns in the training samples of a batch.

    Attributes:
        rows: the most blank rows between the rows of a worked solution.
        columns: the most blank columns between the digits of the operands.
    """

    rows: int = 0
    columns: int = 0


class Insertion(NamedTuple):
    """Positions of blank rows and columns that are inserted into B canvases of one size."""

    rows: np.ndarray  # int64 [B, H + rows], which row of a canvas each new one is; -1: a blank one
    columns: np.ndarray  # int64 [B, W + columns], the same of columns

    @staticmethod
    def random(drawing: Drawing, number: tuple[int, int], words: np.ndarray) -> "Insertion":
        """Rows between those that are used, and columns between the leftmost given and the last.

        Where nothing is in between, blanks join those at the left and upper edge. ``number`` is how
        many rows and columns, ``words`` are random, ``uint64 [B, rows + columns]``.
        """
        _, height, width = drawing.canvases.shape
        first, end = ends(np.any(drawing.given, axis=1))
        by_row, by_column = words[:, : number[0]], words[:, number[0] :]
        rows = _sources(height, drawing.top, drawing.top + drawing.heights - 1, by_row)
        return Insertion(rows, _sources(width, first, end - 1, by_column))

    def __call__(self, cells: np.ndarray, blank: Any) -> np.ndarray:
        """Cells ``[B, H, W]`` or ``[B, H, W, N]`` with the new lines, and ``blank`` in these."""
        if (self.rows.shape[1], self.columns.shape[1]) == cells.shape[1:3]:
            return cells  # there are none
        sample = np.arange(len(cells))[:, None, None]
        rows, columns = self.rows[:, :, None], self.columns[:, None, :]
        moved = cells[sample, rows.clip(0), columns.clip(0)]
        moved[self.blank] = blank
        return moved

    @property
    def blank(self) -> np.ndarray:
        """The cells of new lines, ``bool [B, H + rows, W + columns]``."""
        return (self.rows < 0)[:, :, None] | (self.columns < 0)[:, None, :]

    def row(self, row: np.ndarray) -> np.ndarray:
        """Return the new index of a row of each canvas, ``int64 [B]`` to ``int64 [B]``."""
        return (self.rows == row[:, None]).argmax(axis=1)


def _sources(size: int, first: np.ndarray, last: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return the line among ``size`` that each new one is, ``[B, size + N]``; -1: a blank one.

    Each is put in front of one of the lines first + 1 to last, or of all where there are none.
    """
    B, N = words.shape
    gaps = (last - first)[:, None]
    before = np.where(gaps > 0, first[:, None] + 1 + random_below(words, gaps.clip(1)), 0)
    blank = np.zeros((B, size + N), dtype=bool)
    blank[np.arange(B)[:, None], np.sort(before, axis=1) + np.arange(N)] = True
    return np.where(blank, -1, (~blank).cumsum(axis=1) - 1)
