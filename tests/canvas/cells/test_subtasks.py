"""Sub-tasks of a layout: their names, and where a row follows from them."""

import numpy as np

from canvas.addition import Addition
from canvas.cells.subtasks import arithmetic_subtasks, draw_subtasks, needed, subtask_classes
from canvas.drawing import UNDEFINED
from canvas.multiplication import Multiplication
from canvas.problems import Problems

STANDARD = Multiplication("standard")
PROBLEM = Problems.from_ints([(47, 36)])


def test_sub_tasks_are_signals_and_probe_targets_with_classes():
    classes = subtask_classes(Addition("column").local_rule())
    assert classes == {
        "sum_carry": 3, "addend": 11, "sum": 11,
        "first_addend": 11, "addend_above": 11, "digit_sum": 11,
    }  # fmt: skip
    found = arithmetic_subtasks(Addition("column").local_rule())
    assert found == ["first_addend", "addend_above", "digit_sum", "sum", "sum_carry"]
    names = ["multiplicand", "multiplier", "product", "carry", "sum", "sum_carry"]
    assert arithmetic_subtasks(STANDARD.local_rule()) == names


def test_a_digit_that_a_row_writes_is_a_sub_task_on_request():
    """47 x 36 writes 282 first: its digits are the classes of the product."""
    drawing = STANDARD.canvas_layout.draw_worked(PROBLEM, 6, 6)
    rule, row = STANDARD.local_rule(), drawing.canvas_row(0)[0]
    product = draw_subtasks(rule, drawing, written=True)["product"][0, row]
    end = int(drawing.left[0] + drawing.widths[0])
    assert product[end - 3 : end].tolist() == [1 + 2, 1 + 8, 1 + 2]
    assert (draw_subtasks(rule, drawing)["product"][0, row] == UNDEFINED).all()


def test_a_row_needs_the_sub_tasks_that_it_follows_from():
    """The carries of 282 and 141 are needed there; the last row adds, and multiplies nothing."""
    drawing = STANDARD.canvas_layout.draw_worked(PROBLEM, 6, 6, top=1, left=1)
    found = needed(draw_subtasks(STANDARD.local_rule(), drawing), drawing)
    first, end = int(drawing.canvas_row(0)[0]), int(drawing.left[0] + drawing.widths[0])
    carry = found["carry"][0]
    assert carry[first, end - 3 : end].tolist() == [0, 1 + 2, 1 + 4]  # 6 x 47: 42, 24 + 4
    assert carry[first + 1, end - 4 : end - 1].tolist() == [0, 1 + 1, 1 + 2]  # 3 x 47: 21, 12 + 2
    defined = carry != UNDEFINED
    assert defined.sum() == 6
    sums = found["sum_carry"][0, first:]
    assert sums[sums != UNDEFINED].tolist() == [1] * 4  # 1692: added up in the rows above
    column = Addition("column")
    drawing = column.canvas_layout.draw_worked(PROBLEM, 4, 4)
    found = needed(draw_subtasks(column.local_rule(), drawing), drawing)
    row, end = int(drawing.canvas_row(0)[0]), int(drawing.left[0] + drawing.widths[0])
    assert found["sum_carry"][0, row, end - 2 : end].tolist() == [1, 2]  # 7 + 6 carries 1, 8 none
    assert (found["sum_carry"][0, row] != UNDEFINED).sum() == 2
    assert np.array_equal(found["sum"][0, row], [UNDEFINED] * 4)
