"""Symbols that a cell would have if one carry were different.

A wrong symbol among them is explained by that carry, see `trm.evaluation.diagnosis`.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from canvas.cells.drawn import DrawnCellInputs
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import NEIGHBOURS, SYMBOL, input_name
from canvas.drawing import WorkedDrawing

CARRIES = ("carry", "sum_carry")  # signals that are carries: of a product, and of a sum
_ZERO, _ONE = 1, 2  # classes of a carry of 0 and of 1


class _Change(NamedTuple):
    """Other carries in a column: its cells read this class from the right.

    In several rows, only cells that read a carry of more than 0 do.
    """

    problem: int
    signal: str
    first: int  # first and last row of its cells
    last: int
    right: int  # 0: the column of the wrong cell, 1: that on its right
    carry: int  # the class


def symbols_with_other_carries(
    rule: LocalRule,
    drawing: WorkedDrawing,
    cells: DrawnCellInputs,
    rows: np.ndarray,
    columns: np.ndarray,
    multiplies: np.ndarray,
) -> list[frozenset[int]]:
    """Return the symbols that a rule writes in a cell of each problem if a carry is different.

    One carry into the cell's column, or into the column on its right, is 0 where it is more, or 1
    where it is 0; or all carries of one signal into a column are 0. The rule then computes both
    columns again, down to the cell. The symbol counts if all other symbols stay as they are.

    Example: below 47 and 8, in the column of the 4, the rule writes 7 with the carry 5. Without it,
    it writes 2.

    Args:
        rule: of the drawing's layout.
        drawing: B problems with their solutions.
        cells: the inputs and outputs of all cells.
        rows: of the cells, int64 [B].
        columns: of the cells, int64 [B], from the left.
        multiplies: bool [B], whether carries of products count in the row of each cell.
    """
    shape, unknown = drawing.truth.shape, drawing.unknown
    inputs = {name: cells.on_canvases(part, shape) for name, part in cells.cell_inputs.items()}
    true = cells.on_canvases(cells.outputs[SYMBOL], shape)
    changes = [
        change
        for problem, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True))
        for signal in CARRIES
        if signal in rule.left and column + 1 < shape[2]
        if signal != "carry" or multiplies[problem]
        for change in _changes(inputs[input_name("left", signal)][problem], problem, signal,
                               int(drawing.top[problem]), row, column)
    ]  # fmt: skip
    found: list[set[int]] = [set() for _ in rows]
    if not changes:
        return [frozenset(some) for some in found]
    problem, first, last, side, classes = (
        np.array([getattr(change, name) for change in changes])
        for name in ("problem", "first", "last", "right", "carry")
    )
    names = np.array([change.signal for change in changes])
    top, bottom, column = drawing.top[problem], rows[problem], columns[problem]
    same, symbol = np.ones(len(changes), dtype=bool), np.zeros(len(changes), dtype=np.int64)
    above: dict[
        int, dict[str, np.ndarray]
    ] = {}  # outputs in the row above, by columns to the right
    for depth in range(int((bottom - top).max()) + 1):
        row, outputs = np.minimum(top + depth, bottom), dict[int, dict[str, np.ndarray]]()
        for right in (1, 0):
            cell = {name: part[problem, row, column + right] for name, part in inputs.items()}
            for direction, passed in rule.messages.items():
                down, beside = NEIGHBOURS[direction]
                near = (above if down else outputs).get(right + beside)
                if near is not None:
                    cell |= {input_name(direction, name): near[name] for name in passed}
            here = (side == right) & (first <= row) & (row <= last)
            for signal in {*names.tolist()}:
                name = input_name("left", signal)
                changed = here & (names == signal) & ((first == last) | (cell[name] > _ZERO))
                cell[name] = np.where(changed, classes, cell[name])
            outputs[right] = rule.apply(cell)
            wrong_cell = (row == bottom) & (right == 0)
            differs = outputs[right][SYMBOL] != true[problem, row, column + right]
            differs &= unknown[problem, row, column + right]
            reached = top + depth <= bottom
            symbol = np.where(reached & wrong_cell, outputs[right][SYMBOL], symbol)
            same &= ~(reached & ~wrong_cell & differs)
        above = outputs
    same &= symbol != true[problem, bottom, column]
    for i in np.flatnonzero(same).tolist():
        found[problem[i]].add(int(symbol[i]))
    return [frozenset(some) for some in found]


def _changes(
    carries: np.ndarray, problem: int, signal: str, top: int, row: int, column: int
) -> Iterator[_Change]:
    """Yield the changes of one signal, from the classes that cells read: int64 [H, W]."""
    for right, q in product((0, 1), range(top, row + 1)):
        if known := int(carries[q, column + right]):
            other = _ONE if known == _ZERO else _ZERO
            yield _Change(problem, signal, q, q, right, other)
    for right in (0, 1):
        into = carries[top : row + 1, column + right]
        if np.count_nonzero(into > _ZERO) > 1:
            yield _Change(problem, signal, top, row, right, _ZERO)
