"""What a local rule is written in: outputs, inputs, neighbours, ops, columns and rows."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

END = ""  # in place of a column on the left: the page ends there
MOST_CODES = 62  # of a signal that is not told: each has a letter of its own
SYMBOL = "symbol"  # the output that a cell writes, beside its signals
TOKEN = "token"  # the symbol that stands in a cell, or the mask
OWN = "own"  # what a cell has decided itself, in place of a neighbour
NEIGHBOURS = {  # who hands a cell what, as rows down and columns right
    "left": (0, 1), "down": (-1, 0), "down_right": (-1, -1), "down_left": (-1, 1),
}  # fmt: skip
SEES = {  # what a cell calls it
    "left": "right", "down": "above", "down_right": "above_left", "down_left": "above_right",
    OWN: OWN,
}  # fmt: skip


class Op(NamedTuple):
    """A step of a cell: what it decides, of what it reads.

    `TOKEN`; whether there is a neighbour, by the names of `SEES`; or a signal that one hands on, or
    the cell itself has decided, like ``right.carry`` and ``own.product``. None: all but the last.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str, ...] | None = None


def input_name(direction: str, signal: str) -> str:
    """The name by which ops read a signal that is handed on this way; "": whether one is there."""
    return f"{SEES[direction]}.{signal}" if signal else SEES[direction]


class Seen(dict[str, np.ndarray]):
    """Inputs of an op in N cells, int64 [N] each, by the names by which an `Op` reads."""

    def __missing__(self, name: str) -> np.ndarray:
        raise KeyError(f"an op looks at {name} unasked")


class Column(NamedTuple):
    """A kind of column as it stands in a kind of row."""

    kind: str  # of the column, the same in all rows
    tokens: tuple[int, ...]  # that can stand there, `symbols.MASK` for a cell to be worked out
    left: tuple[str, ...]  # what can stand on its left: names of a row's columns, or `END`


class RowKind(NamedTuple):
    """A kind of row: its columns by name, from the right."""

    columns: Mapping[str, Column]
    first: tuple[str, ...]  # which of them can stand at the page's right edge
    below: tuple[str, ...]  # kinds of rows that can stand above; "" for the page's upper edge
