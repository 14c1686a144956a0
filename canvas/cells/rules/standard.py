"""Local rule of `canvas.multiplication.Standard`.

The layout writes the partial products one below the other, and then their sum. Each cell computes a
digit of its row's product and a digit of the sum of all products so far. The sum is passed straight
down, and the last row writes it.

Example, 47 x 36:

    __47
    *_36
    _282
    141_
    1692

The cell in row 4, column 2 from the right:

- reads from right: multiplier 3, carry -, sum_carry 0
- reads from above: row 3, column_multiplicand -, column_multiplier -, zero 0, sum 8
- reads from above left: diagonal -
- reads from above right: passing 7
- writes: 1
- decides: multiplier 3, carry 2, sum_carry 0, row 3, column_multiplicand -,
  column_multiplier -, zero 0, sum 9, diagonal -, passing 7, adds 1, number -, arriving -,
  multiplicand 7, product 1, total 0

"-" stands for none.
"""

from collections.abc import Mapping

import numpy as np

from canvas.cells.rules.long import READS, LongRule, ops_of
from canvas.cells.spec import Inputs


class StandardRule(LongRule):
    """Rule of the layout `canvas.multiplication.Standard`: partial products, and then their sum.

    The running sum is passed straight down. The row in whose column 0 no digit of b arrives writes
    it.
    """

    below: Mapping[str, tuple[str, ...]] = {"worked": ("b", "worked")}
    ops = ops_of(
        {"adds": "above.sum"}
        | READS
        | {
            "multiplier": "own.row own.arriving own.adds right.multiplier above.zero",
            "total": "own.multiplier",
            "symbol": "own.total own.product own.sum",
        }
    )

    def _adds(self, inputs: Inputs) -> np.ndarray:
        return np.minimum(inputs["above.sum"], 1)

    def _multiplier(self, inputs: Inputs) -> np.ndarray:
        total = np.where(inputs["own.adds"] > 0, self.special, 0)
        found = super()._multiplier(inputs)
        return np.where((found == 0) & (inputs["own.row"] == self.PRODUCT), total, found)

    def _total(self, inputs: Inputs) -> np.ndarray:
        return inputs["own.multiplier"] == self.special

    def _symbol(self, inputs: Inputs) -> np.ndarray:
        return self._write(np.where(inputs["own.total"], inputs["own.sum"], inputs["own.product"]))
