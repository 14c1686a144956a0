"""Base class of the rules of layouts with the operands on top."""

from collections.abc import Mapping

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.rules.parts import columns, digit_class, value
from canvas.cells.spec import END, TOKEN, ColumnKind, Inputs, Op, RowKind
from canvas.symbols import BLANK, DIGIT_IDS, MASK, TIMES

# Outputs and inputs of each op of `LongRule`. A layout adds ops before or after them.
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
    """Return ops from a mapping of outputs to inputs, names separated by spaces."""
    return tuple(Op(tuple(outputs.split()), tuple(of.split())) for outputs, of in inputs.items())


class LongRule(LocalRule):
    """Rules of layouts with the operands on top, and products and sums in the rows below.

    The digit of b of a row arrives in its column 0. It is passed to the left with the carries of
    the product and of the sum. If a is 0, all digits of b count as 0.

    - ``row``: the kind of row, computed from the kind above.
    - ``number``: in the rows of the operands their digit, or a class for cells beyond the last one.
    - ``column_multiplier``, ``column_multiplicand``: digits of b and a, passed straight down.
    - ``diagonal``, ``passing``: digits of b and a, passed down to the right and to the left. In
      the row of a, ``diagonal`` marks the end of the number.
    - ``arriving``, ``multiplicand``: the digits of b and a that have reached the cell, either way.
    - ``zero``: in column 0, 1 if a is 0.
    - ``product``: a digit of the partial product, or one of two classes of zeros. One is written
      and not added: that of a row that adds nothing. The other is added and not written: those on
      the right of the multiplicand.
    - ``sum``: a digit of the sum of all products so far, with a class for the digit of a sum of 0.
    """

    A, B, PRODUCT, SUM, LATER_PRODUCT, LATER_SUM = 1, 2, 3, 4, 5, 6
    following: tuple[int, ...] = (0, B, PRODUCT, PRODUCT)  # the kind of row below each kind
    straight: tuple[int, ...] = (B,)  # kinds of rows from which digits go straight down
    moving: tuple[int, ...] = (PRODUCT,)  # kinds of rows from which digits go down diagonally
    endless: tuple[int, ...] = ()  # kinds of rows that pass zeros on, on the left of b
    below: Mapping[str, tuple[str, ...]]  # rows to be filled in, and those that can stand above

    left: tuple[str, ...] = ("multiplier", "carry", "sum_carry")
    down: tuple[str, ...] = ("row", "column_multiplicand", "column_multiplier", "zero", "sum")
    down_right = ("diagonal",)
    down_left = ("passing",)
    exact_together = False

    def __init__(self, base: int) -> None:
        super().__init__(base)
        self.rows = _operand_rows(self.digits) | {
            name: RowKind(columns((MASK,), (MASK,), (MASK,)), ("margin", "units"), above)
            for name, above in self.below.items()
        }

    @property
    def special(self) -> int:
        """First class that is no digit.

        Its meaning depends on the signal:

        - digits of a number: beyond the last one;
        - multiplier: the row does not multiply;
        - product or sum: a zero that is written and not added.
        """
        return self.base + 1

    def classes(self, signal: str) -> int:
        few = {"row": 7, "zero": 2, "adds": 2, "total": 2, "comes": 3, "sum_carry": 3}
        few |= {"carry": self.base, "product": self.base + 3}
        return few.get(signal, self.base + 2)

    def reduced(self, signal: str, classes: np.ndarray) -> np.ndarray:
        """Keep the kind of row; else distinguish none, a digit, and the classes after the digits.

        A multiplicand digit of 0 is distinguished, too.
        """
        if signal == "row":
            return classes
        digit = np.minimum(classes, 2 if signal == "column_multiplicand" else 1)
        return np.where(classes < self.special, digit, 3 + classes - self.special)

    def cell(self, outputs: tuple[str, ...], inputs: Inputs) -> dict[str, np.ndarray]:
        found = getattr(self, f"_{outputs[0]}")(inputs)
        return found if isinstance(found, dict) else {outputs[0]: found}

    def _is(self, inputs: Inputs, kinds: tuple[int, ...]) -> np.ndarray:
        """Return whether a cell's row is of one of these kinds, bool [N]."""
        return np.array([kind in kinds for kind in range(self.classes("row"))])[inputs["own.row"]]

    def _row(self, inputs: Inputs) -> np.ndarray:
        following = np.zeros(self.classes("row"), dtype=np.int64)  # 0: no row has such one above
        following[: len(self.following)] = self.following
        return np.where(inputs["above"] > 0, following[inputs["above.row"]], self.A)

    def _number(self, inputs: Inputs) -> np.ndarray:
        digit = digit_class(inputs[TOKEN], self.base)
        beyond = np.where(inputs["right.multiplier"] > 0, self.special, 0)
        given = self._is(inputs, (self.A, self.B))
        return np.where(given, np.where(digit > 0, digit, beyond), 0)

    def _here(self, inputs: Inputs, straight: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Return the digit that reaches a cell: straight from above, else diagonally."""
        return np.where(straight > 0, straight, moved)

    def _arriving(self, inputs: Inputs) -> np.ndarray:
        here = self._here(inputs, inputs["above.column_multiplier"], inputs["above_left.diagonal"])
        return np.where(inputs["own.row"] >= self.PRODUCT, here, inputs["own.number"])

    def _zero(self, inputs: Inputs) -> np.ndarray:
        last = inputs["above_left.diagonal"] == self.special
        zero = last & (inputs["above.column_multiplicand"] == 1)
        return np.where(inputs["own.row"] == self.B, zero, inputs["above.zero"])

    def _multiplicand(self, inputs: Inputs) -> np.ndarray:
        return self._here(
            inputs, inputs["above.column_multiplicand"], inputs["above_right.passing"]
        )

    def _column_multiplicand(self, inputs: Inputs) -> np.ndarray:
        goes = np.where(self._is(inputs, self.straight), inputs["own.multiplicand"], 0)
        return np.where(inputs["own.row"] == self.A, inputs["own.number"], goes)

    def _passing(self, inputs: Inputs) -> np.ndarray:
        return np.where(self._is(inputs, self.moving), inputs["own.multiplicand"], 0)

    def _column_multiplier(self, inputs: Inputs) -> np.ndarray:
        beyond = inputs["own.arriving"] == self.special
        digit = np.where(beyond, int(self.B in self.endless), inputs["own.arriving"])
        return np.where(self._is(inputs, self.straight), digit, 0)

    def _diagonal(self, inputs: Inputs) -> np.ndarray:
        moves = self._is(inputs, self.moving) & (inputs["right.multiplier"] > 0)
        least = self._is(inputs, self.endless)
        last = np.where(inputs["own.arriving"] == self.special, self.special, 0)
        goes = np.where(moves, np.maximum(inputs["own.arriving"], least), 0)
        return np.where(inputs["own.row"] == self.A, last, goes)

    def _multiplier(self, inputs: Inputs) -> np.ndarray:
        here = inputs["own.arriving"]
        digit = np.where(inputs["above.zero"] > 0, np.minimum(here, 1), here)
        other = np.where(here > 0, self.special, 0)
        begins = np.where(inputs["own.row"] >= self.PRODUCT, digit, other)
        return np.where(inputs["right.multiplier"] > 0, inputs["right.multiplier"], begins)

    def _product(self, inputs: Inputs) -> dict[str, np.ndarray]:
        multiplier, multiplicand = inputs["own.multiplier"], inputs["own.multiplicand"]
        carried = inputs["right.carry"]
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

    def _sum(self, inputs: Inputs) -> dict[str, np.ndarray]:
        return self._added(inputs["own.product"], inputs)

    def _added(self, product: np.ndarray, inputs: Inputs) -> dict[str, np.ndarray]:
        """Return the sum of the sum above and a product, and its carry."""
        above, carried = inputs["above.sum"], inputs["right.sum_carry"]
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
        """Return the symbols of digits, and of a zero that is not added."""
        digit = np.where(number == self.special, 0, value(number))
        written = (number > 0) & (number <= self.special)
        return np.where(written, DIGIT_IDS[np.minimum(digit, self.base - 1)], BLANK)


def _operand_rows(digits: tuple[int, ...]) -> dict[str, RowKind]:
    """Return the rows of a and b, without leading zeros."""
    leading, blank = digits[1:], (BLANK,)

    def number(rest: tuple[str, ...]) -> dict[str, ColumnKind]:
        return {
            "margin": ColumnKind("margin", blank, ("margin", "units", "only")),
            "units": ColumnKind("units", digits, ("digit", "last")),
            "only": ColumnKind("units", digits, rest),
            "digit": ColumnKind("rest", digits, ("digit", "last")),
            "last": ColumnKind("rest", leading, rest),
        }

    beyond = ColumnKind("rest", blank, ("beyond", END))
    first = number(("beyond", END)) | {"beyond": beyond}
    second = number(("gap",)) | {
        "gap": ColumnKind("rest", blank, ("sign",)),
        "sign": ColumnKind("rest", (TIMES,), ("beyond", END)),
        "beyond": beyond,
    }
    return {
        "a": RowKind(first, ("margin", "units", "only"), ("",)),
        "b": RowKind(second, ("margin", "units", "only"), ("a",)),
    }
