"""All layouts, and drawings of problems in them."""

import numpy as np

from canvas.addition import Addition
from canvas.drawing import WorkedDrawing
from canvas.layouts import Layout
from canvas.multiplication import Multiplication
from canvas.problems import Problems

LAYOUTS = Multiplication.layouts | Addition.layouts
PAIRS = [(321, 654), (7, 8), (12, 30), (99, 9), (405, 11), (12, 3)]


def drawn(
    layout: str | Layout,
    operands: list[tuple[int, ...]],
    *size: int,
    top: int | np.ndarray = 0,
    left: int | np.ndarray = 0,
    base: int = 10,
) -> WorkedDrawing:
    """Draw solutions on a canvas of a size.

    Without a size the canvas fits the solutions, with margins of ``top`` and ``left``.
    """
    rules = LAYOUTS[layout] if isinstance(layout, str) else layout
    problems = Problems.from_ints(operands, base)
    heights, widths = rules.sizes(problems)
    size = size or (int(heights.max()) + 2 * top, int(widths.max()) + 2 * left)
    return rules.draw_worked(problems, *size, top, left)
