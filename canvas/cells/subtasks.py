"""Sub-tasks of a layout: the classes that probes read and that auxiliary heads learn.

They are the signals of the layout's local rule, and its `LocalRule.probe_targets`.
"""

import numpy as np

from canvas.cells.drawn import draw_signals
from canvas.cells.local_rule import LocalRule
from canvas.drawing import UNDEFINED, WorkedDrawing
from canvas.layouts import ABSENT, ANSWER, PARTIAL, SUM
from canvas.symbols import BLANK

# Signals that are the digits of rows of some kinds.
_WRITTEN = {"product": (PARTIAL,), "sum": (SUM, ANSWER), "addend": (SUM, ANSWER)}

# Steps of the arithmetic: the digits that meet, their product or sum, what is carried. The other
# sub-tasks are how a rule moves digits over a page.
_PRODUCT, _SUM = ("multiplicand", "multiplier", "product", "carry"), ("sum", "sum_carry")
_ARITHMETIC = (*_PRODUCT, "first_addend", "addend_above", "digit_sum", *_SUM)


def arithmetic_subtasks(rule: LocalRule) -> list[str]:
    """Return the names of a rule's sub-tasks that are steps of the arithmetic; all if none is."""
    every = subtask_classes(rule)
    return [name for name in _ARITHMETIC if name in every] or [*every]


def subtask_classes(rule: LocalRule) -> dict[str, int]:
    """Return the number of classes of each sub-task, by name."""
    return rule.signals | {name: rule.classes(name) for name in rule.probe_targets}


def draw_subtasks(
    rule: LocalRule, drawing: WorkedDrawing, row: np.ndarray | None = None, written: bool = False
) -> dict[str, np.ndarray]:
    """Draw the maps of `draw_signals` and `LocalRule.draw_probe_targets`.

    Args:
        rule: of the drawing's layout.
        drawing: the worked solutions.
        row: see `draw_signals`.
        written: also define a signal in the rows whose digits it is; else it is undefined there.

    Returns:
        uint8 [B, H, W] of classes by sub-task.
    """
    maps = draw_signals(rule, drawing, row) | rule.draw_probe_targets(drawing)
    for name in () if written else maps.keys() & _WRITTEN.keys():
        sample, row = np.isin(drawing.kinds, _WRITTEN[name]).nonzero()
        maps[name][sample, drawing.top[sample] + row] = UNDEFINED
    return maps


def needed(maps: dict[str, np.ndarray], drawing: WorkedDrawing) -> dict[str, np.ndarray]:
    """Return maps of `draw_subtasks` that are undefined where a row does not follow from them.

    These are blank cells; and, in layouts with rows of partial products, steps of a product in rows
    of sums, and steps of a sum in rows of products. Example: in `standard`, ``carry`` stays defined
    in the partial products, and ``sum_carry`` in the last row. There it is 0, as that rule adds up
    in the rows of products.
    """
    B, H, _ = drawing.truth.shape
    kinds = np.full((B, H), ABSENT)
    index = np.arange(drawing.kinds.shape[1])
    sample, row = (drawing.kinds != ABSENT).nonzero()
    kinds[sample, drawing.top[sample] + index[row]] = drawing.kinds[sample, row]
    partial = kinds == PARTIAL
    apart = partial.any()
    found = {}
    for name, classes in maps.items():
        other = (
            ~partial if name in _PRODUCT else partial if name in _SUM else np.zeros_like(partial)
        )
        unneeded = (drawing.truth == BLANK) | (apart & other)[:, :, None]
        found[name] = np.where(unneeded, np.uint8(UNDEFINED), classes)
    return found
