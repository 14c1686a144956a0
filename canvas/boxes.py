"""Boxes of cells: where the written part of a canvas begins and ends."""

import numpy as np

from canvas import symbols


def ends(lines: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first True of each line, and the place after its last one, int64 [...] each.

    A line without any begins at 0 and ends at N.

    Args:
        lines: bool [..., N].
    """
    return lines.argmax(axis=-1), lines.shape[-1] - lines[..., ::-1].argmax(axis=-1)


def bounding_box(cells: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and columns of the smallest box around all True cells, bool [H, W].

    Without any it is the whole canvas.
    """
    (top, bottom), (left, right) = ends(np.any(cells, axis=1)), ends(np.any(cells, axis=0))
    return slice(int(top), int(bottom)), slice(int(left), int(right))


def written_box(canvas: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and columns of the written cells of a canvas, uint8 [H, W].

    Raises:
        ValueError: there are none.
    """
    written = canvas != symbols.BLANK
    if not written.any():
        raise ValueError("the canvas is blank: there is no problem on it")
    return bounding_box(written)
