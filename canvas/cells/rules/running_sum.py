"""Local rule of `canvas.multiplication.RunningSum`.

The layout writes all partial products, and then all running sums.

Example, 47 x 36:

    __47
    *_36
    _282
    141_
    _282
    1692

The cell in row 4, column 2 from the right:

- reads from right: multiplier 3, carry -, sum_carry -, row 5
- reads from above: row 3, column_multiplicand 4, column_multiplier 3, zero 0, sum -
- reads from above left: diagonal -
- reads from above right: passing 7
- writes: 1
- decides: multiplier 3, carry 2, sum_carry -, row 5, column_multiplicand 4,
  column_multiplier 3, zero 0, sum -, diagonal -, passing 7, comes 1, number -, arriving -,
  multiplicand 7, product 1

"-" stands for none.
"""

from collections.abc import Mapping

import numpy as np

from canvas.cells.rules.long import READS, LongRule, ops_of
from canvas.cells.spec import Inputs


class RunningSumRule(LongRule):
    """Rule of `canvas.multiplication.RunningSum`: all products, then all running sums.

    A row of a sum computes the product once more. For that, the digits of a and b also go straight
    down through all products, to the first row in whose column 0 no digit of b arrives.

    - ``comes``: 2 if a digit of b reaches the cell diagonally, 1 if only straight from above.
    """

    left = (*LongRule.left, "row")
    straight = (LongRule.B, LongRule.PRODUCT, LongRule.LATER_PRODUCT)
    endless = (LongRule.SUM, LongRule.LATER_SUM)
    moving = (LongRule.PRODUCT, LongRule.LATER_PRODUCT, *endless)
    below: Mapping[str, tuple[str, ...]] = {"worked": ("b", "worked")}
    ops = ops_of(
        {"comes": "above.column_multiplier above_left.diagonal"}
        | READS
        | {
            "row": "above above.row own.comes right.row",
            "multiplicand": "own.row above.column_multiplicand above_right.passing",
            "column_multiplicand": "own.row own.number above.column_multiplicand",
            "column_multiplier": "own.row own.number above.column_multiplier",
            "sum sum_carry": "own.row own.product above.sum right.sum_carry",
            "symbol": "own.row own.product own.sum",
        }
    )

    def _comes(self, inputs: Inputs) -> np.ndarray:
        straight = np.minimum(inputs["above.column_multiplier"], 1)
        return np.where(inputs["above_left.diagonal"] > 0, 2, straight)

    def _row(self, inputs: Inputs) -> np.ndarray:
        """Return the kind of row; below the first product none on the right of column 0."""
        begins = np.array([0, self.SUM, self.LATER_PRODUCT])[inputs["own.comes"]]
        later = np.where(inputs["right.row"] > 0, inputs["right.row"], begins)
        product = np.isin(inputs["above.row"], (self.PRODUCT, self.LATER_PRODUCT))
        following = np.array([0, self.B, self.PRODUCT, 0, self.LATER_SUM, 0, self.LATER_SUM])
        below = np.where(product, later, following[inputs["above.row"]])
        return np.where(inputs["above"] > 0, below, self.A)

    def _here(self, inputs: Inputs, straight: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Return digits from straight above in three kinds of rows, else those that moved."""
        return np.where(self._is(inputs, (self.B, self.PRODUCT, self.SUM)), straight, moved)

    def _column_multiplicand(self, inputs: Inputs) -> np.ndarray:
        """Pass on the message from straight above, and not the digit that moved here."""
        straight = inputs["above.column_multiplicand"]
        return super()._column_multiplicand(Inputs(inputs | {"own.multiplicand": straight}))

    def _column_multiplier(self, inputs: Inputs) -> np.ndarray:
        own = inputs["own.row"] == self.B
        straight = np.where(own, inputs["own.number"], inputs["above.column_multiplier"])
        return super()._column_multiplier(Inputs(inputs | {"own.arriving": straight}))

    def _sum(self, inputs: Inputs) -> dict[str, np.ndarray]:
        adds = self._is(inputs, self.endless)
        found = self._added(np.where(adds, inputs["own.product"], 0), inputs)
        return {name: np.where(adds, of, 0) for name, of in found.items()}

    def _symbol(self, inputs: Inputs) -> np.ndarray:
        total = self._is(inputs, self.endless)
        return self._write(np.where(total, inputs["own.sum"], inputs["own.product"]))
