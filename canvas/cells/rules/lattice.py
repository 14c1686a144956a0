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
from canvas.cells.spec import END, SYMBOL, TOKEN, ColumnKind, Inputs, RowKind
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
            "margin": ColumnKind("margin", blank, ("margin", "sign")),
            "sign": ColumnKind("sign", (TIMES,), ("gap",)),
            "edge": ColumnKind("edge", (TIMES,), ("gap",)),  # the same without a margin
            "gap": ColumnKind("gap", blank, ("units", "only")),
            "units": ColumnKind("units", digits, ("tens", "last_tens")),
            "only": ColumnKind("units", digits, ("no_tens",)),
            "tens": ColumnKind("tens", digits, ("digit", "last")),
            "last_tens": ColumnKind("tens", leading, ("blank",)),
            "no_tens": ColumnKind("tens", blank, ("blank", END)),
            "digit": ColumnKind("rest", digits, ("digit", "last")),
            "last": ColumnKind("rest", leading, ("blank",)),
            "blank": ColumnKind("rest", blank, ("blank", END)),
        }
        asked = (MASK,)
        below = {
            "margin": ColumnKind("margin", asked, ("margin", "multiplier")),
            "multiplier": ColumnKind("sign", digits, ("gap",)),
            "edge": ColumnKind("edge", digits, ("gap",)),
            "gap": ColumnKind("gap", asked, ("units",)),
            "units": ColumnKind("units", asked, ("tens",)),
            "tens": ColumnKind("tens", asked, ("rest", END)),
            "rest": ColumnKind("rest", asked, ("rest", END)),
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
