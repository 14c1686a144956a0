"""The local rules of layouts: what cells hand on, and what follows from it.

Each is declared as `canvas.windows` has it.
"""

from collections.abc import Mapping

import numpy as np

from canvas import symbols
from canvas.render import WorkedDrawing
from canvas.symbols import BLANK, MASK, PLUS, TIMES
from canvas.windows import END, SYMBOL, TOKEN, Column, Head, LocalRule, RowKind, Seen


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

    def cell(self, says: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        base, number = self.base, _digit_class(seen[TOKEN], self.base)
        top, multiplier, carry = seen["above"] == 0, seen["right.multiplier"], seen["right.carry"]
        # Which kind of column this is follows from the message from the right.
        in_margin = ~top & (multiplier == 0)
        of_b = in_margin & (number > 0)
        gap = ~top & (multiplier > 0) & (carry == 0)
        grid = ~top & (multiplier > 0) & (carry > 0)
        units = grid & (seen["right.sum_carry"] == 0)
        ahead = gap | grid
        # The product that the cell on the left adds: 10 · carry' + product' = a · b + carry.
        a, b = seen["above_left.multiplicand"], _value(multiplier)
        next_carry, product = np.divmod(_value(a) * b + _value(carry), base)
        written = (a > 0) | (product > 0)
        # The sum: 10 · sum_carry' + digit = the digit above left + product + sum_carry.
        addend, adds = seen["above_left.addend"], (seen["right.product"], seen["right.sum_carry"])
        sum_carry, digit = np.divmod(_value(addend) + sum(map(_value, adds)), base)
        # Without leading zeros: those of t_(i−1), unless b_i is 0, reach as far as a does.
        inside = np.where(b > 0, seen["above.multiplicand"], addend) > 0
        stands = grid & (units | (digit > 0) | inside)
        return {
            SYMBOL: np.where(stands, symbols.DIGIT_IDS[digit], BLANK).astype(np.int64),
            "multiplier": np.where(of_b, number, np.where(ahead, multiplier, 0)),
            "product": np.where(ahead & written, 1 + product, 0),
            "carry": np.where(ahead, 1 + next_carry, 0),
            "sum_carry": np.where(grid, 1 + sum_carry, 0),
            "addend": np.where(stands, 1 + digit, 0),
            "multiplicand": np.where(top, number, np.where(grid, seen["above.multiplicand"], 0)),
        }


class UntoldLatticeRule(LocalRule):
    """Of the same layout, for cells that see the digits on the page, and of the rest one carry.

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

    def classes(self, field: str) -> int:
        return self.base + (2 if field == "carry" else 1)

    def cell(self, says: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        number = _digit_class(seen[TOKEN], self.base)
        top, multiplier, carried = seen["above"] == 0, seen["right.multiplier"], seen["right.carry"]
        a, addend = seen["above.multiplicand"], seen["above_left.addend"]
        in_row = ~top & (multiplier > 0)
        gap, grid = in_row & (carried == 0), in_row & (carried > 0)
        begins = carried > self.base
        total = _value(a) * _value(multiplier) + _value(addend)
        carry, digit = np.divmod(total + np.where(begins, 0, _value(carried)), self.base)
        inside = np.where(multiplier > 1, a, addend) > 0
        stands = grid & (begins | (digit > 0) | inside)
        return {
            SYMBOL: np.where(stands, symbols.DIGIT_IDS[digit], BLANK).astype(np.int64),
            "multiplier": np.where(in_row, multiplier, np.where(top, 0, number)),
            "carry": np.where(gap, self.base + 1, np.where(grid, 1 + carry % self.base, 0)),
            "multiplicand": np.where(top, number, np.where(grid, a, 0)),
            "addend": np.where(stands, 1 + digit, 0),
        }


class ColumnRule(LocalRule):
    """Of the layout `canvas.addition.Column`: a running sum goes down, so any number of addends.

    A cell of row r learns from above the digit that stands there, and the sum of all rows above
    that one; it works out their sum. In the last row the sum is what is written.
    """

    left = ("sum_carry",)
    down: tuple[str, ...] = ("addend", "sum")
    besides = ("first_addend", "addend_above", "digit_sum")

    def __init__(self, base: int) -> None:
        super().__init__(base)
        given = _columns((BLANK,), self.digits, (*self.digits, BLANK, PLUS))
        asked, first = _columns((MASK,), (MASK,), (MASK,)), ("margin", "units")
        self.rows = {
            "addend": RowKind(given, first, ("", "addend")),
            "sum": RowKind(asked, first, ("addend",)),
        }

    def classes(self, field: str) -> int:
        return 3 if field == "sum_carry" else 1 + self.base

    def cell(self, says: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        there, addend, above = seen["above"] > 0, seen["above.addend"], seen["above.sum"]
        carried = seen["right.sum_carry"] == 2
        stands = there & ((addend > 0) | (above > 0) | carried)
        sum_carry, digit = np.divmod(_value(addend) + _value(above) + carried, self.base)
        known = stands | (there & (seen["right.sum_carry"] > 0))
        return {
            SYMBOL: np.where(stands, symbols.DIGIT_IDS[digit], BLANK).astype(np.int64),
            "sum_carry": np.where(known, 1 + sum_carry, 0),
            "addend": _digit_class(seen[TOKEN], self.base),
            "sum": np.where(stands, 1 + digit, 0),
        }

    def draw_besides(self, drawing: WorkedDrawing) -> dict[str, np.ndarray]:
        """What a sum of two numbers is made of, beside ``sum_carry``.

        - ``first_addend``, ``addend_above``: the digits that meet in the column, of the first
          addend and of the last one above: whether a model has aligned them.
        - ``digit_sum``: of all digits above in the column, modulo the base and without the carry.
        """
        given = np.where(drawing.given, drawing.truth, BLANK)
        above = _digit_class(np.pad(given, ((0, 0), (1, 0), (0, 0)))[:, :-1], self.base)
        rows = np.arange(above.shape[1])
        first = np.take_along_axis(above, (drawing.top + 1)[:, None, None], axis=1)
        first = np.where((rows > drawing.top[:, None])[:, :, None], first, 0)
        total = 1 + _value(above).cumsum(axis=1) % self.base
        total = np.where(above.cumsum(axis=1) > 0, total, 0)
        return dict(zip(self.besides, (first, above, total), strict=True))


class ColumnCarriesRule(ColumnRule):
    """Of the layout `canvas.addition.ColumnCarries`, with two addends.

    Rows are counted. The third adds, writes what was carried, and hands down the sum alone.
    """

    down = ("row", *ColumnRule.down)
    most_operands = 2

    def __init__(self, base: int) -> None:
        super().__init__(base)
        addend, asked = self.rows["addend"], self.rows["sum"]
        self.rows = {
            "first": addend._replace(below=("",)),
            "last": addend._replace(below=("first",)),
            "carries": asked._replace(below=("last",)),
            "sum": asked._replace(below=("carries",)),
        }

    def classes(self, field: str) -> int:
        return 5 if field == "row" else super().classes(field)

    def cell(self, says: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        found, carry = super().cell(says, seen), seen["right.sum_carry"]
        row = np.where(seen["above"] > 0, np.minimum(seen["above.row"] + 1, 4), 1)
        written = (carry > 0) & (found["sum"] > 0)  # not in column 0, into which none comes
        carries = np.where(written, symbols.DIGIT_IDS[_value(carry)], BLANK)
        return found | {
            SYMBOL: np.where(row == 3, carries, found[SYMBOL]).astype(np.int64),
            "row": row,
            "addend": np.where(row < 3, found["addend"], 0),
        }


def _changed(heads: tuple[Head, ...], *changes: Head) -> tuple[Head, ...]:
    """Heads, some of which read other things than before."""
    reads = {head.says: head for head in changes}
    return tuple(reads.get(head.says, head) for head in heads)


class _LongRule(LocalRule):
    """Of layouts with the operands on top, and in rows below them products and sums.

    In column 0 of a row its digit of b arrives, and is handed on to the left with the carries of
    the product and of the sum. Where a is 0 all digits of b count as 0.

    - ``row``: what kind of row this is, from the kind above.
    - ``number``: in the rows of the operands their digit, or that it lies beyond the last one.
    - ``column_multiplier``, ``column_multiplicand``: digits of b and a on their way straight down.
    - ``diagonal``, ``passing``: on their way to the right and to the left. In the row of a the
      former tells who stands below whether that was the last digit.
    - ``arriving``, ``multiplicand``: what has come here in either way.
    - ``zero``: in column 0, that a is 0.
    - ``product``: its digit; or a class for a zero that is written and not added, that of a row
      that adds nothing, or for one that is added and not written, on the right of the multiplicand.
    - ``sum``: of all products so far; with a class for the one digit of a sum that is 0.
    """

    A, B, PRODUCT, SUM, LATER_PRODUCT, LATER_SUM = 1, 2, 3, 4, 5, 6
    following: tuple[int, ...]  # the kind of row below each kind
    straight: tuple[int, ...] = (B,)  # kinds of rows from which digits go straight down
    moving: tuple[int, ...] = (PRODUCT,)  # and from which they move
    endless: tuple[int, ...] = ()  # kinds of rows in which zeros go on on the left of b
    below: Mapping[str, tuple[str, ...]]  # the rows to be worked out, and which can stand above

    left: tuple[str, ...] = ("multiplier", "carry", "sum_carry")
    down: tuple[str, ...] = ("row", "column_multiplicand", "column_multiplier", "zero", "sum")
    down_right = ("diagonal",)
    down_left = ("passing",)
    kept_together = False
    operands = (
        Head(("row",), ("above", "above.row")),
        Head(("number",), ("token", "own.row", "right.multiplier")),
        Head(
            ("arriving",),
            ("own.row", "own.number", "above.column_multiplier", "above_left.diagonal"),
        ),
        Head(
            ("zero",),
            ("own.row", "above.column_multiplicand", "above_left.diagonal", "above.zero"),
        ),
        Head(("multiplicand",), ("above.column_multiplicand", "above_right.passing")),
        Head(("column_multiplicand",), ("own.row", "own.number", "own.multiplicand")),
        Head(("passing",), ("own.row", "own.multiplicand")),
        Head(("column_multiplier",), ("own.row", "own.arriving")),
        Head(("diagonal",), ("own.row", "own.arriving", "right.multiplier")),
        Head(("multiplier",), ("own.row", "own.arriving", "right.multiplier", "above.zero")),
        Head(("product", "carry"), ("right.carry", "own.multiplier", "own.multiplicand")),
    )  # fmt: skip

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self.rows = _operand_rows(self.digits) | {
            name: RowKind(_columns((MASK,), (MASK,), (MASK,)), ("margin", "units"), above)
            for name, above in self.below.items()
        }

    @property
    def special(self) -> int:
        """The first class that is no digit.

        Of a number's digits: beyond the last one. Of the multiplier: in a row that does not
        multiply. Of a product or sum: a zero that is written, and nothing to be added to.
        """
        return self.base + 1

    def classes(self, field: str) -> int:
        few = {"row": 7, "zero": 2, "sum_carry": 3, "carry": self.base, "product": self.base + 3}
        return few.get(field, self.base + 2)

    def kept(self, field: str, classes: np.ndarray) -> np.ndarray:
        """Which row it is; else none, a digit, or what is no digit. Of a what is 0, too."""
        if field == "row":
            return classes
        digit = np.minimum(classes, 2 if field == "column_multiplicand" else 1)
        return np.where(classes < self.special, digit, 3 + classes - self.special)

    def cell(self, says: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        name, answer = says[0], getattr(self, f"_{says[0]}")
        found = answer(seen)
        return found if isinstance(found, dict) else {name: found}

    def _is(self, seen: Seen, kinds: tuple[int, ...]) -> np.ndarray:
        """Whether a cell's row is of one of these kinds."""
        return np.array([kind in kinds for kind in range(self.classes("row"))])[seen["own.row"]]

    def _row(self, seen: Seen) -> np.ndarray:
        return np.where(seen["above"] > 0, np.array(self.following)[seen["above.row"]], self.A)

    def _number(self, seen: Seen) -> np.ndarray:
        digit = _digit_class(seen[TOKEN], self.base)
        beyond = np.where(seen["right.multiplier"] > 0, self.special, 0)
        given = self._is(seen, (self.A, self.B))
        return np.where(given, np.where(digit > 0, digit, beyond), 0)

    def _here(self, seen: Seen, straight: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """The digit that comes to a cell, of those that come straight down and that move."""
        return np.where(straight > 0, straight, moved)

    def _arriving(self, seen: Seen) -> np.ndarray:
        here = self._here(seen, seen["above.column_multiplier"], seen["above_left.diagonal"])
        return np.where(seen["own.row"] >= self.PRODUCT, here, seen["own.number"])

    def _zero(self, seen: Seen) -> np.ndarray:
        last = seen["above_left.diagonal"] == self.special
        zero = last & (seen["above.column_multiplicand"] == 1)
        return np.where(seen["own.row"] == self.B, zero, seen["above.zero"])

    def _multiplicand(self, seen: Seen) -> np.ndarray:
        return self._here(seen, seen["above.column_multiplicand"], seen["above_right.passing"])

    def _column_multiplicand(self, seen: Seen) -> np.ndarray:
        goes = np.where(self._is(seen, self.straight), seen["own.multiplicand"], 0)
        return np.where(seen["own.row"] == self.A, seen["own.number"], goes)

    def _passing(self, seen: Seen) -> np.ndarray:
        return np.where(self._is(seen, self.moving), seen["own.multiplicand"], 0)

    def _column_multiplier(self, seen: Seen) -> np.ndarray:
        beyond = seen["own.arriving"] == self.special
        digit = np.where(beyond, int(self.B in self.endless), seen["own.arriving"])
        return np.where(self._is(seen, self.straight), digit, 0)

    def _diagonal(self, seen: Seen) -> np.ndarray:
        moves = self._is(seen, self.moving) & (seen["right.multiplier"] > 0)
        least = self._is(seen, self.endless)
        last = np.where(seen["own.arriving"] == self.special, self.special, 0)
        goes = np.where(moves, np.maximum(seen["own.arriving"], least), 0)
        return np.where(seen["own.row"] == self.A, last, goes)

    def _multiplier(self, seen: Seen) -> np.ndarray:
        here = seen["own.arriving"]
        digit = np.where(seen["above.zero"] > 0, np.minimum(here, 1), here)
        other = np.where(here > 0, self.special, 0)
        begins = np.where(seen["own.row"] >= self.PRODUCT, digit, other)
        return np.where(seen["right.multiplier"] > 0, seen["right.multiplier"], begins)

    def _product(self, seen: Seen) -> dict[str, np.ndarray]:
        multiplier, multiplicand = seen["own.multiplier"], seen["own.multiplicand"]
        carried = seen["right.carry"]
        multiplies = (multiplier > 0) & (multiplier < self.special)
        inside = multiplies & (multiplicand > 0) & (multiplicand < self.special)
        nothing = multiplier == 1
        number = np.where(inside, _value(multiplicand) * _value(multiplier), 0) + _value(carried)
        carry, digit = np.divmod(number, self.base)
        product = np.where((digit > 0) | inside, 1 + digit, 0)
        product = np.where(multiplicand == 0, self.special + 1, product)
        product = np.where(nothing, np.where(inside & (carried == 0), self.special, 0), product)
        return {
            "product": np.where(multiplies, product, 0),
            "carry": np.where(inside, 1 + carry, 0),
        }

    def _sum(self, seen: Seen) -> dict[str, np.ndarray]:
        return self._added(seen["own.product"], seen)

    def _added(self, product: np.ndarray, seen: Seen) -> dict[str, np.ndarray]:
        """The sum above and a product, and the carry out of that."""
        above, carried = seen["above.sum"], seen["right.sum_carry"]
        adds = np.where(product == self.special + 1, 1, product)
        adds = np.where(product == self.special, 0, adds)
        first = (product == self.special) & (above == 0) & (carried == 0)
        nothing = first | ((above == self.special) & (adds == 0))
        stands = nothing | (above > 0) | (adds > 0) | (carried == 2)
        total = np.where(above == self.special, 0, _value(above)) + _value(adds) + _value(carried)
        sum_carry, digit = np.divmod(total, self.base)
        known = stands | (carried > 0)
        return {
            "sum": np.where(nothing, self.special, np.where(stands, 1 + digit, 0)),
            "sum_carry": np.where(known, 1 + sum_carry, 0),
        }

    def _write(self, number: np.ndarray) -> np.ndarray:
        """The symbols of digits, and of a zero that is not added."""
        digit = np.where(number == self.special, 0, _value(number))
        written = (number > 0) & (number <= self.special)
        return np.where(written, symbols.DIGIT_IDS[np.minimum(digit, self.base - 1)], BLANK)


class StandardRule(_LongRule):
    """Of the layout `canvas.multiplication.Standard`: partial products, and then their sum.

    The running sum goes straight down. Where no digit of b arrives in column 0 it is written.
    """

    following = (0, _LongRule.B, _LongRule.PRODUCT, _LongRule.PRODUCT)
    below: Mapping[str, tuple[str, ...]] = {"worked": ("b", "worked")}
    steps = (
        Head(("adds",), ("above.sum",)),
        *_changed(
            _LongRule.operands,
            Head(
                ("multiplier",),
                ("own.row", "own.arriving", "own.adds", "right.multiplier", "above.zero"),
            ),
        ),
        Head(("sum", "sum_carry"), ("own.product", "above.sum", "right.sum_carry")),
        Head(("total",), ("own.multiplier",)),
        Head((SYMBOL,), ("own.total", "own.product", "own.sum")),
    )

    def classes(self, field: str) -> int:
        return 2 if field in ("adds", "total") else super().classes(field)

    def _adds(self, seen: Seen) -> np.ndarray:
        return np.minimum(seen["above.sum"], 1)

    def _multiplier(self, seen: Seen) -> np.ndarray:
        total = np.where(seen["own.adds"] > 0, self.special, 0)
        found = super()._multiplier(seen)
        return np.where((found == 0) & (seen["own.row"] == self.PRODUCT), total, found)

    def _total(self, seen: Seen) -> np.ndarray:
        return seen["own.multiplier"] == self.special

    def _symbol(self, seen: Seen) -> np.ndarray:
        return self._write(np.where(seen["own.total"], seen["own.sum"], seen["own.product"]))


class AccumulateRule(_LongRule):
    """Of the layout `canvas.multiplication.Accumulate`: each row adds its product to that above."""

    following = (0, _LongRule.B, _LongRule.PRODUCT, _LongRule.PRODUCT)
    endless = (_LongRule.B, _LongRule.PRODUCT)
    below: Mapping[str, tuple[str, ...]] = {"total": ("b", "total")}
    steps = (
        *_LongRule.operands,
        Head(("sum", "sum_carry"), ("own.product", "above.sum", "right.sum_carry")),
        Head((SYMBOL,), ("own.sum",)),
    )

    def _symbol(self, seen: Seen) -> np.ndarray:
        return self._write(seen["own.sum"])


class InterleavedRule(_LongRule):
    """Of the layout `canvas.multiplication.Interleaved`: a sum adds the product above to its sum.

    A row of a product keeps the sum, and the digits of a and b, for the row below.
    """

    down = (*_LongRule.down, "product")
    following = (0, _LongRule.B, _LongRule.PRODUCT, _LongRule.SUM, _LongRule.PRODUCT)
    straight = (_LongRule.B, _LongRule.PRODUCT)
    moving = (_LongRule.SUM,)
    endless = (_LongRule.B, _LongRule.SUM)
    below: Mapping[str, tuple[str, ...]] = {"product": ("b", "sum"), "sum": ("product",)}
    steps = (
        *_LongRule.operands,
        Head(("sum", "sum_carry"), ("above.product", "above.sum", "right.sum_carry")),
        Head((SYMBOL,), ("own.row", "own.product", "own.sum")),
    )

    def _multiplier(self, seen: Seen) -> np.ndarray:
        """Sums do not multiply."""
        found = super()._multiplier(seen)
        return np.where((seen["own.row"] == self.SUM) & (found > 0), self.special, found)

    def _sum(self, seen: Seen) -> dict[str, np.ndarray]:
        return self._added(seen["above.product"], seen)

    def _symbol(self, seen: Seen) -> np.ndarray:
        return self._write(
            np.where(seen["own.row"] == self.SUM, seen["own.sum"], seen["own.product"])
        )


class RunningSumRule(_LongRule):
    """Of the layout `canvas.multiplication.RunningSum`: all products, then all running sums.

    A sum works the product out once more. To begin with that, the digits of a and b go straight
    down through all products as well, to the first row with nothing in column 0 that arrives.

    - ``comes``: whether a digit of b comes here diagonally, 2, or straight alone, 1.
    """

    left = (*_LongRule.left, "row")
    straight = (_LongRule.B, _LongRule.PRODUCT, _LongRule.LATER_PRODUCT)
    endless = (_LongRule.SUM, _LongRule.LATER_SUM)
    moving = (_LongRule.PRODUCT, _LongRule.LATER_PRODUCT, *endless)
    below: Mapping[str, tuple[str, ...]] = {"worked": ("b", "worked")}
    steps = (
        Head(("comes",), ("above.column_multiplier", "above_left.diagonal")),
        *_changed(
            _LongRule.operands,
            Head(("row",), ("above", "above.row", "own.comes", "right.row")),
            Head(
                ("multiplicand",),
                ("own.row", "above.column_multiplicand", "above_right.passing"),
            ),
            Head(("column_multiplicand",), ("own.row", "own.number", "above.column_multiplicand")),
            Head(("column_multiplier",), ("own.row", "own.number", "above.column_multiplier")),
        ),
        Head(("sum", "sum_carry"), ("own.row", "own.product", "above.sum", "right.sum_carry")),
        Head((SYMBOL,), ("own.row", "own.product", "own.sum")),
    )

    def classes(self, field: str) -> int:
        return 3 if field == "comes" else super().classes(field)

    def _comes(self, seen: Seen) -> np.ndarray:
        straight = np.minimum(seen["above.column_multiplier"], 1)
        return np.where(seen["above_left.diagonal"] > 0, 2, straight)

    def _row(self, seen: Seen) -> np.ndarray:
        """On the right of column 0 there are no kinds of rows below the first product."""
        begins = np.array([0, self.SUM, self.LATER_PRODUCT])[seen["own.comes"]]
        later = np.where(seen["right.row"] > 0, seen["right.row"], begins)
        product = np.isin(seen["above.row"], (self.PRODUCT, self.LATER_PRODUCT))
        following = np.array([0, self.B, self.PRODUCT, 0, self.LATER_SUM, 0, self.LATER_SUM])
        below = np.where(product, later, following[seen["above.row"]])
        return np.where(seen["above"] > 0, below, self.A)

    def _here(self, seen: Seen, straight: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Digits come straight into some kinds of rows alone."""
        return np.where(self._is(seen, (self.B, self.PRODUCT, self.SUM)), straight, moved)

    def _column_multiplicand(self, seen: Seen) -> np.ndarray:
        """What came straight down goes on, whatever has moved here."""
        straight = seen["above.column_multiplicand"]
        return super()._column_multiplicand(Seen(seen | {"own.multiplicand": straight}))

    def _column_multiplier(self, seen: Seen) -> np.ndarray:
        own = seen["own.row"] == self.B
        straight = np.where(own, seen["own.number"], seen["above.column_multiplier"])
        return super()._column_multiplier(Seen(seen | {"own.arriving": straight}))

    def _sum(self, seen: Seen) -> dict[str, np.ndarray]:
        adds = self._is(seen, self.endless)
        found = self._added(np.where(adds, seen["own.product"], 0), seen)
        return {name: np.where(adds, of, 0) for name, of in found.items()}

    def _symbol(self, seen: Seen) -> np.ndarray:
        total = self._is(seen, self.endless)
        return self._write(np.where(total, seen["own.sum"], seen["own.product"]))


def _operand_rows(digits: tuple[int, ...]) -> dict[str, RowKind]:
    """The rows of a and b, without leading zeros."""
    leading, blank = digits[1:], (BLANK,)

    def number(rest: tuple[str | int, ...]) -> dict[str, Column]:
        return {
            "margin": Column("margin", blank, ("margin", "units", "only")),
            "units": Column("units", digits, ("digit", "last")),
            "only": Column("units", digits, rest),
            "digit": Column("rest", digits, ("digit", "last")),
            "last": Column("rest", leading, rest),
        }

    beyond = Column("rest", blank, ("beyond", END))
    first = number(("beyond", END)) | {"beyond": beyond}
    second = number(("gap",)) | {
        "gap": Column("rest", blank, ("sign",)),
        "sign": Column("rest", (TIMES,), ("beyond", END)),
        "beyond": beyond,
    }
    return {
        "a": RowKind(first, ("margin", "units", "only"), ("",)),
        "b": RowKind(second, ("margin", "units", "only"), ("a",)),
    }


def _columns(
    beside: tuple[int, ...], units: tuple[int, ...], rest: tuple[int, ...]
) -> dict[str, Column]:
    """A margin, the units, and the rest: what can stand in each."""
    return {
        "margin": Column("margin", beside, ("margin", "units")),
        "units": Column("units", units, ("rest",)),
        "rest": Column("rest", rest, ("rest", END)),
    }


def _value(digit_class: np.ndarray) -> np.ndarray:
    """The digit or carry of a class, 0 where there is none."""
    return np.maximum(digit_class - 1, 0)


def _digit_class(token: np.ndarray, base: int) -> np.ndarray:
    """1 + d of the symbol of a digit d, else 0."""
    digit = symbols.DIGIT_OF[token].astype(np.int64)
    return np.where((digit >= 0) & (digit < base), 1 + digit, 0)
