"""Steps in which cells settled: on rows made by hand, and on a tiny model beside its own steps."""

import numpy as np
import torch
from tiny import tiny_trm

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import MASK, encode
from trm.extras.analysis.settled import last_changes
from trm.models.iterative import Loop
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.solving.watching import Moment, solve_watched


def test_a_cell_settles_at_its_last_change_within_its_row():
    first = ("...", "___"), ("_5_", "___"), ("_45", "___"), ("_45", "___")
    second = ("_45", ".._"), ("_45", "3__"), ("_45", "34_"), ("_45", "35_")
    moments = [
        Moment(np.stack([encode(line) for line in ("12*", *rows)]), number, number, step,
               masked=not step)
        for number, steps in enumerate((first, second), start=1)
        for step, rows in enumerate(steps)
    ]  # fmt: skip
    assert last_changes(moments).tolist() == [[0, 0, 0], [1, 2, 2], [1, 3, 0]]


def test_a_tiny_model_settles_as_its_own_steps_show():
    model = tiny_trm(position="relative_2d", skip_blank=True)
    task = Multiplication("lattice", digits_a=(1, 3), digits_b=(1, 3))
    predictor = IterativePredictor(model, 6).with_options(halt=False)
    solver = Solver(predictor, task, Canvas(5, 8))
    moments: list[Moment] = []
    solve_watched(solver, Problems.from_ints([(321, 45)]), moments.append)
    found = last_changes(moments)
    filled = np.zeros(found.shape, dtype=bool)
    for start in (moment for moment in moments if moment.masked):
        due = start.canvas == MASK
        loop, before = Loop(model, torch.from_numpy(start.canvas[None])), start.canvas
        expected = np.zeros(found.shape, dtype=np.int64)
        with torch.no_grad():
            for step in range(1, 7):
                loop.step()
                cells = loop.read()[0].argmax(dim=-1)[0].numpy()
                expected[cells != before] = step
                before = cells
        assert found[due].tolist() == expected[due].tolist()
        filled |= due
    assert (found[~filled] == 0).all()
    assert found.max() > 1
