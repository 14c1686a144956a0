"""Long multiplication: the task, and five ways to write it down."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers, add_shifted, drop_lowest_digit, times_digit
from canvas.layouts import (
    ANSWER,
    PARTIAL,
    SUM,
    Addend,
    CellIndex,
    Layout,
    Row,
    filled_span,
    table,
    write,
)
from canvas.problems import Problems
from canvas.task import TwoOperands, layout_field


def _partials(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, np.ndarray]]:
    """Each multiplier digit's place i, the products a · b_i, and which samples have that digit."""
    n = int(b.lengths.max())
    multiplicands = Numbers(np.repeat(a.digits, n, axis=0), np.repeat(a.lengths, n), a.base)
    products = times_digit(multiplicands, b.digits[:, :n].reshape(-1))
    for i in range(n):
        yield i, products[i::n], i < b.lengths


def _sums(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, Numbers, np.ndarray]]:
    """As `_partials`, with the running sum up to and including place i after the product."""
    total: Numbers | None = None
    for i, partial, present in _partials(a, b):
        total = partial if total is None else add_shifted(total, partial, i)
        yield i, partial, total, present


def _factors(a: int, b: int, base: int) -> list[Addend]:
    """The products a · b_i that a · b is the sum of."""
    factors: list[Addend] = []
    while b:
        b, digit = divmod(b, base)
        factors.append(Addend(a, digit, len(factors)))
    return factors


def _value(addends: list[Addend], base: int) -> int:
    return sum(number * factor * base**shift for number, factor, shift in addends)


def _partials_and_sums(a: int, b: int, base: int) -> tuple[list[list[Addend]], list[list[Addend]]]:
    """The addends of the rows of `_sums`: the products a · b_i, and the running sums of them."""
    partials, sums, total = [], [], 0
    for number, digit, i in _factors(a, b, base):
        partials.append([Addend(number, digit, 0)])
        sums.append([Addend(total, 1, 0), Addend(number * digit, 1, i)])
        total = _value(sums[-1], base)
    return partials, sums


class RowLayout(Layout):
    """Layouts that write the operands above the working, and the product in the last row."""

    sign = symbols.TIMES

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        """Height and width for operands of so many digits."""
        digits_a, digits_b = lengths
        return self.height(digits_b), max(digits_a + digits_b, digits_b + 2)

    @abstractmethod
    def height(self, digits_b: int) -> int:
        """Rows of a working, the operands among them."""

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        """The multiplicand in the first row, the sign and the multiplier in the second."""
        a, b = problems.operands
        write(content, 0, 0, a)
        write(content, 1, 0, b)
        content[np.arange(len(b)), 1, b.lengths + 1] = self.sign

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        """The first row, and what is right of the sign in the second."""
        self._check_sign(sign, (1, sign[1]))
        return {"multiplicand": content[0, ::-1], "multiplier": content[1, : sign[1] : -1]}

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        """The last row."""
        return [(len(content) - 1, column) for column in filled_span(content[-1])]


class Standard(RowLayout):
    """a; ``*_b``; the partial products; the product. What schools teach."""

    name = "standard"

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return digits_b + 3

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, partial, total, present in _sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            last = b.lengths == i + 1
            yield Row(ANSWER, total, 0, 3 + i, last)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        partials, _ = _partials_and_sums(a, b, base)
        product = [Addend(_value(row, base), 1, i) for i, row in enumerate(partials)]
        return [*partials, product]


class RunningSum(RowLayout):
    """All partial products, then all running sums: the additions are written out, too."""

    name = "running_sum"

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, partial, total, present in _sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            yield Row(SUM, total, 0, 2 + i + b.lengths, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        partials, sums = _partials_and_sums(a, b, base)
        return partials + sums


class Interleaved(RowLayout):
    """Each partial product followed at once by the running sum: a row needs those just above."""

    name = "interleaved"

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, partial, total, present in _sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + 2 * i, present)
            yield Row(SUM, total, 0, 3 + 2 * i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        rows = zip(*_partials_and_sums(a, b, base), strict=True)
        return [row for pair in rows for row in pair]


class Accumulate(RowLayout):
    """One row a multiplier digit: the running total so far."""

    name = "accumulate"

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, _, total, present in _sums(a, b):
            yield Row(SUM, total, 0, 2 + i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        rows, total = [], 0
        for factor in _factors(a, b, base):
            rows.append([Addend(total, 1, 0), factor])
            total = _value(rows[-1], base)
        return rows


class Lattice(Layout):
    """Multiplicand on top, one multiplier digit beside each row: nothing shifts, nothing grows.

    Row i holds t_i = ⌊t_(i−1) / base⌋ + a · b_i, never more than one digit longer than a. The
    product is read down the last column of the grid and along its last row::

        _321_*      t_0 = 321·4            = 1284  → 4
        1284_4      t_1 = 128 + 321·5      = 1733  → 3
        1733_5      t_2 = 173 + 321·6      = 2099  → 2099
        2099_6                                       321 · 654 = 209934
    """

    name = "lattice"
    sign = symbols.TIMES
    margin = 2

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        """Height and width for operands of so many digits."""
        digits_a, digits_b = lengths
        return digits_b + 1, digits_a + 1 + self.margin

    def first_step(self, problems: Problems) -> np.ndarray:
        """The multiplicand takes up a row, the multiplier does not."""
        return np.ones(len(problems), dtype=np.int64)

    def given_columns(self) -> int:
        """The multiplier's."""
        return 1

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        """The multiplicand on top, the sign and the multiplier down the margin."""
        a, b = problems.operands
        write(content, 0, self.margin, a)
        content[:, 0, 0] = self.sign
        inside = np.arange(b.digits.shape[1]) < b.lengths[:, None]
        digits = np.where(inside, b.digits + np.uint8(symbols.DIGIT_ZERO), symbols.BLANK)
        rows = min(digits.shape[1], content.shape[1] - 1)
        content[:, 1 : 1 + rows, 0] = digits[:, :rows]

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        total: Numbers | None = None
        for i, partial, present in _partials(a, b):
            total = partial if total is None else add_shifted(drop_lowest_digit(total), partial)
            yield Row(SUM, total, 0, 1 + i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        rows, total = [], 0
        for number, digit, _ in _factors(a, b, base):
            rows.append([Addend(total // base, 1, 0), Addend(number, digit, 0)])
            total = _value(rows[-1], base)
        return rows

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        """The first row without its margin, and the margin below the sign."""
        self._check_sign(sign, (0, content.shape[1] - 1))
        return {
            "multiplicand": content[0, : -self.margin][::-1],
            "multiplier": content[1:, -1],
        }

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        """The last column of the grid, and the last row."""
        last, column = len(content) - 1, content.shape[1] - 1 - self.margin
        filled = np.flatnonzero(content[last, : column + 1] != symbols.BLANK)
        start = int(filled[0]) if filled.size else column
        down = [(row, column) for row in range(1, last)]
        return [*down, *((last, place) for place in range(column, start - 1, -1))]


@dataclass
class Multiplication(TwoOperands):
    """The product of two numbers from 1 up.

    Attributes:
        layout: how the working is written down, one of `layouts` or a class of one's own.
        base: of the digits, 2 to 10.
        digits_a: fewest and most digits of the multiplicand.
        digits_b: fewest and most digits of the multiplier.
        long_bias: lengths are drawn with probability ∝ (digits of a · digits of b) ^ long_bias:
            0 draws every pair of lengths evenly, 1 trains on long operands more.
    """

    layouts = table([Standard(), RunningSum(), Interleaved(), Accumulate(), Lattice()])
    sign, signs = "x", "x*×X"
    smallest = 1

    layout: str = layout_field("lattice", layouts)

    def answer(self, operands: Sequence[int]) -> int:
        """The product."""
        return prod(operands)
