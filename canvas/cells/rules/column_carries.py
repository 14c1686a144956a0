"""Local rule of `canvas.addition.ColumnCarries`.

The carries have a row of their own above the sum. The layout has two addends.

Example, 47 + 36:

    __47
    +_36
    __1_
    __83

The cell in row 3, column 2 from the right:

- reads from right: sum_carry 1
- reads from above: row 2, addend 3, sum 4
- writes: 1
- decides: sum_carry 0, row 3, addend -, sum 8

"-" stands for none.
"""

import numpy as np

from canvas.cells.rules.column import ColumnRule, PairRule
from canvas.cells.rules.parts import value
from canvas.cells.spec import SYMBOL, Inputs
from canvas.symbols import BLANK, DIGIT_IDS


class ColumnCarriesRule(PairRule):
    """Rule of the layout `canvas.addition.ColumnCarries`, with two addends.

    Rows are counted. The third adds, writes the incoming carries, and passes down the sum alone.
    """

    down = ("row", *ColumnRule.down)

    def __init__(self, base: int) -> None:
        super().__init__(base)
        asked = self.rows["sum"]
        last = {"carries": asked, "sum": asked._replace(below=("carries",))}
        self.rows = {**self.rows, **last}

    def classes(self, signal: str) -> int:
        return 5 if signal == "row" else super().classes(signal)

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        found, carry = super().cell(outputs, inputs), inputs["right.sum_carry"]
        row = np.where(inputs["above"] > 0, np.minimum(inputs["above.row"] + 1, 4), 1)
        written = (carry > 0) & (found["sum"] > 0)  # not in column 0, into which none comes
        carries = np.where(written, DIGIT_IDS[value(carry)], BLANK)
        return found | {
            SYMBOL: np.where(row == 3, carries, found[SYMBOL]).astype(np.int64),
            "row": row,
            "addend": np.where(row < 3, found["addend"], 0),
        }
