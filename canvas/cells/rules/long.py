"""What the rules of layouts with the operands on top have in common."""

from collections.abc import Mapping

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import columns, digit_class, value
from canvas.cells.spec import END, TOKEN, Column, Op, RowKind, Seen
from canvas.symbols import BLANK, DIGIT_IDS, MASK, TIMES

# What each op says of `LongRule`, and what it reads; before them or after come those of a layout.
READS = {
    "row": "above above.row",
    "number": "token own.row right.multiplier",
    "arriving": "own.row own.number above.column_multiplier above_left.diagonal",
    "zero": "own.row above.column_multiplicand above_left.diagonal above.zero",
    "multiplicand": "above.column_multiplicand above_right.passing",
    "column_multiplicand": "own.row own.number own.multiplicand",
    "passing": "own.row own.multiplicand",
    "column_multiplier": "own.row own.arriving",
    "diagonal": "own.row own.arriving right.multiplier",
    "multiplier": "own.row own.arriving right.multiplier above.zero",
    "product carry": "right.carry own.multiplier own.multiplicand",
    "sum sum_carry": "own.product above.sum right.sum_carry",
}


def ops_of(inputs: Mapping[str, str]) -> tuple[Op, ...]:
    """Heads by what they say, one or two things, and what each reads."""
    return tuple(Op(tuple(outputs.split()), tuple(of.split())) for outputs, of in inputs.items())


class LongRule(LocalRule):
    """Rules of layouts with the operands on top, and products and sums in the rows below.

    In column 0 of a row its digit of b arrives, and is passed to the left with the carries of
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
    following: tuple[int, ...] = (0, B, PRODUCT, PRODUCT)  # the kind of row below each kind
    straight: tuple[int, ...] = (B,)  # kinds of rows from which digits go straight down
    moving: tuple[int, ...] = (PRODUCT,)  # and from which they move
    endless: tuple[int, ...] = ()  # kinds of rows in which zeros go on on the left of b
    below: Mapping[str, tuple[str, ...]]  # the rows to be worked out, and which can stand above

    left: tuple[str, ...] = ("multiplier", "carry", "sum_carry")
    down: tuple[str, ...] = ("row", "column_multiplicand", "column_multiplier", "zero", "sum")
    down_right = ("diagonal",)
    down_left = ("passing",)
    kept_together = False

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self.rows = _operand_rows(self.digits) | {
            name: RowKind(columns((MASK,), (MASK,), (MASK,)), ("margin", "units"), above)
            for name, above in self.below.items()
        }

    @property
    def special(self) -> int:
        """The first class that is no digit.

        Of a number's digits: beyond the last one. Of the multiplier: in a row that does not
        multiply. Of a product or sum: a zero that is written, and nothing to be added to.
        """
        return self.base + 1

    def classes(self, signal: str) -> int:
        few = {"row": 7, "zero": 2, "adds": 2, "total": 2, "comes": 3, "sum_carry": 3}
        few |= {"carry": self.base, "product": self.base + 3}
        return few.get(signal, self.base + 2)

    def kept(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Which row it is; else none, a digit, or what is no digit. Of a what is 0, too."""
        if signal == "row":
            return classes
        digit = np.minimum(classes, 2 if signal == "column_multiplicand" else 1)
        return np.where(classes < self.special, digit, 3 + classes - self.special)

    def cell(self, outputs: tuple[str, ...], seen: Seen) -> dict[str, np.ndarray]:
        found = getattr(self, f"_{outputs[0]}")(seen)
        return found if isinstance(found, dict) else {outputs[0]: found}

    def _is(self, seen: Seen, kinds: tuple[int, ...]) -> np.ndarray:
        """Return whether a cell's row is of one of these kinds."""
        return np.array([kind in kinds for kind in range(self.classes("row"))])[seen["own.row"]]

    def _row(self, seen: Seen) -> np.ndarray:
        return np.where(seen["above"] > 0, np.array(self.following)[seen["above.row"]], self.A)

    def _number(self, seen: Seen) -> np.ndarray:
        digit = digit_class(seen[TOKEN], self.base)
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
        number = np.where(inside, value(multiplicand) * value(multiplier), 0) + value(carried)
        carry, digit = np.divmod(number, self.base)
        product = np.where((digit > 0) | inside, 1 + digit, 0)
        product = np.where(multiplicand == 0, self.special + 1, product)
        product = np.where(nothing, np.where(inside & (carried == 0), self.special, 0), product)
        product = np.where(multiplies, product, 0)
        return {"product": product, "carry": np.where(inside, 1 + carry, 0)}

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
        total = np.where(above == self.special, 0, value(above)) + value(adds) + value(carried)
        sum_carry, digit = np.divmod(total, self.base)
        written = np.where(nothing, self.special, np.where(stands, 1 + digit, 0))
        return {"sum": written, "sum_carry": np.where(stands | (carried > 0), 1 + sum_carry, 0)}

    def _write(self, number: np.ndarray) -> np.ndarray:
        """The symbols of digits, and of a zero that is not added."""
        digit = np.where(number == self.special, 0, value(number))
        written = (number > 0) & (number <= self.special)
        return np.where(written, DIGIT_IDS[np.minimum(digit, self.base - 1)], BLANK)


def _operand_rows(digits: tuple[int, ...]) -> dict[str, RowKind]:
    """The rows of a and b, without leading zeros."""
    leading, blank = digits[1:], (BLANK,)

    def number(rest: tuple[str, ...]) -> dict[str, Column]:
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
