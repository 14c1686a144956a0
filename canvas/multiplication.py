"""Long multiplication: the task and six layouts."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers, add_shifted, partial_products, running_sums
from canvas.cells.rules.accumulate import AccumulateRule
from canvas.cells.rules.interleaved import InterleavedRule
from canvas.cells.rules.latent_lattice import LatentLatticeRule
from canvas.cells.rules.latent_long import (
    LatentAccumulateRule,
    LatentInterleavedRule,
    LatentRunningSumRule,
    LatentStandardRule,
)
from canvas.cells.rules.lattice import LatticeRule
from canvas.cells.rules.running_sum import RunningSumRule
from canvas.cells.rules.standard import StandardRule
from canvas.choices import one_of
from canvas.layouts import ANSWER, PARTIAL, SUM, CellIndex, Layout, Row, table, write
from canvas.problems import Problems
from canvas.task import TwoOperands


class RowLayout(Layout):
    """Base class of layouts with the operands in the top rows and the product in the last row."""

    sign = symbols.TIMES

    @abstractmethod
    def height(self, digits_b: int) -> int:
        """Return the number of rows of a worked solution, operands included."""

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths
        return self.height(digits_b), max(digits_a + digits_b, digits_b + 2)

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
    latent_rule = LatentStandardRule

    def height(self, digits_b: int) -> int:
        return digits_b + 3

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            yield Row(ANSWER, total, 0, 3 + i, b.lengths == i + 1)


class RunningSum(RowLayout):
    """All partial products, then all running sums: the additions are written out, too."""

    name = "running_sum"
    local_rule = RunningSumRule
    latent_rule = LatentRunningSumRule

    def height(self, digits_b: int) -> int:
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, partial, total, present in running_sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            yield Row(SUM, total, 0, 2 + i + b.lengths, present)


class Interleaved(RowLayout):
    """Each partial product followed at once by the running sum: a row needs those just above."""

    name = "interleaved"
    local_rule = InterleavedRule
    latent_rule = LatentInterleavedRule

    def height(self, digits_b: int) -> int:
        return 2 * digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        for i, partial, total, present in running_sums(*operands):
            yield Row(PARTIAL, partial, i, 2 + 2 * i, present)
            yield Row(SUM, total, 0, 3 + 2 * i, present)


class Accumulate(RowLayout):
    """One row a multiplier digit: the running total so far."""

    name = "accumulate"
    local_rule = AccumulateRule
    latent_rule = LatentAccumulateRule

    def height(self, digits_b: int) -> int:
        return digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        for i, _, total, present in running_sums(*operands):
            yield Row(SUM, total, 0, 2 + i, present)


class Direct(RowLayout):
    """a; ``*_b``; the product at once (implicit reasoning, Deng et al. 2023)."""

    name = "direct"

    def height(self, digits_b: int) -> int:
        return 3

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i, _, total, _ in running_sums(a, b):
            yield Row(ANSWER, total, 0, 2, b.lengths == i + 1)


class Lattice(Layout):
    """Multiplicand on top, one multiplier digit beside each row: nothing shifts, nothing grows.

    Row i contains t_i = ⌊t_(i−1) / base⌋ + a · b_i. The product is read down the last column of the
    grid and along its last row:

        _321_*      t_0 = 321·4            = 1284  → 4
        1284_4      t_1 = 128 + 321·5      = 1733  → 3
        1733_5      t_2 = 173 + 321·6      = 2099  → 2099
        2099_6                                       321 · 654 = 209934
    """

    name = "lattice"
    sign = symbols.TIMES
    margin = 2
    given_columns = 1
    local_rule = LatticeRule
    latent_rule = LatentLatticeRule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths
        return digits_b + 1, digits_a + 1 + self.margin

    def given_rows(self, problems: Problems) -> np.ndarray:
        return np.ones(len(problems), dtype=np.int64)

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        a, b = problems.operands
        write(content, 0, self.margin, a)
        content[:, 0, 0] = self.sign
        write(content.swapaxes(1, 2), 0, 1, b)

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        total: Numbers | None = None
        for i, partial, present in partial_products(*operands):
            total = partial if total is None else add_shifted(total.without_lowest(), partial)
            yield Row(SUM, total, 0, 1 + i, present)

    def implied_lengths(self, content: np.ndarray) -> list[int]:
        rows, columns = content.shape
        return [max(1, columns - self.margin), max(1, rows - 1)]

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        self._check_sign(sign, (0, content.shape[1] - 1))
        return {"multiplicand": content[0, : -self.margin][::-1], "multiplier": content[1:, -1]}

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        last, column = len(content) - 1, content.shape[1] - 1 - self.margin
        filled = np.flatnonzero(content[last, : column + 1] != symbols.BLANK).tolist() or [column]
        down = [(row, column) for row in range(1, last)]
        return [*down, *((last, place) for place in range(column, filled[0] - 1, -1))]


@dataclass
class Multiplication(TwoOperands):
    """The product of two numbers.

    Attributes:
        layout: one of `layouts`, or your own class.
        base: of the digits, 2 to 16.
        digits_a: fewest and most digits of the multiplicand.
        digits_b: fewest and most digits of the multiplier.
        long_bias: lengths are chosen with probability ∝ (digits of a · digits of b) ^ long_bias.
            0 chooses every pair of lengths evenly; 1 long operands more often.
        smallest: the smallest operand of random problems, 0 or 1.
    """

    layouts = table([Standard(), RunningSum(), Interleaved(), Accumulate(), Lattice(), Direct()])
    sign, signs = "x", "x*×X"

    layout: str = one_of("lattice", layouts, open=True)
    smallest: int = 1

    def answer(self, operands: Sequence[int]) -> int:
        return prod(operands)
