"""A problem watched while it is solved: the canvas before each row and after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from canvas import symbols
from canvas.drawing import Drawing
from canvas.problems import Problems
from trm.solving.rows import FilledCanvases, OnRow
from trm.solving.solution import Solution

if TYPE_CHECKING:
    from trm.solving.solver import Solver


class Moment(NamedTuple):
    """A canvas while it is being solved."""

    canvas: np.ndarray  # uint8 [H, W]
    number: int  # of the row being filled in, from 1; 0: all rows are filled in together
    row: int | None  # its index on the canvas; None: all rows
    step: int = 0  # supervision steps so far; 0 before the first, and for a row filled in at once
    # Probability that the row is correct so far, by its index on the canvas; unknown ones are left
    # out. Of all rows, where they are filled in together.
    confidence: Mapping[int, float] = MappingProxyType({})
    masked: bool = False  # the row is empty as yet; later the model may write masks itself

    def where(self, rows: int) -> str:
        """Name the row and the step in words, of a solution with so many rows to fill in.

        Example: ``row 2 of 3, supervision step 4``.
        """
        row = f"row {self.number} of {rows}" if self.number else "all rows together"
        if self.number or self.masked or self.step:
            return row + (f", supervision step {self.step}" if self.step else "")
        return f"{row}, random start"


def solve_watched(solver: Solver, problem: Problems, show: Callable[[Moment], None]) -> Solution:
    """Solve a problem; call ``show`` before each row and after each of its supervision steps.

    Where all rows are filled in together, ``show`` is called before the first step, with the
    random symbols if it starts from noise, and after each step that changed something. With a GPT,
    or with views that vote on rows, it is called before and after each row. The model waits while
    ``show`` runs.

    Raises:
        ValueError: as `Solver.solve` does; or views have a canvas each.
    """
    voting = solver.voting
    if solver.orientation_unknown:
        raise ValueError(
            "each guess of an orientation has a canvas of its own, so there is no one canvas to "
            "watch"
        )
    if (
        voting is not None
        and voting.per == "solution"
        and (voting.orders, voting.solutions) != (2, 2)
    ):
        raise ValueError(
            "views that vote per solution have a canvas each, so there is no one canvas to watch: "
            "let them vote per row, or watch one view"
        )
    drawing = solver.draw_worked(problem)
    together = solver.predictor.fills == "canvas" and voting is None
    latest = Moment(drawing.masked[0], 0, None, masked=True)
    rows = [int(drawing.canvas_row(number)[0]) for number in range(int(drawing.num_rows[0]))]

    def on_row(number: int, canvases: np.ndarray) -> None:
        nonlocal latest
        masked = number + 1 > latest.number
        if masked or not latest.step:  # else the last step was shown already
            latest = Moment(canvases[0].copy(), number + 1, rows[number], masked=masked)
            show(latest)

    def on_step(step: int, _: np.ndarray, cells: np.ndarray, confidence: np.ndarray) -> None:
        nonlocal latest
        if together:
            filled, sure = drawing.unknown[0], {row: float(confidence[0, row]) for row in rows}
        else:
            filled = drawing.cells_of_row(latest.number - 1)[0]
            sure = {rows[latest.number - 1]: float(confidence[0])}
        sure = {row: value for row, value in sure.items() if not np.isnan(value)}
        canvas = np.where(filled, cells[0], latest.canvas)
        latest = latest._replace(canvas=canvas, step=step, confidence=sure, masked=False)
        show(latest)

    callbacks: dict[str, Any] = {} if together else {"on_row": on_row}
    if voting is None:
        callbacks["on_step"] = on_step
    solver = replace(solver, predictor=solver.predictor.with_options(**callbacks))
    if together:
        show(latest)
    (solution,) = solver.solve_drawing(problem, drawing)
    return solution


def show_row_by_row(filled: FilledCanvases, drawing: Drawing, on_row: OnRow) -> None:
    """Call ``on_row`` before and after each row of canvases that were filled all at once."""
    shown, height = drawing.canvases, drawing.canvases.shape[1]
    for row in range(int(drawing.num_rows.max())):  # the last one uncovers all
        unknown = drawing.cells_of_row(row) & (drawing.num_rows > row)[:, None, None]
        on_row(row, np.where(unknown, np.uint8(symbols.MASK), shown))
        done = np.arange(height) <= drawing.canvas_row(row)[:, None]
        done |= (drawing.num_rows <= row + 1)[:, None]
        shown = np.where(done[:, :, None], filled.canvases, shown)
        on_row(row, shown)
