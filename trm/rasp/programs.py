"""The row of each layout, as a program in RASP.

A program reads canvases as a model sees them, the next row masked, and says which digits to write.
They all share one idea: what is added up in each column, and then the carries (`carries_into`),
which move from cell to cell to the left, and no zeros in front (`number`). What is added up is
where layouts differ. Digits of the operands are handed from cell to cell, so that most selectors
are neighbours of a cell: a model whose cells see no farther can run such a program, one loop for
each cell that a digit or a carry moves on.

Pages are upright: in another symmetry of the canvas the selectors would have other names.
"""

from collections.abc import Callable

import numpy as np

from trm.rasp.language import SOp, aggregate, select, selector_width
from trm.rasp.page import NONE, Page

Program = Callable[[Page], SOp]  # digits to write into the masked cells, NONE for a blank

LOOK_UP = "as many rows above as b has digits"


# What programs share.


def carries_into(page: Page, addends: SOp) -> SOp:
    """The carry into each cell, ``int64 [B, N]``, from what is added up in each, of that shape."""

    def rule(carry: SOp) -> SOp:
        return page.at("right", (addends + carry) // page.base, 0)

    return page.settle(rule, 0)


def number(page: Page, digits: SOp, lowest: SOp) -> SOp:
    """Digits ``int64 [B, N]`` as a number whose last one is in the cell ``lowest``, bool [B, N].

    Without zeros in front: a cell is written if its digit is not 0, or one on its left is not.
    """
    counts = page.settle(lambda counts: (digits > 0) | page.at("left", counts, False), False)
    return np.where(lowest | (counts & up_to(page, lowest)), digits, NONE)


def up_to(page: Page, lowest: SOp) -> SOp:
    """The cell ``lowest`` of a row, bool [B, N], and all on its left."""
    return page.settle(lambda inside: lowest | page.at("right", inside, False), False)


def sum_of(page: Page, addends: SOp, lowest: SOp) -> SOp:
    """The number that columns add up to; what stands right of its last cell does not count."""
    addends = np.where(up_to(page, lowest), addends, 0)
    return number(page, (addends + carries_into(page, addends)) % page.base, lowest)


def value(digit: SOp) -> SOp:
    """What a digit adds: nothing where there is none."""
    return np.maximum(digit, 0)


def product(one: SOp, other: SOp) -> SOp:
    """Of two digits, 0 where one is missing."""
    return value(one) * value(other)


class Given:
    """What a program reads off the operands.

    Attributes:
        sign_row: ``bool [B, N]``, cells in the row with the sign.
        first: ``bool [B, N]``, the row below it, the first to be worked out.
        last_column: ``bool [B, N]``, the column in which the operands end, from that row down.
    """

    def __init__(self, page: Page) -> None:
        self.sign_row = page.in_row(page.sign)
        self.first = page.at("above", self.sign_row, False)
        ends = (page.digit != NONE) & (page.at("right", page.digit) == NONE)
        self.last_column = page.settle(
            lambda last: np.where(self.sign_row, ends, page.at("above", last, False)), False
        )


def begins(page: Page, digit: SOp) -> SOp:
    """Where the digits of a row begin, from the right: ``bool [B, N]``."""
    return (digit != NONE) & (page.at("right", digit) == NONE)


def straight_down(page: Page, row: SOp) -> SOp:
    """The digits of a row, ``bool [B, N]``, in all cells below them."""
    return page.settle(lambda digit: np.where(row, page.digit, page.at("above", digit)))


def multiplicand(page: Page, given: Given, straight: SOp) -> SOp:
    """The digit of a that each cell meets, handed down from a's row; `NONE` where there is none.

    Args:
        page: the canvases, on which a's row is the one above that of the sign.
        given: what is read off them.
        straight: ``bool [B, N]``, cells that take it from above; all others from above right.
    """
    source = page.at("below", given.sign_row, False)

    def rule(digit: SOp) -> SOp:
        above, shifted = page.at("above", digit), page.at("above right", digit)
        return np.where(source, page.digit, np.where(straight, above, shifted))

    return page.settle(rule)


def multiplier(page: Page, given: Given, a: SOp) -> SOp:
    """The row's digit of b; `NONE` right of where a's digits begin, and in rows that have none.

    It comes straight down in the column where a's digits begin, and goes from there to the left.
    """
    column, start = straight_down(page, given.sign_row), begins(page, a)
    return page.settle(lambda b: np.where(start, column, page.at("right", b)))


def shifting(page: Page, given: Given) -> tuple[SOp, SOp]:
    """The digits of a and b that meet in each cell if each row is one place farther left."""
    a = multiplicand(page, given, given.sign_row | given.first)
    return a, multiplier(page, given, a)


# The layouts of multiplication.


def standard(page: Page) -> SOp:
    """A partial product where the row has a digit of b, else the sum of all rows above."""
    given = Given(page)
    a, b = shifting(page, given)
    partial = page.in_row(b != NONE)
    working = page.settle(lambda w: given.first | page.at("above", w, False), False)
    column = page.settle(  # a running total, so that a cell sees no farther than the one above
        lambda total: np.where(working, value(page.digit) + page.at("above", total, 0), 0), 0
    )
    lowest = np.where(partial, begins(page, a), given.last_column)
    return sum_of(page, np.where(partial, product(a, b), column), lowest)


def running_sum(page: Page) -> SOp:
    """A partial product where the row has a digit of b; below, one of these and the sum above."""
    given = Given(page)
    a, b = shifting(page, given)
    partial = page.in_row(b != NONE)
    of_b = given.sign_row & (page.digit != NONE)
    digits_of_b = selector_width(select(of_b, of_b, lambda key, query: key))
    page.selectors[LOOK_UP] = page.selector("same column") & select(
        page.rows, page.rows - digits_of_b, np.equal
    )
    total = np.where(page.at("above", partial, False), 0, value(page.at("above", page.digit)))
    addends = total + value(page.at(LOOK_UP, page.digit))
    lowest = np.where(partial, begins(page, a), given.last_column)
    return sum_of(page, np.where(partial, product(a, b), addends), lowest)


def interleaved(page: Page) -> SOp:
    """A partial product, and below it its sum with the running sum above it."""
    given = Given(page)
    working = page.settle(lambda w: given.first | page.at("above", w, False), False)
    partial = page.settle(  # every other row
        lambda p: given.first | (working & ~page.at("above", p, False)), False
    )
    a = multiplicand(page, given, given.sign_row | given.first | ~partial)
    b = multiplier(page, given, a)
    total = page.at("above", page.at("above", page.digit))
    total = np.where(page.at("above", given.first, False), 0, value(total))
    addends = value(page.at("above", page.digit)) + total
    lowest = np.where(partial, begins(page, a), given.last_column)
    return sum_of(page, np.where(partial, product(a, b), addends), lowest)


def accumulate(page: Page) -> SOp:
    """The partial product, added to the row above in one go."""
    given = Given(page)
    a, b = shifting(page, given)
    total = np.where(given.first, 0, value(page.at("above", page.digit)))
    return sum_of(page, total + product(a, b), given.last_column)


def lattice(page: Page) -> SOp:
    """A partial product, added to the total above, which is above left: its last digit stays there.

    The digit of b stands at the right edge, below the sign, and goes from there to the left. What
    is to be written follows from cells on the right and above alone: no zero can come in front.
    """
    given = Given(page)
    a = straight_down(page, given.sign_row)
    margin = page.settle(lambda m: page.sign | page.at("above", m, False), False)
    b = page.settle(lambda b: np.where(margin, page.digit, page.at("right", b)))
    total = np.where(given.first, NONE, page.at("above left", page.digit))
    inside = up_to(page, given.last_column)
    addends = np.where(inside, value(total) + product(a, b), 0)
    carry = carries_into(page, addends)
    multiplied = (a != NONE) & (b > 0)
    written = given.last_column | (inside & ((total != NONE) | multiplied | (carry > 0)))
    return np.where(written, (addends + carry) % page.base, NONE)


def direct(page: Page) -> SOp:
    """The product at once: a moves to the left, and meets the next digit of b at each step.

    The digits of both stand ready in every row; the mark of the digit of b that has its turn moves
    with a. The columns add up to more than two digits, and so may the carries.
    """
    given = Given(page)
    a = straight_down(page, page.at("below", given.sign_row, False))
    b = straight_down(page, given.sign_row)
    turn, total = given.last_column, np.zeros_like(page.digit)
    while turn.any():
        of_row = page.selector("same row") & select(turn, turn, lambda key, query: key)
        total += product(a, aggregate(of_row, b, NONE))
        a, turn = page.at("right", a), page.at("right", turn, False)
    return sum_of(page, total, given.last_column)


# The layouts of addition.


def addition(page: Page) -> SOp:
    """The sum of each column so far, itself included, handed down: ``int64 [B, N]``."""
    return page.settle(lambda total: value(page.digit) + page.at("above", total, 0), 0)


def column(page: Page) -> SOp:
    """The sum of the addends."""
    return sum_of(page, addition(page), Given(page).last_column)


def column_carries(page: Page) -> SOp:
    """The carries into the digits of the sum; below them the sum, in which none moves any more."""
    given, addends = Given(page), addition(page)
    carries = carries_into(page, addends)
    summed = number(page, (addends + carries) % page.base, given.last_column)
    of_sum = (summed != NONE) & ~given.last_column
    below = number(page, addends % page.base, given.last_column)  # the carries are addends, too
    return np.where(given.first, np.where(of_sum, carries, NONE), below)


PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        standard,
        running_sum,
        interleaved,
        accumulate,
        lattice,
        direct,
        column,
        column_carries,
    )
}
