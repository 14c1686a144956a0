"""RASP on numpy arrays: a language for computations that the layers of a transformer can do.

After Weiss, Goldberg and Yahav 2021, "Thinking like transformers". A program consists of:

- s-ops, a value for each of N positions: arrays [..., N], batch dimensions in front;
- `select`: a selector, which lists the key positions that each query position attends to, like the
  attention pattern of a head;
- `aggregate`: at each query the value of the selected keys, like the output of a head;
- the sum of a selector over its keys: the number of keys that each query selects, its width;
- elementwise operations: numpy's operators on s-ops of one shape, like a feed-forward layer.

Positions are those of a sequence, or the cells of a canvas (`MaskedCanvases`), whose rows and
columns are s-ops, too. The paper's example that counts the occurrences of each letter:

    letters = np.array(list("hello"))
    select(letters, letters, np.equal).sum(axis=-1)  # 1, 1, 2, 2, 1

A head of a canvas model can learn each of the named selectors of `MaskedCanvases`: the neighbours
of a cell; the row, the row above, the column, and the column on its right, from which a carry
comes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from canvas import symbols
from canvas.choices import check_choice

SOp = np.ndarray  # [..., N], of any dtype
Selector = np.ndarray  # bool [..., Q, K], True where a query selects a key; combined with ``&``
Predicate = Callable[[Any, Any], np.ndarray]  # (keys [..., 1, K], queries [..., Q, 1]) → bool

NONE = -1  # value of a cell without a digit, as in `canvas.symbols.DIGIT_OF`
MOST_CELLS = 3_000  # of a canvas; a selector is a table of all pairs of cells
NEIGHBOURS = {  # name → rows down and columns right from a cell to the one that it reads
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
    """Return the selector [..., Q, K] of all pairs of keys and queries that meet a predicate.

    ``keys`` is an s-op [..., K], ``queries`` an s-op [..., Q]. The predicate, such as
    `numpy.equal`, gets arrays that broadcast to the shape of the selector.

    Example: keys ``[1, 2]``, queries ``[2, 2]``, `numpy.equal` → ``[[False, True]] * 2``.
    """
    keys, queries = keys[..., None, :], queries[..., :, None]
    shape = np.broadcast_shapes(keys.shape, queries.shape)
    return np.broadcast_to(predicate(keys, queries).astype(bool), shape)


def true_of(condition: SOp) -> Selector:
    """Return the selector of all keys where a condition ``bool [..., N]`` is true."""
    return select(condition, condition, lambda key, query: key)


def aggregate(selector: Selector, values: SOp, default: Any) -> SOp:
    """Return, for each query, the value of its selected keys, or the default if it has none.

    ``values`` is an s-op [..., K]. The paper takes the mean. Digits, symbols and truth values are
    categories and have no mean, so the selected values must agree.

    Raises:
        ValueError: a query selects different values.
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


class MaskedCanvases:
    """Canvases ``uint8 [B, H, W]`` with a masked row, as s-ops over N = H · W cells.

    - ``symbols: int64 [B, N]``
    - ``digit: int64 [B, N]``, `NONE` where there is no digit
    - ``sign: bool [B, N]``, the cell of the multiplication or plus sign
    - ``rows``, ``columns: int64 [N]``, from the top left
    - ``selectors``: the selectors used so far, by name

    Raises:
        ValueError: the canvases have more than `MOST_CELLS` cells.
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
        """Return a selector of `NAMES`, or one that a program has added to `selectors`.

        Raises:
            ValueError: there is no selector of this name.
        """
        if name not in self.selectors:
            check_choice("selector", name, NAMES)
            down, right = NAMES[name]
            self.selectors[name] = _reached(self.rows, down) & _reached(self.columns, right)
        return self.selectors[name]

    def at(self, name: str, values: SOp, default: int | bool = NONE) -> SOp:
        """Return the value in the selected cell; the default where no cell is selected."""
        return aggregate(self.selector(name), values, default)

    def in_row(self, condition: SOp) -> SOp:
        """Test if a condition is true in any cell of the row, ``bool [B, N]`` both."""
        return (self.selector("same row") & true_of(condition)).any(axis=-1)

    def settle(self, rule: Callable[[SOp], SOp], start: int | bool = NONE) -> SOp:
        """Apply a rule to all cells ``[B, N]`` until nothing changes, and return the result.

        A value can move cell by cell in this way, as in the loops of a recursive model.

        Raises:
            ValueError: values still change after enough rounds to reach every cell.
        """
        values = np.full(self.symbols.shape, start)
        for _ in range(2 * self.symbols.shape[1] + 2):
            before, values = values, rule(values)
            if np.array_equal(before, values):
                return values
        raise ValueError("a rule of the program does not settle: a cell depends on itself")

    def spread(self, name: str, source: SOp, values: SOp | bool, start: int | bool = NONE) -> SOp:
        """Copy values from source cells ``bool [B, N]`` to all cells that select them, repeatedly.

        Example: the selector ``right`` copies the value of a source cell to all cells on its left.
        """
        return self.settle(lambda now: np.where(source, values, self.at(name, now, start)), start)


def _reached(places: SOp, steps: int | None) -> Selector:
    """Return the selector of the place a number of steps on; None: all places."""
    return true_of(places >= 0) if steps is None else select(places, places + steps, np.equal)
