"""The row of each layout, as a program in RASP.

A program reads canvases as a model sees them, the next row masked, and says which digits to write.
They all share one idea: what is added up in each column, and then the carries, which move from
cell to cell to the left, and no zeros in front. What is added up is where layouts differ. Digits of
the operands are handed from cell to cell, so that most selectors are neighbours of a cell: a model
whose cells see no farther can run such a program, one loop for each cell that anything moves on.

Canvases are upright: in another symmetry the selectors would have other names. All values are
s-ops over B canvases of N cells, ``int64`` or ``bool [B, N]``.
"""

from collections.abc import Callable

import numpy as np

from canvas import symbols
from canvas.choices import check_choice
from canvas.render import Drawing
from trm.analysis.rasp import NONE, Cells, SOp, aggregate, select, true_of

LOOK_UP = "as many rows above as b has digits"


class Page(Cells):
    """Canvases, and what programs share.

    ``sign_row`` is the row with the sign; ``first`` the row below it, the first to be worked out;
    ``last_column`` the column in which the operands end, from the sign's row down.
    """

    def __init__(self, canvases: np.ndarray, base: int) -> None:
        super().__init__(canvases, base)
        self.sign_row = self.in_row(self.sign)
        self.first = self.at("above", self.sign_row, False)
        self.last_column = self.handed("above", self.sign_row, self.begins(self.digit), False)

    def carries_into(self, addends: SOp) -> SOp:
        """The carry into each cell from what is added up in each."""
        return self.settle(lambda c: self.at("right", (addends + c) // self.base, 0), 0)

    def number(self, digits: SOp, lowest: SOp) -> SOp:
        """Digits as a number whose last one is in the cell ``lowest``.

        Without zeros in front: a cell is written if its digit is not 0, or one on its left is not.
        """
        counts = self.settle(lambda counts: (digits > 0) | self.at("left", counts, False), False)
        return np.where(lowest | (counts & self.up_to(lowest)), digits, NONE)

    def up_to(self, lowest: SOp) -> SOp:
        """The cell ``lowest`` of a row, and all on its left."""
        return self.handed("right", lowest, True, False)

    def sum_of(self, addends: SOp, lowest: SOp) -> SOp:
        """The number that columns add up to; what stands right of its last cell counts nothing."""
        addends = np.where(self.up_to(lowest), addends, 0)
        return self.number((addends + self.carries_into(addends)) % self.base, lowest)

    def begins(self, digit: SOp) -> SOp:
        """Where the digits of a row begin, from the right."""
        return (digit != NONE) & (self.at("right", digit) == NONE)

    def working(self) -> SOp:
        """The rows that are worked out."""
        return self.handed("above", self.first, True, False)

    def multiplicand(self, straight: SOp) -> SOp:
        """The digit of a that each cell meets, handed down from a's row, the one above the sign's.

        ``straight`` cells take it from above, all others from above right; `NONE`: there is none.
        """
        source = self.at("below", self.sign_row, False)

        def rule(digit: SOp) -> SOp:
            above, shifted = self.at("above", digit), self.at("above right", digit)
            return np.where(source, self.digit, np.where(straight, above, shifted))

        return self.settle(rule)

    def multiplier(self, a: SOp) -> SOp:
        """The row's digit of b; `NONE` right of where a's digits begin, and in rows without one.

        It comes straight down in the column where a's digits begin, and goes from there left.
        """
        column = self.handed("above", self.sign_row, self.digit)
        return self.handed("right", self.begins(a), column)

    def shifting(self) -> tuple[SOp, SOp, SOp]:
        """The digits of a and b that meet in each cell if each row is one place farther left.

        And whether the row has a digit of b.
        """
        a = self.multiplicand(self.sign_row | self.first)
        b = self.multiplier(a)
        return a, b, self.in_row(b != NONE)

    def partial_or(self, a: SOp, b: SOp, partial: SOp, addends: SOp) -> SOp:
        """The row: a partial product, or a sum of what is above."""
        lowest = np.where(partial, self.begins(a), self.last_column)
        return self.sum_of(np.where(partial, value(a) * value(b), addends), lowest)


def value(digit: SOp) -> SOp:
    """What a digit adds: nothing where there is none."""
    return np.maximum(digit, 0)


def standard(page: Page) -> SOp:
    """A partial product where the row has a digit of b, else the sum of all rows above."""
    a, b, partial = page.shifting()
    rows = page.working()
    column = page.settle(  # a running total, so that a cell sees no farther than the one above
        lambda total: np.where(rows, value(page.digit) + page.at("above", total, 0), 0), 0
    )
    return page.partial_or(a, b, partial, column)


def running_sum(page: Page) -> SOp:
    """A partial product where the row has a digit of b; below, one of these and the sum above."""
    a, b, partial = page.shifting()
    digits_of_b = true_of(page.sign_row & (page.digit != NONE)).sum(axis=-1)
    row = select(page.rows, page.rows - digits_of_b, np.equal)
    page.selectors[LOOK_UP] = page.selector("same column") & row
    total = np.where(page.at("above", partial, False), 0, value(page.at("above", page.digit)))
    return page.partial_or(a, b, partial, total + value(page.at(LOOK_UP, page.digit)))


def interleaved(page: Page) -> SOp:
    """A partial product, and below it its sum with the running sum above it."""
    rows = page.working()
    partial = page.settle(  # every other row
        lambda p: page.first | (rows & ~page.at("above", p, False)), False
    )
    a = page.multiplicand(page.sign_row | page.first | ~partial)
    total = page.at("above", page.at("above", page.digit))
    total = np.where(page.at("above", page.first, False), 0, value(total))
    addends = value(page.at("above", page.digit)) + total
    return page.partial_or(a, page.multiplier(a), partial, addends)


def accumulate(page: Page) -> SOp:
    """The partial product, added to the row above in one go."""
    a, b, _ = page.shifting()
    total = np.where(page.first, 0, value(page.at("above", page.digit)))
    return page.sum_of(total + value(a) * value(b), page.last_column)


def lattice(page: Page) -> SOp:
    """A partial product, added to the total above, which is above left: its last digit stays there.

    The digit of b stands at the right edge, below the sign, and goes from there to the left. What
    is to be written follows from cells on the right and above alone: no zero can come in front.
    """
    a = page.handed("above", page.sign_row, page.digit)
    b = page.handed("right", page.handed("above", page.sign, True, False), page.digit)
    total = np.where(page.first, NONE, page.at("above left", page.digit))
    inside = page.up_to(page.last_column)
    addends = np.where(inside, value(total) + value(a) * value(b), 0)
    carry = page.carries_into(addends)
    multiplied = (a != NONE) & (b > 0)
    written = page.last_column | (inside & ((total != NONE) | multiplied | (carry > 0)))
    return np.where(written, (addends + carry) % page.base, NONE)


def direct(page: Page) -> SOp:
    """The product at once: a moves to the left, and meets the next digit of b at each step.

    The digits of both stand ready in every row; the mark of the digit of b that has its turn moves
    with a. The columns add up to more than two digits, and so may the carries.
    """
    a, b = (
        page.handed("above", row, page.digit)
        for row in (page.at("below", page.sign_row, False), page.sign_row)
    )
    turn, total = page.last_column, np.zeros_like(page.digit)
    while turn.any():
        of_row = page.selector("same row") & true_of(turn)
        total += value(a) * value(aggregate(of_row, b, NONE))
        a, turn = page.at("right", a), page.at("right", turn, False)
    return page.sum_of(total, page.last_column)


def addition(page: Page) -> SOp:
    """The sum of each column so far, itself included, handed down."""
    return page.settle(lambda total: value(page.digit) + page.at("above", total, 0), 0)


def column(page: Page) -> SOp:
    """The sum of the addends."""
    return page.sum_of(addition(page), page.last_column)


def column_carries(page: Page) -> SOp:
    """The carries into the digits of the sum; below them the sum, in which none moves any more."""
    addends = addition(page)
    carries = page.carries_into(addends)
    summed = page.number((addends + carries) % page.base, page.last_column)
    of_sum = (summed != NONE) & ~page.last_column
    below = page.number(addends % page.base, page.last_column)  # the carries are addends, too
    return np.where(page.first, np.where(of_sum, carries, NONE), below)


Program = Callable[[Page], SOp]  # digits to write into the masked cells, NONE for a blank
_ALL = (standard, running_sum, interleaved, accumulate, lattice, direct, column, column_carries)
PROGRAMS: dict[str, Program] = {program.__name__: program for program in _ALL}


def write_row(layout: str, canvases: np.ndarray, base: int) -> tuple[np.ndarray, Cells]:
    """Fill in the masked row of canvases, ``uint8 [B, H, W]``, upright.

    Also the cells are returned, with the selectors of the program. ValueError: the layout has none.
    """
    check_choice("the layout of a program", layout, PROGRAMS)
    cells = Page(canvases, base)
    digits = PROGRAMS[layout](cells).reshape(canvases.shape)
    ids = np.where(digits == NONE, symbols.BLANK, symbols.DIGIT_IDS[digits]).astype(np.uint8)
    return np.where(canvases == symbols.MASK, ids, canvases), cells


def run_program(layout: str, drawing: Drawing, base: int) -> np.ndarray:
    """Canvases ``uint8 [B, H, W]`` with all rows, each built on the program's own."""
    canvases = drawing.canvases.copy()
    for step in range(int(drawing.steps.max(initial=0))):
        asked = drawing.answer_cells(step) & (step < drawing.steps)[:, None, None]
        canvases, _ = write_row(layout, np.where(asked, np.uint8(symbols.MASK), canvases), base)
    return canvases
