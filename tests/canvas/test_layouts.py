"""Every layout against its definition, written down once more with Python integers and strings."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from canvas import symbols
from canvas.arithmetic import BASES, Numbers
from canvas.layouts import ABSENT, LAYOUTS, PRODUCT, ROW_KINDS, Layout, Worked, get_layout

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "canvases.json").read_text())

every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
every_base = pytest.mark.parametrize("base", BASES)


def in_base(value: int, base: int) -> str:
    return ("" if value < base else in_base(value // base, base)) + str(value % base)


def right_aligned(rows: list[str]) -> list[str]:
    return [row.rjust(max(map(len, rows)), "_") for row in rows]


def written_out(name: str, a: int, b: int, base: int) -> list[str]:
    """A working as lines of text, from the definition of its layout."""
    digits = [int(d) for d in reversed(in_base(b, base))]
    partial = [in_base(a * d, base) + "_" * i for i, d in enumerate(digits)]
    totals = [a * (b % base ** (i + 1)) for i in range(len(digits))]
    sums = [in_base(total, base) for total in totals]
    above = [in_base(a, base), "*_" + in_base(b, base)]
    if name == "standard":
        return right_aligned([*above, *partial, in_base(a * b, base)])
    if name == "running_sum":
        return right_aligned([*above, *partial, *sums])
    if name == "interleaved":
        return right_aligned(
            above + [row for pair in zip(partial, sums, strict=True) for row in pair]
        )
    if name == "accumulate":
        return right_aligned([*above, *sums])
    width = len(in_base(a, base)) + 1
    rows = [in_base(a, base).rjust(width, "_") + "_*"]
    for i, (total, digit) in enumerate(zip(totals, digits, strict=True)):
        rows.append(in_base(total // base**i, base).rjust(width, "_") + f"_{digit}")
    return rows


def lines(worked: Worked, i: int) -> list[str]:
    cells = worked.symbols[i, : worked.heights[i], : worked.widths[i]]
    return [symbols.decode(row) for row in cells]


def work(layout: Layout, pairs: list[tuple[int, int]], base: int = 10) -> Worked:
    a, b = (Numbers.from_ints(values, base) for values in zip(*pairs, strict=True))
    return layout.work(a, b)


def problems(base: int) -> list[tuple[int, int]]:
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
    pairs = problems(base)
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
    worked = work(get_layout(name), [(case["a"], case["b"]) for case in cases])
    for i, case in enumerate(cases):
        assert lines(worked, i) == case[name]


def test_the_lattice_of_321_by_654():
    assert lines(work(get_layout("lattice"), [(321, 654)]), 0) == [
        "_321_*",
        "1284_4",
        "1733_5",
        "2099_6",
    ]


@every_layout
def test_a_problem_is_worked_out_alike_alone_and_in_a_batch(layout):
    pairs = problems(10)
    together = work(layout, pairs)
    for i in range(0, len(pairs), 7):
        alone = work(layout, pairs[i : i + 1])
        assert lines(alone, 0) == lines(together, i)
        height, width = alone.heights[0], alone.widths[0]
        assert np.array_equal(alone.given[0, :, :width], together.given[i, :height, :width])
        assert alone.kinds[0].tolist() == together.kinds[i, :height].tolist()


@every_layout
def test_nothing_lies_outside_a_working(layout):
    worked = work(layout, problems(10))
    _, rows, columns = worked.symbols.shape
    inside = (np.arange(rows)[:, None] < worked.heights[:, None, None]) & (
        np.arange(columns) < worked.widths[:, None, None]
    )
    assert (worked.symbols[~inside] == symbols.BLANK).all()
    assert not worked.given[~inside].any()
    assert (worked.kinds[~inside.any(axis=2)] == ABSENT).all()


@every_layout
def test_the_last_row_is_the_product_and_kinds_name_the_others(layout):
    expected = {
        "standard": ["given"] * 2 + ["partial product"] * 3,
        "running_sum": ["given"] * 2 + ["partial product"] * 3 + ["running sum"] * 2,
        "interleaved": ["given"] * 2 + ["partial product", "running sum"] * 2 + ["partial product"],
        "accumulate": ["given"] * 2 + ["running sum"] * 2,
        "lattice": ["given"] + ["running sum"] * 2,
    }
    worked = work(layout, [(321, 654), (98765, 4)])
    kinds = [ROW_KINDS[kind] for kind in worked.kinds[0] if kind != ABSENT]
    assert kinds == expected[layout.name] + ["product"]
    last = worked.kinds[np.arange(2), worked.heights - 1]
    assert (last == PRODUCT).all()
    assert worked.steps.tolist() == [
        len(kinds) - layout.first_step,
        worked.heights[1] - layout.first_step,
    ]


@every_layout
def test_only_the_operands_are_given(layout):
    worked = work(layout, problems(10))
    shown = np.where(worked.given, worked.symbols, symbols.BLANK)
    for i, (a, b) in enumerate(problems(10)):
        digits_and_sign = sorted(symbols.decode(shown[i][shown[i] != symbols.BLANK]))
        assert digits_and_sign == sorted(f"{a}*{b}")


@every_layout
@every_base
def test_no_problem_exceeds_the_extent_and_the_largest_attains_it(layout, base):
    for n in range(1, 5):
        for m in range(1, 5):
            smallest, largest = (base ** (n - 1), base ** (m - 1)), (base**n - 1, base**m - 1)
            worked = work(layout, [smallest, largest], base)
            height, width = layout.extent(n, m)
            assert worked.heights.tolist() == [height, height]
            assert worked.widths.max() <= width
            if base > 2 or min(n, m) > 1:  # in base 2, times 1 makes nothing longer
                assert worked.widths[1] == width


@every_layout
def test_multiplication_by_zero_is_refused(layout):
    with pytest.raises(ValueError, match="operands must be positive"):
        work(layout, [(12, 3), (12, 0)])
    with pytest.raises(ValueError, match="operands must be positive"):
        work(layout, [(0, 3)])


def test_operands_of_different_bases_or_number_are_refused():
    layout = get_layout("standard")
    two, three = Numbers.from_ints([2, 3]), Numbers.from_ints([1, 2, 3])
    for other in (three, Numbers.from_ints([2, 3], base=8)):
        with pytest.raises(ValueError, match="equal in number and base"):
            layout.work(two, other)


def test_an_unknown_layout_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"layout must be .*interleaved.*Did you mean lattice\?"):
        get_layout("latice")


@every_layout
@every_base
def test_the_addends_of_a_row_add_up_to_what_it_shows(layout, base):
    pairs = problems(base)
    worked = work(layout, pairs, base)
    for i, (a, b) in enumerate(pairs):
        rows = [row[: len(row) - layout.margin] for row in lines(worked, i)[layout.first_step :]]
        sums = [
            sum(number * factor * base**shift for number, factor, shift in row)
            for row in layout.addends(a, b, base)
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
        ("lattice", 1, [(128, 1, 0), (321, 5, 0)]),
    ],
)
def test_the_addends_of_a_row_are_what_a_person_adds(name, row, addends):
    assert get_layout(name).addends(321, 654, 10)[row] == addends
