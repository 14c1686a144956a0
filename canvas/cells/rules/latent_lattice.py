"""Local rule of `canvas.multiplication.Lattice`, for models without hints.

The cells read written digits and a single carry, so that a model can learn it without hints.

Example, 47 x 36:

    _47_*
    282_6
    169_3

The cell in row 3, column 4 from the right:

- reads from right: multiplier 3, carry 2
- reads from above: multiplicand 4
- reads from above left: addend 2
- writes: 6
- decides: multiplier 3, carry 1, multiplicand 4, addend 6

"-" stands for none.
"""

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.lattice import LatticeRule
from canvas.cells.rules.parts import digit_class, value
from canvas.cells.spec import SYMBOL, TOKEN, Inputs
from canvas.symbols import BLANK, DIGIT_IDS


class LatentLatticeRule(LocalRule):
    """Rule of the same layout for cells that read digits of the canvas and one carry.

    A cell reads the digit of a on top of its column, that of b beside its row, and that of t_(i−1)
    above left. ``carry`` is ⌊(a · b + t + carry) / base⌋. The class after that of the largest digit
    marks the beginning of a row.
    """

    left = ("multiplier", "carry")
    down = ("multiplicand",)
    down_right = ("addend",)

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self.rows = LatticeRule(base).rows

    def classes(self, signal: str) -> int:
        return self.base + (2 if signal == "carry" else 1)

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        number = digit_class(inputs[TOKEN], self.base)
        top, multiplier, carried = (
            inputs["above"] == 0,
            inputs["right.multiplier"],
            inputs["right.carry"],
        )
        a, addend = inputs["above.multiplicand"], inputs["above_left.addend"]
        in_row = ~top & (multiplier > 0)
        gap, grid = in_row & (carried == 0), in_row & (carried > 0)
        begins = carried > self.base
        total = value(a) * value(multiplier) + value(addend)
        carry, digit = np.divmod(total + np.where(begins, 0, value(carried)), self.base)
        inside = np.where(multiplier > 1, a, addend) > 0
        stands = grid & (begins | (digit > 0) | inside)
        return {
            SYMBOL: np.where(stands, DIGIT_IDS[digit], BLANK).astype(np.int64),
            "multiplier": np.where(in_row, multiplier, np.where(top, 0, number)),
            "carry": np.where(gap, self.base + 1, np.where(grid, 1 + carry % self.base, 0)),
            "multiplicand": np.where(top, number, np.where(grid, a, 0)),
            "addend": np.where(stands, 1 + digit, 0),
        }
