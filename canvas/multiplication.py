"""Long multiplication: the task, and five ways to write it down."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.hint_rows import add_row, digit_classes, kind_rows, product_rows, shifted
from canvas.lattice import Lattice
from canvas.layouts import (
    ABSENT,
    ANSWER,
    GIVEN,
    PARTIAL,
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
from canvas.partial_products import (
    digit_products,
    partial_products,
    partials_and_sums,
    running_sums,
    value_of,
)
from canvas.problems import Problems
from canvas.task import TwoOperands, layout_field

# Classes of the hint "pointer", see `RunningSum`.
DIAGONAL, UP = 1, 2


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

    def row_kinds(self, digits_b: int) -> list[int]:
        """The kind of every row of a working, the operands' among them."""
        return [GIVEN, GIVEN, *[PARTIAL] * (self.height(digits_b) - 3), ANSWER]

    def hint_rows(
        self, operands: Sequence[Numbers], step: np.ndarray | None = None
    ) -> Iterator[HintRow]:
        """Hints that all these layouts share, and ``multiplicand`` in the rows of the operands.

        - ``row_kind``: the same in the whole row. What follows on a row is settled at its column i,
          where it multiplies by b_i: by whether there is a b_i, or a b_(i+1) on the left.
        - ``column_multiplier``: the digit of b in the column; straight down from row 1.
        """
        a, b = operands
        yield from kind_rows(self.row_kinds, b.lengths, self.margin)
        everywhere = np.ones(len(a), dtype=bool)
        heights = np.array([self.height(n) for n in range(int(b.lengths.max()) + 1)])[b.lengths]
        digits_a, digits_b = digit_classes(a), digit_classes(b)
        for row in range(2):
            yield HintRow("multiplicand", digits_a, 0, row, everywhere)
        for row in range(1, int(heights.max())):
            yield HintRow("column_multiplier", digits_b, 0, row, heights > row)

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

    def hint_rows(
        self, operands: Sequence[Numbers], step: np.ndarray | None = None
    ) -> Iterator[HintRow]:
        """The hints: digits of a and b meet in the partial products, which are added up downwards.

        - ``multiplicand``: the digit of a that meets the cell; in the first partial product from
          the cell above, then from above right.
        - ``multiplier``: the row's digit of b; starts where the multiplicand does, as the column's,
          and goes left.
        - ``carry``: out of the cell of the partial product, into the one on its left; with the
          carry from the right.
        - ``sum``, ``sum_carry``: of all rows above, and the carry out of its cell; from the sum
          and the symbol above, and the carry from the right.
        """
        yield from super().hint_rows(operands, step)
        a, b = operands
        total = np.zeros((len(a), 1), dtype=np.uint8)
        carried = np.ones((len(a), 1), dtype=np.uint8)
        for i, partial, present in partial_products(a, b):
            yield from product_rows(a, b.digits[:, i], i, 2 + i, present)
            yield HintRow("sum", total, 0, 2 + i, present)
            yield HintRow("sum_carry", carried, 0, 2 + i, present, 1)
            total, carried = add_row(total, shifted(digit_classes(partial), i), a.base)
            last = b.lengths == i + 1
            yield HintRow("sum", total, 0, 3 + i, last)
            yield HintRow("sum_carry", carried, 0, 3 + i, last, 1)

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return digits_b + 3

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            last = b.lengths == i + 1
            yield Row(ANSWER, total, 0, 3 + i, last)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        partials, _ = partials_and_sums(a, b, base)
        product = [Addend(value_of(row, base), 1, i) for i, row in enumerate(partials)]
        return [*partials, product]


class RunningSum(RowLayout):
    """All partial products, then all running sums: the additions are written out, too."""

    name = "running_sum"
    hints = (
        "row_kind", "multiplicand", "column_multiplier", "multiplier", "carry", "addend", "pointer"
    )  # fmt: skip

    def row_kinds(self, digits_b: int) -> list[int]:
        """The kind of every row of a working."""
        return [GIVEN, GIVEN, *[PARTIAL] * digits_b, *[SUM] * (digits_b - 1), ANSWER]

    def hint_classes(self, name: str, base: int) -> int:
        """See `Layout`; ``pointer`` has the two that it needs."""
        return 3 if name == "pointer" else super().hint_classes(name, base)

    def hint_rows(
        self, operands: Sequence[Numbers], step: np.ndarray | None = None
    ) -> Iterator[HintRow]:
        """The hints: those of the partial products as in `Standard`, and how each finds its sum.

        Sum j stands b's length below the partial product that it adds, which is looked up anew for
        every row: column j is blank from that product down to the first sum.

        - ``pointer``: `DIAGONAL` in column j of sum j, from column 0 of the first sum and then from
          above right. From that cell in the row that is being filled in `UP`, from the cell below,
          until a partial product is met; then along its digits, from the right.
        - ``addend``: the digit of that product in the column, in its own row and all below; from
          the symbol under the pointer, then from the cell above.
        - ``carry``: in the sum that is being filled in, out of the cell of the sum above + addend;
          with that from the right. There is none in sums above, whose addends have gone.
        """
        yield from super().hint_rows(operands, step)
        a, b = operands
        filled = np.full(len(a), ABSENT) if step is None else step - b.lengths  # which sum
        addend = np.zeros((len(a), a.digits.shape[1] + 1 + b.digits.shape[1]), dtype=np.uint8)
        total = np.zeros((len(a), 1), dtype=np.uint8)
        for i, partial, present in partial_products(a, b):
            yield from product_rows(a, b.digits[:, i], i, 2 + i, present)
            digits = shifted(digit_classes(partial), i)
            total, carried = add_row(total, digits, a.base)
            now = present if step is None else present & (filled == i)
            row = 2 + i + b.lengths
            yield HintRow("carry", carried, 0, row, now, 1)
            if step is None:
                yield HintRow("addend", digits, 0, row, now)
            np.copyto(addend[:, : digits.shape[1]], digits, where=now[:, None])
        yield from self._way_of_addends(addend, b.lengths, filled)

    def _way_of_addends(
        self, addend: np.ndarray, digits_b: np.ndarray, filled: np.ndarray
    ) -> Iterator[HintRow]:
        """The pointer, and the digits ``uint8 [B, C]`` of the partial product that it leads to.

        ``filled``, which sum is being filled in, is below 0 where none is.
        """
        column = np.arange(addend.shape[1])
        product, end = 2 + filled, 2 + filled + digits_b
        for row in range(2, 2 + 2 * int(digits_b.max())):
            looked_up = (filled >= 0) & (row >= product) & (row <= end)
            yield HintRow("addend", addend, 0, row, looked_up)
            way = (column == filled[:, None]) & (row < end)[:, None]
            way = np.where((product == row)[:, None], addend > 0, way) & looked_up[:, None]
            pointer = np.where(way, UP, DIAGONAL * (column == (row - 2 - digits_b)[:, None]))
            present = looked_up | (row >= 2 + digits_b)
            yield HintRow("pointer", pointer.astype(np.uint8), 0, row, present)

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            yield Row(SUM, total, 0, 2 + i + b.lengths, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        partials, sums = partials_and_sums(a, b, base)
        return partials + sums


class Interleaved(RowLayout):
    """Each partial product followed at once by the running sum: a row needs those just above."""

    name = "interleaved"
    hints = ("row_kind", "multiplicand", "column_multiplier", "multiplier", "carry", "sum")

    def row_kinds(self, digits_b: int) -> list[int]:
        """The kind of every row of a working."""
        return [GIVEN, GIVEN, *[PARTIAL, SUM] * (digits_b - 1), PARTIAL, ANSWER]

    def hint_rows(
        self, operands: Sequence[Numbers], step: np.ndarray | None = None
    ) -> Iterator[HintRow]:
        """The hints: a partial product hands the sum above it down to the sum below it.

        - ``multiplicand``, ``multiplier``: in a partial product as in `Standard`. A sum keeps the
          multiplicand of the cell above, for the next product to take it from above right.
        - ``sum``: in a partial product of the rows above, from the cell above; in a sum this one,
          from the sum and the symbol above and the carry from the right. Digits wherever something
          is added: also where a sum that is 0 is written as one 0.
        - ``carry``: out of the cell of the product or of the sum; with that from the right.
        """
        yield from super().hint_rows(operands, step)
        a, b = operands
        digits_a = digit_classes(a)
        total = np.zeros((len(a), 1), dtype=np.uint8)
        for i, partial, present in partial_products(a, b):
            product, row = 2 + 2 * i, 3 + 2 * i
            yield from product_rows(a, b.digits[:, i], i, product, present)
            yield HintRow("sum", total, 0, product, present)
            total, carried = add_row(total, shifted(digit_classes(partial), i), a.base)
            yield HintRow("multiplicand", digits_a, i, row, present)
            yield HintRow("sum", total, 0, row, present)
            yield HintRow("carry", carried, 0, row, present, 1)

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + 2 * i, present)
            yield Row(SUM, total, 0, 3 + 2 * i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        rows = zip(*partials_and_sums(a, b, base), strict=True)
        return [row for pair in rows for row in pair]


class Accumulate(RowLayout):
    """One row a multiplier digit: the running total so far."""

    name = "accumulate"
    hints = ("row_kind", "multiplicand", "column_multiplier", "multiplier", "carry")

    def row_kinds(self, digits_b: int) -> list[int]:
        """The kind of every row of a working."""
        return [GIVEN, GIVEN, *[SUM] * (digits_b - 1), ANSWER]

    def hint_rows(
        self, operands: Sequence[Numbers], step: np.ndarray | None = None
    ) -> Iterator[HintRow]:
        """The hints: every row is a partial product added to the symbols above.

        - ``multiplicand``, ``multiplier``: as in the partial products of `Standard`.
        - ``carry``: out of the cell of the total above + product, from where the multiplicand
          begins; with that from the right. On the right of that there is none, and the total above
          is copied.
        """
        yield from super().hint_rows(operands, step)
        a, b = operands
        added = None
        for i, _, total, present in running_sums(a, b):
            yield from product_rows(a, b.digits[:, i], i, 2 + i, present, added)
            added = total.digits[:, i + 1 :]

    def height(self, digits_b: int) -> int:
        """Rows of a working."""
        return digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""
        a, b = operands
        for i, _, total, present in running_sums(a, b):
            yield Row(SUM, total, 0, 2 + i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        """What each row is the sum of."""
        a, b = operands
        rows, total = [], 0
        for factor in digit_products(a, b, base):
            rows.append([Addend(total, 1, 0), factor])
            total = value_of(rows[-1], base)
        return rows


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
