"""Solving row by row: a model fills a canvas, each row built on the rows it wrote itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from augment.views import View, apply_views, possible_shifts, undo_views
from canvas import symbols
from canvas.drawing import Drawing
from trm.runtime.progress import part, report

if TYPE_CHECKING:
    from trm.solving.predictor import Predictor

OnRow = Callable[[int, np.ndarray], None]
# Called with canvases, uint8 [N, H, W], their indices in the drawing, int64 [N], and the row, from
# 0, that is masked; fills in that row of each.
Fill = Callable[[np.ndarray, np.ndarray, int], "Prediction"]


class Prediction(NamedTuple):
    """Output of a model on a batch of canvases, one row each."""

    canvases: np.ndarray  # uint8 [B, H, W], the model's output in all cells; masked ones count
    confidence: np.ndarray  # float32 [B], 0 to 1: the model's probability that the row is correct
    steps: np.ndarray  # int64 [B], supervision steps used; 0 if the model has none
    settled: np.ndarray  # bool [B], whether the model finished the row, not ran out of steps

    def take(self, index: np.ndarray) -> Prediction:
        """Return samples by index; samples may be repeated or left out."""
        return Prediction(*(part[index] for part in self))

    @staticmethod
    def joined(predictions: list[Prediction]) -> Prediction:
        """Concatenate batches."""
        return Prediction(*map(np.concatenate, zip(*predictions, strict=True)))


class FilledCanvases(NamedTuple):
    """Canvases filled free-running, with one column of figures for each row."""

    canvases: np.ndarray  # uint8 [B, H, W]
    confidence: np.ndarray  # float32 [B, R], 1 beyond the last row
    steps: np.ndarray  # int64 [B, R], 0 beyond the last row
    settled: np.ndarray  # bool [B, R], see `Prediction`; True beyond the last row

    @classmethod
    def begun(cls, drawing: Drawing) -> FilledCanvases:
        """Return the canvases of problems before the first row is filled."""
        shape = len(drawing), int(drawing.num_rows.max())
        figures = np.ones(shape, np.float32), np.zeros(shape, np.int64), np.ones(shape, bool)
        return cls(drawing.canvases.copy(), *figures)


def fill_row_by_row(fill: Fill, drawing: Drawing, on_row: OnRow | None = None) -> FilledCanvases:
    """Fill every row of every canvas from the operands alone, see `Predictor.free_running`."""
    written = FilledCanvases.begun(drawing)
    canvases = written.canvases
    for row in range(most := int(drawing.num_rows.max())):
        report("rows", row, most, solving=True)
        active = np.flatnonzero(drawing.num_rows > row)
        unknown = drawing.cells_of_row(row)[active]
        inputs = np.where(unknown, np.uint8(symbols.MASK), canvases[active])
        canvases[active] = inputs
        if on_row:
            on_row(row, canvases.copy())
        filled = fill(inputs, active, row)
        canvases[active] = np.where(unknown, filled.canvases, inputs)
        written.confidence[active, row] = filled.confidence
        written.steps[active, row] = filled.steps
        written.settled[active, row] = filled.settled
        if on_row:
            on_row(row, canvases)
    return written


def in_views(
    predictor: Predictor,
    inputs: np.ndarray,
    views: Sequence[View],
    problem_of: np.ndarray | None = None,
) -> Prediction:
    """Fill in the masked rows of canvases, each in a view of its own.

    The mask moves with the canvas. Equal canvases in different views, which are frequent for small
    canvases, are solved once. For a `translation_invariant` model canvases that are shifted across
    their rows are equal; those shifted along them are not, as the masked row spans the full width.
    The output is in the problems' own frame.

    Args:
        predictor: fills in the masked row of each canvas.
        inputs: canvases, uint8 [B, H, W].
        views: of each canvas.
        problem_of: problem that each canvas shows, int64 [B], see `solve_once`.
    """
    # Views keep the room of a solution on its canvas. Symbols that a model wrote outside this room
    # may wrap around the edge; undoing the view moves them back.
    viewed = apply_views(views, inputs)
    if predictor.translation_invariant:
        ups, _, lefts, _ = possible_shifts(viewed != symbols.BLANK).tolist()
        views = [
            view._replace(down=view.down - up, right=view.right - left)
            for view, up, left in zip(views, ups, lefts, strict=True)
        ]
        viewed = apply_views(views, inputs)
    rollouts = np.array([view.rollout for view in views])
    filled = solve_once(predictor, viewed, rollouts if rollouts.any() else None, problem_of)
    return filled._replace(canvases=undo_views(views, filled.canvases))


def solve_once(
    predictor: Predictor,
    inputs: np.ndarray,
    rollouts: np.ndarray | None = None,
    problem_of: np.ndarray | None = None,
) -> Prediction:
    """Fill in the masked rows of canvases, equal ones once, in batches that fit the device.

    Args:
        predictor: fills in the masked row of each canvas.
        inputs: canvases, uint8 [B, H, W].
        rollouts: of each canvas, int64 [B], see `Predictor`; None: no noise.
        problem_of: problem that each canvas shows, int64 [B]; None: each shows another one. Where
            several views of a problem are equal, the first of them alone counts the steps.
    """
    numbers = [0] * len(inputs) if rollouts is None else rollouts.tolist()
    different: dict[tuple[bytes, int], int] = {}  # in order, and the number of each
    keys = ((canvas.tobytes(), number) for canvas, number in zip(inputs, numbers, strict=True))
    which = np.array([different.setdefault(key, len(different)) for key in keys])
    _, first = np.unique(which, return_index=True)
    most = max(1, predictor.at_once(*inputs.shape[1:]))
    parts = np.split(first, range(most, len(first), most))
    found = []
    for number, i in enumerate(parts):
        with part(number, number + 1, len(parts)):
            found.append(predictor(inputs[i], None if rollouts is None else rollouts[i]))
    filled = Prediction.joined(found).take(which)
    if problem_of is None:
        return filled
    _, counted = np.unique(np.stack([problem_of, which]), axis=1, return_index=True)
    return filled._replace(steps=filled.steps * np.isin(np.arange(len(inputs)), counted))


Rollout, free_running = FilledCanvases, fill_row_by_row  # their released names
