"""Subtraction, division, products modulo p and Rule 110: layouts, rules, what is refused."""

from random import Random

import numpy as np
import pytest

from canvas.cells.check import check_reachable
from canvas.cells.drawn import drawn_cell_inputs
from canvas.cells.reachable import reachable_cell_inputs
from canvas.check import check_layout
from canvas.division import Division
from canvas.modular import Modular
from canvas.picture import to_text
from canvas.reading import read
from canvas.rule110 import Rule110
from canvas.subtraction import Subtraction
from canvas.symbols import ALL_CHARACTERS
from canvas.task import Task
from canvas.tasks import task_of

MODULAR = Modular(digits_a=(2, 6), digits_b=(1, 6))
TASKS = (Subtraction(), Subtraction(base=3), Division(), Division(base=3), MODULAR, Rule110())


def drawn(task: Task, text: str) -> str:
    return to_text(task.canvas_layout.draw_worked(task.problems([task.parse(text)])).truth[0])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{int(task.base)}")
def test_rule_layout_and_reachable_inputs_agree(task):
    assert check_layout(task) > 0
    rule = task.local_rule()
    check_reachable(task, rule, reachable_cell_inputs(rule), (32, 8))
    assert rule.vocab_size <= task.vocab_size <= len(ALL_CHARACTERS)


def test_drawn_solutions_are_those_of_the_docs():
    assert drawn(Subtraction(), "1000-999") == "_1000\n-_999\n_0001"
    assert drawn(Division(), "1/11").splitlines()[:2] == ["__01", "/11_"]
    product = drawn(MODULAR, "10x1%101").splitlines()
    assert product[:3] == ["_10_", "_1__", "%101"] or product[:3] == ["__10", "___1", "%101"]
    assert product[-1] == "_010"
    rows = ["00110", "01110", "11010", "11110", "10010"]
    assert drawn(Rule110(), "00010").splitlines()[1:] == rows


@pytest.mark.parametrize("base", [2, 10])
@pytest.mark.parametrize("digits", [(6, 4), (3, 6), (5, 1)])
def test_the_extent_fits_shorter_divisors_too(digits, base):
    layout = Division.layouts["restoring"]
    rooms = [
        layout.room((a, b), base) for a in range(1, digits[0] + 1) for b in range(1, digits[1] + 1)
    ]
    assert layout.extent(digits, base) == tuple(np.max(rooms, axis=0))


@pytest.mark.parametrize(
    ("task", "text", "why"),
    [
        (
            Subtraction(),
            "5-7",
            "5 - 7 is no problem of the task subtraction: the second number has",
        ),
        (
            Division(),
            "101/0",
            "101 / 0 is no problem of the task division: the second number has to",
        ),
        (Division(), "12/1", "is not a whole number from 0 up in base 2"),
        (Rule110(), "0120", "is no rule110; write it like"),
        (MODULAR, "11x1%11", "11 x 1 % 11 is no problem of the task product modulo p: the third"),
        (MODULAR, "0x1%1", "the third number has to be at least 2, and the first one below it"),
        (MODULAR, "1%1%11", "is no product modulo p; write it like 101x1101%111"),
        (MODULAR, "1x10", "is no product modulo p; write it like 101x1101%111"),
    ],
)
def test_problems_that_a_task_refuses_get_a_reason(task, text, why):
    with pytest.raises(ValueError, match=why):
        task.parse(text)


def test_a_sign_that_only_one_task_has_decides():
    assert task_of("101x11%111", base=2) == Modular()
    assert task_of("101x11", base=2).answer((5, 3)) == 15


def by_the_rule(task: Task, problems: list[tuple[int, ...]]) -> list[int]:
    """Answers of canvases that the task's local rule fills in."""
    drawing = task.canvas_layout.draw_worked(task.problems(problems))
    found = drawn_cell_inputs(task.local_rule(), drawing)
    filled = drawing.masked.copy()
    filled[found.canvas, found.row, found.column] = found.outputs["symbol"]
    filled = np.where(drawing.given, drawing.truth, filled)
    canvases = [one[:height] for one, height in zip(filled, drawing.heights, strict=True)]
    read_back = [read(canvas, task.canvas_layout, int(task.base)) for canvas in canvases]
    assert [one.operands for one in read_back] == problems
    return [one.answer for one in read_back]


@pytest.mark.parametrize(("bits", "step"), [(7, 1), (24, 5)])
def test_products_modulo_p_are_those_of_python_by_the_rule(bits, step):
    """Structured ones: powers, 2^k - 1, p - 1, 0, and a second factor longer than p."""
    random = Random(bits)
    moduli = [2, 3, 2**bits - 1, 2**bits - 3, random.randrange(2 ** (bits - 1), 2**bits)]
    problems = [
        (a, b, p)
        for i, p in enumerate(moduli)
        for j, a in enumerate([0, 1, p - 1, p >> 1, random.randrange(p)])
        for k, b in enumerate([0, 1, p - 1, 2 ** (bits - 1), random.randrange(4**bits)])
        if (i + j + k) % step == 0  # each pair of a, b and p at least once
    ]
    assert by_the_rule(Modular(), problems) == [a * b % p for a, b, p in problems]


@pytest.mark.parametrize("base", [2, 10])
def test_quotients_are_those_of_python_by_the_rule(base):
    random, high = Random(base), base**6
    divisors = [1, base - 1, base**3, high - 1, random.randrange(1, base**3), high + 1]
    problems = [
        (a, b)
        for b in divisors
        for a in {0, b - 1, b, b * (base - 1), high - 1, random.randrange(high)}
    ]
    assert by_the_rule(Division(base=base), problems) == [a // b for a, b in problems]
