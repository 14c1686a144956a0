"""Addition's layouts against their definitions, written down with Python integers."""

import random
from dataclasses import fields

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.arithmetic import BASES
from canvas.layouts import ABSENT, ROW_KINDS, Layout, Prompt, Worked
from canvas.problems import Problems

LAYOUTS = Addition.layouts
COLUMN, CARRIES = LAYOUTS["column"], LAYOUTS["column_carries"]

every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
every_base = pytest.mark.parametrize("base", BASES)

Addends = tuple[int, ...]


def in_base(value: int, base: int) -> str:
    return ("" if value < base else in_base(value // base, base)) + str(value % base)


def most_addends(layout: Layout, base: int) -> int:
    return min(6, base) if layout is CARRIES else 6


def some_problems(layout: Layout, base: int) -> list[Addends]:
    """Of two to six addends: nothing but zeros, the largest of each length, then random ones."""
    draw = random.Random(base)
    counts = range(2, most_addends(layout, base) + 1)
    edges = [(base**n - 1,) * count for count in counts for n in (0, 1, 4)]
    return edges + [
        tuple(draw.randrange(base ** draw.randint(0, 9)) for _ in range(count))
        for count in counts
        for _ in range(30)
    ]


def carried(addends: Addends, base: int, place: int) -> int:
    """What the places below one add up to, in units of that place."""
    return sum(value % base**place for value in addends) // base**place


def written_out(layout: Layout, addends: Addends, base: int) -> list[str]:
    """A working as lines of text, from the definition of its layout."""
    *others, last = (in_base(value, base) for value in addends)
    total = in_base(sum(addends), base)
    rows = [*others, "+_" + last, total]
    if layout is CARRIES:
        places = range(len(total) - 1, 0, -1)
        rows.insert(-1, "".join(str(carried(addends, base, place)) for place in places) + "_")
    largest = in_base(len(addends) * (base ** max(map(len, [*others, last])) - 1), base)
    width = max(len(largest), len(last) + 2)
    return [row.rjust(width, "_") for row in rows]


def lines(worked: Worked, i: int) -> list[str]:
    cells = worked.truth[i, : worked.heights[i], : worked.widths[i]]
    return [symbols.decode(row) for row in cells]


def cut(rows: list[str]) -> list[str]:
    """The rows without the columns that are blank in all of them at the left."""
    blank = min(len(row) - len(row.lstrip("_")) for row in rows)
    return [row[blank:] for row in rows]


def work(layout: Layout, problems: list[Addends], base: int = 10) -> Worked:
    return layout.work(Problems.from_ints(problems, base))


@every_layout
@every_base
def test_every_row_follows_from_the_definition_of_the_layout(layout, base):
    problems = some_problems(layout, base)
    worked = work(layout, problems, base)
    for i, addends in enumerate(problems):
        assert cut(lines(worked, i)) == cut(written_out(layout, addends, base)), addends


@every_layout
def test_in_base_10_a_working_is_as_wide_as_the_largest_addends_of_its_lengths_need(layout):
    problems = some_problems(layout, 10)
    worked = work(layout, problems)
    for i, addends in enumerate(problems):
        assert lines(worked, i) == written_out(layout, addends, 10), addends


@every_layout
def test_long_addends_are_added_like_short_ones(layout):
    draw = random.Random(0)
    problems = [tuple(draw.randrange(10**80) for _ in range(6)), (7, 8)]
    worked = work(layout, problems)
    for i, addends in enumerate(problems):
        assert lines(worked, i) == written_out(layout, addends, 10)


def test_more_addends_than_a_carry_of_one_digit_allows_are_added_in_a_column():
    draw = random.Random(1)
    problems = [tuple(draw.randrange(10**5) for _ in range(count)) for count in (11, 40, 100, 2)]
    worked = work(COLUMN, [*problems, (99,) * 100])
    for i, addends in enumerate(problems):
        assert lines(worked, i) == written_out(COLUMN, addends, 10)
    assert lines(worked, 4)[-1] == "9900"


def test_87_604_and_9_with_their_carries():
    assert lines(work(CARRIES, [(87, 604, 9)]), 0) == ["__87", "_604", "_+_9", "_12_", "_700"]
    assert lines(work(COLUMN, [(87, 604, 9)]), 0) == ["__87", "_604", "_+_9", "_700"]


@pytest.mark.parametrize(
    ("addends", "carries"),
    [
        ((2, 3), "___"),  # no place but the lowest: nothing can be carried into it
        ((0, 0), "___"),
        ((12, 34), "_0_"),
        ((5, 5), "_1_"),
        ((999, 1), "111_"),
        ((190, 10), "_10_"),
        ((100, 0), "_00_"),
        ((9,) * 10, "9_"),
    ],
)
def test_a_carry_stands_in_the_column_that_it_is_added_to(addends, carries):
    row = lines(work(CARRIES, [addends]), 0)[-2]
    assert row.rjust(9, "_") == carries.rjust(9, "_")


@every_base
def test_carries_are_one_digit_up_to_as_many_addends_as_the_base_has_digits(base):
    most = (base**3 - 1,) * base
    row = lines(work(CARRIES, [most], base), 0)[-2]
    assert row.strip("_") == in_base(base**3 - 1, base)[:2] + in_base(base - 1, base)
    problems = Problems.from_ints([(1, 1), (1,) * (base + 1)], base)
    message = f"at most {base} addends in base {base}, not {base + 1}"
    for draw in (CARRIES.work, CARRIES.prompt):
        with pytest.raises(ValueError, match=f"column_carries writes a carry as one .*: {message}"):
            draw(problems)


@every_layout
def test_a_problem_is_worked_out_alike_alone_and_in_a_batch(layout):
    problems = some_problems(layout, 10)
    together = work(layout, problems)
    for i in range(0, len(problems), 7):
        alone = work(layout, problems[i : i + 1])
        assert lines(alone, 0) == lines(together, i)
        height, width = alone.heights[0], alone.widths[0]
        for name in ("given", "symbols"):
            one, many = getattr(alone, name)[0], getattr(together, name)[i]
            assert np.array_equal(one[:, :width], many[:height, :width])
        assert alone.kinds[0].tolist() == together.kinds[i, :height].tolist()
        assert alone.first_step[0] == together.first_step[i]


@every_layout
def test_nothing_lies_outside_a_working(layout):
    worked = work(layout, some_problems(layout, 10))
    _, rows, columns = worked.truth.shape
    inside = (np.arange(rows)[:, None] < worked.heights[:, None, None]) & (
        np.arange(columns) < worked.widths[:, None, None]
    )
    assert (worked.truth[~inside] == symbols.BLANK).all()
    assert (worked.symbols[~inside] == symbols.BLANK).all()
    assert not worked.given[~inside].any()
    assert (worked.kinds[~inside.any(axis=2)] == ABSENT).all()


@every_layout
def test_the_rows_of_the_addends_are_given_and_kinds_name_the_others(layout):
    problems = some_problems(layout, 10)
    worked = work(layout, problems)
    below = {"column": ["answer"], "column_carries": ["carries", "answer"]}[layout.name]
    for i, addends in enumerate(problems):
        kinds = [ROW_KINDS[kind] for kind in worked.kinds[i] if kind != ABSENT]
        assert kinds == ["given"] * len(addends) + below
        assert worked.first_step[i] == len(addends)
        assert worked.steps[i] == len(below)
        rows = worked.given[i, : worked.heights[i], : worked.widths[i]]
        assert rows.all(axis=1).tolist() == rows.any(axis=1).tolist()
        assert rows.any(axis=1).tolist() == [True] * len(addends) + [False] * len(below)


@every_layout
def test_only_the_addends_and_one_sign_are_given(layout):
    problems = some_problems(layout, 10)
    worked = work(layout, problems)
    assert np.array_equal(np.where(worked.given, worked.truth, symbols.BLANK), worked.symbols)
    for i, addends in enumerate(problems):
        shown = worked.symbols[i]
        written = sorted(symbols.decode(shown[shown != symbols.BLANK]))
        assert written == sorted("".join(map(str, addends)) + "+")


@every_layout
@every_base
def test_no_problem_exceeds_its_room_whatever_else_is_in_the_batch(layout, base):
    problems = some_problems(layout, base)
    worked = work(layout, problems, base)
    for i, addends in enumerate(problems):
        lengths = [len(in_base(value, base)) for value in addends]
        assert (worked.heights[i], worked.widths[i]) == layout.room(lengths, base)
        longest = [max(lengths)] * max(map(len, problems))
        assert all(
            here <= most
            for here, most in zip(
                layout.room(lengths, base), layout.room(longest, base), strict=True
            )
        )


# Prompts


@every_layout
@every_base
def test_a_prompt_is_what_a_working_shows_from_the_start(layout, base):
    problems = Problems.from_ints(some_problems(layout, base), base)
    prompt, worked = layout.prompt(problems), layout.work(problems)
    for field in fields(Prompt):
        assert np.array_equal(getattr(prompt, field.name), getattr(worked, field.name))


@every_layout
@pytest.mark.parametrize(
    ("short", "long"), [((0, 0), (9, 9)), ((100, 20, 3), (999, 99, 9)), ((10,) * 9, (99,) * 9)]
)
def test_a_prompt_does_not_tell_how_long_the_answer_is(layout, short, long):
    assert len(str(sum(short))) < len(str(sum(long)))
    one, other = (layout.prompt(Problems.from_ints([addends])) for addends in (short, long))
    for name in ("given", "heights", "widths", "first_step", "steps"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.symbols == symbols.BLANK, other.symbols == symbols.BLANK)


@every_layout
def test_a_prompt_is_drawn_without_working_anything_out(layout, monkeypatch):
    def rows(*_):
        raise AssertionError("a prompt needs no rows")

    monkeypatch.setattr(type(layout), "rows", rows)
    problems = Problems.from_ints([(87, 604, 9), (7, 8)])
    heights = layout.prompt(problems).heights.tolist()
    assert heights == [layout.room(lengths, 10)[0] for lengths in ((2, 3, 1), (1, 1))]
    with pytest.raises(AssertionError, match="needs no rows"):
        layout.work(problems)


# What rows are the sum of


@every_layout
@every_base
def test_the_addends_of_a_row_add_up_to_what_it_shows(layout, base):
    problems = some_problems(layout, base)
    worked = work(layout, problems, base)
    for i, addends in enumerate(problems):
        rows = [row.strip("_") for row in lines(worked, i)[worked.first_step[i] :]]
        told = layout.addends(addends, base)
        assert len(told) == len(rows)
        sums = [sum(number * factor * base**shift for number, factor, shift in row) for row in told]
        assert rows[-1] == in_base(sums[-1], base)
        assert not any(told[:-1]), "carries are read off, not added up"
        assert [number for number, _, _ in told[-1]] == list(addends)


# The task


def test_the_task_knows_the_canvas_its_longest_problems_need():
    task = Addition("column_carries", digits=[2, 7], addends=[2, 5])
    assert task.digits == (2, 7), "a list, as configuration files have it, will do"
    assert task.addends == (2, 5)
    assert task.longest == (7,) * 5
    assert task.extent() == (7, 9)
    assert task.extent() == task.rules.room((7,) * 5, 10)
    assert Addition("column", digits=(1, 1), addends=(2, 2)).extent() == (3, 3)


@every_base
def test_the_answer_is_the_sum(base):
    for addends in some_problems(COLUMN, base):
        assert Addition(base=base).answer(addends) == sum(addends)


def test_sizes_are_the_digits_of_the_longest_addend_and_how_many_there_are():
    task = Addition(digits=(1, 5), addends=(2, 4))
    problems = task.problems([(1, 22), (333, 4, 0), (0, 55555, 1, 2)])
    sizes = task.measures(problems)
    assert {name: sizes[name].tolist() for name in task.axes} == {
        "digits": [2, 3, 5],
        "addends": [2, 3, 4],
    }
    two = task.measures(task.problems([(1, 22), (333, 4)]))
    assert two["digits_a"].tolist() == [1, 3]
    assert two["digits_b"].tolist() == [2, 1]


def test_a_problem_is_in_range_when_it_could_have_been_drawn():
    task = Addition(digits=(2, 3), addends=(3, 4))
    problems = {
        (10, 99, 999): True,
        (10, 99, 999, 100): True,
        (10, 99): False,
        (10, 99, 100, 100, 10): False,
        (1, 99, 100): False,
        (10, 9999, 100): False,
        (10, 99, 0): False,
    }
    assert task.in_range(task.problems(list(problems))).tolist() == list(problems.values())


@pytest.mark.parametrize("size", [{"digits": 3, "addends": 4}, {"digits_a": 2, "digits_b": 5}])
def test_problems_of_a_size_have_that_size(size):
    task = Addition(digits=(1, 9), addends=(2, 9))
    addends = [10 ** (digits - 1) if digits > 1 else 0 for digits in task.of_size(**size)]
    sizes = task.measures(task.problems([addends]))
    assert {name: sizes[name].tolist() for name in size} == {n: [size[n]] for n in size}


def test_only_a_task_that_draws_two_addends_has_a_range_for_each():
    assert Addition(addends=(2, 3)).ranges["digits_a"] == (1, 3)
    assert set(Addition(addends=(3, 3)).ranges) == {"digits", "addends"}
