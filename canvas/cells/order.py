"""The order of writing: which cells of a page can be computed together.

A cell depends on its neighbours on the right, above, above left and above right, and on no others.
So a row can be computed while the row above it is still two columns ahead. The cells that are
computed at the same time are a *front*; a page is a sequence of fronts, from the upper right corner
to the lower left one:

    column from the right    3  2  1  0
    row 0                    3  2  1  0
    row 1                    5  4  3  2
    row 2                    7  6  5  4
"""

from typing import Any

import numpy as np


def front_of(row: Any, column: Any) -> Any:
    """Return the front of each cell, from its row and its column from the right.

    Arrays or tensors of integers, of any shape.
    """
    return column + 2 * row


def in_fronts(fronts: np.ndarray) -> list[np.ndarray]:
    """Return the indices of the cells of each front, front after front.

    Args:
        fronts: of N cells, integers [N], see `front_of`.

    Returns:
        int64 [n] for each front that has n > 0 cells; cells of one front keep their order.
    """
    order = np.argsort(fronts, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(fronts[order])) + 1) if len(order) else []
