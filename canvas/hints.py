"""Hints: what a person keeps in mind while filling in a row, for every cell of the canvas.

A hint is a supervised intermediate quantity (Veličković et al. 2022, "The CLRS Algorithmic
Reasoning Benchmark"): the digit of the multiplicand that meets a cell, the carry out of it, the sum
of the rows above. Nothing of it is written on the canvas or read when a problem is solved. A
layout names its hints and says what they are row by row; here they are put onto canvases.

A hint has a class for every cell: `NONE` where there is no such quantity, 1 + d for a digit or a
carry d, 1 + k for a kind of row. What follows from rows that are not yet written is `UNDEFINED`.

A sub-task, which probes look for, is a hint or a further quantity that the layout names, except in
rows that write it, where it is the answer itself.
"""

from collections.abc import Iterable

import numpy as np

from canvas.layouts import Layout
from canvas.problems import Problems
from canvas.render import Drawing

NONE = 0
UNDEFINED = 255
ORIENTATION = "orientation"  # of any layout: which of the eight symmetries a page has undergone


def hint_classes(layout: Layout, base: int) -> dict[str, int]:
    """How many classes each hint of a layout has, in the order in which the layout names them."""
    return {name: layout.hint_classes(name, base) for name in layout.hints}


def subtask_classes(layout: Layout, base: int) -> dict[str, int]:
    """The same of the sub-tasks: the hints, and what the layout names besides."""
    return {name: layout.hint_classes(name, base) for name in (*layout.hints, *layout.subtasks)}


def draw_hints(
    layout: Layout,
    problems: Problems,
    drawing: Drawing,
    step: np.ndarray | None = None,
    names: Iterable[str] | None = None,
) -> dict[str, np.ndarray]:
    """The hints of problems on their canvases.

    Args:
        layout: that of the drawing.
        problems: B of them.
        drawing: of these problems.
        step: ``int64 [B]``, the step at which each is; cells below the row that it fills in are
            undefined. None: the last one.
        names: of the hints or sub-tasks wanted; None: all hints of the layout. `ORIENTATION` is
            class 0 in every cell of a drawing, which lies as it was drawn.

    Returns:
        By name ``uint8 [B, H, W]`` classes.

    Raises:
        ValueError: a name that is none of the layout's hints or sub-tasks.
    """
    asked = tuple(layout.hints if names is None else names)
    wanted = [name for name in asked if name != ORIENTATION]
    unknown = [name for name in wanted if name not in (*layout.hints, *layout.subtasks)]
    if unknown:
        raise ValueError(
            f"the layout {layout.name} has no hint {unknown[0]!r}; its hints: "
            f"{', '.join(layout.hints) or 'none'}"
        )
    B, H, W = drawing.canvases.shape
    maps = layout.work_hints(problems, wanted)
    # What holds in the columns at both ends of the content holds all the way to the edge.
    column = (drawing.left + drawing.widths)[:, None] + 1 - np.arange(W)  # [B, W]
    column = column.clip(0, drawing.widths[:, None] + 2)
    row = np.arange(H) - drawing.top[:, None]  # [B, H]
    last = drawing.heights - 1 if step is None else drawing.first_step + step
    inside = (row >= 0).astype(np.uint8)[:, :, None]
    below = np.where(row > last[:, None], np.uint8(UNDEFINED), np.uint8(0))[:, :, None]
    found = {}
    index: np.ndarray | None = None  # of every cell, the same for all hints
    for name, content in maps.items():
        if index is None:
            _, R, C = content.shape
            rows = np.arange(B)[:, None] * R + row.clip(0, R - 1)
            index = (rows * C)[:, :, None] + column[:, None, :]
        cells = content.reshape(-1).take(index)
        cells *= inside
        cells |= below
        found[name] = cells
    if ORIENTATION in asked:
        found[ORIENTATION] = np.zeros((B, H, W), dtype=np.uint8)
    return found


def draw_subtasks(
    layout: Layout, problems: Problems, drawing: Drawing, step: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The sub-tasks of problems, as `draw_hints` draws hints; undefined in rows that write them."""
    found = draw_hints(layout, problems, drawing, step, subtask_classes(layout, problems.base))
    for hint in layout.hint_rows(problems.operands):
        if hint.name in found:
            index = np.flatnonzero(hint.present & hint.written)
            row = drawing.top + hint.row
            found[hint.name][index, row[index]] = UNDEFINED
    return found


def hint_sequences(classes: np.ndarray) -> np.ndarray:
    """The classes of cells in the order in which a sequence model writes these.

    Args:
        classes: ``uint8 [B, H, W]``.

    Returns:
        ``uint8 [B, H · (W + 1) + 1]``, in place i that of the cell which follows token i of
        `canvas.render.sequences`; undefined where this is no cell.
    """
    B, H, W = classes.shape
    found = np.full((B, H * (W + 1) + 1), UNDEFINED, dtype=np.uint8)
    found[:, :-1].reshape(B, H, W + 1)[:, :, :W] = classes[:, :, ::-1]
    return found
