"""Long multiplication: the task, and five ways to write it down."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers, add_shifted, carries, drop_lowest_digit, times_digit
from canvas.layouts import (
    ANSWER,
    GIVEN,
    PARTIAL,
    ROW_KINDS,
    SUM,
    Addend,
    CellIndex,
    HintRow,
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


def _digit_classes(numbers: Numbers) -> np.ndarray:
    """1 + digit, and 0 beyond a number's length: ``uint8 [B, n]``."""
    inside = np.arange(numbers.digits.shape[1]) < numbers.lengths[:, None]
    return (numbers.digits + np.uint8(1)) * inside


def _product_carries(a: Numbers, digit: np.ndarray, added: np.ndarray | None = None) -> np.ndarray:
    """1 + the carry into each column of a · digit (+ added ``[B, n]``): ``uint8 [B, n]``."""
    n = max(a.digits.shape[1], 0 if added is None else added.shape[1]) + 1
    columns = a.padded(n).astype(np.int16) * digit[:, None].astype(np.int16)
    if added is not None:
        columns[:, : added.shape[1]] += added
    return (1 + carries(columns, a.base)[1]).astype(np.uint8)


def _below(above: np.ndarray, row: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """A running sum of digit classes with one more row: its classes, and 1 + carries into them.

    A cell of the sum is none where nothing is added or carried.
    """
    n = max(above.shape[1], row.shape[1]) + 1
    parts = [
        np.pad(part, ((0, 0), (0, n - part.shape[1]))).astype(np.int16) for part in (above, row)
    ]
    digits, carried = carries(np.sum([part - (part > 0) for part in parts], axis=0), base)
    there = (parts[0] > 0) | (parts[1] > 0) | (carried > 0)
    return ((1 + digits) * there).astype(np.uint8), (1 + carried).astype(np.uint8)


def _shifted(classes: np.ndarray, shift: int) -> np.ndarray:
    return np.pad(classes, ((0, 0), (shift, 0)))


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

    def hint_classes(self, name: str, base: int) -> int:
        """See `Layout`."""
        return 1 + (len(ROW_KINDS) if name == "row_kind" else base)

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """What the rows of the operands pass on, and then the layout's own of every other row.

        Of every cell ``row_kind``, and ``column_multiplier``, the multiplier's digit in its column;
        ``multiplicand``, the digit of the multiplicand that meets it, and ``multiplier``, the
        digit that its row multiplies by.
        """
        a, b = operands
        everywhere = np.ones(len(a), dtype=bool)
        heights = np.array([self.height(n) for n in range(int(b.lengths.max()) + 1)])[b.lengths]
        digits_a, digits_b = _digit_classes(a), _digit_classes(b)
        for row in range(int(heights.max())):
            present = heights > row
            kind = np.full((len(a), 1), 1 + (GIVEN if row < 2 else PARTIAL), dtype=np.uint8)
            kind[heights == row + 1] = 1 + ANSWER
            yield HintRow("row_kind", kind, -1 - self.margin, row, present, kind)
            if row:
                yield HintRow("column_multiplier", digits_b, 0, row, present)
            if row < 2:
                yield HintRow("multiplicand", digits_a, 0, row, everywhere)

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
    hints = (
        "row_kind", "multiplicand", "column_multiplier", "multiplier", "carry", "sum", "sum_carry"
    )  # fmt: skip

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """And ``carry`` into the cell's partial product; ``sum`` and ``sum_carry`` of all above."""
        yield from super().hint_rows(operands)
        a, b = operands
        digits_a = _digit_classes(a)
        total = np.zeros((len(a), 1), dtype=np.uint8)
        carried = np.ones((len(a), 1), dtype=np.uint8)
        for i, partial, present in _partials(a, b):
            digit = b.digits[:, i]
            yield HintRow("multiplicand", digits_a, i, 2 + i, present)
            yield HintRow("multiplier", 1 + digit[:, None], i, 2 + i, present, 1 + digit)
            yield HintRow("carry", _product_carries(a, digit), i, 2 + i, present, 1)
            yield HintRow("sum", total, 0, 2 + i, present)
            yield HintRow("sum_carry", carried, 0, 2 + i, present, 1)
            total, carried = _below(total, _shifted(_digit_classes(partial), i), a.base)
            last = b.lengths == i + 1
            yield HintRow("sum", total, 0, 3 + i, last)
            yield HintRow("sum_carry", carried, 0, 3 + i, last, 1)

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
