"""Multiplication's layouts against their definitions, written down with Python integers."""

import json
import random
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from canvas import symbols
from canvas.arithmetic import BASES
from canvas.layouts import ABSENT, ANSWER, GIVEN, ROW_KINDS, Layout, Prompt, Worked
from canvas.multiplication import Multiplication, Standard
from canvas.problems import Problems

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "canvases.json").read_text())
LAYOUTS = Multiplication.layouts

every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
every_base = pytest.mark.parametrize("base", BASES)


def in_base(value: int, base: int) -> str:
    return ("" if value < base else in_base(value // base, base)) + str(value % base)


def right_aligned(rows: list[str], width: int) -> list[str]:
    return [row.rjust(width, "_") for row in rows]


def cut(rows: list[str]) -> list[str]:
    """The rows without the columns that are blank in all of them at the left."""
    blank = min(len(row) - len(row.lstrip("_")) for row in rows)
    return [row[blank:] for row in rows]


def written_out(name: str, a: int, b: int, base: int) -> list[str]:
    """A working as lines of text, from the definition of its layout.

    It is as wide as the largest operands of so many digits need it.
    """
    digits = [int(d) for d in reversed(in_base(b, base))]
    partial = [in_base(a * d, base) + "_" * i for i, d in enumerate(digits)]
    totals = [a * (b % base ** (i + 1)) for i in range(len(digits))]
    sums = [in_base(total, base) for total in totals]
    above = [in_base(a, base), "*_" + in_base(b, base)]
    room = max(len(above[0]) + len(digits), len(above[1]))
    if name == "standard":
        return right_aligned([*above, *partial, in_base(a * b, base)], room)
    if name == "running_sum":
        return right_aligned([*above, *partial, *sums], room)
    if name == "interleaved":
        return right_aligned(
            above + [row for pair in zip(partial, sums, strict=True) for row in pair], room
        )
    if name == "accumulate":
        return right_aligned([*above, *sums], room)
    if name == "direct":
        return right_aligned([*above, sums[-1]], room)
    width = len(in_base(a, base)) + 1
    rows = [in_base(a, base).rjust(width, "_") + "_*"]
    for i, (total, digit) in enumerate(zip(totals, digits, strict=True)):
        rows.append(in_base(total // base**i, base).rjust(width, "_") + f"_{digit}")
    return rows


def lines(worked: Worked, i: int) -> list[str]:
    cells = worked.truth[i, : worked.heights[i], : worked.widths[i]]
    return [symbols.decode(row) for row in cells]


def work(layout: Layout, pairs: list[tuple[int, int]], base: int = 10) -> Worked:
    return layout.work(Problems.from_ints(pairs, base))


def some_pairs(base: int) -> list[tuple[int, int]]:
    """The smallest and largest operands of every pair of lengths, then random ones."""
    draw = random.Random(base)
    edges = [
        (a, b)
        for n in (1, 2, 5)
        for m in (1, 2, 4)
        for a in (base ** (n - 1), base**n - 1)
        for b in (base ** (m - 1), base**m - 1)
    ]
    return edges + [
        tuple(draw.randint(1, base ** draw.randint(1, most)) for most in (12, 9)) for _ in range(40)
    ]


@every_layout
@every_base
def test_every_row_follows_from_the_definition_of_the_layout(layout, base):
    pairs = some_pairs(base)
    worked = work(layout, pairs, base)
    for i, (a, b) in enumerate(pairs):
        assert lines(worked, i) == written_out(layout.name, a, b, base), (a, b)


@every_layout
def test_long_operands_are_worked_out_like_short_ones(layout):
    draw = random.Random(0)
    pairs = [(draw.randrange(10**99, 10**100), draw.randrange(10**59, 10**60)), (7, 8)]
    worked = work(layout, pairs)
    for i, pair in enumerate(pairs):
        assert lines(worked, i) == written_out(layout.name, *pair, base=10)


@pytest.mark.parametrize("name", ["standard", "running_sum"])
def test_the_notes_layouts_are_as_its_author_drew_them(name):
    cases = REFERENCE["layouts"]
    worked = work(LAYOUTS[name], [(case["a"], case["b"]) for case in cases])
    for i, case in enumerate(cases):
        assert cut(lines(worked, i)) == case[name]


def test_the_lattice_of_321_by_654():
    assert lines(work(LAYOUTS["lattice"], [(321, 654)]), 0) == [
        "_321_*",
        "1284_4",
        "1733_5",
        "2099_6",
    ]


@every_layout
def test_a_problem_is_worked_out_alike_alone_and_in_a_batch(layout):
    pairs = some_pairs(10)
    together = work(layout, pairs)
    for i in range(0, len(pairs), 7):
        alone = work(layout, pairs[i : i + 1])
        assert lines(alone, 0) == lines(together, i)
        height, width = alone.heights[0], alone.widths[0]
        for name in ("given", "symbols"):
            one, many = getattr(alone, name)[0], getattr(together, name)[i]
            assert np.array_equal(one[:, :width], many[:height, :width])
        assert alone.kinds[0].tolist() == together.kinds[i, :height].tolist()


@every_layout
def test_nothing_lies_outside_a_working(layout):
    worked = work(layout, some_pairs(10))
    _, rows, columns = worked.truth.shape
    inside = (np.arange(rows)[:, None] < worked.heights[:, None, None]) & (
        np.arange(columns) < worked.widths[:, None, None]
    )
    assert (worked.truth[~inside] == symbols.BLANK).all()
    assert (worked.symbols[~inside] == symbols.BLANK).all()
    assert not worked.given[~inside].any()
    assert (worked.kinds[~inside.any(axis=2)] == ABSENT).all()


@every_layout
def test_the_last_row_is_the_answer_and_kinds_name_the_others(layout):
    expected = {
        "standard": ["given"] * 2 + ["partial product"] * 3,
        "running_sum": ["given"] * 2 + ["partial product"] * 3 + ["running sum"] * 2,
        "interleaved": ["given"] * 2 + ["partial product", "running sum"] * 2 + ["partial product"],
        "accumulate": ["given"] * 2 + ["running sum"] * 2,
        "lattice": ["given"] + ["running sum"] * 2,
        "direct": ["given"] * 2,
    }
    worked = work(layout, [(321, 654), (98765, 4)])
    kinds = [ROW_KINDS[kind] for kind in worked.kinds[0] if kind != ABSENT]
    assert kinds == expected[layout.name] + ["answer"]
    last = worked.kinds[np.arange(2), worked.heights - 1]
    assert (last == ANSWER).all()
    given = expected[layout.name].count("given")
    assert worked.first_step.tolist() == [given, given]
    assert worked.steps.tolist() == [len(kinds) - given, worked.heights[1] - given]
    assert (worked.kinds[:, :given] == GIVEN).all()


@every_layout
def test_only_the_operands_are_given(layout):
    worked = work(layout, some_pairs(10))
    shown = np.where(worked.given, worked.truth, symbols.BLANK)
    assert np.array_equal(shown, worked.symbols)
    for i, (a, b) in enumerate(some_pairs(10)):
        digits_and_sign = sorted(symbols.decode(shown[i][shown[i] != symbols.BLANK]))
        assert digits_and_sign == sorted(f"{a}*{b}")


def columns_used(worked: Worked, i: int) -> int:
    return len(cut(lines(worked, i))[0])


@every_layout
@every_base
def test_no_problem_exceeds_its_room_and_the_largest_needs_it_all(layout, base):
    for n in range(1, 5):
        for m in range(1, 5):
            smallest, largest = (base ** (n - 1), base ** (m - 1)), (base**n - 1, base**m - 1)
            worked = work(layout, [smallest, largest], base)
            height, width = layout.room((n, m), base)
            assert worked.heights.tolist() == [height, height]
            assert worked.widths.tolist() == [width, width]
            for i in range(2):
                shown = lines(worked, i)
                assert cut(shown) == cut(written_out(layout.name, *(smallest, largest)[i], base))
                assert all(row.strip("_") for row in shown)
            if base > 2 or min(n, m) > 1:  # in base 2, times 1 makes nothing longer
                assert columns_used(worked, 1) == width


# Prompts


@every_layout
@every_base
def test_a_prompt_is_what_a_working_shows_from_the_start(layout, base):
    problems = Problems.from_ints(some_pairs(base), base)
    prompt, worked = layout.prompt(problems), layout.work(problems)
    for field in fields(Prompt):
        assert np.array_equal(getattr(prompt, field.name), getattr(worked, field.name))


@every_layout
@pytest.mark.parametrize(("short", "long"), [((100, 10), (999, 99)), ((1, 1), (9, 9))])
def test_a_prompt_does_not_tell_how_long_the_answer_is(layout, short, long):
    assert len(str(short[0] * short[1])) < len(str(long[0] * long[1]))
    one, other = (layout.prompt(Problems.from_ints([pair])) for pair in (short, long))
    for name in ("given", "heights", "widths", "first_step", "steps"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.symbols == symbols.BLANK, other.symbols == symbols.BLANK)


@every_layout
def test_a_prompt_is_drawn_without_working_anything_out(layout, monkeypatch):
    def rows(*_):
        raise AssertionError("a prompt needs no rows")

    monkeypatch.setattr(type(layout), "rows", rows)
    problems = Problems.from_ints([(321, 654), (7, 8)])
    assert layout.prompt(problems).heights.tolist() == [layout.room((n, n), 10)[0] for n in (3, 1)]
    with pytest.raises(AssertionError, match="needs no rows"):
        layout.work(problems)


# Layouts whose parts contradict each other


class Low(Standard):
    """Room for one row too few."""

    name = "low"

    def height(self, digits_b: int) -> int:
        return super().height(digits_b) - 1


class High(Standard):
    """Room for one row too many."""

    name = "high"

    def height(self, digits_b: int) -> int:
        return super().height(digits_b) + 1


class Narrow(Standard):
    """Room for one column too few."""

    name = "narrow"

    def room(self, lengths, base):
        height, width = super().room(lengths, base)
        return height, width - 1


@pytest.mark.parametrize("pairs", [[(999, 99)], [(999, 99), (99999, 999)], [(99999, 999), (9, 9)]])
@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (
            Low(),
            r"layout low writes outside the \d x \d cells that its room\(\) says: make the two",
        ),
        (Narrow(), r"layout narrow writes outside the \d x \d cells that its room\(\) says"),
        (High(), r"layout high draws \d rows where its room\(\) says \d: make the two agree"),
    ],
)
def test_rows_that_disagree_with_the_room_are_refused(layout, message, pairs):
    with pytest.raises(ValueError, match=message):
        work(layout, pairs)


# What rows are the sum of


@every_layout
@every_base
def test_the_addends_of_a_row_add_up_to_what_it_shows(layout, base):
    pairs = some_pairs(base)
    worked = work(layout, pairs, base)
    for i, (a, b) in enumerate(pairs):
        below = lines(worked, i)[worked.first_step[i] :]
        rows = [row[: len(row) - layout.margin] for row in below]
        sums = [
            sum(number * factor * base**shift for number, factor, shift in row)
            for row in layout.addends((a, b), base)
        ]
        assert [row.strip("_") for row in rows] == [in_base(total, base) for total in sums]


@pytest.mark.parametrize(
    ("name", "row", "addends"),
    [
        ("standard", 1, [(321, 5, 0)]),
        ("standard", 3, [(1284, 1, 0), (1605, 1, 1), (1926, 1, 2)]),
        ("running_sum", 1, [(321, 5, 0)]),
        ("running_sum", 4, [(1284, 1, 0), (1605, 1, 1)]),
        ("interleaved", 2, [(321, 5, 0)]),
        ("interleaved", 3, [(1284, 1, 0), (1605, 1, 1)]),
        ("accumulate", 1, [(1284, 1, 0), (321, 5, 1)]),
        ("direct", 0, [(321, 4, 0), (321, 5, 1), (321, 6, 2)]),
        ("lattice", 1, [(128, 1, 0), (321, 5, 0)]),
    ],
)
def test_the_addends_of_a_row_are_what_a_person_adds(name, row, addends):
    assert LAYOUTS[name].addends((321, 654), 10)[row] == addends
