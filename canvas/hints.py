"""Hints: what a person keeps in mind while filling in a row, for every cell of the canvas.

A hint is a supervised intermediate quantity (Veličković et al. 2022, "The CLRS Algorithmic
Reasoning Benchmark"): the digit of the multiplicand that meets a cell, the carry out of it, the sum
of the rows above. A layout says what its hints are row by row; here they are put onto canvases.

A hint has a class for every cell: `NONE` where there is no such quantity, 1 + d for a digit or a
carry d, 1 + k for a kind of row. What follows from rows that are not yet written is `UNDEFINED`.
A sub-task, which probes look for, is a hint or a further quantity, except in rows that write it.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from canvas.arithmetic import Numbers, carries
from canvas.layouts import HintRow, Layout
from canvas.problems import Problems
from canvas.render import Drawing

NONE = 0
UNDEFINED = 255


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
    """The hints of a drawing's problems, by name ``uint8 [B, H, W]`` classes.

    At a ``step [B]``, None the last one, below whose row cells are undefined. ``names`` of hints or
    sub-tasks, else a ValueError; None: all hints.
    """
    wanted = tuple(layout.hints if names is None else names)
    if unknown := [name for name in wanted if name not in (*layout.hints, *layout.subtasks)]:
        known = ", ".join(layout.hints) or "none"
        raise ValueError(f"the layout {layout.name} has no hint {unknown[0]!r}; its hints: {known}")
    B, H, W = drawing.canvases.shape
    maps = layout.work_hints(problems, wanted)
    # What holds in the columns at both ends of the content holds all the way to the edge.
    column = (drawing.left + drawing.widths)[:, None] + 1 - np.arange(W)  # [B, W]
    column = column.clip(0, drawing.widths[:, None] + 2)
    row = np.arange(H) - drawing.top[:, None]  # [B, H]
    last = drawing.heights - 1 if step is None else drawing.first_step + step
    inside = (row >= 0).astype(np.uint8)[:, :, None]
    below = np.where(row > last[:, None], np.uint8(UNDEFINED), np.uint8(0))[:, :, None]
    R, C = next(iter(maps.values())).shape[1:] if maps else (1, 1)
    rows = np.arange(B)[:, None] * R + row.clip(0, R - 1)
    index = (rows * C)[:, :, None] + column[:, None, :]  # of every cell, the same for all hints
    found = {}
    for name, content in maps.items():
        found[name] = cells = content.reshape(-1).take(index)
        cells *= inside
        cells |= below
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
    """Classes ``uint8 [B, H, W]`` in the order in which a sequence model writes cells.

    Place i of ``uint8 [B, H · (W + 1) + 1]`` is the cell that follows token i; undefined if none.
    """
    B, H, W = classes.shape
    found = np.full((B, H * (W + 1) + 1), UNDEFINED, dtype=np.uint8)
    found[:, :-1].reshape(B, H, W + 1)[:, :, :W] = classes[:, :, ::-1]
    return found


# What the layouts share in saying their hints row by row. Classes of a digit are 1 + digit, and 0
# where there is none, ``uint8 [B, n]`` from the right.


def digit_classes(numbers: Numbers) -> np.ndarray:
    """1 + digit, and 0 beyond a number's length: ``uint8 [B, n]``."""
    inside = np.arange(numbers.digits.shape[1]) < numbers.lengths[:, None]
    return (numbers.digits + np.uint8(1)) * inside


def shifted(classes: np.ndarray, shift: int) -> np.ndarray:
    """Classes ``uint8 [B, n]`` so many columns farther left: ``uint8 [B, shift + n]``."""
    return np.pad(classes, ((0, 0), (shift, 0)))


def add_row(above: np.ndarray, row: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes of a running sum with one more row of them, and 1 + the carries out of its cells."""
    n = max(above.shape[1], row.shape[1]) + 1
    columns = np.zeros((len(above), n), dtype=np.int16)
    there = np.zeros(columns.shape, dtype=bool)
    for part in (above, row):
        added = part > 0
        columns[:, : part.shape[1]] += part - added
        there[:, : part.shape[1]] |= added
    digits, carried = carries(columns, base)
    there[:, 1:] |= carried[:, :-1] > 0
    return ((1 + digits) * there).astype(np.uint8), (1 + carried).astype(np.uint8)


def kind_rows(
    kinds: Callable[[int], list[int]], sizes: np.ndarray, margin: int
) -> Iterator[HintRow]:
    """The hint ``row_kind`` of every row, by the kinds of all rows of a solution of each size."""
    of_size = {size: kinds(size) for size in np.unique(sizes).tolist()}
    table = np.zeros((max(of_size) + 1, max(map(len, of_size.values()))), dtype=np.uint8)
    for size, found in of_size.items():
        table[size, : len(found)] = 1 + np.array(found)
    classes = table[sizes]
    for row, kind in enumerate(classes.T):
        yield HintRow("row_kind", kind[:, None], -2 - margin, row, kind > 0, kind)


def product_rows(
    a: Numbers, digit: np.ndarray, i: int, row: np.ndarray | int, present: np.ndarray
) -> Iterator[HintRow]:
    """``multiplicand``, ``multiplier`` and ``carry``, out of the cell, of a row with a · b_i."""
    yield HintRow("multiplicand", digit_classes(a), i, row, present)
    of_row = 1 + digit
    yield HintRow("multiplier", of_row[:, None], i, row, present, of_row)
    yield HintRow("carry", 1 + _product(a, digit)[1], i, row, present, 1)


def products_ahead(
    a: Numbers, digit: np.ndarray, i: int, row: np.ndarray | int, present: np.ndarray
) -> Iterator[HintRow]:
    """``product`` and ``carry`` of a row that adds a partial product to another row.

    In one cell, both and what they are added to are base⁴ cases to learn. Here each cell works out
    the product and the carry of the cell on its left, base³, and adds its own, base² · 2.
    """
    digits, carried = _product(a, digit)
    inside = (np.arange(digits.shape[1]) < a.lengths[:, None]) | (digits > 0)
    yield HintRow("product", (1 + digits) * inside, i - 1, row, present)
    yield HintRow("carry", 1 + carried, i - 1, row, present, 1)


def _product(a: Numbers, digit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The digits of a · digit, and the carries out of their columns: ``uint8 [B, n]`` each."""
    columns = a.padded(a.digits.shape[1] + 1).astype(np.int16) * digit[:, None].astype(np.int16)
    digits, carried = carries(columns, a.base)
    return digits.astype(np.uint8), carried.astype(np.uint8)
