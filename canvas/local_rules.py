"""The local rules of lattices and of sums: messages of cells, and the function of a cell.

Each is declared as `canvas.cell_inputs` has it. A cell reads all that it sees at once.
"""

import numpy as np

from canvas.cell_inputs import END, SYMBOL, TOKEN, Column, LocalRule, RowKind, Seen
from canvas.render import WorkedDrawing
from canvas.symbols import BLANK, DIGIT_IDS, DIGIT_OF, MASK, PLUS, TIMES


class LatticeRule(LocalRule):
    """Rule of the layout `canvas.multiplication.Lattice`: a cell of row i is a digit of t_i.

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

    def cell(self, outputs: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        base, number = self.base, digit_class(seen[TOKEN], self.base)
        top, multiplier, carry = seen["above"] == 0, seen["right.multiplier"], seen["right.carry"]
        # Which kind of column this is follows from the message from the right.
        in_margin = ~top & (multiplier == 0)
        of_b = in_margin & (number > 0)
        gap = ~top & (multiplier > 0) & (carry == 0)
        grid = ~top & (multiplier > 0) & (carry > 0)
        units = grid & (seen["right.sum_carry"] == 0)
        ahead = gap | grid
        # The product that the cell on the left adds: 10 · carry' + product' = a · b + carry.
        a, b = seen["above_left.multiplicand"], value(multiplier)
        next_carry, product = np.divmod(value(a) * b + value(carry), base)
        written = (a > 0) | (product > 0)
        # The sum: 10 · sum_carry' + digit = the digit above left + product + sum_carry.
        addend, adds = seen["above_left.addend"], (seen["right.product"], seen["right.sum_carry"])
        sum_carry, digit = np.divmod(value(addend) + sum(map(value, adds)), base)
        # Without leading zeros: those of t_(i−1), unless b_i is 0, reach as far as a does.
        inside = np.where(b > 0, seen["above.multiplicand"], addend) > 0
        stands = grid & (units | (digit > 0) | inside)
        return {
            SYMBOL: np.where(stands, DIGIT_IDS[digit], BLANK).astype(np.int64),
            "multiplier": np.where(of_b, number, np.where(ahead, multiplier, 0)),
            "product": np.where(ahead & written, 1 + product, 0),
            "carry": np.where(ahead, 1 + next_carry, 0),
            "sum_carry": np.where(grid, 1 + sum_carry, 0),
            "addend": np.where(stands, 1 + digit, 0),
            "multiplicand": np.where(top, number, np.where(grid, seen["above.multiplicand"], 0)),
        }


class LatentLatticeRule(LocalRule):
    """Rule of the same layout for cells that read the digits on the canvas, and else one carry.

    A cell sees the digit of a on top of its column, that of b beside its row, and that of t_(i−1)
    above left. ``carry`` is ⌊(a · b + t + carry) / base⌋; the class after that of the largest digit
    begins a row.
    """

    left = ("multiplier", "carry")
    down = ("multiplicand",)
    down_right = ("addend",)

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self.rows = LatticeRule(base).rows

    def classes(self, signal: str) -> int:
        return self.base + (2 if signal == "carry" else 1)

    def cell(self, outputs: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        number = digit_class(seen[TOKEN], self.base)
        top, multiplier, carried = seen["above"] == 0, seen["right.multiplier"], seen["right.carry"]
        a, addend = seen["above.multiplicand"], seen["above_left.addend"]
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


class ColumnRule(LocalRule):
    """Rule of the layout `canvas.addition.Column`: a running sum goes down, for any addends.

    A cell of row r learns from above the digit that stands there, and the sum of all rows above
    that one; it works out their sum. In the last row the sum is what is written.
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

    def cell(self, outputs: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        there, addend, above = seen["above"] > 0, seen["above.addend"], seen["above.sum"]
        carried = seen["right.sum_carry"] == 2
        stands = there & ((addend > 0) | (above > 0) | carried)
        sum_carry, digit = np.divmod(value(addend) + value(above) + carried, self.base)
        known = stands | (there & (seen["right.sum_carry"] > 0))
        return {
            SYMBOL: np.where(stands, DIGIT_IDS[digit], BLANK).astype(np.int64),
            "sum_carry": np.where(known, 1 + sum_carry, 0),
            "addend": digit_class(seen[TOKEN], self.base),
            "sum": np.where(stands, 1 + digit, 0),
        }

    def draw_probe_targets(self, drawing: WorkedDrawing) -> dict[str, np.ndarray]:
        """Parts of a sum of two numbers, beside ``sum_carry``.

        - ``first_addend``, ``addend_above``: the digits that meet in the column, of the first
          addend and of the last one above: whether a model has aligned them.
        - ``digit_sum``: of all digits above in the column, modulo the base and without the carry.
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
    """Rule of the same layout with two addends; it does not cover more."""

    most_operands = 2

    def __init__(self, base: int) -> None:
        super().__init__(base)
        addend, asked = self.rows["addend"], self.rows["sum"]
        self.rows = {
            "first": addend._replace(below=("",)),
            "last": addend._replace(below=("first",)),
            "sum": asked._replace(below=("last",)),
        }


class ColumnCarriesRule(PairRule):
    """Rule of the layout `canvas.addition.ColumnCarries`, with two addends.

    Rows are counted. The third adds, writes what was carried, and hands down the sum alone.
    """

    down = ("row", *ColumnRule.down)

    def __init__(self, base: int) -> None:
        super().__init__(base)
        asked = self.rows["sum"]
        last = {"carries": asked, "sum": asked._replace(below=("carries",))}
        self.rows = {**self.rows, **last}

    def classes(self, signal: str) -> int:
        return 5 if signal == "row" else super().classes(signal)

    def cell(self, outputs: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        found, carry = super().cell(outputs, seen), seen["right.sum_carry"]
        row = np.where(seen["above"] > 0, np.minimum(seen["above.row"] + 1, 4), 1)
        written = (carry > 0) & (found["sum"] > 0)  # not in column 0, into which none comes
        carries = np.where(written, DIGIT_IDS[value(carry)], BLANK)
        return found | {
            SYMBOL: np.where(row == 3, carries, found[SYMBOL]).astype(np.int64),
            "row": row,
            "addend": np.where(row < 3, found["addend"], 0),
        }


def columns(
    beside: tuple[int, ...], units: tuple[int, ...], rest: tuple[int, ...]
) -> dict[str, Column]:
    """A margin, the units, and the rest: what can stand in each."""
    return {
        "margin": Column("margin", beside, ("margin", "units")),
        "units": Column("units", units, ("rest",)),
        "edge": Column("edge", units, ("rest",)),  # the same without a margin
        "rest": Column("rest", rest, ("rest", END)),
    }


def value(digit_class: np.ndarray) -> np.ndarray:
    """The digit or carry of a class, 0 where there is none."""
    return np.maximum(digit_class - 1, 0)


def digit_class(token: np.ndarray, base: int) -> np.ndarray:
    """1 + d of the symbol of a digit d, else 0."""
    digit = DIGIT_OF[token].astype(np.int64)
    return np.where((digit >= 0) & (digit < base), 1 + digit, 0)
