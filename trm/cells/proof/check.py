"""Check that a table computes with numbers of any length: python check.py FOLDER

A network was trained; the table is what it has learned. For the input of a cell the table returns
the symbol that the cell writes, and the signals that it passes to its neighbours. This file checks
the two premises of the theorem in docs/proof.md, and is meant to be read beside that page:

- *Closed*: every cell of every canvas, of any size, has an input that is tried here.
- *Correct*: for each of these inputs the outputs in the table obey the laws of the layout. The laws
  of all cells together say that the canvas shows the correct result.

The parts in this order, and where each begins:

1. the table: `load`;
2. the rows and columns of canvases: `LAYOUTS`;
3. enumerating the inputs of cells: `Enumeration`;
4. the laws, one function each: `lattice_laws`, `column_laws`, `difference_laws`,
   `division_laws`, `rule_110_laws`, `modular_laws`, `long_laws`;
5. the verdict: `main`.

The file needs Python and NumPy, and nothing of the program that trained the network. It does not
contain the rule of a layout either. A rule computes what a cell has to write; a law compares what
the table contains with arithmetic. So the laws are checked on the table of each model, and not once
on the rule: the rule would come from that program, and an error in it would be an error in both.

Words: a *signal* is a named part of a message, like ``carry``. A *class* is a value of a signal:
0 is none, 1 + d is the digit d, and some layouts have more (see `LongCells`). In equations a
quote marks an output, as in ``carry'``; the others are inputs. In an equation none counts as 0.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

NONE, ZERO = 0, 1  # classes: nothing, and the digit 0

# ---------------------------------------------------------------------------------------------
# Loading the table
# ---------------------------------------------------------------------------------------------

SYMBOL, TOKEN = "symbol", "token"  # the symbol that a cell writes; the symbol that stands in it

# Ids of symbols.
DIGIT_IDS = [*range(1, 11), *range(18, 24)]  # of 0 to 9, and of A to F
BLANK_ID, TIMES_ID, ASKED_ID, PLUS_ID = 11, 12, 13, 17
MINUS_ID, DIVIDED_ID, MODULO_ID = 78, 80, 88
NUMBER_OF_SYMBOLS = 96  # at most

# The name that a cell gives to a neighbour, and the direction of that neighbour's message.
RIGHT = "right"
NEIGHBOURS_ABOVE = {"above": "down", "above_left": "down_right", "above_right": "down_left"}


class NotCheckableError(Exception):
    """The table is of a kind that is not checked here; the message gives the reason."""


@dataclass(frozen=True)
class Table:
    """One output of a cell, for each combination of the inputs on which it depends.

    Attributes:
        inputs: names: "token"; "above", 1 if there is such a neighbour; "above.sum", a signal from
            it; "own.product", an output that the cell has decided before.
        sizes: 1 + the largest value of each input.
        keys: for each entry its inputs as one number, int [E], ascending.
        values: of the output, int [E].
    """

    inputs: list[str]
    sizes: tuple[int, ...]
    keys: np.ndarray
    values: np.ndarray

    def look_up(self, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the outputs of N cells, int [N], and a mask of those with an entry, bool [N]."""
        parts = [inputs[name] for name in self.inputs]
        key = np.ravel_multi_index(parts, self.sizes, mode="clip")
        entry = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        has_entry = self.keys[entry] == key
        for part, size in zip(parts, self.sizes, strict=True):
            has_entry &= part < size
        return self.values[entry], has_entry


@dataclass(frozen=True)
class Program:
    """All that a cell computes.

    Attributes:
        layout, base: of the canvases.
        messages: the signals that a cell passes in each direction: "left", "down", "down_right",
            "down_left".
        tables: by output: "symbol", and each signal. A table comes after those that it reads.
    """

    layout: str
    base: int
    messages: dict[str, list[str]]
    tables: dict[str, Table]


def load(file: Path) -> Program:
    """Read the table of a proof.

    Raises:
        NotCheckableError: it has latent codes, or is of an unknown layout.
        Exception: of any kind: the file is damaged, or another one.
    """
    tables = {}
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        for output, inputs in about["inputs"].items():
            keys = arrays[f"{output}.keys"].astype(int)  # [entries, inputs]
            sizes = tuple(keys.max(axis=0) + 1)
            numbers = np.ravel_multi_index(tuple(keys.T), sizes)
            tables[output] = Table(inputs, sizes, numbers, arrays[f"{output}.values"].astype(int))
    if about.get("codes"):
        raise NotCheckableError("what its codes stand for is not known here")
    if about["layout"] not in LAYOUTS:
        raise NotCheckableError(f"no rows and laws are known of the layout {about['layout']}")
    return Program(about["layout"], int(about["base"]), about["messages"], tables)


# ---------------------------------------------------------------------------------------------
# The rows and columns of canvases
# ---------------------------------------------------------------------------------------------

# Symbols that can stand in a column before the canvas is filled in.
DIGIT, NONZERO_DIGIT, BLANK, ASKED, TIMES, PLUS = "digit", "nonzero", "blank", "asked", "×", "+"
MINUS, DIVIDED, MODULO, BIT = "-", "/", "%", "bit"

# Places: parts of a row, from right to left. A cell knows none of them; the laws differ.
MARGIN, SIGN, GAP, UNITS, TENS, REST = "margin", "sign", "gap", "units", "tens", "rest"
BEYOND_A = "beyond"  # on the left of the first number
TOP = "top"  # in a division: the column on the left of the dividend; modulo p: p's highest digit
LOW = "low"  # modulo p: columns on the right of p
END = "end"  # beyond the left edge of the canvas
PLACES = (END, MARGIN, SIGN, GAP, UNITS, TENS, LOW, REST, TOP, BEYOND_A)

EDGE = "edge"  # in place of a row above: beyond the upper edge of the canvas


def symbol_ids(symbols: tuple[str, ...], base: int) -> list[int]:
    """Return the ids of kinds of symbols."""
    ids = {
        DIGIT: DIGIT_IDS[:base],
        NONZERO_DIGIT: DIGIT_IDS[1:base],
        BLANK: [BLANK_ID],
        ASKED: [ASKED_ID],
        TIMES: [TIMES_ID],
        PLUS: [PLUS_ID],
        MINUS: [MINUS_ID],
        DIVIDED: [DIVIDED_ID],
        MODULO: [MODULO_ID],
        BIT: DIGIT_IDS[:2],
    }
    return [number for symbol in symbols for number in ids[symbol]]


@dataclass(frozen=True)
class ColumnKind:
    """A kind of column in a row.

    Example: ``ColumnKind("units", UNITS, (DIGIT,), left=("digit", "highest"))`` contains any digit,
    and has a column "digit" or "highest" on its left.
    """

    name: str
    place: str
    symbols: tuple[str, ...]
    left: tuple[str, ...]  # names of columns, or END


@dataclass(frozen=True)
class RowKind:
    """A kind of row.

    Attributes:
        name: of the kind, within its layout.
        above: names of the kinds of rows that can be directly above, or EDGE.
        columns: the first one is the margin, which has any number of columns, or none.
        content: what is written in the row; the laws depend on it.
    """

    name: str
    above: tuple[str, ...]
    columns: tuple[ColumnKind, ...]
    content: str

    @property
    def first_columns(self) -> tuple[str, ...]:
        """Columns with which a row can begin at its right end: as a margin may be empty."""
        return self.columns[0].left

    def occur(self, place: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return which of N inputs cells in a place can have, bool [N]: a fact of the task."""
        return np.ones(len(inputs[RIGHT]), dtype=bool)


# The contents of rows.
A, B, PRODUCTS = "a", "b", "products and sums"
ADDEND, SUM, CARRIES = "addend", "sum", "carries"
LATTICE_ROW, DIFFERENCE = "a row of the lattice", "difference"
DIVISION = "a row of a division"
TAPE, GENERATION = "tape", "a step of Rule 110"
P, WAVES = "p", "a row of a product modulo p"

# A row that is to be filled in.
ASKED_COLUMNS = (
    ColumnKind("margin", MARGIN, (ASKED,), left=("margin", "units")),
    ColumnKind("units", UNITS, (ASKED,), left=("rest",)),
    ColumnKind("rest", REST, (ASKED,), left=("rest", END)),
)
# A row with a given addend. Any digits are allowed, also with gaps: a sum does not depend on it.
ADDEND_COLUMNS = (
    ColumnKind("margin", MARGIN, (BLANK,), left=("margin", "units")),
    ColumnKind("units", UNITS, (DIGIT,), left=("rest",)),
    ColumnKind("rest", REST, (DIGIT, BLANK, PLUS), left=("rest", END)),
)
# In the lattice: the row of a, with a sign on its right.
LATTICE_A_COLUMNS = (
    ColumnKind("margin", MARGIN, (BLANK,), left=("margin", "sign")),
    ColumnKind("sign", SIGN, (TIMES,), left=("gap",)),
    ColumnKind("gap", GAP, (BLANK,), left=("units", "only_digit")),
    ColumnKind("only_digit", UNITS, (DIGIT,), left=("no_tens",)),
    ColumnKind("no_tens", TENS, (BLANK,), left=("beyond", END)),
    ColumnKind("units", UNITS, (DIGIT,), left=("tens", "highest_tens")),
    ColumnKind("tens", TENS, (DIGIT,), left=("digit", "highest")),
    ColumnKind("highest_tens", TENS, (NONZERO_DIGIT,), left=("beyond",)),
    ColumnKind("digit", REST, (DIGIT,), left=("digit", "highest")),
    ColumnKind("highest", REST, (NONZERO_DIGIT,), left=("beyond",)),
    ColumnKind("beyond", REST, (BLANK,), left=("beyond", END)),
)
# In the lattice: a row with a digit of b on the right.
LATTICE_ROW_COLUMNS = (
    ColumnKind("margin", MARGIN, (ASKED,), left=("margin", "sign")),
    ColumnKind("sign", SIGN, (DIGIT,), left=("gap",)),
    ColumnKind("gap", GAP, (ASKED,), left=("units",)),
    ColumnKind("units", UNITS, (ASKED,), left=("tens",)),
    ColumnKind("tens", TENS, (ASKED,), left=("rest", END)),
    ColumnKind("rest", REST, (ASKED,), left=("rest", END)),
)


def number_columns(left_of_it: tuple[str, ...]) -> tuple[ColumnKind, ...]:
    """Return the columns of a number without a gap and without leading zeros."""
    return (
        ColumnKind("margin", MARGIN, (BLANK,), left=("margin", "units", "only_digit")),
        ColumnKind("only_digit", UNITS, (DIGIT,), left=left_of_it),
        ColumnKind("units", UNITS, (DIGIT,), left=("digit", "highest")),
        ColumnKind("digit", REST, (DIGIT,), left=("digit", "highest")),
        ColumnKind("highest", REST, (NONZERO_DIGIT,), left=left_of_it),
    )


# In the layouts that people write: the rows of a, and of b with the sign on its left.
BEYOND = ColumnKind("beyond", REST, (BLANK,), left=("beyond", END))
A_COLUMNS = (*number_columns(left_of_it=("beyond", END)), BEYOND)
B_COLUMNS = (
    *number_columns(left_of_it=("gap",)),
    ColumnKind("gap", REST, (BLANK,), left=("sign",)),
    ColumnKind("sign", REST, (TIMES,), left=("beyond", END)),
    BEYOND,
)


def aligned_columns(
    given: str, units: str, rest: tuple[str, ...], beyond: tuple[str, ...]
) -> tuple[ColumnKind, ...]:
    """Return the columns of a row below a number: the units, its other digits, what is beyond."""
    left = ("rest", "beyond", END)
    return (
        ColumnKind("margin", MARGIN, (given,), left=("margin", "units")),
        ColumnKind("units", UNITS, (units,), left=left),
        ColumnKind("rest", REST, rest, left=left),
        ColumnKind("beyond", BEYOND_A, beyond, left=("beyond", END)),
    )


def division_columns(
    given: str, digits: str, top: str, sign: str, more: tuple[ColumnKind, ...] = ()
) -> tuple[ColumnKind, ...]:
    """Return the columns of a division: those of a, of b's highest digit, of the sign, beyond.

    Args:
        given: symbols of the margin and beyond the sign.
        digits: symbols in the columns of a.
        top: symbols on their left.
        sign: symbols on the left of that.
        more: columns of a with digits of b.
    """
    left = ("rest", "top", *(column.name for column in more))
    return (
        ColumnKind("margin", MARGIN, (given,), left=("margin", "units")),
        ColumnKind("units", UNITS, (digits,), left=left),
        ColumnKind("rest", REST, (digits,), left=left),
        *more,
        ColumnKind("top", TOP, (top,), left=("sign",)),
        ColumnKind("sign", SIGN, (sign,), left=("beyond", END)),
        ColumnKind("beyond", BEYOND_A, (given,), left=("beyond", END)),
    )


def modular_columns(
    given: str, low: tuple[str, ...], rest: tuple[str, ...], top: tuple[str, ...], sign: str
) -> tuple[ColumnKind, ...]:
    """Return the columns of a product modulo p: those on the right of p, those of p, the sign.

    Args:
        given: symbols of the margin and beyond the sign.
        low: symbols on the right of p.
        rest: symbols in the columns of p but the highest.
        top: symbols in the column of p's highest digit.
        sign: symbols on the left of it.
    """
    return (
        ColumnKind("margin", MARGIN, (given,), left=("margin", "low", "rest")),
        ColumnKind("low", LOW, low, left=("low", "rest")),
        ColumnKind("rest", REST, rest, left=("rest", "top")),
        ColumnKind("top", TOP, top, left=("sign",)),
        ColumnKind("sign", SIGN, (sign,), left=("beyond", END)),
        ColumnKind("beyond", BEYOND_A, (given,), left=("beyond", END)),
    )


@dataclass(frozen=True)
class DifferenceRow(RowKind):
    """The row of a difference a - b."""

    def occur(self, place: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return which of N inputs cells in a place can have, bool [N].

        No borrow leaves the highest digit of a: the task has a >= b.
        """
        return (place != BEYOND_A) | (value(inputs["right.borrow"]) == 0)


@dataclass(frozen=True)
class WavesRow(RowKind):
    """A row of a product modulo p."""

    def occur(self, place: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return which of N inputs cells in a place can have, bool [N].

        In the head S is known but for less than its unit. S is at least -p and below p, after an
        addition below 2 p, and p is less than two units. So S has -2 to 2 units there, after an
        addition up to 4, and 2 S at most 4.
        """
        if place != TOP:
            return super().occur(place, inputs)
        units = units_of_head(inputs)
        added = np.isin(inputs["above.phase"], (ADD_0, ADD_1))
        doubled = np.abs(2 * units + signed(inputs["right.sum"])) <= 4
        fits = (units >= -2) & (units <= np.where(added, 4, 2))
        return fits & (doubled | (inputs["above.phase"] != WAIT))


STRAIGHT, MOVED = "straight from above", "moved by one column"
OWN_DIGITS, DIGITS_ABOVE = "the digits of the cell", "the digits from straight above"
OWN_PRODUCT, PRODUCT_ABOVE = "the product of the row", "the product of the row above"


@dataclass(frozen=True)
class LongRow(RowKind):
    """A kind of row in a layout that people write. The defaults are those of `standard`.

    Attributes:
        digits_come: STRAIGHT: digits of a and b come from straight above; MOVED: those of a from
            above right, those of b from above left.
        moves_digits: digits are passed on diagonally: those of a to the left, those of b to the
            right.
        passes_down: the digits of a and b that are passed straight down; None: no digits.
        multiplies: False: the row only adds.
        adds: the product that is added to the sum of the rows above; None: no product.
        writes_sum: the sum is written in any case, and not the product.
        zeros: on the left of b's highest digit zeros are passed on.
        digit_arrives: whether a digit of b comes to column 0 from above left; None: either.
    """

    columns: tuple[ColumnKind, ...] = ASKED_COLUMNS
    content: str = PRODUCTS
    digits_come: str = MOVED
    moves_digits: bool = True
    passes_down: str | None = None
    multiplies: bool = True
    adds: str | None = OWN_PRODUCT
    writes_sum: bool = False
    zeros: bool = False
    digit_arrives: bool | None = None

    def occur(self, place: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return which of N inputs cells in a place can have, bool [N], by `digit_arrives`."""
        arrives = inputs["above_left.diagonal"] > 0
        anything = self.digit_arrives is None or place != UNITS
        return np.ones_like(arrives) if anything else arrives == self.digit_arrives


A_ROW = LongRow("a", (EDGE,), A_COLUMNS, A)
B_ROW = LongRow("b", ("a",), B_COLUMNS, B)
B_ROW_WITH_ZEROS = LongRow("b", ("a",), B_COLUMNS, B, zeros=True)

# The kinds of rows of each layout.
LAYOUTS: dict[str, tuple[RowKind, ...]] = {
    # a; then a row for each digit of b.
    "lattice": (
        RowKind("a", (EDGE,), LATTICE_A_COLUMNS, A),
        RowKind("b", ("a", "b"), LATTICE_ROW_COLUMNS, LATTICE_ROW),
    ),
    # Any number of addends; their sum.
    "column": (
        RowKind("addend", (EDGE, "addend"), ADDEND_COLUMNS, ADDEND),
        RowKind("sum", ("addend",), ASKED_COLUMNS, SUM),
    ),
    # Two addends; the carries; the sum.
    "column_carries": (
        RowKind("first", (EDGE,), ADDEND_COLUMNS, ADDEND),
        RowKind("last", ("first",), ADDEND_COLUMNS, ADDEND),
        RowKind("carries", ("last",), ASKED_COLUMNS, CARRIES),
        RowKind("sum", ("carries",), ASKED_COLUMNS, SUM),
    ),
    # a; b, which is at most a, with the sign on its left; their difference.
    "difference": (
        RowKind("a", (EDGE,), aligned_columns(BLANK, DIGIT, (DIGIT,), (BLANK,)), A),
        RowKind(
            "b",
            ("a",),
            aligned_columns(BLANK, DIGIT, (DIGIT, BLANK, MINUS), (BLANK, MINUS)),
            B,
        ),
        DifferenceRow(
            "difference", ("b",), aligned_columns(ASKED, ASKED, (ASKED,), (ASKED,)), DIFFERENCE
        ),
    ),
    # a; b, one column further left than a, with the sign; rows to be filled in.
    "restoring": (
        RowKind("a", (EDGE,), division_columns(BLANK, DIGIT, BLANK, BLANK), A),
        RowKind(
            "b",
            ("a",),
            division_columns(
                BLANK,
                BLANK,
                NONZERO_DIGIT,
                DIVIDED,
                (ColumnKind("digit", REST, (DIGIT,), left=("digit", "top")),),
            ),
            B,
        ),
        RowKind("work", ("b", "work"), division_columns(ASKED, ASKED, ASKED, ASKED), DIVISION),
    ),
    # a; b; p, with the sign; rows to be filled in. The highest digits of a and p are in the column
    # of p's highest digit, and b begins at the right end.
    "waves": (
        RowKind(
            "a",
            (EDGE,),
            modular_columns(BLANK, (BLANK,), (DIGIT, BLANK), (DIGIT, BLANK), BLANK),
            A,
        ),
        RowKind(
            "b",
            ("a",),
            modular_columns(BLANK, (DIGIT,), (DIGIT, BLANK), (DIGIT, BLANK), BLANK),
            B,
        ),
        RowKind(
            "p", ("b",), modular_columns(BLANK, (BLANK,), (DIGIT,), (NONZERO_DIGIT,), MODULO), P
        ),
        WavesRow(
            "work",
            ("p", "work"),
            modular_columns(ASKED, (ASKED,), (ASKED,), (ASKED,), ASKED),
            WAVES,
        ),
    ),
    # A tape of bits, and the steps of Rule 110.
    "generations": (
        RowKind("tape", (EDGE,), aligned_columns(BLANK, BIT, (BIT,), (BLANK,)), TAPE),
        RowKind(
            "generation",
            ("tape", "generation"),
            aligned_columns(ASKED, ASKED, (ASKED,), (ASKED,)),
            GENERATION,
        ),
    ),
    # a; b; the products; their sum. A row is a product as long as a digit of b comes to column 0.
    # The first row without one does not multiply, and writes the sum.
    "standard": (
        A_ROW,
        B_ROW,
        LongRow("first", ("b",), digits_come=STRAIGHT),
        LongRow("next", ("first", "next")),
    ),
    # a; b; for each digit of b the sum so far.
    "accumulate": (
        A_ROW,
        B_ROW_WITH_ZEROS,
        LongRow("first", ("b",), digits_come=STRAIGHT, writes_sum=True, zeros=True),
        LongRow("next", ("first", "next"), writes_sum=True, zeros=True),
    ),
    # a; b; for each digit of b its product, and below it the sum so far. The row of a product
    # passes straight down what it received, and the sum adds that product.
    "interleaved": (
        A_ROW,
        B_ROW_WITH_ZEROS,
        LongRow(
            "first",
            ("b",),
            digits_come=STRAIGHT,
            moves_digits=False,
            passes_down=OWN_DIGITS,
            adds=PRODUCT_ABOVE,
        ),
        LongRow(
            "sum",
            ("first", "next"),
            digits_come=STRAIGHT,
            multiplies=False,
            adds=PRODUCT_ABOVE,
            zeros=True,
        ),
        LongRow("next", ("sum",), moves_digits=False, passes_down=OWN_DIGITS, adds=PRODUCT_ABOVE),
    ),
    # a; b; all products; for each digit of b the sum so far. Digits go straight down through the
    # products as well, to the first sum. Each sum computes its product once more.
    "running_sum": (
        A_ROW,
        B_ROW,
        LongRow("first", ("b",), digits_come=STRAIGHT, passes_down=DIGITS_ABOVE, adds=None),
        LongRow("next", ("first", "next"), passes_down=DIGITS_ABOVE, adds=None, digit_arrives=True),
        LongRow(
            "sum",
            ("first", "next"),
            digits_come=STRAIGHT,
            writes_sum=True,
            zeros=True,
            digit_arrives=False,
        ),
        LongRow("later", ("sum", "later"), writes_sum=True, zeros=True),
    ),
}
LONG_LAYOUTS = ("standard", "accumulate", "interleaved", "running_sum")  # that people write

# ---------------------------------------------------------------------------------------------
# Enumerating the inputs of cells
# ---------------------------------------------------------------------------------------------

# Signals that are no digits, and their numbers of classes.
FEW_CLASSES = {SYMBOL: NUMBER_OF_SYMBOLS, "row": 7, "sum_carry": 3, "comes": 3, "zero": 2}
FEW_CLASSES |= {
    "bit": 2,
    "given": 3,
    "borrow": 3,
    "mode": 4,
    "mark": 4,
    "settle": 3,
    "seen": 2,
    "starts": 2,
    "inside": 2,
}
FEW_CLASSES |= {  # of products modulo p
    "line": 3,
    "points": 2,
    "a": 2,
    "b": 5,
    "next": 5,
    "phase": 7,
    "step": 12,
    "does": 10,
    "wave": 10,
    "change": 5,
    "moved": 4,
    "twice": 4,
    "source": 4,
    "added": 4,
    "lifts": 4,
    "up": 4,
}
# Signals of which an outline keeps the class, and no others, where a layout is listed.
KEPT_IN_OUTLINES = {
    "waves": ("wave", "b"),
    "restoring": ("divisor", "mark", "settle", "difference"),
}
MOST_OUTLINES = 128  # an upper bound on the number of outlines that occur


def number_of_classes(signal: str, base: int, long: bool) -> int:
    """Return the number of classes of a signal: none, the digits, and those of `LongCells`."""
    special = (2 if signal == "product" else 1) if long else 0
    return FEW_CLASSES.get(signal, 1 + base + special)


def first_classes(signal: str, base: int, layout: str) -> list[int]:
    """Return the first class of each range of classes that a `Summaries` distinguishes.

    In most layouts each class is a range of its own. In a division, and in the layouts that people
    write, digits are one range. Some have ranges of their own:

    - the digit 0 of a, which decides if a product is 0;
    - the digit 0 of a divisor, which is not its highest digit;
    - the largest digit of a product: it is never the product's highest digit where only a carry is
      left, so that the sum has no carry there;
    - the digits 0 and largest of a quotient, after which no trial is repeated.
    """
    long = layout in LONG_LAYOUTS
    classes = range(number_of_classes(signal, base, long))
    if signal in FEW_CLASSES or not (long or layout == "restoring"):
        return list(classes)
    firsts = {NONE, ZERO, *range(base + 1, len(classes))}
    if signal in ("column_multiplicand", "divisor", "quotient"):
        firsts.add(ZERO + 1)
    if signal in ("product", "quotient"):
        firsts.add(base)
    return sorted(firsts)


class Summaries:
    """Numbers for what is kept of a cell in a row above.

    A *summary* is a range of classes for each signal that the cell passes to the row below. Later
    all classes of a range are tried: more inputs than canvases have, never fewer. Example: if a
    cell of `standard` passes down the digit 7 of a, its summary has the range of digits 1 to 9.
    Number 0 stands for no cell.

    An *outline* is shorter. It records which cells can be side by side. It is a place, and for each
    signal which range; in lattices and sums: none, the digit 0, or any other class. See also
    `KEPT_IN_OUTLINES`. Number 0 stands for no cell.

    Attributes:
        count: of all summaries, S.
        first, size: the first class of a signal's range and its number of classes, int [S] by
            signal.
    """

    def __init__(self, signals: list[str], base: int, layout: str) -> None:
        self.signals = signals
        long, kept = layout in LONG_LAYOUTS, KEPT_IN_OUTLINES.get(layout)
        firsts = [first_classes(name, base, layout) for name in signals]
        self._shape = tuple(len(first) for first in firsts)
        ranges = np.indices(self._shape).reshape(len(signals), -1)  # [signals, S - 1]
        self.count = 1 + ranges.shape[1]
        self.first: dict[str, np.ndarray] = {}
        self.size: dict[str, np.ndarray] = {}
        self._range_of: dict[str, np.ndarray] = {}  # int [classes] by signal
        for name, first, its_range in zip(signals, firsts, ranges, strict=True):
            sizes = np.diff([*first, number_of_classes(name, base, long)])
            self.first[name] = np.append(NONE, np.array(first)[its_range])
            self.size[name] = np.append(1, sizes[its_range])
            self._range_of[name] = np.repeat(np.arange(len(first)), sizes)
        # What an outline keeps of each summary, as a number.
        if kept is not None:
            ranges = ranges * np.isin(signals, kept)[:, None]
        elif not long:
            ranges = np.minimum(ranges, 2)
        self._kept = np.append(-1, np.ravel_multi_index(tuple(ranges), self._shape))
        # Few outlines occur. They are numbered as they do.
        self._outlines: dict[tuple[str, int], int] = {}
        self._outline_of = {place: np.full(self.count, -1) for place in PLACES}  # -1: not yet
        for numbers in self._outline_of.values():
            numbers[0] = 0

    def of(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return the summaries of N cells, int [N], from their outputs, int [N] by name."""
        ranges = [self._range_of[name][outputs[name]] for name in self.signals]
        return 1 + np.ravel_multi_index(ranges, self._shape)

    def with_only(self, signals: list[str]) -> np.ndarray:
        """Return each summary with none for all other signals, int [S]."""
        classes = {name: self.first[name] * (name in signals) for name in self.signals}
        return np.where(np.arange(self.count) > 0, self.of(classes), 0)

    def outlines(self, place: str, summaries: np.ndarray) -> np.ndarray:
        """Return the outlines of N summaries in a place, int [N]; 0: there is no such cell."""
        outline_of = self._outline_of[place]
        for summary in np.unique(summaries[outline_of[summaries] < 0]).tolist():
            key = place, int(self._kept[summary])
            outline_of[summary] = self._outlines.setdefault(key, 1 + len(self._outlines))
        if len(self._outlines) >= MOST_OUTLINES:
            raise NotCheckableError("rows of its canvases have more outlines than are tried")
        return outline_of[summaries]


class ReachableRow:
    """Messages that rows of one kind can pass down, as far as they were found.

    Attributes:
        passed_down: mask of the summaries that cells in a place can have, bool [S] by place.
        side_by_side: mask of the outlines that two cells beside each other can have, that on the
            right first, bool [MOST_OUTLINES, MOST_OUTLINES].
    """

    def __init__(self, summaries: int) -> None:
        self.passed_down = {place: np.zeros(summaries, dtype=bool) for place in PLACES}
        self.passed_down[END][0] = True  # there is no cell
        self.side_by_side = np.zeros((MOST_OUTLINES, MOST_OUTLINES), dtype=bool)

    def amount(self) -> int:
        """Return how much was found."""
        masks = (*self.passed_down.values(), self.side_by_side)
        return sum(int(mask.sum()) for mask in masks)


def upper_edge(summaries: int) -> ReachableRow:
    """Return the row beyond the upper edge of the canvas: it has no cell in any place."""
    edge = ReachableRow(summaries)
    for passed_down in edge.passed_down.values():
        passed_down[0] = True
    edge.side_by_side[0, 0] = True
    return edge


def distinct(numbers: np.ndarray) -> np.ndarray:
    """Return each number once, ascending. `np.unique` does so too, but hashes, which is slower."""
    numbers = np.sort(numbers)
    return numbers[np.append(True, numbers[1:] != numbers[:-1])] if len(numbers) else numbers


def copies(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the original of each copy, and the number of the copy.

    Example: counts [2, 3] → originals [0, 0, 1, 1, 1], numbers [0, 1, 0, 1, 2].
    """
    originals = np.repeat(np.arange(len(counts)), counts)
    first_copies = np.cumsum(counts) - counts
    return originals, np.arange(len(originals)) - first_copies[originals]


class Enumeration:
    """All inputs that cells can have, on canvases of any size.

    Rows are enumerated from the upper edge down, and each from its right end to the left, until no
    row adds anything. The outputs of each cell are those of the table, and obey all laws.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.rows = LAYOUTS[program.layout]
        base, long = program.base, program.layout in LONG_LAYOUTS
        self.classes = {name: number_of_classes(name, base, long) for name in program.tables}
        self.from_right = program.messages["left"]
        self.from_above = {
            neighbour: program.messages.get(direction, [])
            for neighbour, direction in NEIGHBOURS_ABOVE.items()
        }
        signals = [signal for names in self.from_above.values() for signal in names]
        self.summaries = Summaries(list(dict.fromkeys(signals)), base, program.layout)
        self.as_above_right = self.summaries.with_only(self.from_above["above_right"])
        # A message from the right as one number: 0 if there is no cell on the right, else 1 + n.
        self.message_shape = tuple(self.classes[name] for name in self.from_right) or (1,)
        # What a cell reads, and the state of a column, as one number: see `enumerate_row`.
        messages, summaries = 1 + math.prod(self.message_shape), self.summaries.count
        self.cell_shape = (messages, summaries, summaries)
        self.state_shape = (*self.cell_shape, MOST_OUTLINES)
        self.reachable = {row.name: ReachableRow(summaries) for row in self.rows}
        self.reachable[EDGE] = upper_edge(summaries)
        self.cell_inputs: list[np.ndarray] = []  # as numbers, see `as_numbers`
        self.input_names: list[str] = []
        self.input_sizes: tuple[int, ...] = ()

    def run(self) -> int:
        """Enumerate all rows, and return the number of distinct cell inputs.

        Raises:
            LawError: an output in the table is against a law.
        """
        tried: dict[tuple[str, str], int] = {}  # row and above → what was found above at the time
        while now := [
            (row, above)
            for row in self.rows
            for above in row.above
            if tried.get((row.name, above)) != self.reachable[above].amount()
        ]:
            for row, above in now:
                tried[row.name, above] = self.reachable[above].amount()
                self.enumerate_row(row, above)
        return len(distinct(np.concatenate(self.cell_inputs)))

    def cells(self) -> dict[str, np.ndarray]:
        """Return all distinct cells that were found: what stands in them, and what they read.

        int [N] by name, like result["token"], result["right.carry"].
        """
        symbols, numbers = np.divmod(
            distinct(np.concatenate(self.cell_inputs)), math.prod(self.input_sizes)
        )
        inputs = np.unravel_index(numbers, self.input_sizes)
        return {TOKEN: symbols, **dict(zip(self.input_names, inputs, strict=True))}

    def enumerate_row(self, row: RowKind, above: str) -> None:
        """Add what one kind of row can pass down where it is below another kind.

        Columns are enumerated from the right. The *state* of a column is all that matters of the
        cells on its right and above. It has four parts: the message from the right; the summary of
        the cell above right; that of the cell above; and the outline of the cell on the right.
        """
        columns = {column.name: column for column in row.columns}
        done: dict[str, np.ndarray] = {}  # states by column
        to_do = {}
        for name in row.first_columns:  # on their right there is no cell
            passed_down = self.reachable[above].passed_down[columns[name].place]
            to_do[name] = np.ravel_multi_index(
                (0, 0, np.flatnonzero(passed_down), 0), self.state_shape
            )
        while to_do:
            found: dict[str, list[np.ndarray]] = {}
            for name, states in to_do.items():
                done[name] = distinct(np.concatenate([done.get(name, states), states]))
                for left in columns[name].left:
                    left_place = END if left == END else columns[left].place
                    left_states = self.enumerate_column(
                        row, above, columns[name], left_place, states
                    )
                    if left != END:
                        found.setdefault(left, []).extend(left_states)
            to_do = {}
            for name, parts in found.items():
                states = distinct(np.concatenate(parts)) if parts else np.zeros(0, dtype=int)
                new = np.setdiff1d(states, done.get(name, ()), assume_unique=True)
                if len(new):
                    to_do[name] = new

    def enumerate_column(
        self, row: RowKind, above: str, column: ColumnKind, left_place: str, states: np.ndarray
    ) -> list[np.ndarray]:
        """Run a column in all given states, and return the states of the column on its left.

        Args:
            row: kind of the row.
            above: name of the kind of row above.
            column: kind of the column.
            left_place: the place on its left, or END.
            states: int [N], see `enumerate_row`.
        """
        reachable = self.reachable[row.name]
        # Cells are run once for all outlines on their right: they read no outlines.
        cells, cell_of_state = np.unique(states // MOST_OUTLINES, return_inverse=True)
        outlines_on_right = np.zeros((len(cells), MOST_OUTLINES), dtype=np.float32)
        outlines_on_right[cell_of_state.reshape(-1), states % MOST_OUTLINES] = 1
        own_outlines = np.zeros((len(cells), MOST_OUTLINES), dtype=np.float32)
        # From here on arrays have an element for each cell with each cell that can be above left.
        right, above_right, directly_above = np.unravel_index(cells, self.cell_shape)
        which, above_left = self.cells_above_left(above, column.place, directly_above, left_place)
        neighbours = {
            "above": directly_above[which],
            "above_left": above_left,
            "above_right": above_right[which],
        }
        if not len(which):
            return []
        # And from here on for each of these with each class in the ranges of summaries.
        origin, inputs = self.inputs(row, column, right[which], neighbours)
        # Many of them read the same, which is decided once.
        numbers, first, same = np.unique(
            self.as_numbers(inputs), return_index=True, return_inverse=True
        )
        inputs = {name: part[first] for name, part in inputs.items()}
        left_states = []
        for symbol in symbol_ids(column.symbols, self.program.base):
            self.cell_inputs.append(symbol * math.prod(self.input_sizes) + numbers)
            outputs = decide_lawfully(self.program, self.classes, row, column, symbol, inputs)
            summary = self.summaries.of(outputs)
            outline = self.summaries.outlines(column.place, summary)
            reachable.passed_down[column.place][summary] = True
            own_outlines[which[origin], outline[same]] = 1
            if left_place == END:
                reachable.side_by_side[outline, 0] = True
            message = [outputs[name] for name in self.from_right] or [np.zeros_like(summary)]
            state = (
                1 + np.ravel_multi_index(message, self.message_shape)[same],
                self.as_above_right[neighbours["above"][origin]],
                neighbours["above_left"][origin],
                outline[same],
            )
            left_states.append(distinct(np.ravel_multi_index(state, self.state_shape)))
        # The number of cells with one outline on their right and another as their own.
        found = [np.flatnonzero(some.any(axis=0)) for some in (outlines_on_right, own_outlines)]
        pairs = outlines_on_right[:, found[0]].T @ own_outlines[:, found[1]]
        reachable.side_by_side[np.ix_(*found)] |= pairs > 0
        return left_states

    def cells_above_left(
        self, above: str, place: str, directly_above: np.ndarray, left_place: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return all summaries that can be above left of cells.

        Args:
            above: name of the kind of row above.
            place: of the cells.
            left_place: on their left.
            directly_above: summaries of the cells above them, int [N].

        Returns:
            For each of M combinations the index of the cell, and the summary above left, int [M].
        """
        row_above = self.reachable[above]
        options = np.flatnonzero(row_above.passed_down[left_place])
        outlines = self.summaries.outlines(place, directly_above)
        left_outlines = self.summaries.outlines(left_place, options)
        which, option = row_above.side_by_side[outlines][:, left_outlines].nonzero()
        return which, options[option]

    def inputs(
        self, row: RowKind, column: ColumnKind, right: np.ndarray, neighbours: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the inputs of cells, one for each class in the ranges of summaries.

        Args:
            row: kind of the row.
            column: kind of the column.
            right: messages from the right as numbers, int [N].
            neighbours: summaries of the cells above, above left and above right, int [N] each.

        Returns:
            For each of M inputs the index of its cell, int [M]; and the inputs, int [M] by name.
        """
        origin = np.arange(len(right))
        inputs = {RIGHT: (right > 0).astype(int)}
        message = np.unravel_index(np.maximum(right - 1, 0), self.message_shape)
        for signal, classes in zip(self.from_right, message, strict=False):
            inputs[f"{RIGHT}.{signal}"] = classes
        for neighbour, signals in self.from_above.items():
            summary = neighbours[neighbour]
            inputs[neighbour] = ((summary > 0) & bool(signals)).astype(int)[origin]
            for signal in signals:
                classes = self.summaries.first[signal][summary][origin]
                sizes = self.summaries.size[signal][summary]
                if sizes.max() > 1:  # some ranges have several classes
                    copied, copy = copies(sizes[origin])
                    origin = origin[copied]
                    inputs = {name: part[copied] for name, part in inputs.items()}
                    classes = classes[copied] + copy
                inputs[f"{neighbour}.{signal}"] = classes
        fits = row.occur(column.place, inputs)
        return origin[fits], {name: part[fits] for name, part in inputs.items()}

    def as_numbers(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """Return each of N inputs as one number, int [N]."""
        sizes = [self.classes[name.split(".")[1]] if "." in name else 2 for name in inputs]
        self.input_names, self.input_sizes = list(inputs), tuple(sizes)
        return np.ravel_multi_index(tuple(inputs.values()), self.input_sizes)


# ---------------------------------------------------------------------------------------------
# Laws of all layouts
# ---------------------------------------------------------------------------------------------


class LawError(Exception):
    """A law does not hold; the message names the law and the first such cell."""


@dataclass
class Cells:
    """N cells in one kind of column of one kind of row.

    Attributes:
        row, place, base: where they are.
        inputs, outputs: classes, int [N] by name, like inputs["right.carry"], outputs["carry"].
        written: class of the digit that is written, int [N]; 0: a blank or a sign.
    """

    row: RowKind
    place: str
    base: int
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    written: np.ndarray


# A law returns for N cells if it holds, bool [N]. The first line of its docstring says what holds.
Law = Callable[[Any], np.ndarray]


def value(classes: np.ndarray) -> np.ndarray:
    """Return the digits or carries of classes; none counts as 0."""
    return np.maximum(classes - 1, 0)


def decide_lawfully(
    program: Program,
    classes: dict[str, int],
    row: RowKind,
    column: ColumnKind,
    symbol: int,
    inputs: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Return the outputs of N cells by the table, and check all laws of them.

    Args:
        program: the tables.
        classes: numbers of classes by signal.
        row: kind of the row of the cells.
        column: kind of their column.
        symbol: id of what stands in the cells. A given symbol stays.
        inputs: messages that they read, int [N] by name.

    Raises:
        LawError: an entry is missing, or a law does not hold.
    """
    number = len(next(iter(inputs.values())))
    where = f"in row {row.name}, column {column.name}"
    outputs = {SYMBOL: np.full(number, symbol)}
    reads = {**inputs, TOKEN: outputs[SYMBOL]}
    for output, table in program.tables.items():
        if output == SYMBOL and symbol != ASKED_ID:
            continue
        outputs[output], has_entry = table.look_up(reads)
        reads[f"own.{output}"] = outputs[output]
        demand(has_entry, f"there is an entry of {output}", where, reads)
    for output, many in classes.items():
        demand(outputs[output] < many, f"{output} has {many} classes", where, reads)
    class_of_symbol = np.zeros(NUMBER_OF_SYMBOLS, dtype=int)
    class_of_symbol[DIGIT_IDS[: program.base]] = 1 + np.arange(program.base)
    written = class_of_symbol[outputs[SYMBOL]]
    if symbol == ASKED_ID:
        well_written = (written > 0) | (outputs[SYMBOL] == BLANK_ID)
        demand(well_written, "a digit or a blank is written", where, reads)
    kind, laws_of = LAWS[program.layout]
    cells = kind(row, column.place, program.base, inputs, outputs, written)
    for law in laws_of(row, column.place):
        statement = (law.__doc__ or "").partition("\n")[0]
        demand(law(cells), f"{law.__name__}: {statement}", where, reads)
    return outputs


def demand(holds: np.ndarray, law: str, where: str, reads: dict[str, np.ndarray]) -> None:
    """Raise LawError unless a law holds for all of N cells, bool [N]."""
    if not holds.all():
        first = int(np.argmin(holds))
        cell = {name: int(part[first]) for name, part in reads.items()}
        raise LawError(f"{where}, against '{law}': {cell}")


def nothing_is_written(cells: Cells) -> np.ndarray:
    """The cell stays blank."""
    return cells.written == NONE


# ---------------------------------------------------------------------------------------------
# Laws of the lattice: row i is t_i = ⌊t_(i-1) / base⌋ + a · b_i
# ---------------------------------------------------------------------------------------------


def a_starts_down(cells: Cells) -> np.ndarray:
    """multiplicand' = the digit of a; in the row of a."""
    return cells.outputs["multiplicand"] == cells.written


def a_is_not_added(cells: Cells) -> np.ndarray:
    """addend' = none; in the row of a: t_0 has no row above it."""
    return cells.outputs["addend"] == NONE


def b_starts_left(cells: Cells) -> np.ndarray:
    """multiplier' = b_i; in the column of b's digits."""
    return cells.outputs["multiplier"] == cells.written


def no_carry_enters(cells: Cells) -> np.ndarray:
    """carry' = 0; in the column of b's digits, on the right of the first product."""
    return value(cells.outputs["carry"]) == 0


def no_sum_carry_enters(cells: Cells) -> np.ndarray:
    """sum_carry' = 0; in the gap, on the right of the first sum."""
    return value(cells.outputs["sum_carry"]) == 0


def b_goes_left(cells: Cells) -> np.ndarray:
    """multiplier' = multiplier; the whole row has b_i."""
    return cells.outputs["multiplier"] == cells.inputs["right.multiplier"]


def a_goes_down(cells: Cells) -> np.ndarray:
    """multiplicand' = multiplicand; the whole column has its digit of a."""
    return cells.outputs["multiplicand"] == cells.inputs["above.multiplicand"]


def lattice_product(cells: Cells) -> np.ndarray:
    """base * carry' + product' = a * b + carry

    The product is computed one cell ahead, for the cell on the left. So a is from above left.
    """
    a = value(cells.inputs["above_left.multiplicand"])
    b = value(cells.inputs["right.multiplier"])
    carry, product = value(cells.outputs["carry"]), value(cells.outputs["product"])
    return cells.base * carry + product == a * b + value(cells.inputs["right.carry"])


def lattice_sum(cells: Cells) -> np.ndarray:
    """base * sum_carry' + digit' = addend + product + sum_carry

    The addend is the digit of t_(i-1) above left. This drops the lowest digit of t_(i-1), and so
    divides it by the base.
    """
    addend = value(cells.inputs["above_left.addend"])
    product = value(cells.inputs["right.product"])
    total = addend + product + value(cells.inputs["right.sum_carry"])
    return cells.base * value(cells.outputs["sum_carry"]) + value(cells.written) == total


def digit_goes_down(cells: Cells) -> np.ndarray:
    """addend' = digit'; the row below adds what is written."""
    return cells.outputs["addend"] == cells.written


def lattice_form(cells: Cells) -> np.ndarray:
    """A digit is written where t_i reaches, and only there: no gap, no leading zero.

    In the units; where the digit is not 0; and as far as a reaches if b_i > 0, else as far as
    t_(i-1) reached.
    """
    a_reaches = cells.inputs["above.multiplicand"] > NONE
    sum_above_reaches = cells.inputs["above_left.addend"] > NONE
    b_is_zero = value(cells.inputs["right.multiplier"]) == 0
    reaches = np.where(b_is_zero, sum_above_reaches, a_reaches)
    belongs = (cells.place == UNITS) | (cells.written > ZERO) | reaches
    return (cells.written > NONE) == belongs


def lattice_laws(row: RowKind, place: str) -> Iterator[Law]:
    """Yield the laws of cells in a place of the lattice."""
    if place in (MARGIN, GAP):
        yield nothing_is_written
    if row.content == A:
        yield from (a_starts_down, a_is_not_added)
    elif place == SIGN:
        yield from (b_starts_left, no_carry_enters)
    elif place == GAP:
        yield from (b_goes_left, lattice_product, no_sum_carry_enters)
    elif place != MARGIN:
        yield from (b_goes_left, lattice_product, lattice_sum, lattice_form)
        yield from (a_goes_down, digit_goes_down)


# ---------------------------------------------------------------------------------------------
# Laws of sums in columns: a running sum goes down
# ---------------------------------------------------------------------------------------------


def column_sum(cells: Cells) -> np.ndarray:
    """base * sum_carry' + sum' = addend + sum + sum_carry

    The addend is the digit in the cell above, and the sum is that of all rows above that cell.
    """
    total = value(cells.inputs["above.addend"]) + value(cells.inputs["above.sum"])
    total += value(cells.inputs["right.sum_carry"])
    return cells.base * value(cells.outputs["sum_carry"]) + value(cells.outputs["sum"]) == total


def column_form(cells: Cells) -> np.ndarray:
    """A sum has a digit where an addend, the sum above or a carry has: no gap, no leading zero."""
    carry = value(cells.inputs["right.sum_carry"])
    belongs = cells.inputs["above.addend"] > NONE
    belongs |= (cells.inputs["above.sum"] > NONE) | (carry > 0)
    return (cells.outputs["sum"] > NONE) == belongs


def addend_goes_down(cells: Cells) -> np.ndarray:
    """addend' = the digit in the cell; in the row of an addend."""
    return cells.outputs["addend"] == cells.written


def nothing_is_added_twice(cells: Cells) -> np.ndarray:
    """addend' = none; below the addends."""
    return cells.outputs["addend"] == NONE


def sum_is_written(cells: Cells) -> np.ndarray:
    """digit' = sum'; in the row of the sum."""
    return cells.written == cells.outputs["sum"]


def carries_are_written(cells: Cells) -> np.ndarray:
    """digit' = sum_carry where the sum has a digit; in the row of the carries.

    Not in column 0, where no carry comes in.
    """
    carry_class = 1 + value(cells.inputs["right.sum_carry"])
    has_carry = (cells.outputs["sum"] > NONE) & (cells.place == REST)
    return cells.written == np.where(has_carry, carry_class, NONE)


def column_laws(row: RowKind, place: str) -> Iterator[Law]:
    """Yield the laws of cells in sums."""
    yield from (column_sum, column_form)
    if row.content == ADDEND:
        yield addend_goes_down
    else:
        yield carries_are_written if row.content == CARRIES else sum_is_written
        yield nothing_is_added_twice


# ---------------------------------------------------------------------------------------------
# Laws of a difference a - b
# ---------------------------------------------------------------------------------------------


def minuend_starts(cells: Cells) -> np.ndarray:
    """minuend' = the digit of a; in the row of a."""
    return cells.outputs["minuend"] == cells.written


def minuend_goes_down(cells: Cells) -> np.ndarray:
    """minuend' = minuend; in the row of b."""
    return cells.outputs["minuend"] == cells.inputs["above.minuend"]


def subtrahend_starts(cells: Cells) -> np.ndarray:
    """subtrahend' = the digit of b; in the row of b."""
    return cells.outputs["subtrahend"] == cells.written


def no_borrow_enters(cells: Cells) -> np.ndarray:
    """borrow' = 0; on the right of the units, and on the left of a."""
    return value(cells.outputs["borrow"]) == 0


def difference_of_digits(cells: Cells) -> np.ndarray:
    """minuend + base * borrow' = subtrahend + borrow + digit'; as far as a reaches."""
    taken = value(cells.inputs["above.subtrahend"]) + value(cells.inputs["right.borrow"])
    given = value(cells.inputs["above.minuend"]) + cells.base * value(cells.outputs["borrow"])
    return given == taken + value(cells.written)


def difference_form(cells: Cells) -> np.ndarray:
    """A digit is written as far as a reaches, and only there."""
    return (cells.written > NONE) == (cells.inputs["above.minuend"] > NONE)


def difference_laws(row: RowKind, place: str) -> Iterator[Law]:
    """Yield the laws of cells in a difference."""
    if row.content == A:
        yield minuend_starts
    elif row.content == B:
        yield from (minuend_goes_down, subtrahend_starts)
    else:
        yield difference_form
        yield no_borrow_enters if place in (MARGIN, BEYOND_A) else difference_of_digits


# ---------------------------------------------------------------------------------------------
# Laws of a division: a row subtracts b · base^s, and the next rows keep the difference or not
# ---------------------------------------------------------------------------------------------

TRIAL, QUOTIENT, AGAIN = 1, 2, 3  # classes of the signal mode, of rows from some column on
# Classes of the signal mark, in the column of b's lowest digit; decided: the next trial is one
# column further right; repeated: it is in the same column.
UNDECIDED, DECIDED, REPEATED = 1, 2, 3
NOT_KEPT, KEPT = 1, 2  # classes of the signal settle


@dataclass
class DivisionCells(Cells):
    """N cells of a division, and what follows from their inputs."""

    @cached_property
    def mode(self) -> np.ndarray:
        """The mode that follows, int [N]: none outside of the columns of a.

        A row subtracts once more from the column on where the trial before it was decided and is to
        be repeated. It moves b and subtracts from the column on where b arrives, as the trial was
        decided in the column on the left. Where neither begins any more it writes the quotient.
        """
        again = self.inputs["above.mark"] == REPEATED
        arrives = self.inputs["above_left.mark"] == DECIDED
        before = self.inputs["right.mode"]
        ends = (self.inputs["above.mark"] == DECIDED) & (before == NONE)
        mode = np.select([again, arrives, ends], [AGAIN, TRIAL, QUOTIENT], before)
        return np.where(self.in_a, mode, NONE)

    @cached_property
    def trial(self) -> np.ndarray:
        """Mask of the cells that subtract."""
        return np.isin(self.mode, (TRIAL, AGAIN))

    @cached_property
    def ends(self) -> np.ndarray:
        """Mask of the cells that write the quotient."""
        return self.mode == QUOTIENT

    @cached_property
    def found(self) -> np.ndarray:
        """Digit of the quotient after this row, where a trial is decided, int [N].

        It is the number of trials kept; there are at most base - 1 of them.
        """
        kept = value(self.inputs["above.quotient"]) + self.is_kept
        return np.minimum(kept, self.base - 1)

    @property
    def in_a(self) -> np.ndarray:
        """Mask of the cells in the columns of a."""
        return np.full(len(self.written), self.place in (UNITS, REST))

    @cached_property
    def settles(self) -> np.ndarray:
        """Mask of the cells that learn in this row if the last trial is kept."""
        return self.in_a & (self.inputs["above_left.settle"] > NONE)

    @cached_property
    def is_kept(self) -> np.ndarray:
        """Mask of the cells that learn that it is kept."""
        return self.in_a & (self.inputs["above_left.settle"] == KEPT)


def dividend_starts(cells: DivisionCells) -> np.ndarray:
    """remainder' = the digit of a; in the row of a."""
    return cells.outputs["remainder"] == cells.written


def divisor_starts(cells: DivisionCells) -> np.ndarray:
    """divisor' = the digit of b; its lowest digit is marked as decided."""
    lowest = (cells.written > NONE) & (cells.inputs["right.seen"] == 0)
    digit = cells.outputs["divisor"] == cells.written
    mark = cells.outputs["mark"] == np.where(lowest, DECIDED, NONE)
    return digit & mark & ((cells.outputs["seen"] > 0) == (cells.written > NONE))


def no_trial_yet(cells: DivisionCells) -> np.ndarray:
    """mode' = settle' = difference' = quotient' = none; in the rows of a and b."""
    names = ("mode", "settle", "difference", "quotient")
    return np.logical_and.reduce([cells.outputs[name] == NONE for name in names])


def nothing_but_a_yet(cells: DivisionCells) -> np.ndarray:
    """divisor' = mark' = none; in the row of a."""
    return (cells.outputs["divisor"] == NONE) & (cells.outputs["mark"] == NONE)


def remainder_passes_b(cells: DivisionCells) -> np.ndarray:
    """remainder' = remainder; in the row of b."""
    return cells.outputs["remainder"] == cells.inputs["above.remainder"]


def nothing_outside_a(cells: DivisionCells) -> np.ndarray:
    """All outputs but settle are none; in rows to be filled in, outside of the columns of a."""
    names = ("mode", "borrow", "remainder", "difference", "divisor", "mark", "quotient")
    nothing = np.logical_and.reduce([cells.outputs[name] == NONE for name in names])
    return nothing & (cells.written == NONE)


def trial_is_decided(cells: DivisionCells) -> np.ndarray:
    """settle' = kept if the row's last borrow is 0; on the left of a, in the row of a trial."""
    kept = np.where(value(cells.inputs["right.borrow"]) == 0, KEPT, NOT_KEPT)
    decided = np.where(np.isin(cells.inputs["right.mode"], (TRIAL, AGAIN)), kept, NONE)
    return cells.outputs["settle"] == (decided if cells.place == TOP else NONE)


def rows_of_trials(cells: DivisionCells) -> np.ndarray:
    """mode' = again or trial from the column on where one begins; quotient if none is to come."""
    return cells.outputs["mode"] == cells.mode


def divisor_moves(cells: DivisionCells) -> np.ndarray:
    """divisor' = that above left where b moves, with zeros on the left of b; else that above."""
    moved = np.maximum(cells.inputs["above_left.divisor"], ZERO)
    stays = cells.inputs["above.divisor"]
    return cells.outputs["divisor"] == np.where(cells.mode == TRIAL, moved, stays)


def mark_moves(cells: DivisionCells) -> np.ndarray:
    """mark' moves with b, undecided; decided where b's lowest digit learns if the trial is kept.

    The trial is repeated if it is kept, and the quotient's digit is not yet base - 1.
    """
    mark = cells.inputs["above.mark"]
    decided = np.where(cells.is_kept & (cells.found < cells.base - 1), REPEATED, DECIDED)
    stays = np.where((mark == UNDECIDED) & cells.settles, decided, mark)
    moved = np.minimum(cells.inputs["above_left.mark"], UNDECIDED)
    begins = [cells.mode == TRIAL, cells.mode == AGAIN]
    expected = np.select(begins, [moved, np.minimum(mark, UNDECIDED)], stays)
    return cells.outputs["mark"] == expected


def trial_subtracts(cells: DivisionCells) -> np.ndarray:
    """remainder + base * borrow' = divisor' + borrow + difference'; in a trial, else borrow' = 0"""
    taken = value(cells.outputs["divisor"]) + value(cells.inputs["right.borrow"])
    given = value(cells.inputs["above.remainder"]) + cells.base * value(cells.outputs["borrow"])
    subtracts = given == taken + value(cells.outputs["difference"])
    return np.where(cells.trial, subtracts, value(cells.outputs["borrow"]) == 0)


def difference_waits(cells: DivisionCells) -> np.ndarray:
    """A difference begins in a trial, stays until it settles, and is none afterwards."""
    waits = (cells.inputs["above.difference"] > NONE) & ~cells.settles
    stays = cells.outputs["difference"] == np.where(waits, cells.inputs["above.difference"], NONE)
    return np.where(cells.trial, cells.outputs["difference"] > NONE, stays)


def remainder_is_chosen(cells: DivisionCells) -> np.ndarray:
    """remainder' = difference if the trial is kept, else remainder."""
    kept = cells.is_kept & (cells.inputs["above.difference"] > NONE)
    chosen = np.where(kept, cells.inputs["above.difference"], cells.inputs["above.remainder"])
    return cells.outputs["remainder"] == chosen


def sign_moves_right(cells: DivisionCells) -> np.ndarray:
    """settle' = settle above left, as far as the column of b's lowest digit."""
    goes_on = cells.settles & (cells.inputs["above.mark"] != UNDECIDED)
    expected = np.where(goes_on, cells.inputs["above_left.settle"], NONE)
    return cells.outputs["settle"] == expected


def quotient_digit(cells: DivisionCells) -> np.ndarray:
    """quotient' = quotient + 1 if the trial is kept; where it is decided. Else as above."""
    here = cells.settles & (cells.inputs["above.mark"] == UNDECIDED)
    digit = ZERO + cells.found
    return cells.outputs["quotient"] == np.where(here, digit, cells.inputs["above.quotient"])


def division_is_written(cells: DivisionCells) -> np.ndarray:
    """digit' = quotient' in the last rows; else difference' where it waits, else remainder'."""
    waits = cells.outputs["difference"] > NONE
    shown = np.where(waits, cells.outputs["difference"], cells.outputs["remainder"])
    return cells.written == np.where(cells.ends, cells.outputs["quotient"], shown)


def division_laws(row: RowKind, place: str) -> Iterator[Law]:
    """Yield the laws of cells in a division."""
    if row.content == A:
        yield from (dividend_starts, nothing_but_a_yet, no_trial_yet)
    elif row.content == B:
        yield from (remainder_passes_b, divisor_starts, no_trial_yet)
    elif place not in (UNITS, REST):
        yield from (nothing_outside_a, trial_is_decided)
    else:
        yield from (rows_of_trials, divisor_moves, mark_moves, trial_subtracts)
        yield from (difference_waits, remainder_is_chosen, sign_moves_right, quotient_digit)
        yield division_is_written


# ---------------------------------------------------------------------------------------------
# Laws of Rule 110: a bit depends on three bits of the row above
# ---------------------------------------------------------------------------------------------


def tape_starts(cells: Cells) -> np.ndarray:
    """bit' = the bit of the tape, 0 outside of it; in the row of the tape."""
    return cells.outputs["bit"] == value(cells.written)


def step_of_rule_110(cells: Cells) -> np.ndarray:
    """bit' = 0 if the bits above left, above and above right are 000, 100 or 111, else 1."""
    left, above, right = (cells.inputs[f"above{side}.bit"] for side in ("_left", "", "_right"))
    is_zero = ((above == 0) & (right == 0)) | ((left == 1) & (above == 1) & (right == 1))
    return (cells.outputs["bit"] == 0) == is_zero


def nothing_outside_the_tape(cells: Cells) -> np.ndarray:
    """bit' = 0, and the cell stays blank; outside of the columns of the tape."""
    return (cells.outputs["bit"] == 0) & (cells.written == NONE)


def bit_is_written(cells: Cells) -> np.ndarray:
    """digit' = bit'; in the columns of the tape."""
    return cells.written == ZERO + cells.outputs["bit"]


def rule_110_laws(row: RowKind, place: str) -> Iterator[Law]:
    """Yield the laws of cells of Rule 110."""
    if row.content == TAPE:
        yield tape_starts
    elif place not in (UNITS, REST):
        yield nothing_outside_the_tape
    else:
        yield from (step_of_rule_110, bit_is_written)


# ---------------------------------------------------------------------------------------------
# Laws of products modulo p: S is doubled, a is added, p is added or taken, from the left on
# ---------------------------------------------------------------------------------------------

# Classes of the signal wave; of phase: the first two, then the others.
ADD_0, ADD_1, TAKE_P, LESS, SAME, MORE, ZERO_SO_FAR, NEGATIVE, POSITIVE = range(1, 10)
TAKE, WAIT, DOUBLE, FINISH = range(3, 7)
ENDED, DONE = 3, 4  # classes of b, after none and the digits
KEEPS_S, ADDS_P = 1, 2  # classes of answer


def signed(classes: np.ndarray) -> np.ndarray:
    """Return the signed digits of classes: 0, 1, and -1 for class 2."""
    return np.where(classes == 2, -1, classes)


def units_of_head(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Return S in units of the head's column, without the digits on its right, int [N]."""
    own = signed(inputs["above.digit"]) + signed(inputs["right.carry"])
    return own + 2 * signed(inputs["above.twos"]) + 4 * signed(inputs["above.fours"])


@dataclass
class WaveCells(Cells):
    """N cells of a product modulo p, and what follows from their inputs."""

    @cached_property
    def phase(self) -> np.ndarray:
        """Class of what the head begins; none in all other columns.

        Additions, subtractions, a row without a wave and doublings take turns. In place of the
        doubling after the last digit of b the head finishes.
        """
        before, b = self.inputs["above.phase"], self.inputs["above.b"]
        begins = (self.inputs["above_left.points"] > 0) | (before == DOUBLE)
        cases = {
            TAKE: np.isin(before, (ADD_0, ADD_1)),
            WAIT: before == TAKE,
            FINISH: (before == WAIT) & (b == ENDED),
            DOUBLE: (before == WAIT) & (b != ENDED),
        }
        after = np.select([*cases.values()], [*cases], NONE)
        phase = np.where(begins, np.where(value(b) > 0, ADD_1, ADD_0), after)
        return phase if self.place == TOP else np.full(len(b), NONE)

    @cached_property
    def complete(self) -> np.ndarray:
        """The digit of S, or in the head its number, before this row's wave."""
        own = signed(self.inputs["above.digit"]) + signed(self.inputs["right.carry"])
        return units_of_head(self.inputs) if self.place == TOP else own

    @cached_property
    def old(self) -> np.ndarray:
        """The same of 2 S where S is doubled: then the digit comes from the right."""
        wave, right = self.inputs["above_left.wave"], signed(self.inputs["right.sum"])
        doubles = (self.phase == DOUBLE) | ((wave >= LESS) & (wave <= MORE))
        doubled = 2 * self.complete + right if self.place == TOP else right
        return np.where(doubles, doubled, self.complete)

    @cached_property
    def does(self) -> np.ndarray:
        """Class of the column's wave: that above left, or the one that the head decides.

        The head takes p if S has a positive number there, and doubles S and takes p or adds it so
        that 2 S comes nearer to 0. At the end the wave finds the sign of S: that of the first digit
        that is not 0.
        """
        sign = np.sign(self.old)
        cases = {
            ADD_0: self.phase == ADD_0,
            ADD_1: self.phase == ADD_1,
            TAKE_P: (self.phase == TAKE) & (sign > 0),
            ZERO_SO_FAR: self.phase == FINISH,
        }
        begins = np.select([*cases.values()], [*cases], NONE)
        begins = np.where(self.phase == DOUBLE, SAME - sign, begins)
        wave = begins if self.place == TOP else self.inputs["above_left.wave"]
        found = np.where(sign > 0, POSITIVE, np.where(sign < 0, NEGATIVE, ZERO_SO_FAR))
        return np.where(wave == ZERO_SO_FAR, found, wave)

    @cached_property
    def adds(self) -> np.ndarray:
        """Return the number that the wave adds in the column: a, p, -p or 0."""
        wave, p = self.does, value(self.inputs["above.p"])
        taken = (wave == TAKE_P) | (wave == LESS)
        return (wave == ADD_1) * self.inputs["above.a"] + ((wave == MORE) * 1 - taken) * p

    @cached_property
    def answer(self) -> np.ndarray:
        """Class of the last row: that on the right; where the sign is known, p is added or not."""
        sign = np.where(self.does == NEGATIVE, ADDS_P, KEEPS_S)
        begins = (self.does >= ZERO_SO_FAR) & (self.inputs["right.b"] == NONE)
        right = self.inputs["right.answer"]
        return np.where(right > NONE, right, np.where(begins, sign, NONE))

    @property
    def last(self) -> np.ndarray:
        """Mask of the cells in the last row."""
        return self.answer > NONE


def factor_starts(cells: WaveCells) -> np.ndarray:
    """a' = the digit of a, 0 without one; b' = p' = none; in the row of a."""
    nothing = (cells.outputs["b"] == NONE) & (cells.outputs["p"] == NONE)
    return (cells.outputs["a"] == value(cells.written)) & nothing


def multiplier_starts(cells: WaveCells) -> np.ndarray:
    """a' = a; b' = the digit of b; p' = none; in the row of b."""
    a = cells.outputs["a"] == cells.inputs["above.a"]
    return a & (cells.outputs["b"] == cells.written) & (cells.outputs["p"] == NONE)


def modulus_starts(cells: WaveCells) -> np.ndarray:
    """a' = a; p' = the digit of p; b' = b, with zeros on its left as far as p; in the row of p."""
    least = np.minimum(cells.written, ZERO)
    b = cells.outputs["b"] == np.maximum(cells.inputs["above.b"], least)
    return (
        (cells.outputs["a"] == cells.inputs["above.a"]) & b & (cells.outputs["p"] == cells.written)
    )


def no_wave_yet(cells: WaveCells) -> np.ndarray:
    """S = 0 and wave' = phase' = none; in the rows of a, b and p, and beside the columns of b."""
    names = ("digit", "twos", "fours", "sum", "carry", "phase", "wave", "borrow")
    return np.logical_and.reduce([cells.outputs[name] == NONE for name in names])


def sign_points_at_the_head(cells: WaveCells) -> np.ndarray:
    """points' = 1 at the sign, which is above left of the head, and 0 elsewhere."""
    sign = cells.row.content == P and cells.place == SIGN
    return cells.outputs["points"] == int(sign)


def nothing_beside(cells: WaveCells) -> np.ndarray:
    """a' = b' = p' = none, on the right answer' too, and the cell is blank; beside b and p."""
    names = ("a", "b", "p", "answer") if cells.place == MARGIN else ("a", "b", "p")
    nothing = np.logical_and.reduce([cells.outputs[name] == NONE for name in names])
    return nothing & (cells.written == NONE)


def phases_take_turns(cells: WaveCells) -> np.ndarray:
    """phase' = what the head begins; none in all other columns."""
    return cells.outputs["phase"] == cells.phase


def wave_moves_right(cells: WaveCells) -> np.ndarray:
    """wave' = the wave of the column, which the column on the right has next; none at the end."""
    last_column = cells.inputs["right.b"] == NONE
    return (cells.outputs["wave"] == np.where(last_column, NONE, cells.does)) | cells.last


def sum_is_complete(cells: WaveCells) -> np.ndarray:
    """sum' = digit + carry; both are 0, 1 or -1"""
    own = signed(cells.inputs["above.digit"]) + signed(cells.inputs["right.carry"])
    return signed(cells.outputs["sum"]) == own


def digits_add_up(cells: WaveCells) -> np.ndarray:
    """2 * carry' + digit' = the digit of S, or of 2 S, + a, p, -p or 0

    In the head 4 * fours' + 2 * twos' + digit', without a carry; when it finishes, its digit alone.
    There is no carry without a wave, nor in the last row.
    """
    digit, carry = signed(cells.outputs["digit"]), signed(cells.outputs["carry"])
    above = 2 * signed(cells.outputs["twos"]) + 4 * signed(cells.outputs["fours"])
    if cells.place != TOP:
        adds_up = (2 * carry + digit == cells.old + cells.adds) & (above == 0)
        waits = cells.last | (cells.does == NONE)
        return (adds_up | cells.last) & ((carry == 0) | ~waits)
    finishes = (cells.phase == FINISH) & (digit == signed(cells.outputs["sum"])) & (above == 0)
    adds_up = (digit + above == cells.old + cells.adds) | finishes | cells.last
    return adds_up & (carry == 0)


def a_and_p_go_down(cells: WaveCells) -> np.ndarray:
    """a' = a and p' = p; none in the last row."""
    a = cells.outputs["a"] == np.where(cells.last, NONE, cells.inputs["above.a"])
    return a & (cells.outputs["p"] == np.where(cells.last, NONE, cells.inputs["above.p"]))


def b_moves_left(cells: WaveCells) -> np.ndarray:
    """b' = b of the column on the right in an addition, and its end at the right end; else b.

    Where S has ended it is done, and none in the last row.
    """
    right = cells.inputs["right.b"]
    adds = np.isin(cells.does, (ADD_0, ADD_1))
    moved = np.where(right == NONE, ENDED, right)
    b = np.where(adds, moved, cells.inputs["above.b"])
    b = np.where(cells.does >= ZERO_SO_FAR, DONE, b)
    return cells.outputs["b"] == np.where(cells.last, NONE, b)


def answer_moves_left(cells: WaveCells) -> np.ndarray:
    """answer' = that on the right; in the last column p is added if the first digit of S is -1."""
    return cells.outputs["answer"] == cells.answer


def answer_adds_up(cells: WaveCells) -> np.ndarray:
    """2 * borrow' + digit' = the digit of S + p or 0 + borrow; in the last row, in p's columns."""
    total = signed(cells.outputs["sum"]) + signed(cells.inputs["right.borrow"])
    total = total + (cells.answer == ADDS_P) * value(cells.inputs["above.p"])
    adds_up = 2 * signed(cells.outputs["borrow"]) + value(cells.written) == total
    here = cells.last & (cells.inputs["above.p"] > NONE)
    return np.where(here, adds_up & (cells.written > NONE), cells.outputs["borrow"] == NONE)


def digit_is_odd(cells: WaveCells) -> np.ndarray:
    """In rows before the last one: 0 where digit' is 0, else 1. Below the last one: blank.

    In the last row the columns on the right of p are blank, too.
    """
    shown = np.where(cells.outputs["digit"] == NONE, ZERO, ZERO + 1)
    shown = np.where(cells.inputs["above.b"] == NONE, NONE, shown)
    last = np.where(cells.inputs["above.p"] == NONE, NONE, cells.written)
    return cells.written == np.where(cells.last, last, shown)


def modular_laws(row: RowKind, place: str) -> Iterator[Law]:
    """Yield the laws of cells in a product modulo p."""
    yield sign_points_at_the_head
    if row.content == A:
        yield from (factor_starts, no_wave_yet)
    elif row.content == B:
        yield from (multiplier_starts, no_wave_yet)
    elif row.content == P:
        yield from (modulus_starts, no_wave_yet)
    elif place not in (LOW, REST, TOP):
        yield from (nothing_beside, no_wave_yet)
    else:
        yield from (phases_take_turns, wave_moves_right, sum_is_complete, digits_add_up)
        yield from (a_and_p_go_down, b_moves_left)
        yield from (answer_moves_left, answer_adds_up, digit_is_odd)


# ---------------------------------------------------------------------------------------------
# Laws of the layouts that people write: products a · b_i, and their sums
# ---------------------------------------------------------------------------------------------


@dataclass
class LongCells(Cells):
    """N cells of a layout that people write, and what follows from their inputs.

    There are two more classes after the digits:

    - `special`. Of a or b: the number has ended. Of the multiplier: the row does not multiply. Of a
      product or a sum: a single 0, which is written and not added.
    - `padding`. Of a product: a 0 on its right, which is added and not written.
    """

    row: LongRow

    @property
    def special(self) -> int:
        """The first class after the digits."""
        return self.base + 1

    @property
    def padding(self) -> int:
        """The second class after the digits."""
        return self.base + 2

    def is_digit(self, classes: np.ndarray) -> np.ndarray:
        """Return a mask of the classes that are digits."""
        return (classes > NONE) & (classes <= self.base)

    def value(self, classes: np.ndarray) -> np.ndarray:
        """Return the digits of classes; any other class counts as 0."""
        return np.where(classes <= self.base, value(classes), 0)

    @cached_property
    def operand(self) -> np.ndarray:
        """In the rows of a and b: class of the digit; `special` where the number has ended."""
        beyond = self.special if self.place == REST else NONE
        return np.where(self.written > NONE, self.written, beyond)

    @cached_property
    def digit_of_a(self) -> np.ndarray:
        """Class of the digit of a that comes to the cell: a_(c-i) in column c of row i."""
        straight = self.row.digits_come == STRAIGHT
        return self.inputs["above.column_multiplicand" if straight else "above_right.passing"]

    @cached_property
    def digit_of_b(self) -> np.ndarray:
        """Class of the digit of b that comes to the cell: b_(c+i) in column c of row i."""
        straight = self.row.digits_come == STRAIGHT
        return self.inputs["above.column_multiplier" if straight else "above_left.diagonal"]

    @cached_property
    def multiplier(self) -> np.ndarray:
        """Class of the row's digit b_i, or `special` where the row does not multiply.

        It comes to column 0, and from there passes to the left. If a is 0, each digit of b counts
        as 0.
        """
        if self.place != UNITS:
            return self.inputs["right.multiplier"]
        if not self.row.multiplies:
            return np.full(len(self.written), self.special)
        digit = np.where(self.inputs["above.zero"] > 0, ZERO, self.digit_of_b)
        return np.where(self.digit_of_b == NONE, self.special, digit)

    @cached_property
    def b(self) -> np.ndarray:
        """The number b_i; 0 where the row does not multiply."""
        return self.value(self.multiplier)

    @cached_property
    def meets(self) -> np.ndarray:
        """Mask of the cells in which a digit of a meets a digit of b."""
        return self.is_digit(self.digit_of_a) & (self.multiplier < self.special)

    @cached_property
    def added(self) -> np.ndarray:
        """Class of the product that is added to the sum above."""
        if self.row.adds == OWN_PRODUCT:
            return self.outputs["product"]
        if self.row.adds == PRODUCT_ABOVE:
            return self.inputs["above.product"]
        return np.full(len(self.written), NONE)

    @cached_property
    def adds_digit(self) -> np.ndarray:
        """Mask of the cells in which that product has a digit: not a single 0."""
        return (self.added > NONE) & (self.added != self.special)

    @cached_property
    def single_zero(self) -> np.ndarray:
        """Mask of the cells in which the sum is a single 0, as all products so far are 0."""
        above, carry = self.inputs["above.sum"], self.inputs["right.sum_carry"]
        begins = (self.added == self.special) & (above == NONE) & (carry == NONE)
        stays = (above == self.special) & ~self.adds_digit
        return begins | stays

    @cached_property
    def sum_reaches(self) -> np.ndarray:
        """Mask of the cells in which the sum has a digit.

        There the sum above or the product has one, or a carry comes in.
        """
        carry = value(self.inputs["right.sum_carry"])
        return self.single_zero | self.adds_digit | (self.inputs["above.sum"] > NONE) | (carry > 0)


def margin_passes_nothing(cells: LongCells) -> np.ndarray:
    """All outputs are none, except the signal row; in the margin."""
    nothing = cells.written == NONE
    for name, classes in cells.outputs.items():
        if name not in (SYMBOL, "row"):
            nothing = nothing & (classes == NONE)
    return nothing


def no_sum_yet(cells: LongCells) -> np.ndarray:
    """sum' = none and product' = none; in the rows of a and b."""
    return (cells.outputs["sum"] == NONE) & (cells.outputs["product"] == NONE)


# The row of a.


def digits_of_a_start(cells: LongCells) -> np.ndarray:
    """column_multiplicand' = the digit of a, or that a has ended; in the row of a."""
    return cells.outputs["column_multiplicand"] == cells.operand


def end_of_a_is_passed(cells: LongCells) -> np.ndarray:
    """diagonal' = that a has ended, or none; in the row of a."""
    ended = cells.operand == cells.special
    return cells.outputs["diagonal"] == np.where(ended, cells.special, NONE)


def b_passes_nothing_yet(cells: LongCells) -> np.ndarray:
    """column_multiplier' = passing' = zero' = none; in the row of a."""
    no_digits = (cells.outputs["column_multiplier"] == NONE) & (cells.outputs["passing"] == NONE)
    return no_digits & (cells.outputs["zero"] == NONE)


# The row of b.


def a_passes_b(cells: LongCells) -> np.ndarray:
    """column_multiplicand' = column_multiplicand; in the row of b."""
    return cells.outputs["column_multiplicand"] == cells.inputs["above.column_multiplicand"]


def digits_of_b_start(cells: LongCells) -> np.ndarray:
    """column_multiplier' = the digit of b, then none, or zeros where the layout has them."""
    beyond = ZERO if cells.row.zeros else NONE
    digit = np.where(cells.operand == cells.special, beyond, cells.operand)
    return cells.outputs["column_multiplier"] == digit


def zero_is_detected(cells: LongCells) -> np.ndarray:
    """zero' = (a = 0); in the row of b.

    In column 0 a is 0 if its digit is 0, and if it has ended on the left of that.
    """
    is_zero = cells.inputs["above.column_multiplicand"] == ZERO
    has_ended = cells.inputs["above_left.diagonal"] == cells.special
    return (cells.outputs["zero"] > 0) == (is_zero & has_ended)


def nothing_moves_yet(cells: LongCells) -> np.ndarray:
    """passing' = diagonal' = none; in the row of b."""
    return (cells.outputs["passing"] == NONE) & (cells.outputs["diagonal"] == NONE)


# Rows of products and sums: digits of a and b.


def row_has_its_digit_of_b(cells: LongCells) -> np.ndarray:
    """multiplier' = b_i, or that the row does not multiply."""
    return cells.outputs["multiplier"] == cells.multiplier


def a_goes_straight_down(cells: LongCells) -> np.ndarray:
    """column_multiplicand' = the digit of a, or none where the row passes none straight down."""
    digit = {
        None: NONE,
        OWN_DIGITS: cells.digit_of_a,
        DIGITS_ABOVE: cells.inputs["above.column_multiplicand"],
    }[cells.row.passes_down]
    return cells.outputs["column_multiplicand"] == digit


def b_goes_straight_down(cells: LongCells) -> np.ndarray:
    """column_multiplier' = the digit of b, or none where the row passes none straight down."""
    digit = {
        None: NONE,
        OWN_DIGITS: cells.digit_of_b,
        DIGITS_ABOVE: cells.inputs["above.column_multiplier"],
    }[cells.row.passes_down]
    return cells.outputs["column_multiplier"] == digit


def a_moves_left(cells: LongCells) -> np.ndarray:
    """passing' = the digit of a, or none where the row does not move digits."""
    return cells.outputs["passing"] == (cells.digit_of_a if cells.row.moves_digits else NONE)


def b_moves_right(cells: LongCells) -> np.ndarray:
    """diagonal' = the digit of b, or none where the row does not move digits, and from column 0.

    With zeros on the left of b a 0 moves where no digit comes.
    """
    if not cells.row.moves_digits or cells.place == UNITS:
        return cells.outputs["diagonal"] == NONE
    least = ZERO if cells.row.zeros else NONE
    return cells.outputs["diagonal"] == np.maximum(cells.digit_of_b, least)


def zero_goes_down(cells: LongCells) -> np.ndarray:
    """zero' = zero"""
    return cells.outputs["zero"] == cells.inputs["above.zero"]


# Rows of products and sums: the product a · b_i.


def long_product(cells: LongCells) -> np.ndarray:
    """base * carry' + product' = a * b + carry"""
    total = cells.value(cells.digit_of_a) * cells.b + value(cells.inputs["right.carry"])
    product = cells.value(cells.outputs["product"])
    return cells.base * value(cells.outputs["carry"]) + product == total


def carry_reaches_as_far_as_a(cells: LongCells) -> np.ndarray:
    """carry' > none where a digit of a meets one of b, and only there."""
    return (cells.outputs["carry"] > NONE) == cells.meets


def product_form(cells: LongCells) -> np.ndarray:
    """A product has digits as far as a and a carry reach: no gap, no leading zero.

    - If b_i > 0: a digit where a reaches, and one more if a carry is left. On its right: padding.
    - If b_i = 0: a single 0, in the first column of a.
    """
    product, carry = cells.outputs["product"], cells.inputs["right.carry"]
    has_digit = (cells.b > 0) & (cells.meets | (value(carry) > 0))
    has_single_zero = cells.meets & (cells.b == 0) & (carry == NONE)
    has_padding = (cells.b > 0) & (cells.digit_of_a == NONE)
    return (
        (cells.is_digit(product) == has_digit)
        & ((product == cells.special) == has_single_zero)
        & ((product == cells.padding) == has_padding)
    )


# Rows of products and sums: the sum of the rows above and the product.


def long_sum(cells: LongCells) -> np.ndarray:
    """base * sum_carry' + sum' = sum + product + sum_carry

    The product is that of the row or of the row above, as the layout has it.
    """
    total = cells.value(cells.inputs["above.sum"]) + cells.value(cells.added)
    total += value(cells.inputs["right.sum_carry"])
    done = cells.base * value(cells.outputs["sum_carry"]) + cells.value(cells.outputs["sum"])
    return done == total


def sum_form(cells: LongCells) -> np.ndarray:
    """A sum has digits as far as the sum above, the product and a carry reach.

    So it has no gap and no leading zero. If all products so far are 0, it is a single 0.
    """
    total = cells.outputs["sum"]
    has_digit = cells.sum_reaches & ~cells.single_zero
    return (cells.is_digit(total) == has_digit) & ((total == cells.special) == cells.single_zero)


def sum_carry_begins_in_column_0(cells: LongCells) -> np.ndarray:
    """sum_carry' > none where the sum has a digit or sum_carry > none, and only there."""
    comes_in = cells.inputs["right.sum_carry"] > NONE
    return (cells.outputs["sum_carry"] > NONE) == (cells.sum_reaches | comes_in)


def product_or_sum_is_written(cells: LongCells) -> np.ndarray:
    """digit' = product', or sum' in a row that does not multiply or always writes sums.

    A single 0 is written; padding is not.
    """
    writes_sum = (cells.multiplier == cells.special) | cells.row.writes_sum
    shown = np.where(writes_sum, cells.outputs["sum"], cells.outputs["product"])
    digit = np.where(cells.is_digit(shown), shown, NONE)
    return cells.written == np.where(shown == cells.special, ZERO, digit)


def long_laws(row: RowKind, place: str) -> Iterator[Law]:
    """Yield the laws of cells in the layouts that people write."""
    if place == MARGIN:
        yield margin_passes_nothing
    elif row.content == A:
        yield from (no_sum_yet, digits_of_a_start, end_of_a_is_passed, b_passes_nothing_yet)
    elif row.content == B:
        yield from (no_sum_yet, a_passes_b, digits_of_b_start, zero_is_detected, nothing_moves_yet)
    else:
        yield row_has_its_digit_of_b
        yield from (long_product, carry_reaches_as_far_as_a, product_form)
        yield from (long_sum, sum_form, sum_carry_begins_in_column_0)
        yield product_or_sum_is_written
        yield from (a_goes_straight_down, b_goes_straight_down, zero_goes_down)
        yield from (a_moves_left, b_moves_right)


LAWS: dict[str, tuple[type[Cells], Callable[[RowKind, str], Iterator[Law]]]] = {
    "lattice": (Cells, lattice_laws),
    "column": (Cells, column_laws),
    "column_carries": (Cells, column_laws),
    "difference": (Cells, difference_laws),
    "restoring": (DivisionCells, division_laws),
    "generations": (Cells, rule_110_laws),
    "waves": (WaveCells, modular_laws),
    **dict.fromkeys(LONG_LAYOUTS, (LongCells, long_laws)),
}

# ---------------------------------------------------------------------------------------------
# The verdict
# ---------------------------------------------------------------------------------------------


def main(path: str | Path) -> int:
    """Check a table, print the verdict, and return the exit code.

    0: proved; 1: not proved, and the first incorrect entry is printed; 2: there is no table.
    """
    file = Path(path) / "table.npz" if Path(path).is_dir() else Path(path)
    try:
        program = load(file)
        cell_inputs = Enumeration(program).run()
    except LawError as wrong:
        print(f"not proved: {wrong}")
        return 1
    except Exception as error:  # another or a damaged file can fail in any way
        why = str(error) if isinstance(error, NotCheckableError) else "damaged, or another file"
        if not file.is_file():
            why = "there is no such file. `trm prove --output` writes it for a proved model"
        print(f"{file} is no table that can be checked: {why}", file=sys.stderr)
        return 2
    what = f"{program.layout} in base {program.base}"
    print(f"proved: {what}, all {cell_inputs:,} cell inputs of all canvases")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python check.py FOLDER, the folder of a proof", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
