"""One problem, seen while a model works on it: each row, and each step or cell of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from canvas.problems import Problems
from canvas.symbols import MASK
from trm.solving.solution import Solution
from trm.solving.solver import Solver


@dataclass(frozen=True)
class Moment:
    """A canvas on its way.

    Attributes:
        canvas: ``uint8 [H, W]``.
        number: which row is being filled in, from 1.
        row: where it lies on the canvas.
        step: its supervision steps so far, or the cells that have been written; 0 before the
            first, and of a row that was filled in one go.
        confidence: the model's probability that the row is right as it stands; None: not known.
        unit: what ``step`` counts, "supervision step" or "cell".
    """

    canvas: np.ndarray
    number: int
    row: int
    step: int = 0
    confidence: float | None = None
    unit: str = "supervision step"

    @property
    def masked(self) -> bool:
        """Whether nothing stands in the row yet."""
        return not self.step and bool((self.canvas[self.row] == MASK).any())


def solve_watched(solver: Solver, problem: Problems, show: Callable[[Moment], None]) -> Solution:
    """Solve a problem, and show it before each row and after each of its supervision steps.

    A model that works in order is shown after each cell. A GPT, and a model of which many views
    vote on a row, before and after each row.

    Args:
        solver: a model.
        problem: one.
        show: called with each moment, while the model waits.

    Raises:
        ValueError: as `Solver.solve`.
    """
    drawing = solver.draw_worked(problem)
    unit = "cell" if solver.predictor.in_order else "supervision step"
    latest: Moment

    def on_row(number: int, canvases: np.ndarray) -> None:
        nonlocal latest
        row = int(drawing.row_of_step(number)[0])
        moment = Moment(canvases[0].copy(), number + 1, row, unit=unit)
        if moment.masked or not latest.step:  # else the last step has shown it
            show(moment)
            latest = moment

    def on_step(step: int, _: np.ndarray, cells: np.ndarray, confidence: np.ndarray) -> None:
        nonlocal latest
        answer = drawing.answer_cells(latest.number - 1)[0]
        canvas = np.where(answer, cells[0], latest.canvas)
        sure = None if np.isnan(confidence[0]) else float(confidence[0])
        latest = replace(latest, canvas=canvas, step=step, confidence=sure)
        show(latest)

    if solver.voting is None:
        solver = replace(solver, predictor=solver.predictor.watched(on_step))
    (solution,) = solver.solve_drawing(problem, drawing, on_row)
    return solution
