"""The lattice of multiplication, of which no row is shifted."""

from collections.abc import Iterator, Sequence

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers, add_shifted, drop_lowest_digit
from canvas.hint_rows import add_row, digit_classes, kind_rows, products_ahead
from canvas.layouts import ANSWER, GIVEN, SUM, Addend, CellIndex, HintRow, Layout, Row, write
from canvas.partial_products import digit_products, partial_products, value_of
from canvas.problems import Problems


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
    hints = ("row_kind", "multiplicand", "multiplier", "product", "carry", "sum_carry")

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """The hints: digits meet where a column and a row cross.

        - ``multiplicand``: of a, in all rows of the column; from the cell above.
        - ``multiplier``: the row's, in the margin, too; from the digit there, then from the right.
        - ``product``, ``carry``: the digit of a · b_i in the cell on the left, and the carry out
          of that cell; from the digits that meet there, and the carry on the right.
        - ``sum_carry``: out of the cell of ⌊t_(i−1) / base⌋ + a · b_i; it adds the product on the
          right, the symbol above left, and the carry from the right.
        - ``row_kind``: the last row has no digit below its own in the margin.
        """
        a, b = operands
        yield from kind_rows(self._row_kinds, b.lengths, self.margin)
        digits_a, above = digit_classes(a), np.zeros((len(a), 1), dtype=np.uint8)
        everywhere = np.ones(len(a), dtype=bool)
        yield HintRow("multiplicand", digits_a, 0, 0, everywhere)
        sums = self.rows(operands)
        for (i, partial, _), (_, total, _, row, present) in zip(
            partial_products(a, b), sums, strict=True
        ):
            digit = b.digits[:, i]
            yield HintRow("multiplicand", digits_a, 0, row, present)
            of_row = 1 + digit
            yield HintRow("multiplier", of_row[:, None], -self.margin, row, present, of_row)
            yield from products_ahead(a, digit, 0, row, present)
            carried = add_row(above, digit_classes(partial), a.base)[1]
            yield HintRow("sum_carry", carried, 0, row, present, 1)
            above = digit_classes(total)[:, 1:]

    def _row_kinds(self, digits_b: int) -> list[int]:
        return [GIVEN, *[SUM] * (digits_b - 1), ANSWER]

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
        for i, partial, present in partial_products(a, b):
            total = partial if total is None else add_shifted(drop_lowest_digit(total), partial)
            yield Row(SUM, total, 0, 1 + i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        rows, total = [], 0
        for number, digit, _ in digit_products(a, b, base):
            rows.append([Addend(total // base, 1, 0), Addend(number, digit, 0)])
            total = value_of(rows[-1], base)
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
