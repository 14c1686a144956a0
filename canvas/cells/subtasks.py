"""Sub-tasks of a layout: the classes that probes read and that auxiliary heads learn.

They are the signals of the layout's local rule, and its `LocalRule.probe_targets`.
"""

import numpy as np

from canvas.cells.local_rule import LocalRule
from canvas.cells.pages import UNDEFINED, draw_signals
from canvas.drawing import WorkedDrawing
from canvas.layouts import ANSWER, PARTIAL, SUM

# Signals that are the digits of rows of some kinds.
_WRITTEN = {"product": (PARTIAL,), "sum": (SUM, ANSWER), "addend": (SUM, ANSWER)}


def subtask_classes(rule: LocalRule) -> dict[str, int]:
    """Return the number of classes of each sub-task, by name."""
    return rule.signals | {name: rule.classes(name) for name in rule.probe_targets}


def draw_subtasks(
    rule: LocalRule, drawing: WorkedDrawing, step: np.ndarray | None = None, written: bool = False
) -> dict[str, np.ndarray]:
    """Draw the maps of `draw_signals` and `LocalRule.draw_probe_targets`.

    Args:
        rule: of the drawing's layout.
        drawing: the worked solutions.
        step: see `draw_signals`.
        written: also define a signal in the rows whose digits it is; else it is undefined there.

    Returns:
        uint8 [B, H, W] of classes by sub-task.
    """
    maps = draw_signals(rule, drawing, step) | rule.draw_probe_targets(drawing)
    for name in () if written else maps.keys() & _WRITTEN.keys():
        sample, row = np.isin(drawing.kinds, _WRITTEN[name]).nonzero()
        maps[name][sample, drawing.top[sample] + row] = UNDEFINED
    return maps
