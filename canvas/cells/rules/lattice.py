"""Local rule of `canvas.multiplication.Lattice`.

A cell of row i computes a digit of t_i = ⌊t_(i−1) / base⌋ + a · b_i.

Example, 47 x 36:

    _47_*
    282_6
    169_3

The cell in row 3, column 4 from the right:

- reads from right: multiplier 3, product 4, carry 1, sum_carry 0
- reads from above: addend 8, multiplicand 4
- reads from above left: addend 2, multiplicand -
- writes: 6
- decides: multiplier 3, product 1, carry 0, sum_carry 0, addend 6, multiplicand 4

"-" stands for none.
"""

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import digit_class, value
from canvas.cells.spec import END, SYMBOL, TOKEN, Column, Inputs, RowKind
from canvas.symbols import BLANK, DIGIT_IDS, MASK, TIMES


class LatticeRule(LocalRule):
    """Rule of the layout `canvas.multiplication.Lattice`: a cell of row i is a digit of t_i.

    t_i = ⌊t_(i−1) / base⌋ + a · b_i. The column of a cell contains a digit of a, its row a digit of
    b. The cell adds the digit of t_(i−1) above left. The product of two digits is computed by one
    cell and added by the next.

    Columns from the right: the blank margin, the column of the sign and of b's digits, a gap, and
    the grid.
    """

    left = ("multiplier", "product", "carry", "sum_carry")
    down = down_right = ("addend", "multiplicand")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        digits, leading, blank = self.digits, self.digits[1:], (BLANK,)
        # a, without gaps and leading zeros. The canvas has one column more than a has digits.
        top = {
            "margin": Column("margin", blank, ("margin", "sign")),
            "sign": Column("sign", (TIMES,), ("gap",)),
            "edge": Column("edge", (TIMES,), ("gap",)),  # the same without a margin
            "gap": Column("gap", blank, ("units", "only")),
            "units": Column("units", digits, ("tens", "last_tens")),
            "only": Column("units", digits, ("no_tens",)),
            "tens": Column("tens", digits, ("digit", "last")),
            "last_tens": Column("tens", leading, ("blank",)),
            "no_tens": Column("tens", blank, ("blank", END)),
            "digit": Column("rest", digits, ("digit", "last")),
            "last": Column("rest", leading, ("blank",)),
            "blank": Column("rest", blank, ("blank", END)),
        }
        asked = (MASK,)
        below = {
            "margin": Column("margin", asked, ("margin", "multiplier")),
            "multiplier": Column("sign", digits, ("gap",)),
            "edge": Column("edge", digits, ("gap",)),
            "gap": Column("gap", asked, ("units",)),
            "units": Column("units", asked, ("tens",)),
            "tens": Column("tens", asked, ("rest", END)),
            "rest": Column("rest", asked, ("rest", END)),
        }
        self.rows = {
            "multiplicand": RowKind(top, ("margin", "edge"), ("",)),
            "total": RowKind(below, ("margin", "edge"), ("multiplicand", "total")),
        }

    def classes(self, signal: str) -> int:
        return 3 if signal == "sum_carry" else 1 + self.base

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        base, number = self.base, digit_class(inputs[TOKEN], self.base)
        top, multiplier, carry = (
            inputs["above"] == 0,
            inputs["right.multiplier"],
            inputs["right.carry"],
        )
        # The kind of column follows from the message from the right.
        in_margin = ~top & (multiplier == 0)
        of_b = in_margin & (number > 0)
        gap = ~top & (multiplier > 0) & (carry == 0)
        grid = ~top & (multiplier > 0) & (carry > 0)
        units = grid & (inputs["right.sum_carry"] == 0)
        ahead = gap | grid
        # The product that the cell on the left adds: 10 · carry' + product' = a · b + carry.
        a, b = inputs["above_left.multiplicand"], value(multiplier)
        next_carry, product = np.divmod(value(a) * b + value(carry), base)
        written = (a > 0) | (product > 0)
        # The sum: 10 · sum_carry' + digit = the digit above left + product + sum_carry.
        addend, adds = (
            inputs["above_left.addend"],
            (inputs["right.product"], inputs["right.sum_carry"]),
        )
        sum_carry, digit = np.divmod(value(addend) + sum(map(value, adds)), base)
        # Without leading zeros: those of t_(i−1), unless b_i is 0, reach as far as a does.
        inside = np.where(b > 0, inputs["above.multiplicand"], addend) > 0
        stands = grid & (units | (digit > 0) | inside)
        return {
            SYMBOL: np.where(stands, DIGIT_IDS[digit], BLANK).astype(np.int64),
            "multiplier": np.where(of_b, number, np.where(ahead, multiplier, 0)),
            "product": np.where(ahead & written, 1 + product, 0),
            "carry": np.where(ahead, 1 + next_carry, 0),
            "sum_carry": np.where(grid, 1 + sum_carry, 0),
            "addend": np.where(stands, 1 + digit, 0),
            "multiplicand": np.where(top, number, np.where(grid, inputs["above.multiplicand"], 0)),
        }
