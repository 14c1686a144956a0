"""Windows: drawn pages against the local rules, and the closure against drawn pages."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canvas.addition import Addition
from canvas.hints import draw_hints
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import draw_worked
from canvas.symbols import MASK
from canvas.task import Task
from canvas.windows import SYMBOL, LocalRule, Windows, closure, page_windows

TASKS: dict[str, Task] = {
    "lattice": Multiplication(layout="lattice"),
    "lattice, base 2": Multiplication(layout="lattice", base=2),
    "lattice, base 3": Multiplication(layout="lattice", base=3),
    "column": Addition(layout="column"),
    "column, base 2": Addition(layout="column", base=2),
}


def rule_of(task: Task) -> LocalRule:
    assert task.rules.local_rule is not None
    return task.rules.local_rule(task.base)


@cache
def all_windows(name: str) -> np.ndarray:
    return closure(rule_of(TASKS[name]))


def drawn(task: Task, operands: list[tuple[int, ...]], around: tuple[int, int, int]):
    """Pages with blank columns on both sides and blank rows above, and their windows."""
    problems = Problems.from_ints(operands, task.base)
    worked = task.rules.work(problems)
    left, right, top = around
    width = left + int(worked.widths.max()) + right
    height = top + int(worked.heights.max())
    return problems, draw_worked(worked, height, width, top=top, left=left)


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_the_rule_says_what_is_drawn_and_no_page_leaves_the_closure(name: str, data) -> None:
    task, least = TASKS[name], TASKS[name].smallest
    number = st.integers(1, 12).flatmap(lambda n: st.integers(least, task.base**n))
    many = st.integers(2, 2 if isinstance(task, Multiplication) else 7)
    count = data.draw(many)
    operands = data.draw(st.lists(st.tuples(*[number] * count), min_size=1, max_size=3))
    around = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)))
    problems, drawing = drawn(task, operands, around)
    rule, hints = rule_of(task), draw_hints(task.rules, problems, drawing)
    known = np.array([data.draw(st.integers(0, int(n) - 1)) for n in drawing.steps])
    for rows in (None, known):
        found = page_windows(rule, task.rules, problems, drawing, rows)
        at, says = (found.page, found.row, found.column), rule.apply(found.windows)
        asked = rule.asks(found.windows)
        assert (says[SYMBOL][asked] == drawing.truth[at][asked]).all()
        for field in rule.fields:
            assert (says[field] == hints[field][at]).all(), field
        if rows is None:
            assert np.isin(rule.number(found.windows), all_windows(name)).all()


@pytest.mark.parametrize(
    ("name", "number"),
    [("lattice, base 2", 184), ("lattice, base 3", 1368), ("lattice", 1204976), ("column", 5593)],
)
def test_how_many_windows_there_are(name: str, number: int) -> None:
    """The lattice's are those of an independent enumeration, and 20 that a or b of 0 show."""
    found = all_windows(name)
    assert len(found) == number
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("name", ["lattice, base 3", "column"])
def test_the_closure_is_closed(name: str) -> None:
    """What a cell hands on is seen by some window of the set, on its left and below."""
    rule, windows = rule_of(TASKS[name]), rule_of(TASKS[name]).windows(all_windows(name))
    says = rule.apply(windows)
    assert set(rule.code(rule.left, says)) <= set(windows.right)
    answers = windows.take(rule.asks(windows))
    below = rule.code(rule.down, rule.apply(windows))
    if name == "column":  # nothing is below the answer
        below = below[~rule.asks(windows)]
    assert set(below) <= set(windows.above)
    assert len(answers.token) > 0
    assert set(answers.token) == {MASK}


@pytest.mark.parametrize("name", TASKS)
def test_numbers_and_codes_can_be_taken_apart(name: str) -> None:
    rule = rule_of(TASKS[name])
    numbers = all_windows(name)[:1000]
    windows = rule.windows(numbers)
    assert isinstance(windows, Windows)
    assert (rule.number(windows) == numbers).all()
    seen = rule.message(rule.left, windows.right)
    assert (np.where(seen.present, rule.code(rule.left, seen.fields), 0) == windows.right).all()
    assert not any(part[~seen.present].any() for part in seen.fields.values())


def test_a_layout_with_rows_of_its_own_inherits_no_rule() -> None:
    lattice = type(TASKS["lattice"].rules)

    class Mine(lattice):  # type: ignore[valid-type,misc]
        def rows(self, operands):
            yield from super().rows(operands)

    assert lattice.local_rule is not None
    assert Mine.local_rule is None
