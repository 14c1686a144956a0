"""Local rule of `canvas.addition.Column`.

A running sum is passed down the columns, for any number of addends.

Example, 47 + 36:

    __47
    +_36
    __83

The cell in row 3, column 2 from the right:

- reads from right: sum_carry 1
- reads from above: addend 3, sum 4
- writes: 8
- decides: sum_carry 0, addend -, sum 8

"-" stands for none.
"""

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import columns, digit_class, value
from canvas.cells.spec import SYMBOL, TOKEN, Inputs, RowKind
from canvas.drawing import WorkedDrawing
from canvas.symbols import BLANK, DIGIT_IDS, MASK, PLUS


class ColumnRule(LocalRule):
    """Rule of the layout `canvas.addition.Column`, for any number of addends.

    A running sum is passed down. A cell reads the digit above, and the sum of all rows above that
    digit, and adds them. The last row writes the sum.
    """

    left = ("sum_carry",)
    down: tuple[str, ...] = ("addend", "sum")
    probe_targets = ("first_addend", "addend_above", "digit_sum")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        given = columns((BLANK,), self.digits, (*self.digits, BLANK, PLUS))
        asked, first = columns((MASK,), (MASK,), (MASK,)), ("margin", "edge")
        self.rows = {
            "addend": RowKind(given, first, ("", "addend")),
            "sum": RowKind(asked, first, ("addend",)),
        }

    def classes(self, signal: str) -> int:
        return 3 if signal == "sum_carry" else 1 + self.base

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        there, addend, above = inputs["above"] > 0, inputs["above.addend"], inputs["above.sum"]
        carried = inputs["right.sum_carry"] == 2
        stands = there & ((addend > 0) | (above > 0) | carried)
        sum_carry, digit = np.divmod(value(addend) + value(above) + carried, self.base)
        known = stands | (there & (inputs["right.sum_carry"] > 0))
        return {
            SYMBOL: np.where(stands, DIGIT_IDS[digit], BLANK).astype(np.int64),
            "sum_carry": np.where(known, 1 + sum_carry, 0),
            "addend": digit_class(inputs[TOKEN], self.base),
            "sum": np.where(stands, 1 + digit, 0),
        }

    def draw_probe_targets(self, drawing: WorkedDrawing) -> dict[str, np.ndarray]:
        """Return parts of a sum of two numbers besides ``sum_carry``, as labels of probes.

        - ``first_addend``, ``addend_above``: the digits of the first addend and of the last one
          above in this column. A probe for them tests whether a model aligns the addends.
        - ``digit_sum``: sum of all digits above in the column, modulo the base, without the carry.
        """
        given = np.where(drawing.given, drawing.truth, BLANK)
        above = digit_class(np.pad(given, ((0, 0), (1, 0), (0, 0)))[:, :-1], self.base)
        rows = np.arange(above.shape[1])
        first = np.take_along_axis(above, (drawing.top + 1)[:, None, None], axis=1)
        first = np.where((rows > drawing.top[:, None])[:, :, None], first, 0)
        total = 1 + value(above).cumsum(axis=1) % self.base
        total = np.where(above.cumsum(axis=1) > 0, total, 0)
        return dict(zip(self.probe_targets, (first, above, total), strict=True))


class PairRule(ColumnRule):
    """Rule of the same layout for two addends, and no more."""

    most_operands = 2

    def __init__(self, base: int) -> None:
        super().__init__(base)
        addend, asked = self.rows["addend"], self.rows["sum"]
        self.rows = {
            "first": addend._replace(below=("",)),
            "last": addend._replace(below=("first",)),
            "sum": asked._replace(below=("last",)),
        }
