"""What the layouts of multiplication and of addition share in saying their hints row by row.

These are `canvas.layouts.HintRow` and their parts; `canvas.hints` puts them onto canvases. Classes
of a digit are 1 + digit, and 0 where there is none, ``uint8 [B, n]`` from the right.
"""

from collections.abc import Callable, Iterator

import numpy as np

from canvas.arithmetic import Numbers, carries
from canvas.layouts import HintRow


def digit_classes(numbers: Numbers) -> np.ndarray:
    """1 + digit, and 0 beyond a number's length: ``uint8 [B, n]``."""
    inside = np.arange(numbers.digits.shape[1]) < numbers.lengths[:, None]
    return (numbers.digits + np.uint8(1)) * inside


def shifted(classes: np.ndarray, shift: int) -> np.ndarray:
    """Classes ``uint8 [B, n]`` so many columns farther left: ``uint8 [B, shift + n]``."""
    found = np.zeros((len(classes), shift + classes.shape[1]), dtype=np.uint8)
    found[:, shift:] = classes
    return found


def add_row(above: np.ndarray, row: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """A running sum of digit classes with one more row: its classes, and 1 + carries out of them.

    A cell of the sum is none where nothing is added or carried.
    """
    n = max(above.shape[1], row.shape[1]) + 1
    columns = np.zeros((len(above), n), dtype=np.int16)
    there = np.zeros(columns.shape, dtype=bool)
    for part in (above, row):
        added = part > 0
        columns[:, : part.shape[1]] += part - added
        there[:, : part.shape[1]] |= added
    digits, carried = carries(columns, base)
    there[:, 1:] |= carried[:, :-1] > 0
    return ((1 + digits) * there).astype(np.uint8), (1 + carried).astype(np.uint8)


def kind_rows(
    kinds: Callable[[int], list[int]], sizes: np.ndarray, margin: int
) -> Iterator[HintRow]:
    """The hint ``row_kind`` of every row, 1 + its kind from one edge of the canvas to the other.

    Args:
        kinds: of all rows of a working of a given size, from the top.
        sizes: ``int64 [B]``, whatever a working's rows follow from.
        margin: the layout's.
    """
    of_size = {size: kinds(size) for size in np.unique(sizes).tolist()}
    table = np.zeros((max(of_size) + 1, max(map(len, of_size.values()))), dtype=np.uint8)
    for size, found in of_size.items():
        table[size, : len(found)] = 1 + np.array(found)
    classes = table[sizes]
    for row, kind in enumerate(classes.T):
        yield HintRow("row_kind", kind[:, None], -2 - margin, row, kind > 0, kind)


def factor_rows(
    a: Numbers, digit: np.ndarray, i: int, row: np.ndarray | int, present: np.ndarray
) -> Iterator[HintRow]:
    """The hints ``multiplicand`` and ``multiplier`` of a row with a · digit.

    Args:
        a: the multiplicands.
        digit: ``uint8 [B]``, of the multipliers.
        i: place of that digit, the column in which the product begins.
        row: of the workings, ``int64 [B]`` or the same for all.
        present: ``bool [B]``, which workings have it.
    """
    yield HintRow("multiplicand", digit_classes(a), i, row, present)
    of_row = 1 + digit
    yield HintRow("multiplier", of_row[:, None], i, row, present, of_row)


def product_rows(
    a: Numbers, digit: np.ndarray, i: int, row: np.ndarray | int, present: np.ndarray
) -> Iterator[HintRow]:
    """The hints of a row that holds a partial product; ``carry`` is out of the cell."""
    yield from factor_rows(a, digit, i, row, present)
    yield HintRow("carry", 1 + _product(a, digit)[1], i, row, present, 1)


def products_ahead(
    a: Numbers, digit: np.ndarray, i: int, row: np.ndarray | int, present: np.ndarray
) -> Iterator[HintRow]:
    """``product`` and ``carry`` of a row that adds a partial product to another row.

    In one cell, a product, its carry and what they are added to are base⁴ cases to learn. Here they
    are shared out between two: each cell works out the digit of the partial product in the cell on
    its left, and the carry out of that, base³ cases; and adds, base² · 2, what its right neighbour
    has worked out for it.
    """
    digits, carried = _product(a, digit)
    inside = (np.arange(digits.shape[1]) < a.lengths[:, None]) | (digits > 0)
    yield HintRow("product", (1 + digits) * inside, i - 1, row, present)
    yield HintRow("carry", 1 + carried, i - 1, row, present, 1)


def _product(a: Numbers, digit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The digits of a · digit, and the carries out of their columns: ``uint8 [B, n]`` each."""
    columns = a.padded(a.digits.shape[1] + 1).astype(np.int16) * digit[:, None].astype(np.int16)
    digits, carried = carries(columns, a.base)
    return digits.astype(np.uint8), carried.astype(np.uint8)
