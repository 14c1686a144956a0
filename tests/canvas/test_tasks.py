import operator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.choices import one_of
from canvas.division import Division
from canvas.layouts import table
from canvas.modular import Modular
from canvas.multiplication import Multiplication, Standard
from canvas.sampling import sample
from canvas.task import TwoOperands
from canvas.tasks import TASKS, task_class, task_data

every_task = pytest.mark.parametrize("kind", TASKS.values(), ids=TASKS)
BINARY = {Division, Modular}


@dataclass
class Subtraction(TwoOperands):
    """The difference of two numbers, the first no smaller than the second."""

    layouts = table([Standard()])
    sign, signs = "-", "-−"
    smallest = 0

    layout: str = one_of("standard", layouts, open=True)

    def answer(self, operands):
        a, b = operands
        return a - b

    def allows(self, problems):
        return np.array([a >= b for a, b in problems.to_ints()])


def test_a_tasks_layout_has_its_released_name_too():
    task = Multiplication("standard")
    with pytest.warns(DeprecationWarning, match="layout_impl is canvas_layout now"):
        assert task.layout_impl is task.canvas_layout
    task.layout_impl = other = Standard()
    assert task.canvas_layout is other


def test_a_task_has_ranges_and_the_extent_of_its_longest_problem():
    task = Multiplication("running_sum", digits_a=[1, 7], digits_b=[2, 4])
    assert task.digits_a == (1, 7), "a list, as configuration files have it, will do"
    assert task.longest == (7, 4)
    assert task.extent() == Multiplication.layouts["running_sum"].room((7, 4), 10)
    task = Addition("column_carries", digits=[2, 7], addends=[2, 5])
    assert task.longest == (7,) * 5
    assert task.extent() == (7, 9)
    assert set(Addition(addends=(3, 4)).ranges) == {"digits", "addends"}
    assert Addition(addends=(2, 3)).ranges["digits_a"] == (1, 3)
    two = Addition().measures(Addition().problems([(1, 22), (333, 4)]))
    assert two["digits_a"].tolist() == [1, 3]
    assert two["digits_b"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("task", "text", "operands"),
    [
        (Multiplication(), "123x456", (123, 456)),
        (Multiplication(), " 123 X 456\n", (123, 456)),
        (Multiplication(), "7*08", (7, 8)),
        (Multiplication(), "7×8", (7, 8)),
        (Multiplication("standard", base=2), "101x10", (5, 2)),
        (Multiplication(), "9" * 5000 + "x1", (10**5000 - 1, 1)),
        (Multiplication(), "0x7", (0, 7)),
        (Multiplication(), "7 x 00", (7, 0)),
        (Multiplication(base=2), "0*0", (0, 0)),
        (Addition(), "0 + 00 +7+ 12", (0, 0, 7, 12)),
        (Addition(base=3), "12+21", (5, 7)),
        (Addition(), "+".join(["5"] * 100), (5,) * 100),
        (Subtraction(), "9−9", (9, 9)),
        (Division(), "1101÷10", (13, 2)),
        (Modular(), "10 * 111 % 11", (2, 7, 3)),
    ],
)
def test_problems_are_parsed_in_every_way_people_type_them(task, text, operands):
    assert task.parse(text) == operands


@every_task
@pytest.mark.parametrize("base", [2, 7, 10])
def test_samples_are_in_range_and_their_names_parse_back(kind, base):
    task = kind() if kind in BINARY else kind(base=base)
    base = task.base
    five, two = (np.base_repr(value, base) for value in (5, 2))
    if task.arity[0] == 2:
        assert task.names(task.problems([(5, 2)])) == [f"{five} {task.sign} {two}"]
    problems = sample(task, 0, "train", 0, np.arange(100))
    assert task.in_range(problems).all()
    assert task.problems(problems.to_ints()).to_ints() == problems.to_ints()
    assert [task.parse(name) for name in task.names(problems)] == problems.to_ints()
    assert task.parsed([task.example])  # messages and model cards show it
    signs = {"x": operator.mul, "+": operator.add, "-": operator.sub, "/": operator.floordiv}
    if exact := signs.get(task.sign):
        assert all(task.answer(one) == reduce(exact, one) for one in problems.to_ints())
    else:
        assert all(task.answer((a, b, p)) == a * b % p for a, b, p in problems.to_ints())


PRODUCTS = {(10, 9): True, (999, 1): True, (9, 9): False, (1000, 1): False, (99, 10): False}
PRODUCTS |= {(10, 0): False}  # of one digit, and yet never drawn
SUMS = {(10, 99, 999): True, (10, 99, 999, 100): True, (10, 99): False, (1, 99, 100): False}
SUMS |= {(10, 9999, 100): False, (10, 99, 100, 100, 10): False, (10, 99, 0): False}


@pytest.mark.parametrize(
    ("task", "problems", "sizes"),
    [
        (
            Multiplication(digits_a=(2, 3), digits_b=(1, 1)),
            PRODUCTS,
            {"digits_a": [2, 3, 1, 4, 2, 2], "digits_b": [1, 1, 1, 1, 2, 1]},
        ),
        (
            Addition(digits=(2, 3), addends=(3, 4)),
            SUMS,
            {"digits": [3, 3, 2, 3, 4, 3, 2], "addends": [3, 4, 2, 3, 3, 5, 3]},
        ),
    ],
)
def test_a_problem_is_in_range_when_it_could_have_been_drawn(task, problems, sizes):
    found = task.problems(list(problems))
    assert task.in_range(found).tolist() == list(problems.values())
    assert {name: size.tolist() for name, size in task.measures(found).items()} == sizes


@pytest.mark.parametrize("size", [{"digits": 3, "addends": 4}, {"digits_a": 2, "digits_b": 5}])
def test_problems_of_a_size_have_that_size(size):
    task = Addition(digits=(1, 9), addends=(2, 9))
    addends = [10 ** (digits - 1) if digits > 1 else 0 for digits in task.of_size(**size)]
    sizes = task.measures(task.problems([addends]))
    assert {name: sizes[name].tolist() for name in size} == {n: [size[n]] for n in size}


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_only_problems_that_the_task_allows_are_drawn(split):
    task = Subtraction(digits_a=(1, 3), digits_b=(1, 3))
    problems = sample(task, 0, split, 0, np.arange(120)).to_ints()
    assert all(a >= b for a, b in problems)
    lengths = {(len(str(a)), len(str(b))) for a, b in problems}
    assert lengths == {(n, m) for n in (1, 2, 3) for m in range(1, n + 1)}
    alone = [sample(task, 0, split, 0, np.array([i])).to_ints()[0] for i in range(5)]
    assert alone == problems[:5]
    refused = "12 - 13 is no problem of the task subtraction"
    for ask in (lambda: task.parse("12-13"), lambda: task.problems([(12, 3), (12, 13)])):
        with pytest.raises(ValueError, match=refused):
            ask()
    message = "no problem of digits_a 1-1, digits_b 3-3 in base 10 belongs to the .* split"
    if split == "test":
        with pytest.raises(ValueError, match=message):
            sample(Subtraction(digits_a=(1, 1), digits_b=(3, 3)), 0, split, 0, np.arange(2))


@every_task
def test_tasks_and_layouts_are_built_from_names_and_plain_data(kind):
    with pytest.raises(ValueError, match=r"task must be one of .*Did you mean addition\?"):
        task_class("additon")
    for name, layout in kind.layouts.items():
        assert kind(name).canvas_layout is layout
        assert layout.name == name
    task = kind() if kind in BINARY else kind(base=3)
    data = task_data(task)
    assert task_class(data.pop("task")) is kind
    assert kind(**data) == task
