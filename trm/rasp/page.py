"""Canvases as a RASP program sees them: the cells are the positions, and selectors have names.

A head of a canvas model can learn each of these selectors: the neighbours of a cell; in each of
eight directions the first written cell, or the first one that is no neighbour (``far``, what the
neighbourhood ``local_nearest`` shows); the row, the one above, the column, and that on its right,
from which a carry comes.
"""

from collections.abc import Callable

import numpy as np

from canvas import symbols
from canvas.choices import check_choice
from trm.rasp.language import (
    Selector,
    SOp,
    aggregate,
    closest,
    select,
    selector_width,
)

NONE = -1  # a digit where there is none
MOST_CELLS = 3_000  # of a canvas; a selector is a table of all pairs of cells
NEIGHBOURS = {  # rows down and columns right from a cell to the one that it looks at
    "above": (-1, 0),
    "right": (0, 1),
    "above right": (-1, 1),
    "above left": (-1, -1),
    "left": (0, -1),
    "below": (1, 0),
    "below right": (1, 1),
    "below left": (1, -1),
}
FIRST_WRITTEN = {f"first written {name}": step for name, step in NEIGHBOURS.items()}
FAR = {f"far {name}": step for name, step in NEIGHBOURS.items()}  # first written after a neighbour
LINES = ("row above", "same row", "same column", "right column")
NAMES = (*NEIGHBOURS, "itself", *FIRST_WRITTEN, *FAR, *LINES)


class Page:
    """A batch of canvases, a row of which is masked, as s-ops over their H · W cells.

    Args:
        canvases: ``uint8 [B, H, W]`` ids.
        base: of the digits.
        order: ``int64 [H * W]``, the place of each cell in the sequence that a decoder reads: what
            counts as written for a cell is what comes before it. None: all that is written.

    Attributes:
        symbols: ``int64 [B, H * W]``.
        digit: ``int64 [B, H * W]``, `NONE` in cells without one.
        sign: ``bool [B, H * W]``, the cell of the multiplication or plus sign.
        rows, columns: ``int64 [H * W]``, from the top left.
        base: of the digits.
        selectors: those that have been asked for, by name.
        iterations: how often rules have been applied until nothing changed, all of them together.

    Raises:
        ValueError: the canvases have more than `MOST_CELLS` cells.
    """

    def __init__(self, canvases: np.ndarray, base: int, order: SOp | None = None) -> None:
        batch, height, width = canvases.shape
        if height * width > MOST_CELLS:
            raise ValueError(
                f"selectors are tables of all pairs of cells, of canvases of up to {MOST_CELLS:,} "
                f"cells; this one has {height} x {width}. Take shorter numbers"
            )
        self.symbols: SOp = canvases.reshape(batch, -1).astype(np.int64)
        digit = self.symbols - symbols.DIGIT_ZERO
        self.digit: SOp = np.where((digit >= 0) & (digit < 10), digit, NONE)
        self.sign: SOp = np.isin(self.symbols, (symbols.TIMES, symbols.PLUS))
        self.rows, self.columns = (x.reshape(-1) for x in np.indices((height, width)))
        self.base, self.order = base, order
        self.selectors: dict[str, Selector] = {}
        self.iterations = 0

    def selector(self, name: str) -> Selector:
        """One of `NAMES`, or one that a program has added to `selectors`.

        Raises:
            ValueError: there is none of that name.
        """
        if name not in self.selectors:
            check_choice("selector", name, NAMES)
            self.selectors[name] = self._made(name)
        return self.selectors[name]

    def at(self, name: str, values: SOp, default: int | bool = NONE) -> SOp:
        """The value in the cell that a selector selects; the default where it selects none.

        Args:
            name: see `selector`.
            values: [B, H * W].
            default: such as for cells at the edge.
        """
        return aggregate(self.selector(name), values, default)

    def in_row(self, condition: SOp) -> SOp:
        """Whether a condition ``bool [B, H * W]`` is true of any cell in the row, of that shape."""
        true = select(condition, condition, lambda key, query: key)
        return selector_width(self.selector("same row") & true) > 0

    def settle(self, rule: Callable[[SOp], SOp], start: int | bool = NONE) -> SOp:
        """What a rule leads to that is applied to all cells until nothing changes.

        This is how a value travels cell by cell, as in the loops of a recursive model.

        Args:
            rule: from values [B, H * W] to values of that shape.
            start: the value of all cells to begin with.

        Raises:
            ValueError: the values are still changing when each could have been in every cell.
        """
        values = np.full(self.symbols.shape, start)
        for _ in range(2 * self.symbols.shape[1] + 2):
            self.iterations += 1
            before, values = values, rule(values)
            if np.array_equal(before, values):
                return values
        raise ValueError("a rule of the program does not settle: a cell depends on itself")

    def _made(self, name: str) -> Selector:
        """One of `NAMES`."""
        rows, columns = self.rows, self.columns
        same_row, same_column = (select(of, of, np.equal) for of in (rows, columns))
        whole = {
            "itself": same_row & same_column,
            "row above": select(rows, rows - 1, np.equal),
            "same row": same_row,
            "same column": same_column,
            "right column": select(columns, columns + 1, np.equal),
        }
        if name in whole:
            return whole[name]
        if name in NEIGHBOURS:
            down, right = NEIGHBOURS[name]
            at_row = select(rows, rows + down, np.equal)
            return at_row & select(columns, columns + right, np.equal)
        down, right = (FIRST_WRITTEN | FAR)[name]
        across, along = right * rows - down * columns, down * rows + right * columns
        line = select(across, across, np.equal) & select(along, along, np.greater)
        if name in FAR:
            line &= ~self._made(name.removeprefix("far "))
        if self.order is not None:
            line &= select(self.order, self.order, np.less)
        written = ~np.isin(self.symbols, (symbols.BLANK, symbols.MASK))
        return closest(line & select(written, written, lambda key, query: key), along, along)
