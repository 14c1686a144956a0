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


def product_carries(a: Numbers, digit: np.ndarray, added: np.ndarray | None = None) -> np.ndarray:
    """1 + the carry out of each column of a · digit (+ added ``[B, n]``): ``uint8 [B, n]``."""
    n = max(a.digits.shape[1], 0 if added is None else added.shape[1]) + 1
    columns = a.padded(n).astype(np.int16) * digit[:, None].astype(np.int16)
    if added is not None:
        columns[:, : added.shape[1]] += added
    return (1 + carries(columns, a.base)[1]).astype(np.uint8)


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
        yield HintRow("row_kind", kind[:, None], -1 - margin, row, kind > 0, kind)


def product_rows(
    a: Numbers,
    digit: np.ndarray,
    i: int,
    row: np.ndarray | int,
    present: np.ndarray,
    added: np.ndarray | None = None,
) -> Iterator[HintRow]:
    """The hints of a row that holds a partial product, a · digit, i columns from the right.

    Args:
        a: the multiplicands.
        digit: ``uint8 [B]``, of the multipliers.
        i: place of that digit.
        row: of the workings, ``int64 [B]`` or the same for all.
        present: ``bool [B]``, which workings have it.
        added: digits ``uint8 [B, n]`` that are added to the product, from its lowest column on.
    """
    yield HintRow("multiplicand", digit_classes(a), i, row, present)
    of_row = 1 + digit
    yield HintRow("multiplier", of_row[:, None], i, row, present, of_row)
    yield HintRow("carry", product_carries(a, digit, added), i, row, present, 1)


def products_ahead(
    a: Numbers,
    digit: np.ndarray,
    i: int,
    row: np.ndarray | int,
    present: np.ndarray,
    margin: int = 0,
) -> Iterator[HintRow]:
    """The hints ``product_units`` and ``product_tens`` of a row that multiplies a by a digit.

    A cell that multiplies and adds has base³ · base cases to learn. With these, its right
    neighbour has multiplied already (base² cases), and it only adds. A product that begins in the
    last column of a working has no such neighbour.

    Args:
        a, digit, i, row, present: see `product_rows`.
        margin: the layout's.
    """
    inside = np.arange(a.digits.shape[1]) < a.lengths[:, None]
    products = a.digits * digit[:, None]  # below 100
    first = int(i + margin == 0)
    for name, part in (("product_units", products % a.base), ("product_tens", products // a.base)):
        yield HintRow(name, ((1 + part) * inside)[:, first:], i - 1 + first, row, present)
