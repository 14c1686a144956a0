"""The row of each layout, as a program in RASP.

A program reads canvases as a model sees them, the next row masked, and says which digits to write.
They all share one idea: what is added up in each column, and then the carries (`carries_into`),
which move from cell to cell to the left, and no zeros in front (`number`). What is added up is
where layouts differ. Digits of the operands are handed from cell to cell, so that most selectors
are neighbours of a cell: a model whose cells see no farther can run such a program, one loop for
each cell that a digit or a carry moves on.

Canvases are upright: in another symmetry the selectors would have other names. All values are
s-ops over B canvases of N cells, ``int64`` or ``bool [B, N]``.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from canvas import symbols
from canvas.render import Drawing
from trm.analysis.rasp import NONE, Cells, SOp, aggregate, select, true_of

Program = Callable[[Cells], SOp]  # digits to write into the masked cells, NONE for a blank

LOOK_UP = "as many rows above as b has digits"


# What programs share.


def carries_into(cells: Cells, addends: SOp) -> SOp:
    """The carry into each cell from what is added up in each."""
    return cells.settle(lambda c: cells.at("right", (addends + c) // cells.base, 0), 0)


def number(cells: Cells, digits: SOp, lowest: SOp) -> SOp:
    """Digits as a number whose last one is in the cell ``lowest``.

    Without zeros in front: a cell is written if its digit is not 0, or one on its left is not.
    """
    counts = cells.settle(lambda counts: (digits > 0) | cells.at("left", counts, False), False)
    return np.where(lowest | (counts & up_to(cells, lowest)), digits, NONE)


def up_to(cells: Cells, lowest: SOp) -> SOp:
    """The cell ``lowest`` of a row, and all on its left."""
    return cells.handed("right", lowest, True, False)


def sum_of(cells: Cells, addends: SOp, lowest: SOp) -> SOp:
    """The number that columns add up to; what stands right of its last cell does not count."""
    addends = np.where(up_to(cells, lowest), addends, 0)
    return number(cells, (addends + carries_into(cells, addends)) % cells.base, lowest)


def value(digit: SOp) -> SOp:
    """What a digit adds: nothing where there is none."""
    return np.maximum(digit, 0)


class Given:
    """What a program reads off the operands.

    ``sign_row`` is the row with the sign; ``first`` the row below it, the first to be worked out;
    ``last_column`` the column in which the operands end, from the sign's row down.
    """

    def __init__(self, cells: Cells) -> None:
        self.sign_row = cells.in_row(cells.sign)
        self.first = cells.at("above", self.sign_row, False)
        ends = begins(cells, cells.digit)
        self.last_column = cells.handed("above", self.sign_row, ends, False)


def working(cells: Cells, given: Given) -> SOp:
    """The rows that are worked out."""
    return cells.handed("above", given.first, True, False)


def begins(cells: Cells, digit: SOp) -> SOp:
    """Where the digits of a row begin, from the right."""
    return (digit != NONE) & (cells.at("right", digit) == NONE)


def multiplicand(cells: Cells, given: Given, straight: SOp) -> SOp:
    """The digit of a that each cell meets, handed down from a's row, the one above the sign's.

    ``straight`` cells take it from above, all others from above right; `NONE` where there is none.
    """
    source = cells.at("below", given.sign_row, False)

    def rule(digit: SOp) -> SOp:
        above, shifted = cells.at("above", digit), cells.at("above right", digit)
        return np.where(source, cells.digit, np.where(straight, above, shifted))

    return cells.settle(rule)


def multiplier(cells: Cells, given: Given, a: SOp) -> SOp:
    """The row's digit of b; `NONE` right of where a's digits begin, and in rows that have none.

    It comes straight down in the column where a's digits begin, and goes from there to the left.
    """
    column = cells.handed("above", given.sign_row, cells.digit)
    return cells.handed("right", begins(cells, a), column)


def partial_or(cells: Cells, given: Given, a: SOp, b: SOp, partial: SOp, addends: SOp) -> SOp:
    """The row: a partial product, or a sum of what is above."""
    lowest = np.where(partial, begins(cells, a), given.last_column)
    return sum_of(cells, np.where(partial, value(a) * value(b), addends), lowest)


def shifting(cells: Cells, given: Given) -> tuple[SOp, SOp, SOp]:
    """The digits of a and b that meet in each cell if each row is one place farther left.

    And whether the row has a digit of b.
    """
    a = multiplicand(cells, given, given.sign_row | given.first)
    b = multiplier(cells, given, a)
    return a, b, cells.in_row(b != NONE)


# The layouts of multiplication.


def standard(cells: Cells) -> SOp:
    """A partial product where the row has a digit of b, else the sum of all rows above."""
    given = Given(cells)
    a, b, partial = shifting(cells, given)
    rows = working(cells, given)
    column = cells.settle(  # a running total, so that a cell sees no farther than the one above
        lambda total: np.where(rows, value(cells.digit) + cells.at("above", total, 0), 0), 0
    )
    return partial_or(cells, given, a, b, partial, column)


def running_sum(cells: Cells) -> SOp:
    """A partial product where the row has a digit of b; below, one of these and the sum above."""
    given = Given(cells)
    a, b, partial = shifting(cells, given)
    digits_of_b = true_of(given.sign_row & (cells.digit != NONE)).width
    cells.selectors[LOOK_UP] = cells.selector("same column") & select(
        cells.rows, cells.rows - digits_of_b, np.equal
    )
    total = np.where(cells.at("above", partial, False), 0, value(cells.at("above", cells.digit)))
    return partial_or(cells, given, a, b, partial, total + value(cells.at(LOOK_UP, cells.digit)))


def interleaved(cells: Cells) -> SOp:
    """A partial product, and below it its sum with the running sum above it."""
    given = Given(cells)
    rows = working(cells, given)
    partial = cells.settle(  # every other row
        lambda p: given.first | (rows & ~cells.at("above", p, False)), False
    )
    a = multiplicand(cells, given, given.sign_row | given.first | ~partial)
    total = cells.at("above", cells.at("above", cells.digit))
    total = np.where(cells.at("above", given.first, False), 0, value(total))
    addends = value(cells.at("above", cells.digit)) + total
    return partial_or(cells, given, a, multiplier(cells, given, a), partial, addends)


def accumulate(cells: Cells) -> SOp:
    """The partial product, added to the row above in one go."""
    given = Given(cells)
    a, b, _ = shifting(cells, given)
    total = np.where(given.first, 0, value(cells.at("above", cells.digit)))
    return sum_of(cells, total + value(a) * value(b), given.last_column)


def lattice(cells: Cells) -> SOp:
    """A partial product, added to the total above, which is above left: its last digit stays there.

    The digit of b stands at the right edge, below the sign, and goes from there to the left. What
    is to be written follows from cells on the right and above alone: no zero can come in front.
    """
    given = Given(cells)
    a = cells.handed("above", given.sign_row, cells.digit)
    b = cells.handed("right", cells.handed("above", cells.sign, True, False), cells.digit)
    total = np.where(given.first, NONE, cells.at("above left", cells.digit))
    inside = up_to(cells, given.last_column)
    addends = np.where(inside, value(total) + value(a) * value(b), 0)
    carry = carries_into(cells, addends)
    multiplied = (a != NONE) & (b > 0)
    written = given.last_column | (inside & ((total != NONE) | multiplied | (carry > 0)))
    return np.where(written, (addends + carry) % cells.base, NONE)


def direct(cells: Cells) -> SOp:
    """The product at once: a moves to the left, and meets the next digit of b at each step.

    The digits of both stand ready in every row; the mark of the digit of b that has its turn moves
    with a. The columns add up to more than two digits, and so may the carries.
    """
    given = Given(cells)
    a, b = (
        cells.handed("above", row, cells.digit)
        for row in (cells.at("below", given.sign_row, False), given.sign_row)
    )
    turn, total = given.last_column, np.zeros_like(cells.digit)
    while turn.any():
        of_row = cells.selector("same row") & true_of(turn)
        total += value(a) * value(aggregate(of_row, b, NONE))
        a, turn = cells.at("right", a), cells.at("right", turn, False)
    return sum_of(cells, total, given.last_column)


# The layouts of addition.


def addition(cells: Cells) -> SOp:
    """The sum of each column so far, itself included, handed down."""
    return cells.settle(lambda total: value(cells.digit) + cells.at("above", total, 0), 0)


def column(cells: Cells) -> SOp:
    """The sum of the addends."""
    return sum_of(cells, addition(cells), Given(cells).last_column)


def column_carries(cells: Cells) -> SOp:
    """The carries into the digits of the sum; below them the sum, in which none moves any more."""
    given, addends = Given(cells), addition(cells)
    carries = carries_into(cells, addends)
    summed = number(cells, (addends + carries) % cells.base, given.last_column)
    of_sum = (summed != NONE) & ~given.last_column
    below = number(cells, addends % cells.base, given.last_column)  # the carries are addends, too
    return np.where(given.first, np.where(of_sum, carries, NONE), below)


_ALL = (standard, running_sum, interleaved, accumulate, lattice, direct, column, column_carries)
PROGRAMS: dict[str, Program] = {program.__name__: program for program in _ALL}


class Ran(NamedTuple):
    """Problems worked out by a program."""

    canvases: np.ndarray  # uint8 [B, H, W], with all rows
    iterations: tuple[int, ...]  # row by row, how often rules were applied until nothing changed
    selectors: tuple[str, ...]  # names of those that it used


def check_program(layout: str) -> None:
    """ValueError where there is no program of a layout."""
    if layout not in PROGRAMS:
        raise ValueError(
            f"there is no program of the layout {layout}, only of {', '.join(PROGRAMS)}"
        )


def write_row(layout: str, canvases: np.ndarray, base: int) -> tuple[np.ndarray, Cells]:
    """Fill in the masked row of canvases, ``uint8 [B, H, W]``, upright.

    Also the cells are returned, with the selectors of the program. ValueError: see `check_program`.
    """
    check_program(layout)
    cells = Cells(canvases, base)
    digits = PROGRAMS[layout](cells).reshape(canvases.shape)
    ids = np.where(digits == NONE, symbols.BLANK, symbols.DIGIT_IDS[digits]).astype(np.uint8)
    return np.where(canvases == symbols.MASK, ids, canvases), cells


def run_program(layout: str, drawing: Drawing, base: int) -> Ran:
    """Work problems out row by row, each row built on the program's own; see `write_row`."""
    canvases, selectors = drawing.canvases.copy(), dict[str, None]()
    iterations = []
    for step in range(int(drawing.steps.max(initial=0))):
        asked = drawing.answer_cells(step) & (step < drawing.steps)[:, None, None]
        shown = np.where(asked, np.uint8(symbols.MASK), canvases)
        canvases, cells = write_row(layout, shown, base)
        iterations.append(cells.iterations)
        selectors |= dict.fromkeys(cells.selectors)
    return Ran(canvases, tuple(iterations), tuple(selectors))
