"""User-defined layout of a + 2 b, and variants with mistakes in the local rule."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from canvas.addition import Column
from canvas.arithmetic import add_shifted
from canvas.cells.rules.column import PairRule
from canvas.cells.rules.parts import digit_class, value
from canvas.cells.spec import SYMBOL, TOKEN
from canvas.choices import one_of
from canvas.layouts import ANSWER, Row, table
from canvas.symbols import BLANK, DIGIT_IDS
from canvas.task import TwoOperands


class TwiceRule(PairRule):
    """Local rule whose last row is a + 2 b: rows are counted, and digits are passed down."""

    left = ("sum_carry",)
    down = ("row", "a", "b")
    times: ClassVar[int] = 2

    def classes(self, signal):
        return {"row": 4, "sum_carry": 5}.get(signal, 1 + self.base)

    def cell(self, outputs, seen):
        row = np.where(seen["above"] > 0, np.minimum(seen["above.row"] + 1, 3), 1)
        a, b, carry = seen["above.a"], seen["above.b"], seen["right.sum_carry"]
        over, digit = np.divmod(value(a) + self.times * value(b) + value(carry), self.base)
        stands = (row == 3) & ((a > 0) | (b > 0) | (carry > 1))
        here = digit_class(seen[TOKEN], self.base)
        return {
            SYMBOL: np.where(stands, DIGIT_IDS[digit], BLANK).astype(np.int64),
            "sum_carry": np.where(stands | ((row == 3) & (carry > 0)), 1 + over, 0),
            "row": row,
            "a": np.where(row == 1, here, np.where(row == 2, a, 0)),
            "b": np.where(row == 2, here, 0),
        }


class ThriceRule(TwiceRule):
    """Rule with a mistake: it computes a + 3 b, but the canvas has a + 2 b."""

    times = 3


class NoFourRule(TwiceRule):
    """Rule with a mistake: its rows omit the digit 4 in b, so some inputs are missing."""

    def __init__(self, base):
        super().__init__(base)
        row = self.rows["last"]
        four = DIGIT_IDS[4]
        columns = {
            name: column._replace(tokens=tuple(t for t in column.tokens if t != four))
            for name, column in row.columns.items()
        }
        self.rows = self.rows | {"last": row._replace(columns=columns)}


class FewClassesRule(TwiceRule):
    """Rule with a mistake: the carry has one class too few."""

    def classes(self, signal):
        return 3 if signal == "sum_carry" else super().classes(signal)


class Twice(Column):
    """Layout with a, b and a + 2 b below each other."""

    name = "twice"
    local_rule = TwiceRule

    def room(self, lengths, base):
        return 3, max(lengths) + 2

    def rows(self, operands):
        a, b = operands
        total = add_shifted(add_shifted(a, b), b)
        yield Row(ANSWER, total, shift=0, row=2, present=total.lengths > 0)


class Thrice(Twice):
    name = "thrice"
    local_rule = ThriceRule


class NoFour(Twice):
    name = "no_four"
    local_rule = NoFourRule


class FewClasses(Twice):
    name = "few_classes"
    local_rule = FewClassesRule


@dataclass
class AddTwice(TwoOperands):
    """Task a + 2 b."""

    layouts = table([Twice(), Thrice(), NoFour(), FewClasses()])
    sign, signs = "+", "+"
    smallest = 0

    layout: str = one_of("twice", layouts, open=True)

    def answer(self, operands):
        return operands[0] + 2 * operands[1]


@dataclass
class AddOnce(AddTwice):
    """Task with the same canvases, but a different answer."""

    def answer(self, operands):
        return operands[0] + operands[1]
