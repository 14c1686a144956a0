"""A few problems that are longer than any of training, worked out at each validation of a run.

They show early whether a rule is learned or a table. Nothing is chosen by them: a checkpoint that
is picked for longer problems would no longer say how far training carries by itself.
"""

from typing import Any, NamedTuple

from canvas.canvas_size import Canvas
from canvas.problems import MOST_DIGITS
from canvas.task import Task

BEYOND = "beyond"  # under which name their figures are logged
BEYOND_FIGURES = ("solved", "teacher_forced_rows")  # and accuracy by hint

_FACTOR = 2  # digits of each operand, of the longest in training
_MOST_CELLS = 1024  # of a canvas: larger ones take too long beside training


class Longer(NamedTuple):
    """Problems beyond a task's range.

    Attributes:
        lengths: digits of each operand.
        left_out: why such problems cannot be worked out in this run, in words; empty if they can.
    """

    lengths: tuple[int, ...]
    left_out: str = ""


def longer(task: Task, canvas: Canvas, model: Any = None) -> Longer:
    """Problems with twice the digits of the longest in training, in every operand.

    Args:
        task: of training.
        canvas: of training.
        model: the network, which may have ``accepts(height, width)``.
    """
    lengths = tuple(_FACTOR * n for n in task.longest)
    if not canvas.cut:
        return Longer(lengths, "training's canvas is of a fixed size")
    if max(lengths) > MOST_DIGITS:
        return Longer(lengths, f"numbers have at most {MOST_DIGITS:,} digits")
    height, width = canvas.size(*task.rules.room(lengths, task.base))
    if height * width > _MOST_CELLS:
        return Longer(lengths, f"a canvas of {height} x {width} would take too long")
    accepts = getattr(model, "accepts", None)
    if accepts is not None and not accepts(height, width):
        return Longer(lengths, f"the model takes no canvas of {height} x {width}")
    return Longer(lengths)
