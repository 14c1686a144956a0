import numpy as np
import pytest

from canvas.addition import Addition
from canvas.check import check_layout
from canvas.multiplication import Multiplication
from canvas.picture import to_text
from canvas.reading import read
from canvas.single_steps import Alignment, CarrylessSum, Products
from canvas.tasks import task_class, task_data

KINDS = (Alignment, Products, CarrylessSum)


def drawn(task, *operands: int) -> list[str]:
    drawing = task.canvas_layout.draw_worked(task.problems([operands]), trim=True)
    return to_text(drawing.truth[0]).split("\n")


def test_each_step_is_drawn_as_its_layout_shows():
    assert drawn(Alignment(), 321, 54) == ["_321", "*_54", "_321", "321_"]
    assert drawn(Products(), 321, 54) == ["_321", "*_54", "_284", "505_"]
    assert drawn(CarrylessSum(), 87, 604, 9) == ["_87", "604", "+_9", "680"]


def test_answers_are_those_of_the_step_alone():
    assert Alignment().answer((321, 54)) == 321
    assert Products().answer((321, 54)) == 505
    assert Products(base=2).answer((0b1101, 0b10)) == 0b1101
    assert CarrylessSum(addends=(3, 3)).answer((87, 604, 9)) == 680
    assert CarrylessSum(base=2).answer((0b1101, 0b111)) == 0b1010


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [2, 10, 16])
def test_worked_solutions_lead_to_the_answer_in_any_base(kind, base):
    more = {"addends": (2, 4)} if kind is CarrylessSum else {}
    assert check_layout(kind(base=base, **more)) >= 32


@pytest.mark.parametrize("kind", KINDS)
def test_leading_zeros_of_a_step_are_written_and_read(kind):
    """50 · 2 is 00 without its carry, and so is 5 + 5."""
    task = kind()
    problems = task.problems([(50, 2), (55, 55), (5, 5)])
    drawing = task.canvas_layout.draw_worked(problems)
    for canvas, operands in zip(drawing.truth, problems.to_ints(), strict=True):
        found = read(canvas, task.canvas_layout)
        assert (found.operands, found.answer) == (operands, task.answer(operands))


@pytest.mark.parametrize("kind", KINDS)
def test_operands_stand_where_those_of_the_whole_task_do(kind):
    whole = Addition("column") if kind is CarrylessSum else Multiplication("standard")
    one, other = (
        task.canvas_layout.draw(task.problems([(321, 54), (7, 9)]), 8, 8)
        for task in (kind(), whole)
    )
    left = other.widths.max() - one.widths.max()
    assert (one.canvases == np.roll(other.canvases, -left, axis=2)).all()
    assert task_class(task_data(kind())["task"]) is kind
