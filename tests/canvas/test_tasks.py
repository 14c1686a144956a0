import math
from dataclasses import asdict, dataclass

import numpy as np
import pytest

from canvas import TASKS, task_class, task_data, task_name
from canvas.addition import Addition
from canvas.arithmetic import compare
from canvas.canvas_size import Canvas
from canvas.layouts import table
from canvas.multiplication import Multiplication, Standard
from canvas.sampling import sample
from canvas.task import TwoOperands, layout_field

every_task = pytest.mark.parametrize("kind", TASKS.values(), ids=TASKS)


@dataclass
class Subtraction(TwoOperands):
    """The difference of two numbers, the first no smaller than the second."""

    layouts = table([Standard()])
    sign, signs = "-", "-−"
    smallest = 0

    layout: str = layout_field("standard", layouts)

    def answer(self, operands):
        a, b = operands
        return a - b

    def allows(self, problems):
        return compare(*problems.operands) >= 0


# Settings


def test_a_task_knows_the_canvas_its_longest_problems_need():
    task = Multiplication("running_sum", digits_a=[1, 7], digits_b=[2, 4])
    assert task.digits_a == (1, 7), "a list, as configuration files have it, will do"
    assert task.longest == (7, 4)
    assert task.extent() == Multiplication.layouts["running_sum"].room((7, 4), 10)


@pytest.mark.parametrize("digits", [(0, 3), (3, 2), (-1, 1), (4,), (1, 2, 3), (), (1, 1001)])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(Multiplication, "digits_a"), (Multiplication, "digits_b"), (Addition, "digits")],
)
def test_digit_ranges_that_are_none_are_refused(kind, name, digits):
    with pytest.raises(ValueError, match=rf"{name} is \[fewest, most\] from 1 to 1000, not \["):
        kind(**{name: digits})


@pytest.mark.parametrize("addends", [(1, 2), (0, 3), (4, 3), (2, 101), (2,)])
def test_numbers_of_addends_that_are_none_are_refused(addends):
    with pytest.raises(ValueError, match=r"addends is \[fewest, most\] from 2 to 100, not \["):
        Addition(addends=addends)


@every_task
@pytest.mark.parametrize("base", [1, 11, 0])
def test_a_base_without_digits_of_its_own_is_refused(kind, base):
    with pytest.raises(ValueError, match=f"the base is 2 to 10, not {base}"):
        kind(base=base)


@every_task
@pytest.mark.parametrize("bias", [float("nan"), float("inf")])
def test_a_bias_that_is_no_number_is_refused(kind, bias):
    with pytest.raises(ValueError, match="long_bias is a finite number"):
        kind(long_bias=bias)


def test_an_unknown_layout_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"layout must be .*interleaved.*Did you mean lattice\?"):
        Multiplication("latice")
    with pytest.raises(ValueError, match=r"one of column, column_carries, got 'lattice'"):
        Addition("lattice")


@every_task
def test_a_layout_of_the_task_is_found_by_its_name(kind):
    for name, layout in kind.layouts.items():
        assert kind(name).rules is layout
        assert layout.name == name


# Problems


@pytest.mark.parametrize(
    ("task", "text", "operands"),
    [
        (Multiplication(), "123x456", (123, 456)),
        (Multiplication(), " 123 X 456\n", (123, 456)),
        (Multiplication(), "7*08", (7, 8)),
        (Multiplication(), "7×8", (7, 8)),
        (Multiplication("standard", base=2), "101x10", (5, 2)),
        (Multiplication(), "9" * 1000 + "x1", (10**1000 - 1, 1)),
        (Addition(), "123+456", (123, 456)),
        (Addition(), "0 + 00 +7+ 12", (0, 0, 7, 12)),
        (Addition(base=3), "12+21", (5, 7)),
        (Addition(), "+".join(["5"] * 100), (5,) * 100),
        (Subtraction(), "9-4", (9, 4)),
        (Subtraction(), "9−9", (9, 9)),
    ],
)
def test_what_people_type_is_read(task, text, operands):
    assert task.parse(text) == operands


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        (Multiplication(), "", "'' is no multiplication; write it like 123x456"),
        (Multiplication(), "123", "'123' is no multiplication"),
        (Multiplication(), "123x", "'123x' is no multiplication"),
        (Multiplication(), "x456", "'x456' is no multiplication"),
        (Multiplication(), "1x x2", "'1x x2' is no multiplication"),
        (Multiplication(), "12+34", r"'12\+34' is no multiplication"),
        (Multiplication(), "1x2x3", "multiplication takes 2 operands, not 3"),
        (Multiplication(), "0x5", "'0' is not a positive whole number"),
        (Multiplication(), "5x-1", "'-1' is not a positive whole number"),
        (Multiplication(), "1" * 200, f"'{'1' * 59}…' is no multiplication"),
        (Multiplication(), "1x" + "1" * 1001, "number of 1,001 digits; at most 1,000 are worked"),
        (Multiplication(base=2), "12x1", "'12' is not a positive whole number in base 2"),
        (Addition(), "12x34", r"'12x34' is no addition; write it like 123\+456"),
        (Addition(), "12+", r"'12\+' is no addition"),
        (Addition(), "+12+3", r"'\+12\+3' is no addition"),
        (Addition(), "1+2.5", "'2.5' is not a whole number from 0 up"),
        (Addition(), "+".join(["5"] * 101), "addition takes 2 to 100 operands, not 101"),
        (Subtraction(), "4-9", "4 - 9 is no problem of the task subtraction"),
        (Subtraction(), "9+4", r"'9\+4' is no subtraction; write it like 123-456"),
    ],
)
def test_text_that_is_no_problem_of_the_task_is_refused(task, text, message):
    with pytest.raises(ValueError, match=message):
        task.parse(text)


@pytest.mark.parametrize(
    ("task", "operands", "message"),
    [
        (Multiplication(), (1,), "multiplication takes 2 operands, not 1"),
        (Multiplication(), (1, 2, 3), "multiplication takes 2 operands, not 3"),
        (Multiplication(), (), "multiplication takes 2 operands, not 0"),
        (Multiplication(), (12, 0), "multiplication: operands are whole numbers from 1 up"),
        (Multiplication(), (0, 3), "multiplication: operands are whole numbers from 1 up"),
        (Multiplication(), (3, -1), "whole numbers from 0 up, got -1"),
        (Addition(), (1,), "addition takes 2 to 100 operands, not 1"),
        (Addition(), (0,) * 101, "addition takes 2 to 100 operands, not 101"),
        (Addition(), (3, -1), "whole numbers from 0 up, got -1"),
        (Subtraction(), (12, 13), "12 - 13 is no problem of the task subtraction"),
    ],
)
def test_operands_that_the_task_does_not_know_are_refused(task, operands, message):
    for problems in ([operands], [(12, 3), operands]):
        with pytest.raises(ValueError, match=message):
            task.problems(problems)


def test_problems_are_named_as_people_write_them():
    task = Multiplication()
    assert task.names(task.problems([(321, 654), (7, 8)])) == ["321 x 654", "7 x 8"]
    task = Multiplication("standard", base=2)
    assert task.names(task.problems([(5, 2)])) == ["101 x 10"]
    task = Addition(addends=(2, 3))
    assert task.names(task.problems([(0, 0), (12, 0, 345)])) == ["0 + 0", "12 + 0 + 345"]


@every_task
@pytest.mark.parametrize("base", [2, 7, 10])
def test_a_problem_s_name_is_read_as_that_problem(kind, base):
    task = kind(base=base)
    problems = sample(task, 0, "train", 0, np.arange(100))
    assert [task.parse(name) for name in task.names(problems)] == problems.to_ints()


@every_task
def test_every_sample_is_in_range_and_known(kind):
    task = kind()
    problems = sample(task, 0, "test", 0, np.arange(200))
    assert task.in_range(problems).all()
    assert task.problems(problems.to_ints()).to_ints() == problems.to_ints()


def test_the_answer_to_a_multiplication_is_the_product():
    problems = sample(Multiplication(), 0, "train", 0, np.arange(50)).to_ints()
    assert [Multiplication().answer(pair) for pair in problems] == list(map(math.prod, problems))


def test_a_product_is_in_range_when_it_could_have_been_drawn():
    task = Multiplication(digits_a=(2, 3), digits_b=(1, 1))
    pairs = {(10, 9): True, (999, 1): True, (9, 9): False, (1000, 1): False, (99, 10): False}
    problems = task.problems(list(pairs))
    assert task.in_range(problems).tolist() == list(pairs.values())
    sizes = task.measures(problems)
    assert sizes["digits_a"].tolist() == [2, 3, 1, 4, 2]
    assert sizes["digits_b"].tolist() == [1, 1, 1, 1, 2]
    assert task.of_size(digits_a=5, digits_b=2) == (5, 2)
    assert set(task.axes) == set(task.ranges)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_only_problems_that_the_task_allows_are_drawn(split):
    task = Subtraction(digits_a=(1, 3), digits_b=(1, 3))
    problems = sample(task, 0, split, 0, np.arange(400)).to_ints()
    assert all(a >= b for a, b in problems)
    assert all(task.answer(pair) >= 0 for pair in problems)
    assert {(len(str(a)), len(str(b))) for a, b in problems} == {
        (n, m) for n in (1, 2, 3) for m in range(1, n + 1)
    }
    alone = [sample(task, 0, split, 0, np.array([i])).to_ints()[0] for i in range(12)]
    assert alone == problems[:12]


def test_a_task_that_allows_none_of_its_lengths_is_refused_in_a_sentence():
    task = Subtraction(digits_a=(1, 1), digits_b=(3, 3))
    message = "no problem of digits_a 1-1, digits_b 3-3 in base 10 belongs to the train split"
    with pytest.raises(ValueError, match=message):
        sample(task, 0, "train", 0, np.arange(2))


# Names


def test_tasks_are_found_by_their_names():
    for name, kind in TASKS.items():
        assert task_class(name) is kind
        assert task_name(kind()) == name
    with pytest.raises(ValueError, match=r"task must be one of .*Did you mean addition\?"):
        task_class("additon")


@every_task
def test_a_task_as_plain_data_is_its_name_and_settings(kind):
    task = kind(base=3)
    data = task_data(task)
    assert data == {"task": task_name(task), **asdict(task)}
    assert task_class(data.pop("task"))(**data) == task


# Canvases


def test_a_fixed_canvas_has_to_hold_the_longest_problems():
    task = Addition("column_carries", digits=(1, 3), addends=(2, 4))
    Canvas(6, 5).check(task)
    for size in ((5, 5), (6, 4)):
        with pytest.raises(ValueError, match=r"need a canvas of at least 6 x 5 \(height x width\)"):
            Canvas(*size).check(task)


def test_a_cut_canvas_has_room_for_its_longest_working_and_a_margin():
    canvas = Canvas(margin=2)
    canvas.check(Multiplication())
    assert canvas.cut
    assert canvas.size(5, 7) == (6, 8)
    assert canvas.size(5, 7, (0, 2)) == (5, 9)
    assert Canvas(margin=2, square=True).size(5, 7) == (8, 8)
    assert Canvas(9, 9).size(5, 7) == (9, 9)
    assert not Canvas(9, 9).cut


def test_a_canvas_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="both a height and a width, or neither"):
        Canvas(height=4)
    with pytest.raises(ValueError, match="a margin is 0 cells or more, not -1"):
        Canvas(margin=-1)
    with pytest.raises(ValueError, match="more than 12,000 cells"):
        Canvas().check(Addition(digits=(1, 1000), addends=(2, 20)))
    with pytest.raises(ValueError, match="at most 2 addends in base 2, not 3"):
        Canvas().check(Addition("column_carries", base=2, addends=(2, 3)))
