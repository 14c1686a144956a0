"""Inputs and outputs of the cells of drawn solutions."""

from typing import Any, NamedTuple

import numpy as np

from canvas import symbols
from canvas.cells.local_rule import LocalRule
from canvas.cells.order import WritingOrder, settle, wavefront
from canvas.drawing import UNDEFINED, WorkedDrawing


class DrawnCellInputs(NamedTuple):
    """Inputs and outputs of all N cells of B canvases."""

    cell_inputs: dict[str, np.ndarray]  # int64 [N] by input name, see `LocalRule.apply`
    outputs: dict[str, np.ndarray]  # int64 [N] by output
    canvas: np.ndarray  # int64 [N], index of the cell's canvas
    row: np.ndarray  # int64 [N], of the canvas
    column: np.ndarray  # int64 [N], of the canvas
    sources: np.ndarray  # int64 [N, directions], see `canvas.cells.order.WritingOrder`
    # Without an order of writing: ids of the distinct cell inputs of all updates, int64, sorted.
    # The other parts are those of the last update.
    updates: np.ndarray

    def on_canvases(
        self, values: np.ndarray, shape: tuple[int, ...], dtype: Any = np.int64
    ) -> np.ndarray:
        """Return values of cells, [N], at their places on canvases, ``shape``; 0 elsewhere."""
        found = np.zeros(shape, dtype=dtype)
        found[self.canvas, self.row, self.column] = values
        return found


def drawn_cell_inputs(
    rule: LocalRule, drawing: WorkedDrawing, known_rows: np.ndarray | None = None
) -> DrawnCellInputs:
    """Compute the inputs of every cell of worked solutions by the rule, in the order of writing.

    A rule without such an order updates all cells until no message changes.

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
    written = drawing.given_rows if known_rows is None else drawing.given_rows + known_rows
    given = drawing.given | (row < written[:, None])[..., None]
    tokens = np.where(given, drawing.truth, np.uint8(symbols.MASK)).astype(np.int64)
    cells = np.broadcast_to(inside[..., None], (B, H, W))
    order = WritingOrder.of(cells, rule.whole.directions)
    token = tokens[order.canvas, order.row, order.column]
    found: list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]] = []
    updates = [np.zeros(0, dtype=np.int64)]

    def decide(cells: Any, around: np.ndarray) -> np.ndarray:
        cell_inputs = rule.inputs_from(token[cells], around)
        outputs = rule.apply(cell_inputs)
        if order.most:
            updates.append(np.unique(rule.whole.encode(0, cell_inputs)))
        found.append((cell_inputs, outputs))
        passed = [np.ones_like(token[cells]), *(outputs[name] for name in rule.signals)]
        return np.stack(passed, axis=1)

    messages = np.zeros((len(token) + 1, 1 + len(rule.signals)), dtype=np.int64)
    if order.most:
        messages[:-1, 0] = 1
        settle(decide, messages, np.arange(len(token)), order.sources, order.most)
        found.clear()
    wavefront(decide, messages, order.fronts)
    cell_inputs, outputs = (
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for parts in zip(*found, strict=True)
    )
    return DrawnCellInputs(cell_inputs, outputs, *order[:4], np.unique(np.concatenate(updates)))


def draw_signals(
    rule: LocalRule, drawing: WorkedDrawing, row: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Compute the signals of worked solutions: uint8 [B, H, W] of classes by signal.

    Args:
        rule: of the drawing's layout.
        drawing: the worked solutions.
        row: int64 [B], the row to be filled in of each canvas, from 0; None: the last one. All
            cells below that row are `UNDEFINED`.
    """
    found, maps = drawn_cell_inputs(rule, drawing), {}
    last = drawing.top + drawing.heights - 1 if row is None else drawing.canvas_row(row)
    below = np.arange(drawing.truth.shape[1]) > last[:, None]
    for name in rule.signals:
        maps[name] = found.on_canvases(found.outputs[name], drawing.truth.shape, np.uint8)
        maps[name][below] = UNDEFINED
    return maps


def right_cells(believed: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where a signal is correct, bool [...], and where it is defined, bool [...].

    Args:
        believed: decided classes, uint8 [...].
        truth: true classes, uint8 [...], see `draw_signals`.
    """
    counted = (truth != UNDEFINED) & (believed != UNDEFINED)
    return (believed == truth) & counted, counted
