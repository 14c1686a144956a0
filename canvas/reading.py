"""Reading a canvas: from a worked solution back to its operands and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.boxes import written_box

if TYPE_CHECKING:
    from canvas.layouts import Layout

CellIndex = tuple[int, int]  # row and column of a cell


class Reading(NamedTuple):
    """Operands and answer read from a canvas, correct or not."""

    operands: tuple[int, ...]
    answer: int
    answer_cells: tuple[CellIndex, ...]  # of the answer's digits on the canvas, the lowest first


def read(canvas: np.ndarray, layout: Layout, base: int = 10) -> Reading:
    """Read operands and answer from a canvas, uint8 [H, W].

    Raises:
        ValueError: the canvas is no worked solution in this layout; the message gives the reason.
    """
    rows, columns = written_box(canvas)
    content = canvas[rows, columns]
    if (content == symbols.MASK).any():
        raise ValueError("a row is still masked: the canvas is not solved")
    named = _operands(content, layout)
    operands = tuple(_number(ids, name, base) for name, ids in named.items())
    lengths = [len(ids) for ids in named.values()]
    if len(content) != (expected := layout.room(lengths, base)[0]):
        raise ValueError(
            f"operands of {' and '.join(map(str, lengths))} digits take {expected} rows in the "
            f"{layout.name} layout, this canvas has {len(content)}: it is not solved"
        )
    cells = layout.answer_cells(content)
    answer = np.array([content[cell] for cell in cells], dtype=np.uint8)
    top, left = rows.start, columns.start
    places = tuple((top + row, left + column) for row, column in cells)
    return Reading(operands, _number(answer, "answer", base), places)


def read_problem(canvas: np.ndarray, layout: Layout, base: int = 10) -> tuple[int, ...]:
    """Read the operands from a canvas with given cells alone, uint8 [H, W].

    Raises:
        ValueError: the canvas is no problem in this layout; the message gives the reason.
    """
    named = _operands(canvas[written_box(canvas)], layout)
    return tuple(_number(ids, name, base) for name, ids in named.items())


def _operands(content: np.ndarray, layout: Layout) -> dict[str, np.ndarray]:
    """Return the ids of each operand, the lowest digit first, of a canvas cut to written cells."""
    row = column = 0
    if layout.sign is not None:
        signs = np.argwhere(content == layout.sign)
        if len(signs) != 1:
            sign = symbols.ALL_CHARACTERS[layout.sign]
            raise ValueError(f"a canvas has one sign {sign!r}, this one has {len(signs)}")
        row, column = signs[0].tolist()
    named = {}
    for name, ids in layout.read_operands(content, (row, column)).items():
        filled = np.flatnonzero(ids != symbols.BLANK)
        named[name] = ids[filled[0] : filled[-1] + 1] if filled.size else filled
    return named


def _number(ids: np.ndarray, name: str, base: int) -> int:
    """Return a number from ids, least significant first; each has to be a digit's."""
    if not ids.size:
        raise ValueError(f"the {name} is blank")
    digits = symbols.digits_of(base)[ids]
    if ((digits < 0) | (digits >= base)).any():
        due = (
            f"text over {base}" if isinstance(base, symbols.Alphabet) else f"number in base {base}"
        )
        raise ValueError(f"the {name} {symbols.decode(ids[::-1])!r} is not a {due}")
    return Numbers.from_digits(digits[None].astype(np.uint8), base).to_ints()[0]
