"""Local rule of `canvas.multiplication.Accumulate`.

The layout adds each partial product to the row above, and writes the sums alone.

Example, 47 x 36:

    __47
    *_36
    _282
    1692

The cell in row 4, column 2 from the right:

- reads from right: multiplier 3, carry -, sum_carry 0
- reads from above: row 3, column_multiplicand -, column_multiplier -, zero 0, sum 8
- reads from above left: diagonal 0
- reads from above right: passing 7
- writes: 9
- decides: multiplier 3, carry 2, sum_carry 0, row 3, column_multiplicand -,
  column_multiplier -, zero 0, sum 9, diagonal 0, passing 7, number -, arriving 0,
  multiplicand 7, product 1

"-" stands for none.
"""

from collections.abc import Mapping

import numpy as np

from canvas.cells.rules.long import READS, LongRule, ops_of
from canvas.cells.spec import Inputs


class AccumulateRule(LongRule):
    """Rule of `canvas.multiplication.Accumulate`: each row adds its product to that above."""

    endless: tuple[int, ...] = (LongRule.B, LongRule.PRODUCT)
    below: Mapping[str, tuple[str, ...]] = {"total": ("b", "total")}
    ops = ops_of(READS | {"symbol": "own.sum"})

    def _symbol(self, inputs: Inputs) -> np.ndarray:
        return self._write(inputs["own.sum"])
