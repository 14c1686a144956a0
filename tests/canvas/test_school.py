"""Subtraction, division and Rule 110: layouts, rules, what is refused."""

import numpy as np
import pytest

from canvas.cells.check import check_reachable
from canvas.cells.reachable import reachable_cell_inputs
from canvas.check import check_layout
from canvas.division import Division
from canvas.picture import to_text
from canvas.rule110 import Rule110
from canvas.subtraction import Subtraction
from canvas.symbols import ALL_CHARACTERS
from canvas.task import Task

TASKS = (Subtraction(), Subtraction(base=3), Division(), Rule110())


def drawn(task: Task, text: str) -> str:
    return to_text(task.canvas_layout.draw_worked(task.problems([task.parse(text)])).truth[0])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{int(task.base)}")
def test_rule_layout_and_reachable_inputs_agree(task):
    assert check_layout(task) > 0
    rule = task.local_rule()
    check_reachable(task, rule, reachable_cell_inputs(rule), (64, 16))
    assert rule.vocab_size <= task.vocab_size <= len(ALL_CHARACTERS)


def test_drawn_solutions_are_those_of_the_docs():
    assert drawn(Subtraction(), "1000-999") == "_1000\n-_999\n_0001"
    assert drawn(Division(), "1/11").splitlines()[:2] == ["__01", "/11_"]
    assert drawn(Rule110(), "00010").splitlines()[1:] == [
        "00110",
        "01110",
        "11010",
        "11110",
        "10010",
    ]


@pytest.mark.parametrize("digits", [(6, 4), (3, 6), (5, 1)])
def test_the_extent_fits_shorter_divisors_too(digits):
    layout = Division.layouts["restoring"]
    rooms = [
        layout.room((a, b), 2) for a in range(1, digits[0] + 1) for b in range(1, digits[1] + 1)
    ]
    assert layout.extent(digits, 2) == tuple(np.max(rooms, axis=0))


@pytest.mark.parametrize(
    ("task", "text", "why"),
    [
        (Subtraction(), "5-7", "5 - 7 is no problem of the task subtraction: the second number is"),
        (
            Division(),
            "101/0",
            "101 / 0 is no problem of the task division: the second number is at",
        ),
        (Division(), "12/1", "is not a whole number from 0 up in base 2"),
        (Rule110(), "0120", "is no rule110; write it like"),
    ],
)
def test_problems_that_a_task_refuses_get_a_reason(task, text, why):
    with pytest.raises(ValueError, match=why):
        task.parse(text)


def test_division_in_another_base_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="division is in base 2, not 10: set base to 2"):
        Division(base=10)
