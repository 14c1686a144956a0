"""The order of writing."""

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.cells.order import WritingOrder, front_of, in_fronts, wavefront
from canvas.cells.spec import AGAINST, NEIGHBOURS
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK
from canvas.task import Task


def test_every_neighbour_is_in_an_earlier_wavefront():
    row, column = np.indices((5, 7)).reshape(2, -1)  # columns from the left
    fronts = front_of(row, 6 - column)
    for direction in NEIGHBOURS.keys() - AGAINST:
        down, right = NEIGHBOURS[direction]
        assert (front_of(row + down, 6 - (column + right)) < fronts).all()


def test_wavefronts_contain_each_cell_once_and_none_is_empty():
    fronts = np.array([4, 0, 9, 4, 0])
    assert [front.tolist() for front in in_fronts(fronts)] == [[1, 4], [0, 3], [2]]
    assert in_fronts(np.zeros(0, dtype=np.int64)) == []


@pytest.mark.parametrize(
    "task", [Multiplication("lattice"), Multiplication("interleaved"), Addition("column")]
)
def test_steps_of_all_cells_end_where_the_wavefront_does(task: Task):
    """From any first messages, in as many steps as there are fronts."""
    rule, random = task.local_rule(), np.random.default_rng(0)
    drawing = task.canvas_layout.draw_worked(task.problems([(907, 68), (5, 41)]))
    order = WritingOrder.of(drawing.truth != BLANK, rule.whole.directions)
    token = drawing.masked[order.canvas, order.row, order.column].astype(np.int64)

    def decide(cells: slice, around: np.ndarray) -> np.ndarray:
        outputs = rule.apply(rule.inputs_from(token[cells], around))
        passed = [np.ones_like(token[cells]), *(outputs[name] for name in rule.signals)]
        return np.stack(passed, axis=1)

    once = np.zeros((len(token) + 1, 1 + len(rule.signals)), dtype=np.int64)
    wavefront(decide, once, order.fronts)
    steps = np.zeros_like(once)
    steps[:-1, 0] = 1
    for column, classes in enumerate(rule.signals.values(), start=1):
        steps[:-1, column] = random.integers(0, classes, len(token))
    assert (steps != once).any()
    for _ in order.sizes:
        wavefront(decide, steps, [(slice(0, len(token)), order.sources)])
    assert (steps == once).all()
