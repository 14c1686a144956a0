"""All layouts against their definitions, written down with Python integers."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from drawings import LAYOUTS
from numpy import base_repr as in_base

from canvas import symbols
from canvas.addition import Addition
from canvas.drawing import Drawing, WorkedDrawing
from canvas.layouts import ABSENT, ANSWER, ROW_KINDS, Layout
from canvas.multiplication import Multiplication, Standard
from canvas.problems import Problems

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "canvases.json").read_text())
CARRIES = LAYOUTS["column_carries"]

every_base = pytest.mark.parametrize("base", [2, 3, 10, 16])

Operands = tuple[int, ...]


def cut(rows: list[str]) -> list[str]:
    """The rows without the columns that are blank in all of them at the left."""
    blank = min(len(row) - len(row.lstrip("_")) for row in rows)
    return [row[blank:] for row in rows]


def written_out(layout: Layout, operands: Operands, base: int) -> list[str]:
    """A worked solution as lines of text, from the definition of its layout."""
    if layout.name in Addition.layouts:
        *others, last = (in_base(value, base) for value in operands)
        total = in_base(sum(operands), base)
        rows = [*others, "+_" + last, total]
        if layout is CARRIES:
            places = range(len(total) - 1, 0, -1)
            carried = [sum(n % base**place for n in operands) // base**place for place in places]
            rows.insert(-1, "".join(in_base(n, base) for n in carried) + "_")
        return [row.rjust(max(map(len, rows)), "_") for row in rows]
    a, b = operands
    digits = [int(d, base) for d in reversed(in_base(b, base))]
    partial = [in_base(a * d, base) + "_" * i for i, d in enumerate(digits)]
    totals = [a * (b % base ** (i + 1)) for i in range(len(digits))]
    if layout.name == "lattice":
        width = len(in_base(a, base)) + 1
        rows = [in_base(a, base).rjust(width, "_") + "_*"]
        for i, (total, digit) in enumerate(zip(totals, digits, strict=True)):
            total = in_base(total // base**i, base)
            rows.append(total.rjust(width, "_") + "_" + in_base(digit, base))
        return rows
    sums = [in_base(total, base) for total in totals]
    below = {
        "standard": [*partial, sums[-1]],
        "running_sum": [*partial, *sums],
        "interleaved": [row for pair in zip(partial, sums, strict=True) for row in pair],
        "accumulate": sums,
        "direct": sums[-1:],
    }[layout.name]
    rows = [in_base(a, base), "*_" + in_base(b, base), *below]
    return [row.rjust(max(map(len, rows)), "_") for row in rows]


def lines(worked: WorkedDrawing, i: int) -> list[str]:
    return [symbols.decode(row) for row in worked.truth[i, : worked.heights[i], : worked.widths[i]]]


def work(layout: Layout, problems: list[Operands], base: int = 10) -> WorkedDrawing:
    return layout.draw_worked(Problems.from_ints(problems, base))


@every_base
def test_every_row_follows_from_the_definition_of_the_layout(layout, base, problems_of):
    problems = problems_of(layout, base)
    worked = work(layout, problems, base)
    for i, operands in enumerate(problems):
        assert cut(lines(worked, i)) == cut(written_out(layout, operands, base)), operands


@pytest.mark.parametrize("name", ["standard", "running_sum"])
def test_the_notes_layouts_are_as_its_author_drew_them(name):
    cases = REFERENCE["layouts"]
    worked = work(LAYOUTS[name], [(case["a"], case["b"]) for case in cases])
    for i, case in enumerate(cases):
        assert cut(lines(worked, i)) == case[name]


@every_base
def test_more_addends_than_the_base_has_digits_are_refused(base):
    problems = Problems.from_ints([(1, 1), (1,) * (base + 1)], base)
    for draw in (CARRIES.draw_worked, CARRIES.draw):
        with pytest.raises(ValueError, match=f"at most {base} addends in base {base}, not"):
            draw(problems)


@pytest.mark.parametrize(
    ("name", "given", "others"),
    [
        ("standard", 2, ["partial product"] * 3),
        ("running_sum", 2, ["partial product"] * 3 + ["running sum"] * 2),
        ("interleaved", 2, ["partial product", "running sum"] * 2 + ["partial product"]),
        ("accumulate", 2, ["running sum"] * 2),
        ("lattice", 1, ["running sum"] * 2),
        ("direct", 2, []),
        ("column", 2, []),
        ("column_carries", 2, ["carries"]),
    ],
)
def test_the_last_row_is_the_answer_and_kinds_name_the_others(name, given, others):
    worked = work(LAYOUTS[name], [(321, 654), (98765, 4)])
    kinds = [ROW_KINDS[kind] for kind in worked.kinds[0] if kind != ABSENT]
    assert kinds == ["given"] * given + others + ["answer"]
    assert (worked.kinds[np.arange(2), worked.heights - 1] == ANSWER).all()
    assert worked.given_rows.tolist() == [given, given]
    assert worked.num_rows.tolist() == [len(kinds) - given, worked.heights[1] - given]


@every_base
def test_the_largest_operands_of_a_length_need_all_of_the_room(layout, base):
    for lengths in [(n, m) for n in range(1, 5) for m in range(1, 5)]:
        if base == 2 and min(lengths) == 1:
            continue  # times 1 makes nothing longer
        smallest = tuple(base ** (n - 1) for n in lengths)
        worked = work(layout, [smallest, tuple(base**n - 1 for n in lengths)], base)
        assert {*zip(worked.heights, worked.widths, strict=True)} == {layout.room(lengths, base)}
        if base == 10 or layout.name in Multiplication.layouts:
            used = len(cut(lines(worked, 1))[0])
            fits = lengths[0] == lengths[1] or layout.name in Multiplication.layouts
            assert used == worked.widths[1] if fits else used <= worked.widths[1]


@every_base
def test_a_prompt_has_the_given_cells_of_its_solution(layout, base, problems_of):
    problems = Problems.from_ints(problems_of(layout, base), base)
    prompt, worked = layout.draw(problems), layout.draw_worked(problems)
    for field in fields(Drawing):
        assert np.array_equal(getattr(prompt, field.name), getattr(worked, field.name))
    shown = np.where(worked.given, worked.truth, symbols.BLANK)
    assert np.array_equal(shown, worked.canvases)
    for i, names in enumerate(zip(*(one.to_text() for one in problems.operands), strict=True)):
        held = symbols.decode(shown[i][shown[i] != symbols.BLANK])
        assert sorted(held) == sorted("".join(names) + symbols.CHARACTERS[layout.sign])


@pytest.mark.parametrize(("short", "long"), [((100, 10), (999, 99)), ((1, 1), (9, 9))])
def test_a_prompt_does_not_reveal_the_length_of_the_answer(layout, short, long, monkeypatch):
    one, other = (layout.draw(Problems.from_ints([pair])) for pair in (short, long))
    for name in ("given", "heights", "widths", "given_rows", "num_rows"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.canvases == symbols.BLANK, other.canvases == symbols.BLANK)
    monkeypatch.setattr(type(layout), "rows", None)  # and none of them is worked out
    layout.draw(Problems.from_ints([short]))


class Misjudged(Standard):
    """Room for so many rows and columns too many."""

    def __init__(self, name: str, rows: int, columns: int) -> None:
        self.name, self.more = name, (rows, columns)

    def room(self, lengths, base):
        height, width = super().room(lengths, base)
        return height + self.more[0], width + self.more[1]


@pytest.mark.parametrize("pairs", [[(999, 99)], [(999, 99), (99999, 999)], [(99999, 999), (9, 9)]])
@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Misjudged("low", -1, 0), r"low is wrong: row \d of 9+ \* 9+ takes columns 1 to \d, and"),
        (Misjudged("narrow", 0, -1), r"row \d of 9+ \* 9+ takes columns 1 to \d, and room\(\[\d"),
        (Misjudged("high", 1, 0), r"rows\(\) yields no row \d of 9+ \* 9+, and room\(\[\d"),
    ],
)
def test_rows_that_disagree_with_the_room_are_refused(layout, message, pairs):
    with pytest.raises(ValueError, match=message):
        work(layout, pairs)
