"""Layouts, rules and tasks that deceive: they are wrong where no drawn canvas goes."""

from dataclasses import dataclass

import numpy as np

from canvas.addition import Addition, Column
from canvas.cells.rules.column import ColumnRule
from canvas.cells.rules.parts import value
from canvas.cells.spec import SYMBOL, TOKEN
from canvas.choices import one_of
from canvas.layouts import table
from canvas.symbols import BLANK, DIGIT_IDS, MASK
from canvas.task import TwoOperands

FAR = 16  # columns, more than drawn canvases have
PATTERN = (1, 0, 0, 0, 0, 0, 0, 0, 1)  # digits of a sum from the right: a number like 100000001


class Counting(ColumnRule):
    """The rule of sums, whose cells count columns; the last ones are wrong."""

    left = ("sum_carry", "place")

    def classes(self, signal):
        return FAR + 1 if signal == "place" else super().classes(signal)

    def errs(self, inputs, outputs, place):
        return place == FAR

    def place(self, inputs, outputs):
        return np.minimum(inputs["right.place"] + 1, FAR)

    def cell(self, names, inputs):
        outputs = super().cell(names, inputs)
        place = self.place(inputs, outputs)
        wrong = self.errs(inputs, outputs, place) & (outputs[SYMBOL] == DIGIT_IDS[0])
        outputs[SYMBOL] = np.where(wrong, DIGIT_IDS[1], outputs[SYMBOL])
        return outputs | {"place": place}


class Patterned(Counting):
    """The same, wrong after a pattern of digits in the row."""

    def place(self, inputs, outputs):
        state, digit = inputs["right.place"], value(outputs["sum"])
        wanted = np.array([*PATTERN, 2])[np.minimum(state, len(PATTERN))]
        begins = (digit == PATTERN[0]).astype(int)
        return np.where(digit == wanted, state + 1, begins)

    def errs(self, inputs, outputs, place):
        return inputs["right.place"] == len(PATTERN)


class Right(Counting):
    """A rule that counts and errs nowhere."""

    def errs(self, inputs, outputs, place):
        return place < 0


class Claiming(Right):
    """A rule that claims that no canvas has so many columns."""

    def can_occur(self, row, column, cell_inputs):
        return cell_inputs["right.place"] < FAR


class ClaimingNothing(Right):
    """A rule that excludes nothing."""

    def can_occur(self, row, column, cell_inputs):
        return cell_inputs[TOKEN] >= 0


class Coarse(Right):
    """A rule that distinguishes nothing of the rows above."""

    exact_together = False

    def reduced(self, signal, classes):
        return np.zeros_like(classes) - 3


class Lawful(Right):
    """A rule with laws."""

    def laws(self, row, column):
        return (self.the_sum, self.nothing_else) if row == "sum" else ()

    def the_sum(self, inputs, outputs):
        """base * sum_carry' + sum' = addend + sum + sum_carry"""
        total = value(inputs["above.addend"]) + value(inputs["above.sum"])
        total = total + value(inputs["right.sum_carry"])
        return self.base * value(outputs["sum_carry"]) + value(outputs["sum"]) == total

    def nothing_else(self, inputs, outputs):
        """digit' = sum', or blank; in the row of the sum"""
        digit = np.where(outputs["sum"] > 0, DIGIT_IDS[value(outputs["sum"])], BLANK)
        return (inputs[TOKEN] != MASK) | (outputs[SYMBOL] == digit)


class Lawless(Lawful):
    """The same laws of a rule that is wrong in far columns."""

    def errs(self, inputs, outputs, place):
        return place == FAR


class BadLaw(Lawful):
    """A law that returns one number."""

    def nothing_else(self, inputs, outputs):
        """1"""
        return np.array(1)


class Forged(Counting):
    """A rule that says that it is the package's."""

    __module__ = "canvas.cells.rules.column"


def layout_of(rule: type[ColumnRule]) -> Column:
    """A layout of sums with a rule of its own."""
    return type(rule.__name__, (Column,), {"name": rule.__name__, "local_rule": rule})()


RULES = (Counting, Patterned, Right, Claiming, ClaimingNothing, Coarse, Lawful, Lawless, BadLaw)


@dataclass
class Sums(TwoOperands):
    """Sums of two numbers, on canvases whose rules may be wrong."""

    layouts = table([layout_of(rule) for rule in (*RULES, Forged)])
    sign, signs, smallest = "+", "+", 0

    layout: str = one_of("Counting", layouts, open=True)

    def answer(self, operands):
        return sum(operands)


@dataclass
class RarelyWrong(Addition):
    """The package's layout and rule; the answer is wrong of one problem."""

    def answer(self, operands):
        return sum(operands) + (70007 in operands)
