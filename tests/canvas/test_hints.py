"""Hints against their definitions, written down with Python integers, digit by digit."""

import random

import numpy as np
import pytest

from canvas import layouts, symbols
from canvas.addition import Addition, Column, ColumnCarries
from canvas.hints import (
    NONE,
    UNDEFINED,
    draw_hints,
    draw_subtasks,
    hint_classes,
    hint_sequences,
    subtask_classes,
)
from canvas.layouts import ABSENT, ROW_KINDS, Layout
from canvas.problems import Problems
from canvas.render import WorkedDrawing, draw_worked, to_sequences

GIVEN, PARTIAL, SUM, ANSWER, CARRIES = range(1, 1 + len(ROW_KINDS))

Cells = dict[tuple[int, int], int]  # the class at (row, column), columns counted from the right
EDGE = range(-16, 20)  # columns that a canvas of a test may have, counted from the right

every_base = pytest.mark.parametrize("base", [2, 3, 10])


def digits(value: int, base: int) -> list[int]:
    """The digits of a number, least significant first."""
    found = [value % base]
    while value := value // base:
        found.append(value % base)
    return found


def carry_into(column: int, base: int, *values: int) -> int:
    """The carry into a column of a sum of whole numbers."""
    return sum(value % base**column for value in values) // base**column


class Expected:
    """The hints of one problem, written into one dictionary for each."""

    def __init__(self, layout: Layout, operands: tuple[int, ...], base: int) -> None:
        self.hints: dict[str, Cells] = {name: {} for name in layout.hints}
        self.operands, self.base, self.margin = operands, base, layout.margin

    def digit_row(self, name: str, row: int, numbers: list[int], shift: int = 0) -> None:
        for place, digit in enumerate(numbers):
            self.hints[name][row, self.margin + shift + place] = 1 + digit

    def from_column(self, name: str, row: int, start: int, digit: int) -> None:
        for column in EDGE:
            if column >= start:
                self.hints[name][row, column] = 1 + digit

    def kind(self, row: int, kind: int) -> None:
        for column in EDGE:
            self.hints["row_kind"][row, column] = kind

    def carries(
        self, name: str, row: int, shift: int, *values: int, times: int = 1, into: bool = False
    ) -> None:
        """Out of the columns of a sum of values, or of the first one times a digit and the others.

        Or into these columns.
        """
        first, *others = values
        for column in EDGE:
            if column >= self.margin + shift:
                place = column - self.margin - shift + (not into)
                low = (first % self.base**place) * times
                low += sum(value % self.base**place for value in others)
                self.hints[name][row, column] = 1 + low // self.base**place

    def sum(self, name: str, row: int, values: list[tuple[int, int]]) -> None:
        """A running sum: of each value and the columns that are blank at the right end of its row.

        There is a digit where something is added, or carried by one of the additions.
        """
        shown: Cells = {}
        total = 0
        for value, shift in values:
            for place in range(len(digits(value, self.base))):
                shown[0, shift + place] = 1
            value *= self.base**shift
            for column in range(20):
                if carry_into(column, self.base, total, value):
                    shown[0, column] = 1
            total += value
        for _, column in shown:
            self.hints[name][row, column] = 1 + total // self.base**column % self.base


def multiplication(layout: Layout, a: int, b: int, base: int) -> Expected:
    """The hints of the layouts of multiplication."""
    expected = Expected(layout, (a, b), base)
    digits_a, digits_b = digits(a, base), digits(b, base)
    n = len(digits_b)
    values = [(a * digit, i) for i, digit in enumerate(digits_b)]
    totals = [a * (b % base**i) for i in range(n + 1)]

    def product(i: int, row: int, shift: int, above: int | None = None) -> None:
        ahead = layout.name == "lattice"  # all in the cell on the right
        expected.digit_row("multiplicand", row, digits_a, shift)
        expected.from_column("multiplier", row, 0 if ahead else shift, digits_b[i])
        expected.carries("carry", row, shift - ahead, a, times=digits_b[i])
        if above is not None:
            found = digits(a * digits_b[i], base)
            found += [0] * (len(digits_a) - len(found)) * ahead
            if layout.name == "running_sum":
                expected.digit_row("total", row, digits(totals[i + 1], base))
            else:
                expected.digit_row("product", row, found, shift - ahead)
            expected.carries("sum_carry", row, shift + (not ahead), a * digits_b[i], above)

    if layout.name == "lattice":
        expected.kind(0, GIVEN)
        expected.digit_row("multiplicand", 0, digits_a)
        above = 0
        for i in range(n):
            expected.kind(1 + i, ANSWER if i == n - 1 else SUM)
            product(i, 1 + i, 0, above // base)
            above = above // base + a * digits_b[i]
            expected.digit_row("addend", 1 + i, digits(above, base))
        return expected

    height = {"direct": 3, "standard": n + 3, "accumulate": n + 2}.get(layout.name, 2 * n + 2)
    for row in range(height):
        if row < 2:
            expected.kind(row, GIVEN)
            expected.digit_row("multiplicand", row, digits_a)
        if row:
            expected.digit_row("column_multiplier", row, digits_b)
        if layout.name == "running_sum":
            expected.digit_row("column_multiplicand", row, digits_a)
        if "diagonal" in layout.hints and 0 < row <= n + 2:
            expected.hints["diagonal"][row, n + 2 - row] = 1
        if "adding" in layout.hints and row >= n + 2:
            for column in EDGE:
                if column >= 0:
                    expected.hints["adding"][row, column] = 1 + (row > n + 2)
    if layout.name == "direct":
        expected.kind(2, ANSWER)
        return expected
    for i in range(n):
        last = i == n - 1
        if layout.name == "standard":
            expected.kind(2 + i, PARTIAL)
            product(i, 2 + i, i)
            expected.sum("sum", 2 + i, values[:i])
            before = values[i - 1][0] * base ** (i - 1) if i else 0
            expected.carries("sum_carry", 2 + i, 0, totals[max(i - 1, 0)], before)
        elif layout.name == "interleaved":
            expected.kind(2 + 2 * i, PARTIAL)
            expected.kind(3 + 2 * i, ANSWER if last else SUM)
            product(i, 2 + 2 * i, i)
            expected.digit_row("multiplicand", 3 + 2 * i, digits_a, i)
            expected.sum("sum", 2 + 2 * i, values[:i])
            expected.sum("sum", 3 + 2 * i, values[: i + 1])
            expected.carries("carry", 3 + 2 * i, 0, totals[i], values[i][0] * base**i)
        elif layout.name == "accumulate":
            expected.kind(2 + i, ANSWER if last else SUM)
            product(i, 2 + i, i, totals[i] // base**i)
        else:
            expected.kind(2 + i, PARTIAL)
            expected.kind(2 + n + i, ANSWER if last else SUM)
            product(i, 2 + i, i)
            product(i, 2 + n + i, i, totals[i] // base**i)
    if layout.name == "standard":
        expected.kind(2 + n, ANSWER)
        expected.sum("sum", 2 + n, values)
        expected.carries("sum_carry", 2 + n, 0, totals[n - 1], values[n - 1][0] * base ** (n - 1))
    return expected


def addition(layout: Layout, operands: tuple[int, ...], base: int) -> Expected:
    """The hints of the layouts of addition."""
    expected = Expected(layout, operands, base)
    n = len(operands)
    for row in range(n + 1 + (layout.name == "column_carries")):
        expected.kind(row, GIVEN if row < n else ANSWER)
        if row < n and layout.name == "column":
            expected.digit_row("addend", row, digits(operands[row], base))
    for row in range(1, n + 1):
        expected.digit_row("sum", row, digits(sum(operands[:row]), base))
        expected.carries("sum_carry", row, 0, sum(operands[: row - 1]), operands[row - 1])
        if layout.name == "column_carries":
            expected.carries("carry", row, 0, *operands[:row], into=True)
    if layout.name == "column_carries":
        expected.kind(n, CARRIES)
        expected.digit_row("sum", n + 1, digits(sum(operands), base))
    return expected


def expected_hints(layout: Layout, operands: tuple[int, ...], base: int) -> dict[str, Cells]:
    if layout.name in Addition.layouts:
        return addition(layout, operands, base).hints
    a, b = operands
    return multiplication(layout, a, b, base).hints


def mixed_problems(layout: Layout, base: int, seed: int = 0) -> Problems:
    """Random problems of mixed lengths, and those in which a carry or a zero is special."""
    draw = random.Random(f"{layout.name} {base} {seed}")
    top = base - 1

    def number(smallest: int) -> int:
        size = draw.randint(1, 5)
        return draw.randrange(max(smallest, base ** (size - 1) * (size > 1)), base**size)

    if layout.name in Addition.layouts:
        most = base if layout.name == "column_carries" else 4
        found = [tuple(number(0) for _ in range(draw.randint(2, min(4, most)))) for _ in range(60)]
        return Problems.from_ints(
            [(0, 0), (1, base**4 - 1), (base**3 - 1, 1), (top, top), (0, base**3), *found], base
        )
    # With zeros inside and at the end of b.
    special = [0, 1, base, base**2, base**3 + 1, base**4 - 1, base**4 - base**2 + 1]
    found = [(number(1), number(1)) for _ in range(20)]
    return Problems.from_ints([*found, *[(x, y) for x in special for y in special]], base)


def drawn_at_random(
    layout: Layout, problems: Problems, seed: int = 0
) -> tuple[WorkedDrawing, np.ndarray]:
    """Problems at random places on canvases with room to spare, and a step for each."""
    worked = layout.work(problems)
    draw = np.random.default_rng(seed)
    height, width = int(worked.heights.max()) + 2, int(worked.widths.max()) + 6
    top = draw.integers(0, height - worked.heights + 1)
    left = draw.integers(0, width - worked.widths + 1)
    drawing = draw_worked(worked, height, width, top=top, left=left)
    return drawing, draw.integers(0, drawing.steps)


def on_canvas(cells: Cells, drawing: WorkedDrawing, i: int, last: int) -> np.ndarray:
    """The classes that are expected on the canvas of a problem whose rows end at ``last``."""
    _, H, W = drawing.canvases.shape
    top, end = int(drawing.top[i]), int(drawing.left[i] + drawing.widths[i])
    found = np.full((H, W), NONE, dtype=np.uint8)
    for (row, column), value in cells.items():
        if 0 <= end - 1 - column < W and top + row < H:
            found[top + row, end - 1 - column] = value
    found[top + last + 1 :] = UNDEFINED
    return found


@every_base
def test_hints_of_a_step_are_what_integers_say(layout, base):
    problems = mixed_problems(layout, base)
    drawing, first = drawn_at_random(layout, problems)
    at_last = drawing.steps - 1
    for step in (first, (first + 1) % drawing.steps, at_last):
        hints = draw_hints(layout, problems, drawing, step)
        assert tuple(hints) == layout.hints
        for i, operands in enumerate(problems.to_ints()):
            expected = expected_hints(layout, operands, base)
            last = int(drawing.first_step[i] + step[i])
            for name, cells in expected.items():
                right = on_canvas(cells, drawing, i, last)
                np.testing.assert_array_equal(
                    hints[name][i], right, f"{name} of {operands}, step {step[i]}"
                )
    name = layout.hints[-1]
    for some in (
        draw_hints(layout, problems, drawing),
        draw_hints(layout, problems, drawing, at_last, [name]),
    ):
        np.testing.assert_array_equal(some[name], hints[name])


@every_base
def test_hints_have_as_many_classes_as_the_layout_says(layout, base):
    known = hint_classes(layout, base)
    assert tuple(known) == layout.hints
    others = {"row_kind": 1 + len(ROW_KINDS), "diagonal": 2, "adding": 3}
    assert known == {name: others.get(name, 1 + base) for name in layout.hints}
    problems = mixed_problems(layout, base)
    for name, classes in draw_hints(layout, problems, drawn_at_random(layout, problems)[0]).items():
        assert classes.dtype == np.uint8
        assert (classes[classes != UNDEFINED] < known[name]).all()


@every_base
def test_a_hint_that_a_row_writes_is_no_sub_task_there_and_every_other_one_is(layout, base):
    """What is written is what the row shows, digit by digit; nothing else that is defined is."""
    problems = mixed_problems(layout, base)
    drawing, _ = drawn_at_random(layout, problems)
    hints, subtasks = (draw(layout, problems, drawing) for draw in (draw_hints, draw_subtasks))
    shown = drawing.truth  # the id of a digit is its class
    row = np.arange(shown.shape[1]) - drawing.top[:, None]
    kinds = np.take_along_axis(drawing.kinds, row.clip(0, drawing.kinds.shape[1] - 1), axis=1)
    kinds[(row < 0) | (row >= drawing.heights[:, None])] = ABSENT
    for name in layout.hints:
        for kind in set(np.unique(kinds)) - {ABSENT, layouts.GIVEN}:
            cells = (kinds == kind)[:, :, None] & (shown != symbols.BLANK) & ~drawing.given
            written = cells & (subtasks[name] == UNDEFINED)
            np.testing.assert_array_equal(hints[name][written], shown[written], name)
            others = cells & ~written
            assert not others.any() or (hints[name] != shown)[others].any(), (name, kind)


@pytest.mark.parametrize("base", [2, 3, 10])
def test_sub_tasks_of_addition_are_what_integers_say(base):
    layout = Addition.layouts["column"]
    problems = mixed_problems(layout, base)
    drawing, _ = drawn_at_random(layout, problems)
    assert list(subtask_classes(layout, base)) == [*layout.hints, *layout.subtasks]
    found = draw_subtasks(layout, problems, drawing)
    for i, numbers in enumerate(problems.to_ints()):
        row = int(drawing.top[i] + len(numbers))
        end = int(drawing.left[i] + drawing.widths[i])
        for place in range(int(drawing.widths[i])):
            column = [
                number // base**place % base if place < len(digits(number, base)) else None
                for number in numbers
            ]
            there = [digit for digit in column if digit is not None]
            expected = {
                "first_addend": NONE if column[0] is None else 1 + column[0],
                "addend_above": NONE if column[-1] is None else 1 + column[-1],
                "digit_sum": 1 + sum(there) % base if there else NONE,
                "sum": UNDEFINED,
            }
            for name, value in expected.items():
                assert found[name][i, row, end - 1 - place] == value, (name, numbers, place)


def test_tokens_have_the_hints_of_the_cells_that_they_are_followed_by(layout):
    problems = mixed_problems(layout, 10)
    drawing, _ = drawn_at_random(layout, problems)
    for classes in draw_hints(layout, problems, drawing).values():
        found = hint_sequences(classes)
        # Cells that are all different say which place of a sequence each of them has.
        B, H, W = classes.shape
        number = np.arange(H * W, dtype=np.int64).reshape(1, H, W) + 1000
        written = to_sequences(number.repeat(B, axis=0))
        assert found.shape == written.shape
        for at in range(written.shape[1] - 1):
            follows = written[0, at + 1] - 1000
            cells = classes.reshape(B, -1)[:, follows] if follows >= 0 else UNDEFINED
            np.testing.assert_array_equal(found[:, at], np.broadcast_to(cells, B))
        assert (found[:, -1] == UNDEFINED).all()


class Other(Column):
    name = "other"

    def rows(self, operands):
        yield from super().rows(operands)


class Wider(ColumnCarries):
    name = "wider"

    def room(self, lengths, base):
        height, width = super().room(lengths, base)
        return height, width + 1


def test_hints_are_inherited_with_the_rows_and_unknown_ones_refused():
    problems = Problems.from_ints([(95, 7), (5, 5)])
    drawing = draw_worked(Other().work(problems), 8, 8)
    assert hint_classes(Other(), 10) == draw_hints(Other(), problems, drawing) == {}
    with pytest.raises(ValueError, match=r"has no hint 'carry'; its hints: none"):
        draw_hints(Other(), problems, drawing, names=["carry"])
    assert Wider().hints == ColumnCarries.hints
    drawing = draw_worked(Wider().work(problems), 6, 8)
    hints = draw_hints(Wider(), problems, drawing)
    assert hints["sum"][0, 3, : drawing.widths[0]].tolist()[-3:] == [2, 1, 3]
