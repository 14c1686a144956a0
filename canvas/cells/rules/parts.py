"""Parts that several rules share: digits as classes, and canvases with a margin."""

import numpy as np

from canvas.cells.spec import END, ColumnKind
from canvas.symbols import DIGIT_OF


def value(digit_class: np.ndarray) -> np.ndarray:
    """Return the digit or carry of a class, 0 for none."""
    return np.maximum(digit_class - 1, 0)


def digit_class(token: np.ndarray, base: int) -> np.ndarray:
    """Return class 1 + d for the symbol of a digit d, and 0 for other symbols."""
    digit = DIGIT_OF[token].astype(np.int64)
    return np.where((digit >= 0) & (digit < base), 1 + digit, 0)


def aligned(
    beside: tuple[int, ...], units: tuple[int, ...], rest: tuple[int, ...], beyond: tuple[int, ...]
) -> dict[str, ColumnKind]:
    """Return the columns of a row below a number, from the symbols that can stand in each.

    These are a margin, the units, the other digits of that number, and what is beyond them.
    """
    left = ("rest", "beyond", END)
    return {
        "margin": ColumnKind("margin", beside, ("margin", "units")),
        "units": ColumnKind("units", units, left),
        "edge": ColumnKind("edge", units, left),  # the same without a margin
        "rest": ColumnKind("rest", rest, left),
        "beyond": ColumnKind("beyond", beyond, ("beyond", END)),
    }


def columns(
    beside: tuple[int, ...], units: tuple[int, ...], rest: tuple[int, ...]
) -> dict[str, ColumnKind]:
    """Return a margin, the units and the rest, from the symbols that can stand in each."""
    return {
        "margin": ColumnKind("margin", beside, ("margin", "units")),
        "units": ColumnKind("units", units, ("rest",)),
        "edge": ColumnKind("edge", units, ("rest",)),  # the same without a margin
        "rest": ColumnKind("rest", rest, ("rest", END)),
    }
