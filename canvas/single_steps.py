"""Single steps of long multiplication and addition, as tasks of their own.

A model that has learned one of them can begin the whole task with its weights (`trm fit
--weights`): what transfers is what the step has in common with it. They have the operands, symbols
and places of rows of the whole task, the layouts `standard` and `column`. A config names a task by
its class, like ``canvas.single_steps.Alignment``; that is all they need.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from canvas.addition import Addition, Column
from canvas.arithmetic import Numbers
from canvas.choices import one_of
from canvas.layouts import ANSWER, PARTIAL, Row, table
from canvas.multiplication import RowLayout
from canvas.task import TwoOperands


class Aligned(RowLayout):
    """The multiplicand below each digit of the multiplier:

    _321
    *_54
    _321
    321_
    """

    name = "aligned"

    def height(self, digits_b: int) -> int:
        return digits_b + 2

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i in range(int(b.lengths.max())):
            yield Row(PARTIAL, a, i, 2 + i, i < b.lengths)


class DigitProducts(Aligned):
    """The last digits of the products of two digits each, in the columns of `Aligned`:

    _321
    *_54     4 · 3 = 12, 4 · 2 = 8, 4 · 1 = 4
    _284     5 · 3 = 15, 5 · 2 = 10, 5 · 1 = 5
    505_
    """

    name = "digit_products"

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        a, b = operands
        for i in range(int(b.lengths.max())):
            products = a.digits.astype(np.int64) * b.digits[:, i : i + 1] % a.base
            yield Row(
                PARTIAL, replace(a, digits=products.astype(np.uint8)), i, 2 + i, i < b.lengths
            )


class CarrylessColumn(Column):
    """`Column` in which nothing is carried:

    __87_
    _604_
    _+_9_     7 + 4 + 9 = 20, 8 + 0 = 8, 6
    _680_
    """

    name = "carryless_column"

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        width = max(numbers.digits.shape[1] for numbers in operands)
        columns = np.sum([numbers.padded(width).astype(np.int64) for numbers in operands], axis=0)
        lengths = np.max([numbers.lengths for numbers in operands], axis=0)
        base, row = operands[0].base, np.sum([numbers.lengths > 0 for numbers in operands], axis=0)
        total = Numbers((columns % base).astype(np.uint8), lengths, base)
        yield Row(ANSWER, total, 0, row, np.ones(len(total), dtype=bool))


@dataclass
class Alignment(TwoOperands):
    """Align only: a copy of a for each digit of b; the answer is the last copy."""

    layouts = table([Aligned()])
    sign, signs = "x", "x*×X"

    layout: str = one_of("aligned", layouts, open=True)

    def answer(self, operands: Sequence[int]) -> int:
        return operands[0]


@dataclass
class Products(TwoOperands):
    """Digit products only: without carries and sum; the answer is those of b's highest digit."""

    layouts = table([DigitProducts()])
    sign, signs = "x", "x*×X"

    layout: str = one_of("digit_products", layouts, open=True)

    def answer(self, operands: Sequence[int]) -> int:
        a, b = (_digits(number, self.base) for number in operands)
        return _number([digit * b[-1] for digit in a], self.base)


@dataclass
class CarrylessSum(Addition):
    """Sums without carry: the last digit of the sum of each column."""

    layouts = table([CarrylessColumn()])

    layout: str = one_of("carryless_column", layouts, open=True)

    def answer(self, operands: Sequence[int]) -> int:
        numbers = [_digits(number, self.base) for number in operands]
        columns = range(max(map(len, numbers)))
        return _number([sum(n[k] for n in numbers if k < len(n)) for k in columns], self.base)


def _digits(number: int, base: int) -> list[int]:
    """Return the digits of a number, the lowest first; 0 has one."""
    digits = [number % base]
    while number := number // base:
        digits.append(number % base)
    return digits


def _number(columns: Sequence[int], base: int) -> int:
    """Return the number whose digits are the last digits of columns, the lowest first."""
    return reduce(lambda value, column: value * base + column % base, reversed(columns), 0)
