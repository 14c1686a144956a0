"""The eight symmetries of the square (the dihedral group D4): one table, compose, invert, apply.

A symmetry is a transposition, then a flip of the rows, then one of the columns, each done or not.
Names and meanings are those of `albumentations.D4`.
"""

from typing import NamedTuple

import numpy as np

from canvas.choices import check_choice


class Symmetry(NamedTuple):
    """Moves of a symmetry, in this order; True: it makes the move."""

    transpose: bool
    flip_rows: bool  # top row becomes bottom row
    flip_columns: bool  # leftmost column becomes rightmost column


SYMMETRIES: dict[str, Symmetry] = {
    "e": Symmetry(False, False, False),
    "r90": Symmetry(True, True, False),  # anticlockwise
    "r180": Symmetry(False, True, True),
    "r270": Symmetry(True, False, True),
    "v": Symmetry(False, True, False),
    "hvt": Symmetry(True, True, True),  # reflection in the anti-diagonal
    "h": Symmetry(False, False, True),
    "t": Symmetry(True, False, False),
}
_NAMES = {moves: name for name, moves in SYMMETRIES.items()}


def lookup(name: str) -> Symmetry:
    """Return the moves of a symmetry.

    Raises:
        ValueError: there is no symmetry of that name.
    """
    check_choice("a symmetry of the square", name, SYMMETRIES)
    return SYMMETRIES[name]


def invert(name: str) -> str:
    """Return the name of the inverse symmetry."""
    transpose, flip_rows, flip_columns = lookup(name)
    return _NAMES[Symmetry(True, flip_columns, flip_rows)] if transpose else name


def compose(first: str, second: str) -> str:
    """Return the name of ``first`` followed by ``second``."""
    corners = np.arange(4).reshape(2, 2)
    turned = apply(second, apply(first, corners)).tolist()
    return next(name for name in SYMMETRIES if apply(name, corners).tolist() == turned)


def apply(name: str, array: np.ndarray) -> np.ndarray:
    """Turn an array, [..., H, W], into [..., H, W], or [..., W, H] if the symmetry transposes.

    The result may share memory with ``array``.
    """
    transpose, flip_rows, flip_columns = lookup(name)
    if transpose:
        array = array.swapaxes(-2, -1)
    flipped = [axis for axis, flip in ((-2, flip_rows), (-1, flip_columns)) if flip]
    return np.flip(array, tuple(flipped))
