"""The order of writing, and the loop that computes cells in it.

A cell depends on its neighbours on the right, above, above left and above right, and on no others.
So a row can be computed while the row above it is still two columns ahead. The cells that are
computed at the same time are a *front*; a canvas is a sequence of fronts, from the upper right
corner to the lower left one:

    column from the right    3  2  1  0
    row 0                    3  2  1  0
    row 1                    5  4  3  2
    row 2                    7  6  5  4

All programs that compute canvases share `wavefront`: it takes the function of a cell as an
argument, be it that of a rule, of a network or of a table. Front after front it computes each cell
once. With all cells in a single front it takes one step of all cells at once; repeated, these steps
lead to the same messages, as no cell depends on a later one.

Where messages go in all directions, no cell is the first one. Then `settle` takes such steps until
no message changes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from canvas.cells.spec import AGAINST, NEIGHBOURS


def wavefront(
    decide: Callable[[Any, Any], Any], messages: Any, fronts: Iterable[tuple[Any, Any]]
) -> None:
    """Compute cells front after front, in place, each from the messages of its neighbours.

    Args:
        decide: function of a cell. It is called with the cells of a front and the messages of their
            neighbours, and returns the messages that these cells pass.
        messages: of all cells: an array, a tensor, or anything else with such an index.
        fronts: indices of the cells of each front, and indices of their neighbours.
    """
    for cells, neighbours in fronts:
        messages[cells] = decide(cells, messages[neighbours])


def settle(
    decide: Callable[[Any, Any], Any], messages: Any, cells: Any, sources: Any, most: int
) -> None:
    """Update all cells at once, in place, until no message changes.

    A cell is computed again only if a neighbour's message has changed.

    Args:
        decide: see `wavefront`.
        messages: of N cells and of a missing one, integers [N + 1, ...]; the state to begin with.
        cells: indices of the cells, int64 [N]: 0 to N − 1.
        sources: see `WritingOrder`.
        most: updates after which it ends in any case.
    """
    changing = cells
    for _ in range(most):
        decided = decide(changing, messages[sources[changing]])
        changed = (messages[changing] != decided).any(-1)
        messages[changing] = decided
        fresh = messages[:, 0] != messages[:, 0]  # all False, an array or a tensor
        fresh[changing[changed]] = True
        changing = cells[fresh[sources].any(-1)]
        if not len(changing):
            return


class WritingOrder(NamedTuple):
    """N cells of canvases in the order of writing, front after front.

    Arrays, or tensors of the same content. Messages are rows of an array [N + 1, ...], of which
    the last one is 0: that of a missing neighbour.
    """

    canvas: Any  # int64 [N], index of the cell's canvas
    row: Any  # int64 [N]
    column: Any  # int64 [N], from the left
    sources: Any  # int64 [N, directions], index of the neighbour in each direction; −1: none
    sizes: Sequence[int]  # of the fronts
    most: int = 0  # updates of all cells, see `settle`; 0: there is an order of writing

    @classmethod
    def of(cls, cells: np.ndarray, directions: Iterable[str]) -> "WritingOrder":
        """Return the order of some cells.

        Args:
            cells: which cells of B canvases, bool [B, H, W].
            directions: in which messages are passed, by the names of `NEIGHBOURS`.
        """
        B, H, W = cells.shape
        found = np.stack(cells.nonzero())
        directions = tuple(directions)
        ordered = AGAINST.isdisjoint(directions)
        order, sizes = in_order(front_of(found[1], W - 1 - found[2]) * ordered)
        # If each update settles a cell of a canvas at least, the last one changes nothing.
        most = 0 if ordered else 1 + int(cells.sum(axis=(1, 2)).max(initial=0))
        canvas, row, column = found[:, order]
        index = np.full((B, H + 1, W + 2), -1)
        index[canvas, row + 1, column + 1] = np.arange(len(order))
        steps = [NEIGHBOURS[direction] for direction in directions]
        rows = [(row + 1 + down) % (H + 1) for down, _ in steps]  # the margin above is also below
        sources = [
            index[canvas, at, column + 1 + right]
            for at, (_, right) in zip(rows, steps, strict=True)
        ]
        return cls(canvas, row, column, np.stack(sources, axis=1), sizes, most)

    @property
    def fronts(self) -> Iterator[tuple[slice, Any]]:
        """Cells of each front, as a slice, and the indices of their neighbours, for `wavefront`."""
        end = 0
        for size in self.sizes:
            cells = slice(end, end := end + size)
            yield cells, self.sources[cells]


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
