"""Layouts that do not do what they say are told, with the first row that is wrong."""

import pytest

from canvas.addition import Addition, Column
from canvas.check import check_layout
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
        (Gap, r"\d+ x \d+ cannot be read back: the answer .* is not a number"),
        (Confused, r"\d+ \+ \d+ is read back as \d+ \+ \d+"),
        (Overfull, r"row 3 of \d+ x \d+ has a digit that base 10 does not have"),
        (Empty, r"row 3 of \d+ x \d+ is empty: write at least one digit, perhaps 0"),
        (NoRow, r"its rows\(\) gives None where a canvas.layouts.Row is due"),
        (Broken, r"test_check.py, line \d+: AttributeError: .* no attribute 'nothing'"),
    ],
)
def test_the_first_row_that_is_wrong_is_named(layout, sentence):
    name = f"{layout.__module__}.{layout.__name__}"
    task = Addition(name) if layout is Confused else Multiplication(name, digits_b=(1, 3))
    with pytest.raises(OwnCodeError, match=sentence) as error:
        check_layout(task)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("base", [2, 10])
@pytest.mark.parametrize("kind", [Multiplication, Addition])
def test_every_layout_of_the_package_is_right(kind, base):
    edges = [(0, 0), (0, base**6 - 1), (base**6 - 1, 0), (base**5 - base, base**4)]
    for name in kind.layouts:
        sizes = {"digits": (1, 4)} if kind is Addition else {"digits_a": (1, 4), "digits_b": (1, 4)}
        task = kind(name, base=base, **sizes)
        number = check_layout(task, Problems.from_ints(edges, base))
        assert number > 30
        longest = kind(name, base=base, **dict.fromkeys(sizes, (1, 1000)))
        assert check_layout(longest) == number - len(edges), "as fast as short ones"
