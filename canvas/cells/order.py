"""The order of writing: which cells of a canvas can be computed together.

A cell depends on its neighbours on the right, above, above left and above right, and on no others.
So a row can be computed while the row above it is still two columns ahead. The cells that are
computed at the same time are a *front*; a canvas is a sequence of fronts, from the upper right
corner to the lower left one:

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


def in_order(fronts: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return cells in the order of their fronts; cells of one front keep their order.

    Args:
        fronts: of N cells, integers [N], see `front_of`.

    Returns:
        Indices, int64 [N], and the number of cells in each front that has any.
    """
    order = np.argsort(fronts, kind="stable")
    ends = np.flatnonzero(np.diff(fronts[order], append=-1)) + 1
    return order, np.diff(ends, prepend=0).tolist()


def in_fronts(fronts: np.ndarray) -> list[np.ndarray]:
    """Return the indices of the cells of each front, int64 [n], front after front."""
    order, sizes = in_order(fronts)
    return np.split(order, np.cumsum(sizes)[:-1]) if sizes else []
