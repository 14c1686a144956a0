"""Solving row by row: a model fills a canvas, each row built on the rows it wrote itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from canvas import symbols
from canvas.drawing import Drawing, RowSteps, WorkedDrawing, row_steps
from trm.progress import Report, silent

OnRow = Callable[[int, np.ndarray], None]
# Called with canvases, uint8 [N, H, W], their indices in the drawing, int64 [N], and the row step;
# fills in the masked row of each.
Fill = Callable[[np.ndarray, np.ndarray, int], "Prediction"]


@dataclass(frozen=True)
class Prediction:
    """Output of a model on a batch of canvases, one row each."""

    canvases: np.ndarray  # uint8 [B, H, W], the model's output in all cells; masked ones count
    confidence: np.ndarray  # float32 [B], 0 to 1: the model's probability that the row is correct
    steps: np.ndarray  # int64 [B], supervision steps used; 0 if the model has none
    # bool [B], whether the model finished the row, rather than ran out of steps; default: all True
    settled: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.settled is None:
            object.__setattr__(self, "settled", np.ones(len(self.steps), dtype=bool))

    def take(self, index: np.ndarray) -> "Prediction":
        """Return samples by index; samples may be repeated or left out."""
        return Prediction(*(part[index] for part in vars(self).values()))

    @staticmethod
    def joined(predictions: "list[Prediction]") -> "Prediction":
        """Concatenate batches."""
        parts = zip(*(vars(one).values() for one in predictions), strict=True)
        return Prediction(*map(np.concatenate, parts))


class Rollout(NamedTuple):
    """Canvases filled free-running, with one column of figures for each row."""

    canvases: np.ndarray  # uint8 [B, H, W]
    confidence: np.ndarray  # float32 [B, S], 1 beyond the last row
    steps: np.ndarray  # int64 [B, S], 0 beyond the last row
    settled: np.ndarray  # bool [B, S], see `Prediction`; True beyond the last row

    @classmethod
    def begun(cls, drawing: Drawing) -> "Rollout":
        """Return the rollout of problems before the first row is written."""
        shape = len(drawing), int(drawing.steps.max())
        figures = np.ones(shape, np.float32), np.zeros(shape, np.int64), np.ones(shape, bool)
        return cls(drawing.canvases.copy(), *figures)


def free_running(
    fill: Fill, drawing: Drawing, on_row: OnRow | None = None, report: Report = silent
) -> Rollout:
    """Fill every row of every canvas from the operands alone, see `Predictor.free_running`.

    ``report`` is called as the work goes on.
    """
    rollout = Rollout.begun(drawing)
    canvases = rollout.canvases
    for step in range(most := int(drawing.steps.max())):
        report("rows", step, most)
        active = np.flatnonzero(drawing.steps > step)
        answer = drawing.answer_cells(step)[active]
        inputs = np.where(answer, np.uint8(symbols.MASK), canvases[active])
        if on_row:
            shown = canvases.copy()
            shown[active] = inputs
            on_row(step, shown)
        filled = fill(inputs, active, step)
        canvases[active] = np.where(answer, filled.canvases, inputs)
        rollout.confidence[active, step] = filled.confidence
        rollout.steps[active, step] = filled.steps
        rollout.settled[active, step] = filled.settled
        if on_row:
            on_row(step, canvases)
    return rollout


class TeacherForced(NamedTuple):
    """Single rows that a model filled, each from the true rows before it: all steps in a batch."""

    steps: RowSteps
    filled: Prediction
    cells_right: np.ndarray  # float [N], share of each row's masked cells that are correct
    rows_exact: np.ndarray  # bool [N]


def teacher_forced(
    predictor: Callable[[np.ndarray], Prediction],
    drawing: WorkedDrawing,
    written: Rollout | None = None,
    report: Report = silent,
) -> TeacherForced:
    """Fill every row of every problem from the true rows before it.

    A batch has as many rows as there are problems, and all first rows come before all second ones,
    as in `free_running`.

    Args:
        predictor: fills in the masked row of each canvas.
        drawing: the problems with their solutions.
        written: the free-running result of the same predictor, which has to be `row_by_row`: rows
            with only correct rows above them are taken from it. None: all rows are solved.
        report: called as the work goes on.
    """
    steps, size = row_steps(drawing), len(drawing)
    known = np.zeros(len(steps.step), dtype=bool)
    parts = []
    if written is not None:
        below_right = np.logical_and.accumulate(drawing.rows_right(written.canvases), axis=1)
        below_right = np.pad(below_right, ((0, 0), (1, 0)), constant_values=True)
        known = below_right[steps.problem, steps.step]
        of, at = steps.problem[known], steps.step[known]
        cells = np.where(steps.answer[known], written.canvases[of], steps.inputs[known])
        figures = written.confidence[of, at], written.steps[of, at]
        parts.append(Prediction(cells, *figures, settled=written.settled[of, at]))
    order = np.flatnonzero(~known)
    order = order[steps.step[order].argsort(kind="stable")]
    for i in range(0, len(order), size):
        report("rows", i, len(order))
        parts.append(predictor(steps.inputs[order[i : i + size]]))
    place = np.concatenate([np.flatnonzero(known), order]).argsort()
    filled = Prediction.joined(parts).take(place)
    right = (filled.canvases == steps.labels) & steps.answer
    share = right.sum(axis=(1, 2)) / steps.answer.sum(axis=(1, 2))
    return TeacherForced(steps, filled, share, share == 1)
