"""Local rule of `canvas.multiplication.Interleaved`.

The layout writes a partial product, the sum so far, the next partial product, and so on.

Example, 47 x 36:

    __47
    *_36
    _282
    _282
    141_
    1692

The cell in row 6, column 2 from the right:

- reads from right: multiplier special, carry -, sum_carry 0
- reads from above: row 3, column_multiplicand 7, column_multiplier 0, zero 0, sum 8,
  product 1
- reads from above left: diagonal -
- reads from above right: passing -
- writes: 9
- decides: multiplier special, carry -, sum_carry 0, row 4, column_multiplicand -,
  column_multiplier -, zero 0, sum 9, product -, diagonal 0, passing 7, number -, arriving
  0, multiplicand 7

"-" stands for none, and "special" for a class that is no digit: see the signals of the rule.
"""

from collections.abc import Mapping

import numpy as np

from canvas.cells.rules.long import READS, LongRule, ops_of
from canvas.cells.spec import Inputs


class InterleavedRule(LongRule):
    """Rule of `canvas.multiplication.Interleaved`: products and sums in turn.

    A row of a product passes the sum above it, and the digits of a and b, on to the row below. That
    row adds the product to the sum.
    """

    down = (*LongRule.down, "product")
    following = (0, LongRule.B, LongRule.PRODUCT, LongRule.SUM, LongRule.PRODUCT)
    straight = (LongRule.B, LongRule.PRODUCT)
    moving = (LongRule.SUM,)
    endless = (LongRule.B, LongRule.SUM)
    below: Mapping[str, tuple[str, ...]] = {"product": ("b", "sum"), "sum": ("product",)}
    ops = ops_of(
        READS
        | {
            "sum sum_carry": "above.product above.sum right.sum_carry",
            "symbol": "own.row own.product own.sum",
        }
    )

    def _multiplier(self, inputs: Inputs) -> np.ndarray:
        """Sums do not multiply."""
        found = super()._multiplier(inputs)
        return np.where((inputs["own.row"] == self.SUM) & (found > 0), self.special, found)

    def _sum(self, inputs: Inputs) -> dict[str, np.ndarray]:
        return self._added(inputs["above.product"], inputs)

    def _symbol(self, inputs: Inputs) -> np.ndarray:
        total = inputs["own.row"] == self.SUM
        return self._write(np.where(total, inputs["own.sum"], inputs["own.product"]))
