"""Layouts that do not do what they say are told, with the first row that is wrong."""

import numpy as np
import pytest

from canvas.addition import Addition, Column
from canvas.check import check_layout, check_once
from canvas.choices import OwnCodeError
from canvas.layouts import ANSWER, SUM, Row
from canvas.multiplication import Direct, Lattice, Multiplication
from canvas.problems import Problems


class Copied(Direct):
    """Writes a where the product belongs."""

    def rows(self, operands):
        a, b = operands
        yield Row(ANSWER, a, 0, 2, b.lengths > 0)


class Shifted(Lattice):
    """Reads its answer from one row too few."""

    def answer_cells(self, content):
        return super().answer_cells(content)[1:] or super().answer_cells(content)


class Gap(Direct):
    def answer_cells(self, content):
        return [(0, 0)]


class Confused(Column):
    def read_operands(self, content, sign):
        return {name: ids[::-1] for name, ids in super().read_operands(content, sign).items()}


class Overfull(Direct):
    def rows(self, operands):
        for row in super().rows(operands):
            digits = row.numbers.digits.copy()
            digits[:, 0] += 10
            yield row._replace(numbers=type(row.numbers)(digits, row.numbers.lengths))


class Broken(Direct):
    def rows(self, operands):
        yield Row(SUM, operands[0].nothing, 0, 2, operands[0].lengths > 0)


class Empty(Direct):
    def rows(self, operands):
        for row in super().rows(operands):
            lengths = 0 * row.numbers.lengths
            yield row._replace(numbers=type(row.numbers)(row.numbers.digits, lengths))


class NoRow(Direct):
    def rows(self, operands):
        yield None


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        (Copied, r"row 3 of \d+ x \d+ shows the answer \d+, and it is \d+"),
        (Shifted, r"row \d of \d+ x \d+ shows the answer \d+, and it is \d+"),
        (Gap, r"\d+ x \d+ cannot be read back: the answer"),
        (Confused, r"\d+ \+ \d+ is read back as \d+ \+ \d+"),
        (Overfull, r"row 3 of \d+ x \d+ has a digit that base 10 does not have"),
        (Empty, r"row 3 of \d+ x \d+ is empty"),
        (NoRow, r"rows\(\) gives None where a canvas.layouts.Row is due"),
        (Broken, r"test_check.py, line \d+: AttributeError: .* no attribute 'nothing'"),
    ],
)
def test_the_first_incorrect_row_is_named(layout, sentence):
    name = f"{layout.__module__}.{layout.__name__}"
    task = Addition(name) if layout is Confused else Multiplication(name, digits_b=(1, 3))
    with pytest.raises(OwnCodeError, match=sentence) as error:
        check_layout(task)
    assert "\n" not in str(error.value)


class Odd(Direct):
    """`Direct` with another room, or another value of its rows' parts."""

    name = "odd"

    def __init__(self, room=None, **parts):
        self.returned, self.parts = room, parts

    def room(self, lengths, base):
        return super().room(lengths, base) if self.returned is None else self.returned

    def rows(self, operands):
        for row in super().rows(operands):
            yield row._replace(**self.parts)


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        (Odd((3, 3)), r"operands of 123 \* 4056 take 6 columns, and room\(\[3, 4\], 10\) "),
        (Odd((1, 9)), r"operands of 123 \* 4056 take 2 rows, and .* returns 1 x 9"),
        (Odd((2, 9)), r"row 3 of 123 \* 4056 takes columns 1 to 6, and .* returns 2 x 9"),
        (Odd((5, 9)), r"yields no row 4 of 123 \* 4056, and .* `present` true, of at least"),
        (Odd((4.5, 9)), r"room\(\[3, 4\], 10\) returns \(4\.5, 9\)"),
        (Odd(9), r"room\(\[3, 4\], 10\) returns 9"),
        (Odd(present=np.zeros(1, dtype=bool)), r"rows\(\) yields no row 3 of 123 \* 4056"),
        (Odd(present=True), r"a Row with a wrong part: `present` is bool \[1\], one a problem"),
        (Odd(numbers=None), "a wrong part: `numbers` is a canvas.arithmetic.Numbers of 1"),
        (Odd(numbers=[1, 2]), "a wrong part: `numbers` is a canvas.arithmetic.Numbers of 1"),
        (Odd(shift=-1), "a wrong part: `shift` is a number of columns from 0 up"),
        (Odd(row=-1), "a wrong part: `row` is an index from 0 up"),
    ],
)
def test_a_wrong_room_or_row_is_named_with_its_problem(layout, sentence):
    with pytest.raises(OwnCodeError, match=f"the layout odd is wrong: .*{sentence}"):
        layout.draw_worked(Problems.from_ints([(123, 4056)]))


@pytest.mark.parametrize("base", [2, 10])
@pytest.mark.parametrize("kind", [Multiplication, Addition])
def test_every_layout_of_the_package_passes(kind, base):
    edges = [(0, 0), (0, base**6 - 1), (base**6 - 1, 0), (base**5 - base, base**4)]
    for name in kind.layouts:
        sizes = {"digits": (1, 4)} if kind is Addition else {"digits_a": (1, 4), "digits_b": (1, 4)}
        task = kind(name, base=base, **sizes)
        number = check_layout(task, Problems.from_ints(edges, base))
        assert number > 30
        longest = kind(name, base=base, **dict.fromkeys(sizes, (1, 1000)))
        assert check_layout(longest) == number - len(edges), "as fast as short ones"


def test_the_packages_layouts_are_checked_once_ones_own_always(monkeypatch):
    checked = []
    monkeypatch.setattr("canvas.check.check_layout", checked.append)
    monkeypatch.setattr("canvas.check._passed", set())
    theirs, own = Multiplication(), Multiplication(f"{Shifted.__module__}.Shifted")
    for task in (theirs, own, theirs, own):
        check_once(task)
    assert checked == [theirs, own, own]
