"""Problems on canvases, and row steps; `canvas.layouts` draws the canvases."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from canvas import symbols
from canvas.sequences import (  # noqa: F401 - released here
    IGNORE,
    at_writers,
    from_sequences,
    sequences,
    to_sequences,
    tokens_to_write,
)

UNDEFINED = 255  # label of a cell in which a class is not defined


@dataclass(frozen=True)
class Drawing:
    """A batch of unsolved problems on canvases of one size, without their answers."""

    heights: np.ndarray  # int64 [B], most rows of each worked solution
    widths: np.ndarray  # int64 [B], most columns of each worked solution
    given_rows: np.ndarray  # int64 [B], rows at its top that are given, such as the operands
    canvases: np.ndarray  # uint8 [B, H, W] ids, blank except for given cells
    given: np.ndarray  # bool [B, H, W], cells given from the start
    top: np.ndarray  # int64 [B], canvas row of each worked solution's first row
    left: np.ndarray  # int64 [B], canvas column of its first column

    def __len__(self) -> int:
        return len(self.heights)

    @property
    def num_rows(self) -> np.ndarray:
        """Number of rows to be filled in, int64 [B]."""
        return self.heights - self.given_rows

    def canvas_row(self, row: np.ndarray | int) -> np.ndarray:
        """Return where a row to be filled in (from 0) is on its canvas, int64 [B]."""
        return self.top + self.given_rows + row

    def __getitem__(self, index: np.ndarray) -> Self:
        """Return the problems with these indices, int64 [N], in any order, or repeated."""
        return replace(self, **{name: part[index] for name, part in vars(self).items()})

    def cells_of_row(self, row: np.ndarray | int) -> np.ndarray:
        """Return the cells to fill in of a row (from 0), bool [B, H, W]: all but given cells."""
        here = np.arange(self.canvases.shape[1]) == self.canvas_row(row)[:, None]
        return here[:, :, None] & ~self.given

    # Released names.
    steps = num_rows
    row_of_step, answer_cells = canvas_row, cells_of_row

    @property
    def first_step(self) -> np.ndarray:
        """`given_rows`, by its released name."""
        return self.given_rows

    @property
    def unknown(self) -> np.ndarray:
        """All cells to be filled in, bool [B, H, W]: full rows except given cells."""
        row = np.arange(self.canvases.shape[1]) - self.canvas_row(0)[:, None]
        return ((row >= 0) & (row < self.num_rows[:, None]))[:, :, None] & ~self.given

    @property
    def space(self) -> np.ndarray:
        """Largest box of each solution, with its blank cells, bool [B, H, W]."""
        parts = []
        for size, first, extent in zip(
            self.canvases.shape[1:], (self.top, self.left), (self.heights, self.widths), strict=True
        ):
            line = np.arange(size) - first[:, None]
            parts.append((line >= 0) & (line < extent[:, None]))
        return parts[0][:, :, None] & parts[1][:, None, :]

    @property
    def masked(self) -> np.ndarray:
        """Canvases in which all cells to be filled in are masked, uint8 [B, H, W]."""
        return np.where(self.unknown, np.uint8(symbols.MASK), self.canvases)


@dataclass(frozen=True)
class WorkedDrawing(Drawing):
    """Drawing with worked solutions, for training and evaluation."""

    truth: np.ndarray  # uint8 [B, H, W] ids, blank outside a worked solution
    # int8 [B, R], index of each row's kind in `canvas.layouts.ROW_KINDS`; `ABSENT` below the last.
    kinds: np.ndarray

    def correct_rows(self, canvases: np.ndarray) -> np.ndarray:
        """Return whether each row is correct in every cell, bool [B, S].

        False beyond the last row.

        Args:
            canvases: filled in by a model, uint8 [B, H, W].
        """
        row = np.arange(int(self.num_rows.max()))
        rows = self.canvas_row(0)[:, None] + row
        same = (canvases == self.truth).all(axis=2)
        present = row < self.num_rows[:, None]
        return same[np.arange(len(self))[:, None], rows.clip(max=same.shape[1] - 1)] & present

    rows_right = correct_rows  # its released name


class RowSteps(NamedTuple):
    """A batch of single row steps, each of which fills in one row."""

    inputs: (
        np.ndarray
    )  # uint8 [B, H, W], the rows so far; the next is masked, all but its given cells
    labels: np.ndarray  # uint8 [B, H, W], the same with that row filled in
    answer: np.ndarray  # bool [B, H, W], the masked cells, which are learned and scored
    problem: np.ndarray  # int64 [B], index of its problem in the drawing
    row: np.ndarray  # int64 [B], index among the rows to be filled in, from 0

    @property
    def step(self) -> np.ndarray:
        """`row`, by its released name."""
        return self.row


def placed(
    drawn: dict[str, np.ndarray],
    height: int | None,
    width: int | None,
    top: np.ndarray | int,
    left: np.ndarray | int,
    outside: bool,
) -> dict[str, Any]:
    """Place worked solutions on canvases; return the parts of a drawing by name.

    Args:
        drawn: parts of a drawing but `top` and `left`, with columns from right to left, on canvases
            of the most rows and columns.
        height: of the canvases; None: that of the tallest solution.
        width: of the canvases; None: that of the widest solution.
        top: first row of each solution, int64 [B] or one for all.
        left: first column of each solution, int64 [B] or one for all.
        outside: whether the cells beside a solution are given.

    Raises:
        ValueError: a solution does not fit.
    """
    heights, widths = drawn["heights"], drawn["widths"]
    height = int(heights.max(initial=1)) if height is None else height
    width = int(widths.max(initial=1)) if width is None else width
    top, left = (np.broadcast_to(np.asarray(n, dtype=np.int64), heights.shape) for n in (top, left))
    bottom, right = (int(ends.max(initial=0)) for ends in (top + heights, left + widths))
    if bottom > height or right > width:
        needed = f"at least {bottom} x {right} (height x width), not {height} x {width}"
        raise ValueError(f"a worked solution needs a canvas of {needed}")
    B, R, C = drawn["given"].shape
    beyond = np.arange(C) >= widths[:, None, None]
    drawn["given"] = drawn["given"] & ~beyond | beyond & outside
    # Blank cells of a drawing may lie beyond the canvas, below and on the left.
    below, beside = (top + R).max(initial=0), (C - left - widths).max(initial=0)
    at = np.arange(B), top, left + widths + beside - C
    found = {**drawn, "top": top, "left": left}
    for name in ("canvases", "given", "truth"):
        if (part := drawn.get(name)) is not None:
            blank = outside if name == "given" else symbols.BLANK
            room = np.full((B, max(height, below), beside + width), blank, dtype=part.dtype)
            windows = sliding_window_view(room, (R, C), axis=(1, 2), writeable=True)
            windows[at] = part[:, :, ::-1]
            found[name] = np.ascontiguousarray(room[:, :height, beside:])
    return found


def row_steps(drawing: WorkedDrawing, row: np.ndarray | None = None) -> RowSteps:
    """Return one row step of each problem, or all row steps.

    Without a given row, as in a maze, all rows are masked in each row step.

    Args:
        drawing: of B problems.
        row: to fill in, of each problem, int64 [B] from 0; None: each row, problem by problem.
    """
    problem = np.arange(len(drawing))
    if row is None:
        problem = problem.repeat(drawing.num_rows)
        row = np.arange(len(problem)) - (np.cumsum(drawing.num_rows) - drawing.num_rows)[problem]
    line = np.arange(drawing.truth.shape[1])[:, None]
    target = (drawing.canvas_row(0)[problem] + row)[:, None, None]
    unknown = ~drawing.given[problem]
    together = (drawing.given_rows[problem] == 0)[:, None, None]
    answer = unknown & (line == target)
    labels = np.where(
        unknown & (line > target) & ~together, np.uint8(symbols.BLANK), drawing.truth[problem]
    )
    inputs = np.where(answer | (unknown & together), np.uint8(symbols.MASK), labels)
    return RowSteps(inputs, labels, answer, problem, row)
