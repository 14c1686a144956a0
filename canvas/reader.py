"""A canvas back to the numbers on it."""

from dataclasses import dataclass, field

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.layouts import Layout


@dataclass(frozen=True)
class Multiplication:
    """What a canvas says: a times b makes product, whether or not that is true.

    Attributes:
        a, b, product: the numbers.
        places: row and column on the canvas of each of the product's digits, the lowest first.
    """

    a: int
    b: int
    product: int
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def correct(self) -> bool:
        """Whether the product is right."""
        return self.a * self.b == self.product


def read(canvas: np.ndarray, layout: Layout, base: int = 10) -> Multiplication:
    """Operands and product of one canvas ``uint8 [H, W]``.

    Raises:
        ValueError: the canvas is not a multiplication in that layout; the message says why.
    """
    rows, columns = np.nonzero(canvas != symbols.BLANK)
    if not rows.size:
        raise ValueError("the canvas is blank: there is no multiplication on it")
    content = canvas[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    if (content == symbols.MASK).any():
        raise ValueError("a row is still masked: the canvas is not worked out")
    times = np.argwhere(content == symbols.TIMES)
    if len(times) != 1:
        raise ValueError(f"a multiplication has one sign {'*'!r}, this canvas has {len(times)}")
    row, column = times[0].tolist()
    a, b = map(_filled, layout.read_operands(content, (row, column)))
    height = len(content)
    if height <= layout.first_step:
        raise ValueError("there is nothing below the operands: the canvas is not worked out")
    operands = {"a": _number(a, "multiplicand", base), "b": _number(b, "multiplier", base)}
    expected_height, _ = layout.extent(len(a), len(b))
    if height != expected_height:
        raise ValueError(
            f"a multiplier of {len(b)} digits takes {expected_height} rows in the {layout.name} "
            f"layout, this canvas has {height}: it is not worked out"
        )
    places = layout.answer_places(content)
    product = np.array([content[place] for place in places], dtype=np.uint8)
    top, left = int(rows.min()), int(columns.min())
    return Multiplication(
        **operands,
        product=_number(product, "product", base),
        places=tuple((top + row, left + column) for row, column in places),
    )


def _filled(ids: np.ndarray) -> np.ndarray:
    """Ids without the blanks at either end."""
    filled = np.flatnonzero(ids != symbols.BLANK)
    return ids[filled[0] : filled[-1] + 1] if filled.size else ids[:0]


def _number(ids: np.ndarray, name: str, base: int) -> int:
    """A number from ids, least significant first; every one of them has to be a digit."""
    if not ids.size:
        raise ValueError(f"the {name} is blank")
    digits = ids.astype(np.int16) - symbols.DIGIT_ZERO
    if ((digits < 0) | (digits >= base)).any():
        written = symbols.decode(ids[::-1])
        raise ValueError(f"the {name} {written!r} is not a number in base {base}")
    return Numbers.from_digits(digits[None].astype(np.uint8), base).to_ints()[0]
