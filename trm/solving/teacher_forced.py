"""Single rows, each filled in from the true rows above it."""

from typing import NamedTuple

import numpy as np

from canvas.drawing import RowSteps, WorkedDrawing, row_steps
from trm.runtime.progress import report
from trm.solving.predictor import Predictor
from trm.solving.rows import FilledCanvases, Prediction


class TeacherForced(NamedTuple):
    """Single rows that a model filled, each from the true rows before it: all rows in a batch."""

    rows: RowSteps
    filled: Prediction
    cell_accuracy: np.ndarray  # float [N], of the masked cells of each row; 1 where there are none
    rows_exact: np.ndarray  # bool [N]

    @property
    def steps(self) -> RowSteps:
        """`rows`, by its released name."""
        return self.rows


def teacher_forced(
    predictor: Predictor,
    drawing: WorkedDrawing,
    written: FilledCanvases | None = None,
) -> TeacherForced:
    """Fill every row of every problem from the true rows before it.

    A batch has as many rows as there are problems, and all first rows come before all second ones,
    as in `free_running`.

    Args:
        predictor: fills in the masked row of each canvas.
        drawing: the problems with their solutions.
        written: the free-running result of the same predictor; None: unknown. Rows with only
            correct rows above them are taken from it, but not those of a model that fills in
            symbols, some of them between rows.
    """
    rows, size = row_steps(drawing), len(drawing)
    known = np.zeros(len(rows.row), dtype=bool)
    parts = []
    if written is not None and predictor.fills != "symbol":
        correct_above = np.logical_and.accumulate(drawing.correct_rows(written.canvases), axis=1)
        correct_above = np.pad(correct_above, ((0, 0), (1, 0)), constant_values=True)
        known = correct_above[rows.problem, rows.row]
        of, at = rows.problem[known], rows.row[known]
        cells = np.where(rows.answer[known], written.canvases[of], rows.inputs[known])
        figures = written.confidence[of, at], written.steps[of, at]
        parts.append(Prediction(cells, *figures, settled=written.settled[of, at]))
    order = np.flatnonzero(~known)
    order = order[rows.row[order].argsort(kind="stable")]
    for i in range(0, len(order), size):
        report("rows", i, len(order), solving=True)
        parts.append(predictor(rows.inputs[order[i : i + size]]))
    place = np.concatenate([np.flatnonzero(known), order]).argsort()
    filled = Prediction.joined(parts).take(place)
    correct = (filled.canvases == rows.labels) & rows.answer
    asked, correct = rows.answer.sum(axis=(1, 2)), correct.sum(axis=(1, 2))
    share = np.divide(correct, asked, out=np.ones(len(asked)), where=asked > 0)
    return TeacherForced(rows, filled, share, share == 1)
