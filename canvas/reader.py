"""A canvas back to the numbers on it."""

from dataclasses import dataclass

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.layouts import CellIndex, Layout


@dataclass(frozen=True)
class Reading:
    """What a canvas says, whether or not it is true."""

    operands: tuple[int, ...]
    answer: int
    answer_cells: tuple[CellIndex, ...]  # of the answer's digits on the canvas, the lowest first


def read(canvas: np.ndarray, layout: Layout, base: int = 10) -> Reading:
    """Operands and answer of one canvas ``uint8 [H, W]``.

    A ValueError says why the canvas is no worked solution in that layout.
    """
    rows, columns = np.nonzero(canvas != symbols.BLANK)
    if not rows.size:
        raise ValueError("the canvas is blank: there is no problem on it")
    content = canvas[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    if (content == symbols.MASK).any():
        raise ValueError("a row is still masked: the canvas is not worked out")
    signs = np.argwhere(content == layout.sign)
    if len(signs) != 1:
        sign = symbols.CHARACTERS[layout.sign]
        raise ValueError(f"a canvas has one sign {sign!r}, this one has {len(signs)}")
    row, column = signs[0].tolist()
    named = {}
    for name, ids in layout.read_operands(content, (row, column)).items():
        filled = np.flatnonzero(ids != symbols.BLANK)
        named[name] = ids[filled[0] : filled[-1] + 1] if filled.size else filled
    operands = tuple(_number(ids, name, base) for name, ids in named.items())
    lengths = [len(ids) for ids in named.values()]
    if len(content) != (expected := layout.room(lengths, base)[0]):
        raise ValueError(
            f"operands of {' and '.join(map(str, lengths))} digits take {expected} rows in the "
            f"{layout.name} layout, this canvas has {len(content)}: it is not worked out"
        )
    cells = layout.answer_cells(content)
    answer = np.array([content[cell] for cell in cells], dtype=np.uint8)
    top, left = int(rows.min()), int(columns.min())
    places = tuple((top + row, left + column) for row, column in cells)
    return Reading(operands, _number(answer, "answer", base), places)


def _number(ids: np.ndarray, name: str, base: int) -> int:
    """A number from ids, least significant first; every one of them has to be a digit."""
    if not ids.size:
        raise ValueError(f"the {name} is blank")
    digits = symbols.DIGIT_OF[ids]
    if ((digits < 0) | (digits >= base)).any():
        written = symbols.decode(ids[::-1])
        raise ValueError(f"the {name} {written!r} is not a number in base {base}")
    return Numbers.from_digits(digits[None].astype(np.uint8), base).to_ints()[0]
