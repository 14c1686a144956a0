"""What models read, and what is known of the cells."""

import numpy as np

from canvas.hints import UNDEFINED, draw_subtasks, hint_sequences
from canvas.problems import Problems
from canvas.symbols import MASK
from trm.probing.cells import examples, token_of_cell

PROBLEMS = Problems.from_ints([(5, 7), (8, 3), (2, 4)], base=3)


def test_all_rows_of_all_problems_or_one_of_each(make_solver):
    solver = make_solver()
    every = examples(solver, PROBLEMS)
    assert len(every) == int(solver.draw(PROBLEMS).steps.sum())
    assert ((every.inputs == MASK) == every.working).all()
    one = examples(solver, PROBLEMS, seed=3)
    assert one.problem.tolist() == [0, 1, 2]
    chosen = [every.inputs[every.problem == i] for i in range(3)]
    for row, rows in zip(one.inputs, chosen, strict=True):
        assert (rows == row).all(axis=(1, 2)).any()


def test_places_are_counted_from_the_top_and_the_right_end(make_solver):
    every = examples(make_solver(), PROBLEMS)
    row, column = np.argwhere(every.labels[0] != 11)[0]  # the highest digit of the first operand
    assert every.rows[0, row] == 0
    assert every.columns[0, column] == 1  # 5 is 12 in base 3
    assert (every.first == 2).all()


def test_below_the_row_that_is_filled_in_nothing_is_defined(make_solver):
    every = examples(make_solver(), PROBLEMS)
    below = every.rows > (every.rows * every.working.any(axis=2)).max(axis=1, keepdims=True)
    assert (every.hints[below] == UNDEFINED).all()
    assert (every.hints[every.working] != UNDEFINED).any(axis=1).all()


def test_what_a_row_writes_is_no_sub_task_of_it(make_solver):
    """The sum of all partial products is the answer itself; above, it is one on the way there."""
    every = examples(make_solver(), PROBLEMS)
    last = (every.rows == 4)[:, :, None] & every.working  # of 2 + 2 digits: rows 0 to 4
    names = make_solver().task.rules.hints
    total = every.hints[..., names.index("sum")]
    assert last.any()
    assert (total[last] == UNDEFINED).all()
    assert (total[every.working & ~last & (every.rows < 4)[:, :, None]] != UNDEFINED).all()
    assert (every.hints[..., names.index("sum_carry")][last] != UNDEFINED).all()


def test_a_gpt_is_read_where_it_writes_a_cell(make_solver):
    solver = make_solver("gpt")
    every = examples(solver, PROBLEMS)
    drawing = solver.draw_worked(PROBLEMS)
    hints = draw_subtasks(solver.task.rules, PROBLEMS, drawing)
    _, H, W = drawing.truth.shape
    for i, name in enumerate(solver.task.rules.hints):
        sequence = hint_sequences(hints[name])[:, token_of_cell(H, W)].reshape(-1, H, W)
        assert (every.hints[..., i] == np.where(every.working, sequence, UNDEFINED)).all()
    assert every.working.any(axis=2).sum() == drawing.steps.sum()
