"""Programs at work: a masked row filled in, whole problems, each row built on the program's own."""

from dataclasses import dataclass

import numpy as np

from canvas import symbols
from canvas.render import Drawing
from trm.rasp.page import NONE, Page
from trm.rasp.programs import PROGRAMS


@dataclass(frozen=True)
class Ran:
    """Problems worked out by a program.

    Attributes:
        canvases: ``uint8 [B, H, W]``, with all rows.
        iterations: for each of the S steps, how often rules were applied until nothing changed.
        selectors: names of those that it used.
    """

    canvases: np.ndarray
    iterations: tuple[int, ...]
    selectors: tuple[str, ...]


def write_row(layout: str, canvases: np.ndarray, base: int) -> tuple[np.ndarray, Page]:
    """Fill in the masked row of canvases.

    Args:
        layout: one of `PROGRAMS`.
        canvases: ``uint8 [B, H, W]``, upright, a row of each masked.
        base: of the digits.

    Returns:
        The canvases with that row filled in, and the page, with the selectors of the program.

    Raises:
        ValueError: there is no program of that layout.
    """
    check_program(layout)
    page = Page(canvases, base)
    digits = PROGRAMS[layout](page)
    ids = np.where(digits == NONE, symbols.BLANK, symbols.DIGIT_ZERO + digits)
    filled = ids.astype(np.uint8).reshape(canvases.shape)
    return np.where(canvases == symbols.MASK, filled, canvases), page


def check_program(layout: str) -> None:
    """Raise a ValueError where there is no program of a layout."""
    if layout not in PROGRAMS:
        raise ValueError(
            f"there is no program of the layout {layout}, only of {', '.join(PROGRAMS)}"
        )


def run_program(layout: str, drawing: Drawing, base: int) -> Ran:
    """Work problems out row by row, each row built on the program's own.

    Args:
        layout: one of `PROGRAMS`.
        drawing: B problems, of which the operands alone are read.
        base: of the digits.

    Raises:
        ValueError: there is no program of that layout.
    """
    canvases, selectors = drawing.canvases.copy(), dict[str, None]()
    iterations = []
    for step in range(int(drawing.steps.max(initial=0))):
        asked = drawing.answer_cells(step) & (step < drawing.steps)[:, None, None]
        shown = np.where(asked, np.uint8(symbols.MASK), canvases)
        canvases, page = write_row(layout, shown, base)
        iterations.append(page.iterations)
        selectors |= dict.fromkeys(page.selectors)
    return Ran(canvases, tuple(iterations), tuple(selectors))
