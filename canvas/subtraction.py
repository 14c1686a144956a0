"""Long subtraction: the task, its layout, and the layout's local rule.

Example of the rule, 47 - 29:

    __47
    -_29
    __18

The cell in row 3, column 2 from the right:

- reads from right: borrow 1
- reads from above: minuend 4, subtrahend 2
- writes: 1
- decides: borrow 0, minuend -, subtrahend -

"-" stands for none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from canvas import symbols
from canvas.addition import Column
from canvas.arithmetic import Numbers, subtract_shifted
from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import aligned, digit_class, value
from canvas.cells.spec import SYMBOL, TOKEN, Inputs, RowKind
from canvas.choices import one_of
from canvas.layouts import ANSWER, Row, table
from canvas.problems import Problems
from canvas.symbols import BLANK, DIGIT_IDS, MASK, MINUS
from canvas.task import TwoOperands


class DifferenceRule(LocalRule):
    """Rule of the layout `Difference`: a cell subtracts the digits of its column, and the borrow.

    Columns from the right: the blank margin, those with a digit of a, and those beyond.
    """

    left = ("borrow",)
    down = ("minuend", "subtrahend")
    sign = MINUS

    def __init__(self, base: int) -> None:
        super().__init__(base)
        blank, asked = (BLANK,), (MASK,)
        a = aligned(blank, self.digits, self.digits, blank)
        b = aligned(blank, self.digits, (*self.digits, BLANK, MINUS), (BLANK, MINUS))
        first = ("margin", "edge")
        self.rows = {
            "a": RowKind(a, first, ("",)),
            "b": RowKind(b, first, ("a",)),
            "difference": RowKind(aligned(asked, asked, asked, asked), first, ("b",)),
        }

    def classes(self, signal: str) -> int:
        return 3 if signal == "borrow" else 1 + self.base

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        """Exclude a borrow beyond the highest digit of a: there is none, as a is at least b."""
        beyond = row == "difference" and column == "beyond"
        return ~(beyond & (cell_inputs["right.borrow"] == 2))

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        token, minuend = inputs[TOKEN], inputs["above.minuend"]
        top, asked = inputs["above"] == 0, token == MASK
        taken = value(inputs["above.subtrahend"]) + value(inputs["right.borrow"])
        borrow, digit = np.divmod(value(minuend) - taken, self.base)
        stands, number = asked & (minuend > 0), digit_class(token, self.base)
        return {
            SYMBOL: np.where(stands, DIGIT_IDS[digit], BLANK).astype(np.int64),
            "borrow": np.where(stands, 1 - borrow, 0),
            "minuend": np.where(top, number, np.where(asked, 0, minuend)),
            "subtrahend": np.where(top, 0, number),
        }


class Difference(Column):
    """The numbers below each other, the sign before the second; the difference:

    _604
    -_87
    _517

    The difference has as many digits as the first number, so it can begin with zeros.
    """

    name = "difference"
    sign = symbols.MINUS
    local_rule = DifferenceRule

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        digits_a, digits_b = lengths
        return 3, max(digits_a, digits_b + 2)

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        difference = replace(subtract_shifted(a, b), lengths=a.lengths)
        yield Row(ANSWER, difference, 0, 2, np.ones(len(a), dtype=bool))


@dataclass
class Subtraction(TwoOperands):
    """The difference of two numbers from 0 up, of which the first is not the smaller one.

    Attributes:
        layout: one of `layouts`, or your own class.
        base: of the digits, 2 to 16.
        digits_a: fewest and most digits of the first number.
        digits_b: fewest and most digits of the second number.
        long_bias: lengths are chosen with probability ∝ (digits of a · digits of b) ^ long_bias.
    """

    layouts = table([Difference()])
    sign, signs = "-", "-−"
    smallest = 0
    requires = "the second number has to be at most the first one"

    layout: str = one_of("difference", layouts, open=True)

    def answer(self, operands: Sequence[int]) -> int:
        return operands[0] - operands[1]

    def allows(self, problems: Problems) -> np.ndarray:
        return problems.operands[0].at_least(problems.operands[1])

    @property
    def example(self) -> str:
        return self.sign.join(map(self._written, ("456", "123")))
