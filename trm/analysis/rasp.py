"""RASP on numpy arrays: a language of what one layer of a transformer after another can compute.

After Weiss, Goldberg and Yahav 2021, "Thinking like transformers". A program is made of:

- s-ops, a value for each of N positions: arrays [..., N], batch dimensions in front;
- `select`: a selector, which says of each query position what key positions it attends to: the
  attention pattern of a head;
- `aggregate`: at each query the value of the keys that are selected: what a head fetches;
- the sum of a selector over its keys: how many each query selects, its width;
- anything elementwise: numpy's operators on s-ops of one shape, as a feed-forward layer does.

Positions are those of a sequence, or the cells of a canvas (`Cells`), whose rows and columns are
s-ops, too. The example of the paper that counts how often each letter occurs::

    letters = np.array(list("hello"))
    select(letters, letters, np.equal).sum(axis=-1)  # 1, 1, 2, 2, 1

A head of a canvas model can learn each of the selectors that `Cells` has by name: the neighbours of
a cell; the row, the one above, the column, and that on its right, from which a carry comes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from canvas import symbols
from canvas.choices import check_choice

SOp = np.ndarray  # [..., N], of any dtype
Selector = np.ndarray  # bool [..., Q, K], which keys each query selects; combined with ``&``
Predicate = Callable[[Any, Any], np.ndarray]  # of keys [..., 1, K] and queries [..., Q, 1]

NONE = -1  # a digit where there is none, as in `canvas.symbols.DIGIT_OF`
MOST_CELLS = 3_000  # of a canvas; a selector is a table of all pairs of cells
NEIGHBOURS = {  # rows down and columns right from a cell to the one that it looks at
    "above": (-1, 0),
    "right": (0, 1),
    "above right": (-1, 1),
    "above left": (-1, -1),
    "left": (0, -1),
    "below": (1, 0),
    "below right": (1, 1),
    "below left": (1, -1),
}
# The same of a cell itself and of lines; None: any number of rows or columns.
LINES = {
    "itself": (0, 0),
    "row above": (-1, None),
    "same row": (0, None),
    "same column": (None, 0),
    "right column": (None, 1),
}
NAMES = NEIGHBOURS | LINES


def select(keys: SOp, queries: SOp, predicate: Predicate) -> Selector:
    """The selector [..., Q, K] of all pairs of s-ops [..., K] and [..., Q] that meet a predicate.

    The predicate, such as `numpy.equal`, is given arrays that broadcast to that shape.
    """
    keys, queries = keys[..., None, :], queries[..., :, None]
    shape = np.broadcast_shapes(keys.shape, queries.shape)
    return np.broadcast_to(predicate(keys, queries).astype(bool), shape)


def true_of(condition: SOp) -> Selector:
    """The keys of which a condition ``bool [..., N]`` is true, selected by every query."""
    return select(condition, condition, lambda key, query: key)


def aggregate(selector: Selector, values: SOp, default: Any) -> SOp:
    """What each query fetches from the keys that it selects, of values [..., K], or the default.

    The paper takes the mean. Digits, symbols and truth values are categories, of which there is
    none: the selected ones have to agree, or there is a ValueError.
    """
    batch = np.broadcast_shapes(selector.shape[:-2], values.shape[:-1])
    first = selector.argmax(axis=-1)
    spread = np.broadcast_to(values, (*batch, values.shape[-1]))
    first = np.broadcast_to(first, (*batch, first.shape[-1]))
    found = np.take_along_axis(spread, first, axis=-1)
    differ = selector & (spread[..., None, :] != found[..., :, None])
    if differ.any():
        *one, query, key = np.argwhere(differ)[0].tolist()
        raise ValueError(
            f"position {query} selects {found[(*one, query)]} and {spread[(*one, key)]}, and there "
            "is no mean of categories: select keys that agree"
        )
    return np.where(selector.any(axis=-1), found, values.dtype.type(default))


class Cells:
    """Canvases ``uint8 [B, H, W]``, a row of which is masked, as s-ops over N = H · W cells.

    ``symbols`` and ``digit`` (or `NONE`) are ``int64 [B, N]``, ``sign`` is ``bool [B, N]``, the
    cell of the multiplication or plus sign, ``rows`` and ``columns`` are ``int64 [N]`` from the top
    left; ``selectors`` those that have been asked for, by name. ValueError: the canvases have more
    than `MOST_CELLS` cells.
    """

    def __init__(self, canvases: np.ndarray, base: int) -> None:
        batch, height, width = canvases.shape
        if height * width > MOST_CELLS:
            raise ValueError(
                f"selectors are tables of all pairs of cells, of canvases of up to {MOST_CELLS:,} "
                f"cells; this one has {height} x {width}. Take shorter numbers"
            )
        self.symbols: SOp = canvases.reshape(batch, -1).astype(np.int64)
        self.digit: SOp = symbols.DIGIT_OF[self.symbols].astype(np.int64)
        self.sign: SOp = np.isin(self.symbols, (symbols.TIMES, symbols.PLUS))
        self.rows, self.columns = (x.reshape(-1) for x in np.indices((height, width)))
        self.base = base
        self.selectors: dict[str, Selector] = {}

    def selector(self, name: str) -> Selector:
        """One of `NAMES`, or one that a program has added to `selectors`; else a ValueError."""
        if name not in self.selectors:
            check_choice("selector", name, NAMES)
            down, right = NAMES[name]
            self.selectors[name] = _reached(self.rows, down) & _reached(self.columns, right)
        return self.selectors[name]

    def at(self, name: str, values: SOp, default: int | bool = NONE) -> SOp:
        """The value in the cell that a selector selects; the default where it selects none."""
        return aggregate(self.selector(name), values, default)

    def in_row(self, condition: SOp) -> SOp:
        """Whether a condition is true of any cell in the row, ``bool [B, N]`` both."""
        return (self.selector("same row") & true_of(condition)).any(axis=-1)

    def settle(self, rule: Callable[[SOp], SOp], start: int | bool = NONE) -> SOp:
        """What a rule leads to that is applied to all cells ``[B, N]`` until nothing changes.

        This is how a value travels cell by cell, as in the loops of a recursive model. ValueError:
        the values are still changing when each could have been in every cell.
        """
        values = np.full(self.symbols.shape, start)
        for _ in range(2 * self.symbols.shape[1] + 2):
            before, values = values, rule(values)
            if np.array_equal(before, values):
                return values
        raise ValueError("a rule of the program does not settle: a cell depends on itself")

    def handed(self, name: str, source: SOp, values: SOp | bool, start: int | bool = NONE) -> SOp:
        """Values of the cells of a source ``bool [B, N]``, handed on to all that select them."""
        return self.settle(lambda held: np.where(source, values, self.at(name, held, start)), start)


def _reached(places: SOp, steps: int | None) -> Selector:
    """What is so many steps on from each place; None: everything."""
    return true_of(places >= 0) if steps is None else select(places, places + steps, np.equal)
