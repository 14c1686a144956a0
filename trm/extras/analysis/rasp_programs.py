"""RASP programs that write the next row of each layout.

A program reads the canvases of a model's inputs, with the next row masked, and returns the digits
of that row. All programs add up addends in each column, then move carries from cell to cell to the
left, and write no leading zeros. Layouts differ in the addends. Digits of the operands move from
cell to cell, so most selectors are neighbours of a cell. A model whose cells attend to their
neighbours only can therefore run such a program, with one loop for each cell of a move.

Canvases are upright: in another symmetry the selectors would have other names. All values are
s-ops over B canvases of N cells, ``int64`` or ``bool [B, N]``.
"""

from collections.abc import Callable

import numpy as np

from canvas import symbols
from canvas.choices import check_choice
from canvas.drawing import Drawing
from trm.extras.analysis.rasp import NONE, MaskedCanvases, SOp, aggregate, select, true_of

LOOK_UP = "as many rows above as b has digits"


class Page(MaskedCanvases):
    """Canvases with s-ops and methods that programs share.

    - ``sign_row``: the row with the sign
    - ``first``: the row below it, the first that a program writes
    - ``last_column``: the column in which the operands end, from the sign's row down
    """

    def __init__(self, canvases: np.ndarray, base: int) -> None:
        super().__init__(canvases, base)
        self.sign_row = self.in_row(self.sign)
        self.first = self.at("above", self.sign_row, False)
        self.last_column = self.spread("above", self.sign_row, self.begins(self.digit), False)

    def carries_into(self, addends: SOp) -> SOp:
        """Return the carry into each cell from the sum of addends in each cell."""
        return self.settle(lambda c: self.at("right", (addends + c) // self.base, 0), 0)

    def number(self, digits: SOp, lowest: SOp) -> SOp:
        """Remove leading zeros of a number whose last digit is in the cell ``lowest``.

        A cell keeps its digit if this digit, or one on its left, is not 0. Other cells get `NONE`.
        """
        counts = self.settle(lambda counts: (digits > 0) | self.at("left", counts, False), False)
        return np.where(lowest | (counts & self.up_to(lowest)), digits, NONE)

    def up_to(self, lowest: SOp) -> SOp:
        """Return the cell ``lowest`` of a row and all cells on its left."""
        return self.spread("right", lowest, True, False)

    def sum_of(self, addends: SOp, lowest: SOp) -> SOp:
        """Return the digits of the columns' total; addends right of its last cell are ignored."""
        addends = np.where(self.up_to(lowest), addends, 0)
        return self.number((addends + self.carries_into(addends)) % self.base, lowest)

    def begins(self, digit: SOp) -> SOp:
        """Return the cell of each row's last digit, where its digits begin from the right."""
        return (digit != NONE) & (self.at("right", digit) == NONE)

    def working(self) -> SOp:
        """Return the cells of all rows below the sign's."""
        return self.spread("above", self.first, True, False)

    def multiplicand(self, straight: SOp) -> SOp:
        """Return the digit of a at each cell, copied down from a's row, the one above the sign's.

        ``straight`` cells copy it from above, all others from above right; `NONE`: there is none.
        """
        source = self.at("below", self.sign_row, False)

        def rule(digit: SOp) -> SOp:
            above, shifted = self.at("above", digit), self.at("above right", digit)
            return np.where(source, self.digit, np.where(straight, above, shifted))

        return self.settle(rule)

    def multiplier(self, a: SOp) -> SOp:
        """Return the row's digit of b; `NONE` right of a's last digit, and in rows without one.

        It is copied down in the column of a's last digit, and from there to the left.
        """
        column = self.spread("above", self.sign_row, self.digit)
        return self.spread("right", self.begins(a), column)

    def shifting(self) -> tuple[SOp, SOp, SOp]:
        """Return the digits of a and b at each cell, and a mask of rows with a digit of b.

        Each row is one place farther left than the row above.
        """
        a = self.multiplicand(self.sign_row | self.first)
        b = self.multiplier(a)
        return a, b, self.in_row(b != NONE)

    def partial_or(self, a: SOp, b: SOp, partial: SOp, addends: SOp) -> SOp:
        """Return the digits of the row: a partial product, or a sum of addends from above."""
        lowest = np.where(partial, self.begins(a), self.last_column)
        return self.sum_of(np.where(partial, value(a) * value(b), addends), lowest)


def value(digit: SOp) -> SOp:
    """Return the value of a digit; 0 where there is none."""
    return np.maximum(digit, 0)


def standard(page: Page) -> SOp:
    """Partial product where the row has a digit of b, else the sum of all rows above."""
    a, b, partial = page.shifting()
    rows = page.working()
    column = page.settle(  # a running total, so that a cell reads no farther than the one above
        lambda total: np.where(rows, value(page.digit) + page.at("above", total, 0), 0), 0
    )
    return page.partial_or(a, b, partial, column)


def running_sum(page: Page) -> SOp:
    """Partial product where the row has a digit of b; below, the next one plus the sum above."""
    a, b, partial = page.shifting()
    digits_of_b = true_of(page.sign_row & (page.digit != NONE)).sum(axis=-1)
    row = select(page.rows, page.rows - digits_of_b, np.equal)
    page.selectors[LOOK_UP] = page.selector("same column") & row
    total = np.where(page.at("above", partial, False), 0, value(page.at("above", page.digit)))
    return page.partial_or(a, b, partial, total + value(page.at(LOOK_UP, page.digit)))


def interleaved(page: Page) -> SOp:
    """Partial product in one row, and in the next its sum with the running sum above it."""
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
    """Sum of the row above and the partial product, in one row."""
    a, b, _ = page.shifting()
    total = np.where(page.first, 0, value(page.at("above", page.digit)))
    return page.sum_of(total + value(a) * value(b), page.last_column)


def lattice(page: Page) -> SOp:
    """Sum of the partial product and the total above, which lies above left.

    The last digit of the total stays in its own row. The digit of b is at the right edge, below the
    sign, and is copied to the left. The written cells depend on cells on the right and above only:
    no zero can be a leading one.
    """
    a = page.spread("above", page.sign_row, page.digit)
    b = page.spread("right", page.spread("above", page.sign, True, False), page.digit)
    total = np.where(page.first, NONE, page.at("above left", page.digit))
    inside = page.up_to(page.last_column)
    addends = np.where(inside, value(total) + value(a) * value(b), 0)
    carry = page.carries_into(addends)
    multiplied = (a != NONE) & (b > 0)
    written = page.last_column | (inside & ((total != NONE) | multiplied | (carry > 0)))
    return np.where(written, (addends + carry) % page.base, NONE)


def direct(page: Page) -> SOp:
    """Whole product in one row: a moves to the left, by one cell for each digit of b.

    The digits of both operands are copied into every row. A mark at the current digit of b moves
    with a. Column sums, and carries too, may have more than two digits.
    """
    a, b = (
        page.spread("above", row, page.digit)
        for row in (page.at("below", page.sign_row, False), page.sign_row)
    )
    turn, total = page.last_column, np.zeros_like(page.digit)
    while turn.any():
        of_row = page.selector("same row") & true_of(turn)
        total += value(a) * value(aggregate(of_row, b, NONE))
        a, turn = page.at("right", a), page.at("right", turn, False)
    return page.sum_of(total, page.last_column)


def addition(page: Page) -> SOp:
    """Return the sum of each column down to each cell, the cell included."""
    return page.settle(lambda total: value(page.digit) + page.at("above", total, 0), 0)


def column(page: Page) -> SOp:
    """Sum of the addends."""
    return page.sum_of(addition(page), page.last_column)


def column_carries(page: Page) -> SOp:
    """Carries into the digits of the sum, and below them the sum, computed from these carries."""
    addends = addition(page)
    carries = page.carries_into(addends)
    summed = page.number((addends + carries) % page.base, page.last_column)
    of_sum = (summed != NONE) & ~page.last_column
    below = page.number(addends % page.base, page.last_column)  # the carries are addends, too
    return np.where(page.first, np.where(of_sum, carries, NONE), below)


Program = Callable[[Page], SOp]  # canvases → digits of the masked cells, NONE for a blank
_ALL = (standard, running_sum, interleaved, accumulate, lattice, direct, column, column_carries)
PROGRAMS: dict[str, Program] = {program.__name__: program for program in _ALL}


def write_row(layout: str, canvases: np.ndarray, base: int) -> tuple[np.ndarray, MaskedCanvases]:
    """Fill in the masked row of upright canvases ``uint8 [B, H, W]``.

    Returns the canvases, and the cells with the selectors of the program.

    Raises:
        ValueError: the layout has no program.
    """
    check_choice("the layout of a program", layout, PROGRAMS)
    cells = Page(canvases, base)
    digits = PROGRAMS[layout](cells).reshape(canvases.shape)
    ids = np.where(digits == NONE, symbols.BLANK, symbols.DIGIT_IDS[digits]).astype(np.uint8)
    return np.where(canvases == symbols.MASK, ids, canvases), cells


def run_program(layout: str, drawing: Drawing, base: int) -> np.ndarray:
    """Fill in all rows, each built on the program's own; return canvases ``uint8 [B, H, W]``."""
    canvases = drawing.canvases.copy()
    for row in range(int(drawing.num_rows.max(initial=0))):
        masked = drawing.cells_of_row(row) & (row < drawing.num_rows)[:, None, None]
        canvases, _ = write_row(layout, np.where(masked, np.uint8(symbols.MASK), canvases), base)
    return canvases
