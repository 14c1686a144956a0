"""Local rules of the layouts that people write, for models without hints for some signals.

A cell passes on the signals of the rule with hints, and the digit that is written, and decides them
all at once: it has no ops. Those that a network lists in its ``codes`` are latent codes, others are
hints. So it can be told where digits go, for example, and invent carries and sums by itself.

Example, 47 x 36:

    __47
    *_36
    _282
    1692

The cell in row 4, column 2 from the right:

- reads from right: multiplier 3, carry -, sum_carry 0
- reads from above: written 8, row 3, column_multiplicand -, column_multiplier -, zero 0,
  sum 8
- reads from above left: diagonal -
- reads from above right: passing 7
- writes: 9
- decides: multiplier 3, carry 2, sum_carry 0, written 9, row 3, column_multiplicand -,
  column_multiplier -, zero 0, sum 9, diagonal -, passing 7

"-" stands for none.
"""

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.accumulate import AccumulateRule
from canvas.cells.rules.interleaved import InterleavedRule
from canvas.cells.rules.long import LongRule
from canvas.cells.rules.parts import digit_class
from canvas.cells.rules.running_sum import RunningSumRule
from canvas.cells.rules.standard import StandardRule
from canvas.cells.spec import SYMBOL, TOKEN, Inputs
from canvas.symbols import MASK

_WRITTEN = "written"


class LatentLongRule(LocalRule):
    """Rule of a layout with the messages of `hinted` and the digit that is written, in one op."""

    hinted: type[LongRule]  # the layout's rule with several ops

    def __init__(self, base: int) -> None:
        self.parts = self.hinted(base)
        self.rows, self.exact_together = self.parts.rows, self.parts.exact_together
        self.left, self.down = self.parts.left, (_WRITTEN, *self.parts.down)
        self.down_right, self.down_left = self.parts.down_right, self.parts.down_left
        super().__init__(base)

    def classes(self, signal: str) -> int:
        return 1 + self.base if signal == _WRITTEN else self.parts.classes(signal)

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Reduce each signal as `hinted` does; a written digit follows from the others."""
        if signal == _WRITTEN:
            return np.zeros_like(classes)
        return self.parts.reduced(signal, classes)

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        return self.parts.can_occur(row, column, cell_inputs)

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        known = dict(inputs)
        for name in inputs:
            if signal := name.partition(".")[2]:
                # A code of a network can exceed the classes; what follows from codes is not used.
                known[name] = inputs[name] % self.classes(signal)
        found = self.parts.apply(known)
        token, symbol = inputs[TOKEN], found[SYMBOL].astype(np.int64)
        written = digit_class(np.where(token == MASK, symbol, token), self.base)
        passed = {name: found[name] for of in self.parts.messages.values() for name in of}
        return {SYMBOL: symbol, _WRITTEN: written, **passed}


class LatentStandardRule(LatentLongRule):
    """Rule of `canvas.multiplication.Standard` for models without hints."""

    hinted = StandardRule


class _DrawnAccumulateRule(AccumulateRule):
    """`AccumulateRule` on the canvases that are drawn, without rows below that of b's last digit.

    A model with hints is correct in such rows, too: zeros on the left of b are passed on. A model
    without hints has learned nothing of them.
    """

    endless = ()

    def can_occur(self, row: str, column: str, cell_inputs: Inputs) -> np.ndarray:
        """Leave out what no drawn canvas has.

        - Row i of the products exists if b has a digit i. It comes to column 0.
        - The leftmost column is on the left of a's digits: there are as many columns as a and b
          have digits, and in row i those of a begin in column i.
        - On the left of a's digits in row i the row above is blank: a sum of i products of a and
          a digit has at most i digits more than a.
        """
        of_a = self._multiplicand(cell_inputs)
        possible = (cell_inputs["above_left"] > 0) | (of_a == 0) | (of_a == self.special)
        if row in self.below:
            possible &= (of_a != self.special) | (cell_inputs["above.sum"] == 0)
        if row in self.below and column in ("units", "edge"):
            of_b = cell_inputs["above.column_multiplier"], cell_inputs["above_left.diagonal"]
            arriving = self._here(cell_inputs, *of_b)
            possible &= (arriving > 0) & (arriving < self.special)
        return possible


class LatentAccumulateRule(LatentLongRule):
    """Rule of `canvas.multiplication.Accumulate` for models without hints."""

    hinted = _DrawnAccumulateRule


class LatentInterleavedRule(LatentLongRule):
    """Rule of `canvas.multiplication.Interleaved` for models without hints."""

    hinted = InterleavedRule


class LatentRunningSumRule(LatentLongRule):
    """Rule of `canvas.multiplication.RunningSum` for models without hints."""

    hinted = RunningSumRule
