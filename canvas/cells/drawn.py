"""Inputs and outputs of the cells of drawn solutions."""

from typing import NamedTuple

import numpy as np

from canvas import symbols
from canvas.cells.local_rule import LocalRule
from canvas.cells.order import front_of, in_fronts
from canvas.cells.spec import TOKEN
from canvas.drawing import WorkedDrawing

UNDEFINED = 255  # in place of a class that depends on rows that are not yet written


class DrawnCellInputs(NamedTuple):
    """Inputs and outputs of all N cells of B canvases."""

    cell_inputs: dict[str, np.ndarray]  # int64 [N] by input name, see `LocalRule.apply`
    outputs: dict[str, np.ndarray]  # int64 [N] by output
    canvas: np.ndarray  # int64 [N], index of the cell's canvas
    row: np.ndarray  # int64 [N], of the canvas
    column: np.ndarray  # int64 [N], of the canvas


def drawn_cell_inputs(
    rule: LocalRule, drawing: WorkedDrawing, known_rows: np.ndarray | None = None
) -> DrawnCellInputs:
    """Compute the inputs of every cell of worked solutions by the rule, in the order of writing.

    A solution begins with its first row, ends with its last one, and is as wide as its canvas.

    Args:
        rule: of the drawing's layout.
        drawing: the worked solutions.
        known_rows: int64 [B], the number of rows that are already written, besides the given ones;
            None: no row. A symbol in such a row is read by its own cell alone.
    """
    B, H, W = drawing.truth.shape
    row = np.arange(H) - drawing.top[:, None]
    inside = (row >= 0) & (row < drawing.heights[:, None])
    written = drawing.first_step if known_rows is None else drawing.first_step + known_rows
    given = drawing.given | (row < written[:, None])[..., None]
    tokens = np.where(given, drawing.truth, np.uint8(symbols.MASK)).astype(np.int64)
    # Messages of all cells: 1 for a cell that exists, then its signals; 0 beyond the edges.
    messages = np.zeros((B, H + 1, W + 2, 1 + len(rule.signals)), dtype=np.int64)
    found: list[tuple[dict[str, np.ndarray], ...]] = []
    cells = np.stack(np.broadcast_to(inside[..., None], (B, H, W)).nonzero())
    for front in in_fronts(front_of(cells[1], W - 1 - cells[2])):
        canvas, r, c = cells[:, front]
        cell_inputs = {TOKEN: tokens[canvas, r, c]} | rule.around(messages, canvas, r, c)
        outputs = rule.apply(cell_inputs)
        passed = [np.ones_like(r), *(outputs[name] for name in rule.signals)]
        messages[canvas, r + 1, c + 1] = np.stack(passed, axis=1)
        found.append((cell_inputs, outputs, {"canvas": canvas, "row": r, "column": c}))
    cell_inputs, outputs, where = (
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for parts in zip(*found, strict=True)
    )
    return DrawnCellInputs(cell_inputs, outputs, **where)


def draw_signals(
    rule: LocalRule, drawing: WorkedDrawing, step: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Compute the signals of worked solutions: uint8 [B, H, W] of classes by signal.

    Args:
        rule: of the drawing's layout.
        drawing: the worked solutions.
        step: int64 [B], the row step of each canvas; None: the last one. All cells below the row of
            that step are `UNDEFINED`.
    """
    found, maps = drawn_cell_inputs(rule, drawing), {}
    last = drawing.top + drawing.heights - 1 if step is None else drawing.row_of_step(step)
    below = np.arange(drawing.truth.shape[1]) > last[:, None]
    for name in rule.signals:
        maps[name] = np.zeros(drawing.truth.shape, dtype=np.uint8)
        maps[name][found.canvas, found.row, found.column] = found.outputs[name]
        maps[name][below] = UNDEFINED
    return maps
