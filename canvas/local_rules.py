"""The local rules of layouts: what cells hand on, and what follows from it.

Each is declared as `canvas.windows` has it. A layout's `hints` name the same quantities.
"""

import numpy as np

from canvas import symbols
from canvas.symbols import BLANK, MASK, PLUS, TIMES
from canvas.windows import END, SYMBOL, Column, LocalRule, Message, RowKind


class LatticeRule(LocalRule):
    """Of the layout `canvas.multiplication.Lattice`: a cell of row i is a digit of t_i.

    t_i = ⌊t_(i−1) / base⌋ + a · b_i. The cell's own column holds a digit of a, its row one of b;
    the digit of t_(i−1) that it adds stands above left. The product of two digits is worked out one
    cell ahead, and added in the next. Columns from the right: blank ones of the margin, that of the
    sign and of b's digits, a gap, and the grid.
    """

    left = ("multiplier", "product", "carry", "sum_carry")
    down = down_right = ("addend", "multiplicand")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        digits, leading, blank = self.digits, self.digits[1:], (BLANK,)
        # a, without a gap and without a leading zero; the page has a column more than a has digits.
        top = {
            "margin": Column("margin", blank, ("margin", "sign")),
            "sign": Column("sign", (TIMES,), ("gap",)),
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
            "gap": Column("gap", asked, ("units",)),
            "units": Column("units", asked, ("tens",)),
            "tens": Column("tens", asked, ("rest", END)),
            "rest": Column("rest", asked, ("rest", END)),
        }
        self.rows = {
            "multiplicand": RowKind(top, ("margin", "sign"), ("",)),
            "total": RowKind(below, ("margin", "multiplier"), ("multiplicand", "total")),
        }

    def classes(self, field: str) -> int:
        return 3 if field == "sum_carry" else 1 + self.base

    def cell(
        self, token: np.ndarray, right: Message, above: Message, above_left: Message
    ) -> dict[str, np.ndarray]:
        base, number = self.base, _digit_class(token, self.base)
        top = ~above.present
        # Which kind of column this is follows from the message from the right.
        in_margin = ~top & (right.multiplier == 0)
        of_b = in_margin & (number > 0)
        gap = ~top & (right.multiplier > 0) & (right.carry == 0)
        grid = ~top & (right.multiplier > 0) & (right.carry > 0)
        units = grid & (right.sum_carry == 0)
        b = right.multiplier - 1
        # The product that the cell on the left adds: 10 · carry' + product' = a · b + carry.
        carry, product = np.divmod(_value(above_left.multiplicand) * b + _value(right.carry), base)
        ahead = gap | grid
        written = (above_left.multiplicand > 0) | (product > 0)
        # The sum: 10 · sum_carry' + digit = the digit above left + product + sum_carry.
        total = _value(above_left.addend) + _value(right.product) + _value(right.sum_carry)
        sum_carry, digit = np.divmod(total, base)
        # Without leading zeros: those of t_(i−1), unless b_i is 0, reach as far as a does.
        inside = np.where(b > 0, above.multiplicand > 0, above_left.addend > 0)
        stands = grid & (units | (digit > 0) | inside)
        return {
            SYMBOL: np.where(stands, symbols.DIGIT_IDS[digit], BLANK).astype(np.int64),
            "multiplier": np.where(of_b, number, np.where(ahead, right.multiplier, 0)),
            "product": np.where(ahead & written, 1 + product, 0),
            "carry": np.where(ahead, 1 + carry, 0),
            "sum_carry": np.where(grid, 1 + sum_carry, 0),
            "addend": np.where(stands, 1 + digit, 0),
            "multiplicand": np.where(top, number, np.where(grid, above.multiplicand, 0)),
        }


class ColumnRule(LocalRule):
    """Of the layout `canvas.addition.Column`: a running sum goes down, so any number of addends.

    A cell of row r learns from above the digit that stands there, and the sum of all rows above
    that one; it works out their sum. In the last row the sum is what is written.
    """

    left = ("sum_carry",)
    down = ("addend", "sum")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        digits = self.digits

        def row(beside: tuple[int, ...], units: tuple[int, ...], rest: tuple[int, ...]) -> dict:
            return {
                "margin": Column("margin", beside, ("margin", "units")),
                "units": Column("units", units, ("rest",)),
                "rest": Column("rest", rest, ("rest", END)),
            }

        given = row((BLANK,), digits, (*digits, BLANK, PLUS))
        asked, first = row((MASK,), (MASK,), (MASK,)), ("margin", "units")
        self.rows = {
            "addend": RowKind(given, first, ("", "addend")),
            "sum": RowKind(asked, first, ("addend",)),
        }

    def classes(self, field: str) -> int:
        return 3 if field == "sum_carry" else 1 + self.base

    def cell(
        self, token: np.ndarray, right: Message, above: Message, above_left: Message
    ) -> dict[str, np.ndarray]:
        carried = right.sum_carry == 2
        stands = above.present & ((above.addend > 0) | (above.sum > 0) | carried)
        total = _value(above.addend) + _value(above.sum) + carried
        sum_carry, digit = np.divmod(total, self.base)
        known = stands | (above.present & (right.sum_carry > 0))
        return {
            SYMBOL: np.where(stands, symbols.DIGIT_IDS[digit], BLANK).astype(np.int64),
            "sum_carry": np.where(known, 1 + sum_carry, 0),
            "addend": _digit_class(token, self.base),
            "sum": np.where(stands, 1 + digit, 0),
        }


def _value(digit_class: np.ndarray) -> np.ndarray:
    """The digit or carry of a class, 0 where there is none."""
    return np.maximum(digit_class - 1, 0)


def _digit_class(token: np.ndarray, base: int) -> np.ndarray:
    """1 + d of the symbol of a digit d, else 0."""
    digit = symbols.DIGIT_OF[token].astype(np.int64)
    return np.where((digit >= 0) & (digit < base), 1 + digit, 0)
