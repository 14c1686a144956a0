"""Inputs and outputs of the cells of drawn solutions."""

from typing import NamedTuple

import numpy as np

from canvas import symbols
from canvas.cells.local_rule import LocalRule
from canvas.cells.order import front_of, in_fronts
from canvas.cells.spec import TOKEN
from canvas.drawing import WorkedDrawing

UNDEFINED = 255  # in place of a class: it follows from rows that are not yet written


class PageCellInputs(NamedTuple):
    """The cell inputs of all cells of B pages, N together, as training takes them."""

    cell_inputs: dict[str, np.ndarray]  # see `LocalRule.apply`
    outputs: dict[str, np.ndarray]  # what follows from them, int64 [N] each
    page: np.ndarray  # int64 [N], which page each is of
    row: np.ndarray  # int64 [N], and which of its canvas rows
    column: np.ndarray


def page_cell_inputs(
    rule: LocalRule, drawing: WorkedDrawing, known_rows: np.ndarray | None = None
) -> PageCellInputs:
    """Compute the inputs of every cell of worked solutions by the rule, in the order of writing.

    A page begins with its first row, ends with its last one, and is as wide as the canvas. Of the
    rows to be worked out ``known_rows``, ``int64 [B]``, None for no row, are shown as they are
    written, from the first one; their cells are seen by themselves alone.
    """
    B, H, W = drawing.truth.shape
    row = np.arange(H) - drawing.top[:, None]
    inside = (row >= 0) & (row < drawing.heights[:, None])
    shown = drawing.first_step if known_rows is None else drawing.first_step + known_rows
    given = drawing.given | (row < shown[:, None])[..., None]
    tokens = np.where(given, drawing.truth, np.uint8(symbols.MASK)).astype(np.int64)
    # Messages of all cells, first 1 for a cell that is there; 0 beyond the edges.
    handed = np.zeros((B, H + 1, W + 2, 1 + len(rule.signals)), dtype=np.int64)
    found: list[tuple[dict[str, np.ndarray], ...]] = []
    cells = np.stack(np.broadcast_to(inside[..., None], (B, H, W)).nonzero())
    for front in in_fronts(front_of(cells[1], W - 1 - cells[2])):
        page, r, c = cells[:, front]
        cell_inputs = {TOKEN: tokens[page, r, c]} | rule.around(handed, page, r, c)
        outputs = rule.apply(cell_inputs)
        says = [np.ones_like(r), *(outputs[name] for name in rule.signals)]
        handed[page, r + 1, c + 1] = np.stack(says, axis=1)
        found.append((cell_inputs, outputs, {"page": page, "row": r, "column": c}))
    cell_inputs, outputs, where = (
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for parts in zip(*found, strict=True)
    )
    return PageCellInputs(cell_inputs, outputs, **where)


def draw_signals(
    rule: LocalRule, drawing: WorkedDrawing, step: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Compute the signals of worked solutions: by signal its classes, uint8 [B, H, W].

    At a ``step [B]``, None the last one, below whose row all is `UNDEFINED`.
    """
    found, maps = page_cell_inputs(rule, drawing), {}
    last = drawing.top + drawing.heights - 1 if step is None else drawing.row_of_step(step)
    below = np.arange(drawing.truth.shape[1]) > last[:, None]
    for name in rule.signals:
        maps[name] = np.zeros(drawing.truth.shape, dtype=np.uint8)
        maps[name][found.page, found.row, found.column] = found.outputs[name]
        maps[name][below] = UNDEFINED
    return maps
