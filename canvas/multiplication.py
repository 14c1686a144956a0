"""Long multiplication: the task, and six ways to write it down."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from canvas import symbols
from canvas.arithmetic import (
    Numbers,
    add_shifted,
    drop_lowest_digit,
    partial_products,
    running_sums,
)
from canvas.hints import add_row, digit_classes, kind_rows, product_rows, products_ahead, shifted
from canvas.layouts import (
    ANSWER,
    GIVEN,
    PARTIAL,
    SUM,
    Addend,
    CellIndex,
    HintRow,
    Layout,
    Row,
    table,
    write,
)
from canvas.local_rules import (
    AccumulateRule,
    InterleavedRule,
    LatticeRule,
    RunningSumRule,
    StandardRule,
)
from canvas.problems import Problems
from canvas.task import TwoOperands, layout_field


class RowLayout(Layout):
    """Layouts that write the operands above all other rows, and the product in the last row."""

    sign = symbols.TIMES

    @abstractmethod
    def height(self, digits_b: int) -> int:
        """Rows of a worked solution, the operands among them."""

    def row_kinds(self, digits_b: int) -> list[int]:
        """The kind of every row of a worked solution, the operands' among them."""
        return [GIVEN, GIVEN, *[PARTIAL] * (self.height(digits_b) - 3), ANSWER]

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths
        return self.height(digits_b), max(digits_a + digits_b, digits_b + 2)

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """Hints that all these layouts share, and ``multiplicand`` in the rows of the operands.

        - ``row_kind``: the same in the whole row. What follows on a row is settled at its column i,
          where it multiplies by b_i: by whether there is a b_i, or a b_(i+1) on the left.
        - ``column_multiplier``: the digit of b in the column; straight down from row 1.

        Where sums begin below all partial products, and are written from the right:

        - ``diagonal``: a line from the sign down to the right, to the last column of the first sum.
        - ``adding``: from the last column to the left, 1 in that row and 2 in all below it.
        """
        a, b = operands
        yield from kind_rows(self.row_kinds, b.lengths, self.margin)
        everywhere = np.ones(len(a), dtype=bool)
        heights = np.array([self.height(n) for n in range(int(b.lengths.max()) + 1)])[b.lengths]
        digits_b = digit_classes(b)
        yield HintRow("multiplicand", digit_classes(a), 0, 0, everywhere)
        yield HintRow("multiplicand", digit_classes(a), 0, 1, everywhere)
        columns = np.arange(int(b.lengths.max()) + 2)
        for row in range(1, int(heights.max())):
            yield HintRow("column_multiplier", digits_b, 0, row, heights > row)
            place = b.lengths + 2 - row
            here = (columns == place[:, None]).astype(np.uint8)
            yield HintRow("diagonal", here, 0, row, place >= 0)
            adding = (1 + (place < 0)).astype(np.uint8)
            below = (place <= 0) & (heights > row)
            yield HintRow("adding", adding[:, None], 0, row, below, adding)

    def hint_classes(self, name: str, base: int) -> int:
        few = {"diagonal": 2, "adding": 3}
        return few[name] if name in few else super().hint_classes(name, base)

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        a, b = problems.operands
        write(content, 0, 0, a)
        write(content, 1, 0, b)
        content[np.arange(len(b)), 1, b.lengths + 1] = self.sign

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        self._check_sign(sign, (1, sign[1]))
        return {"multiplicand": content[0, ::-1], "multiplier": content[1, : sign[1] : -1]}


class Standard(RowLayout):
    """a; ``*_b``; the partial products; the product. What schools teach."""

    name = "standard"
    local_rule = StandardRule
    hints = (
        "row_kind", "multiplicand", "column_multiplier", "multiplier", "carry", "sum", "sum_carry",
        "diagonal", "adding",
    )  # fmt: skip

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """The hints: digits of a and b meet in the partial products, which are added up downwards.

        - ``multiplicand``: the digit of a that meets the cell; in the first partial product from
          the cell above, then from above right.
        - ``multiplier``: the row's digit of b, from where the multiplicand starts to the left.
        - ``carry``: out of the cell of the partial product; with the carry from the right.
        - ``sum``, ``sum_carry``: of all rows above, and the carry out of its cell; from the sum
          and the symbol above, and the carry from the right.
        """
        yield from super().hint_rows(operands)
        a, b = operands
        total = np.zeros((len(a), 1), dtype=np.uint8)
        carried = np.ones((len(a), 1), dtype=np.uint8)
        for i, partial, present in partial_products(a, b):
            yield from product_rows(a, b.digits[:, i], i, 2 + i, present)
            yield HintRow("sum", total, 0, 2 + i, present)
            yield HintRow("sum_carry", carried, 0, 2 + i, present, 1)
            total, carried = add_row(total, shifted(digit_classes(partial), i), a.base)
            last = b.lengths == i + 1
            yield HintRow("sum", total, 0, 3 + i, last, written=True)
            yield HintRow("sum_carry", carried, 0, 3 + i, last, 1)

    def height(self, digits_b: int) -> int:
        return digits_b + 3

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            yield Row(ANSWER, total, 0, 3 + i, b.lengths == i + 1)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        partials, sums = _partials_and_sums(operands, base)
        return [*partials, [last for _, last in sums]]


class RunningSum(RowLayout):
    """All partial products, then all running sums: the additions are written out, too."""

    name = "running_sum"
    local_rule = RunningSumRule
    hints = (
        "row_kind", "multiplicand", "column_multiplicand", "column_multiplier", "multiplier",
        "carry", "total", "sum_carry", "diagonal", "adding",
    )  # fmt: skip

    def row_kinds(self, digits_b: int) -> list[int]:
        return [GIVEN, GIVEN, *[PARTIAL] * digits_b, *[SUM] * (digits_b - 1), ANSWER]

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """The hints: those of `Accumulate`, in the partial products and again in the sums.

        The partial product that a sum adds stands b's length above it, too far for a fixed number
        of hints: a sum works it out once more, and needs no row but the one above.

        - ``column_multiplicand``: the digit of a in the column, for the first sum to begin with.
        - ``multiplicand``, ``multiplier``, ``carry``: as in `Accumulate`.
        - ``total``, ``sum_carry``: in the sums the digit to be written, and the carry into a cell;
          from the total, the symbol above and the carry into it, all of the cell on the right: the
          total comes out smaller than what it is added to. Cells do not learn to say the product.
        """
        yield from super().hint_rows(operands)
        a, b = operands
        digits_a = digit_classes(a)
        for row in range(2 * int(b.lengths.max()) + 2):
            present = 2 * b.lengths + 2 > row
            yield HintRow("column_multiplicand", digits_a, 0, row, present)
        for i, _, present in partial_products(a, b):
            yield from product_rows(a, b.digits[:, i], i, 2 + i, present)
        yield from _accumulated(a, b, 2 + b.lengths, "total")

    def height(self, digits_b: int) -> int:
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            yield Row(SUM, total, 0, 2 + i + b.lengths, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        partials, sums = _partials_and_sums(operands, base)
        return partials + sums


class Interleaved(RowLayout):
    """Each partial product followed at once by the running sum: a row needs those just above."""

    name = "interleaved"
    local_rule = InterleavedRule
    hints = ("row_kind", "multiplicand", "column_multiplier", "multiplier", "carry", "sum")

    def row_kinds(self, digits_b: int) -> list[int]:
        return [GIVEN, GIVEN, *[PARTIAL, SUM] * (digits_b - 1), PARTIAL, ANSWER]

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """The hints: a partial product hands the sum above it down to the sum below it.

        - ``multiplicand``, ``multiplier``: in a partial product as in `Standard`. A sum keeps the
          multiplicand of the cell above, for the next product to take it from above right.
        - ``sum``: in a partial product of the rows above, from the cell above; in a sum this one,
          from the sum and the symbol above and the carry from the right, wherever one is added.
        - ``carry``: out of the cell of the product or of the sum; with that from the right.
        """
        yield from super().hint_rows(operands)
        a, b = operands
        digits_a = digit_classes(a)
        total = np.zeros((len(a), 1), dtype=np.uint8)
        for i, partial, present in partial_products(a, b):
            product, row = 2 + 2 * i, 3 + 2 * i
            yield from product_rows(a, b.digits[:, i], i, product, present)
            yield HintRow("sum", total, 0, product, present)
            total, carried = add_row(total, shifted(digit_classes(partial), i), a.base)
            yield HintRow("multiplicand", digits_a, i, row, present)
            yield HintRow("sum", total, 0, row, present, written=True)
            yield HintRow("carry", carried, 0, row, present, 1)

    def height(self, digits_b: int) -> int:
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + 2 * i, present)
            yield Row(SUM, total, 0, 3 + 2 * i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        rows = zip(*_partials_and_sums(operands, base), strict=True)
        return [row for pair in rows for row in pair]


class Accumulate(RowLayout):
    """One row a multiplier digit: the running total so far."""

    name = "accumulate"
    local_rule = AccumulateRule
    hints = (
        "row_kind", "multiplicand", "column_multiplier", "multiplier", "product", "carry",
        "sum_carry",
    )  # fmt: skip

    def row_kinds(self, digits_b: int) -> list[int]:
        return [GIVEN, GIVEN, *[SUM] * (digits_b - 1), ANSWER]

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """The hints: every row is a partial product added to the symbols above.

        - ``multiplicand``, ``multiplier``: as in the partial products of `Standard`.
        - ``product``, ``carry``: the partial product, as it would be written, and the carry out of
          its cell; from the digits that meet there, and the carry from the right.
        - ``sum_carry``: into the cell of the total above + product, on the left of where the
          multiplicand begins; from the product, the carry into it and the symbol above, all of the
          cell on the right. Elsewhere the total above is copied.
        """
        yield from super().hint_rows(operands)
        a, b = operands
        yield from _accumulated(a, b, np.full(len(b), 2), "product")

    def height(self, digits_b: int) -> int:
        return digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, _, total, present in running_sums(a, b):
            yield Row(SUM, total, 0, 2 + i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        rows = zip(*_partials_and_sums(operands, base), strict=True)
        return [[total, partial._replace(shift=last.shift)] for (partial,), (total, last) in rows]


class Direct(RowLayout):
    """a; ``*_b``; the product at once (implicit reasoning, Deng et al. 2023)."""

    name = "direct"
    hints = ("row_kind", "multiplicand", "column_multiplier")

    def height(self, digits_b: int) -> int:
        return 3

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, _, total, _ in running_sums(a, b):
            yield Row(ANSWER, total, 0, 2, b.lengths == i + 1)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        partials, _ = _partials_and_sums(operands, base)
        return [[one._replace(shift=i) for i, (one,) in enumerate(partials)]]


class Lattice(Layout):
    """Multiplicand on top, one multiplier digit beside each row: nothing shifts, nothing grows.

    Row i holds t_i = ⌊t_(i−1) / base⌋ + a · b_i. The product is read down the last column of the
    grid and along its last row::

        _321_*      t_0 = 321·4            = 1284  → 4
        1284_4      t_1 = 128 + 321·5      = 1733  → 3
        1733_5      t_2 = 173 + 321·6      = 2099  → 2099
        2099_6                                       321 · 654 = 209934
    """

    name = "lattice"
    sign = symbols.TIMES
    margin = 2
    hints = ("row_kind", "multiplicand", "multiplier", "product", "carry", "sum_carry", "addend")
    local_rule = LatticeRule

    def hint_rows(self, operands: Sequence[Numbers]) -> Iterator[HintRow]:
        """The hints: digits meet where a column and a row cross.

        - ``multiplicand``: of a, in all rows of the column; from the cell above.
        - ``multiplier``: the row's, from the digit in the margin.
        - ``product``, ``carry``: the digit of a · b_i in the cell on the left, and the carry out
          of that cell; from the digits that meet there, and the carry on the right.
        - ``sum_carry``: out of the cell of ⌊t_(i−1) / base⌋ + a · b_i; it adds the product on the
          right, the symbol above left, and the carry from the right.
        - ``addend``: the digit that is written; none in the row of a, which is not added.
        """
        a, b = operands
        yield from kind_rows(lambda n: [GIVEN, *[SUM] * (n - 1), ANSWER], b.lengths, self.margin)
        digits_a, above = digit_classes(a), np.zeros((len(a), 1), dtype=np.uint8)
        yield HintRow("multiplicand", digits_a, 0, 0, np.ones(len(a), dtype=bool))
        for (i, partial, _), (_, total, _, row, present) in zip(
            partial_products(a, b), self.rows(operands), strict=True
        ):
            digit = b.digits[:, i]
            yield HintRow("multiplicand", digits_a, 0, row, present)
            of_row = 1 + digit
            yield HintRow("multiplier", of_row[:, None], -self.margin, row, present, of_row)
            yield from products_ahead(a, digit, 0, row, present)
            carried = add_row(above, digit_classes(partial), a.base)[1]
            yield HintRow("sum_carry", carried, 0, row, present, 1)
            above = digit_classes(total)
            yield HintRow("addend", above, 0, row, present, written=True)
            above = above[:, 1:]

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths
        return digits_b + 1, digits_a + 1 + self.margin

    def first_step(self, problems: Problems) -> np.ndarray:
        return np.ones(len(problems), dtype=np.int64)

    def given_columns(self) -> int:
        return 1

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        a, b = problems.operands
        write(content, 0, self.margin, a)
        content[:, 0, 0] = self.sign
        write(content.swapaxes(1, 2), 0, 1, b)

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        total: Numbers | None = None
        for i, partial, present in partial_products(a, b):
            total = partial if total is None else add_shifted(drop_lowest_digit(total), partial)
            yield Row(SUM, total, 0, 1 + i, present)

    def addends(self, operands: Sequence[int], base: int) -> list[list[Addend]]:
        rows, total = [], 0
        for ((number, digit, _),) in _partials_and_sums(operands, base)[0]:
            rows.append([Addend(total // base, 1, 0), Addend(number, digit, 0)])
            total = total // base + number * digit
        return rows

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        self._check_sign(sign, (0, content.shape[1] - 1))
        top = content[0, : -self.margin]
        return {"multiplicand": top[::-1], "multiplier": content[1:, -1]}

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        last, column = len(content) - 1, content.shape[1] - 1 - self.margin
        filled = np.flatnonzero(content[last, : column + 1] != symbols.BLANK).tolist() or [column]
        down = [(row, column) for row in range(1, last)]
        return [*down, *((last, place) for place in range(column, filled[0] - 1, -1))]


def _accumulated(a: Numbers, b: Numbers, first: np.ndarray, which: str) -> Iterator[HintRow]:
    """The hints of rows, from ``first [B]`` on, that add a partial product each to the row above.

    ``which`` digit of a cell is a hint: that of the ``product`` or of the ``total``.
    """
    above = np.zeros((len(a), 1), dtype=np.uint8)
    for i, partial, total, present in running_sums(a, b):
        yield from product_rows(a, b.digits[:, i], i, first + i, present)
        if which == "product":
            first_one = i == 0  # the total is the product
            yield HintRow("product", digit_classes(partial), i, first + i, present, 0, first_one)
        else:
            yield HintRow("total", digit_classes(total), 0, first + i, present, written=True)
        carried = add_row(above, digit_classes(partial), a.base)[1]
        yield HintRow("sum_carry", carried, i + 1, first + i, present, 1)
        above = digit_classes(total)[:, i + 1 :]


def _partials_and_sums(
    operands: Sequence[int], base: int
) -> tuple[list[list[Addend]], list[list[Addend]]]:
    """The addends of the products a · b_i, one each, and of the running sums of these, two each."""
    a, b = operands
    partials, sums, total = [], [], 0
    for i, digit in enumerate(Numbers.from_ints([b], base).digits[0].tolist()):
        partials.append([Addend(a, digit, 0)])
        sums.append([Addend(total, 1, 0), Addend(a * digit, 1, i)])
        total += a * digit * base**i
    return partials, sums


@dataclass
class Multiplication(TwoOperands):
    """The product of two numbers.

    Attributes:
        layout: how it is written down, one of `layouts` or a class of one's own.
        base: of the digits, 2 to 16.
        digits_a: fewest and most digits of the multiplicand.
        digits_b: fewest and most digits of the multiplier.
        long_bias: lengths are drawn with probability ∝ (digits of a · digits of b) ^ long_bias:
            0 draws every pair of lengths evenly, 1 trains on long operands more.
        repeats: share of the operands in training in which one digit comes again and again.
        smallest: the smallest operand that is drawn, 0 or 1.
    """

    layouts = table([Standard(), RunningSum(), Interleaved(), Accumulate(), Lattice(), Direct()])
    sign, signs = "x", "x*×X"

    layout: str = layout_field("lattice", layouts)
    smallest: int = 1

    def answer(self, operands: Sequence[int]) -> int:
        return prod(operands)
