"""RASP programs of tasks on texts, as s-ops over the characters of a text.

A task has a method ``program``, which gets a `Text` and returns a character for each position. The
selectors that it names are those of heads: queries are the cells of the answer, keys the cells of
the text above it.

Example: the program of `examples/lecture/reverse.py` writes ``abcab`` backwards.
"""

from dataclasses import dataclass, field

import numpy as np

from canvas import symbols
from canvas.texts import TextTask
from trm.extras.analysis.rasp import MaskedCanvases, Selector, SOp


@dataclass(frozen=True)
class Text:
    """A text of n characters as s-ops.

    - ``letters: str [n]``
    - ``indices: int64 [n]``, from 0
    - ``selectors: bool [n, n]`` each, by name, those that a program adds
    """

    letters: SOp
    selectors: dict[str, Selector] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Number of characters."""
        return len(self.letters)

    @property
    def indices(self) -> SOp:
        """Place of each character, from 0."""
        return np.arange(self.length)


def run_program(task: TextTask, text: str) -> tuple[str, dict[str, Selector]]:
    """Return the answer of a task's program to a text, and the selectors that it names.

    Raises:
        ValueError: the task has no program.
    """
    if not hasattr(task, "program"):
        raise ValueError(f"the task {task.name} has no program: give it a method program(text)")
    page = Text(np.array(list(text)))
    return "".join(task.program(page)), page.selectors


def write_texts(task: TextTask, canvases: np.ndarray) -> tuple[np.ndarray, MaskedCanvases]:
    """Fill in the masked row of upright canvases ``uint8 [B, H, W]``, below a text each.

    Returns the canvases, and the cells with the selectors of the program.

    Raises:
        ValueError: the task has no program.
    """
    cells, written = MaskedCanvases(canvases, task.base), canvases.copy()
    for number, canvas in enumerate(canvases):
        row = int((canvas == symbols.MASK).any(axis=1).argmax())
        columns = np.flatnonzero(canvas[row - 1] != symbols.BLANK)
        answer, selectors = run_program(task, symbols.decode(canvas[row - 1, columns]))
        written[number, row] = symbols.BLANK
        written[number, row, columns] = symbols.encode(answer)
        width = canvas.shape[1]
        queries, keys = row * width + columns, (row - 1) * width + columns
        for name, selector in selectors.items():
            every = np.zeros((len(canvases), canvas.size, canvas.size), dtype=bool)
            every = cells.selectors.setdefault(name, every)
            every[number, queries[:, None], keys] = selector
    return written, cells
