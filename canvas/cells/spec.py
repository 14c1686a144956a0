"""Vocabulary of local rules: outputs, inputs, neighbours, ops, columns and rows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

END = ""  # in place of a column on the left: the canvas ends there
MOST_CODES = 62  # most latent codes of a signal: each is printed as one letter or digit
SYMBOL = "symbol"  # the output that a cell writes, beside its signals
TOKEN = "token"  # the symbol that stands in a cell, or the mask
OWN = "own"  # in place of a neighbour: the cell's own outputs
# The neighbour that passes messages in each direction, as (rows down, columns right) of the reader.
NEIGHBOURS = {
    "left": (0, 1), "down": (-1, 0), "down_right": (-1, -1), "down_left": (-1, 1),
    "right": (0, -1), "up": (1, 0),
}  # fmt: skip
AGAINST = {"right", "up"}  # against the order of writing: a rule that uses one has no such order
# The name of that neighbour, from the reader: what is passed left comes from the right.
NEIGHBOUR_NAMES = {
    "left": "right", "down": "above", "down_right": "above_left", "down_left": "above_right",
    "right": "left", "up": "below", OWN: OWN,
}  # fmt: skip


class Op(NamedTuple):
    """Step of a cell: the names of its outputs and of its inputs.

    An input is one of:

    - `TOKEN`: the cell's symbol;
    - ``above``, or another name in `NEIGHBOUR_NAMES`: the presence of a neighbour;
    - ``right.carry``: a signal of a neighbour's message;
    - ``own.product``: a signal that an op before it has decided in the same cell.

    None in place of inputs: all but those of the last kind.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str, ...] | None = None


def input_name(direction: str, signal: str) -> str:
    """Name of an input: a signal passed in a direction, or "" for the neighbour's presence.

    Example: ``input_name("left", "carry")`` is ``right.carry``.
    """
    return f"{NEIGHBOUR_NAMES[direction]}.{signal}" if signal else NEIGHBOUR_NAMES[direction]


class Inputs(dict[str, np.ndarray]):
    """Inputs of an op in N cells: int64 [N] by input name, see `Op`."""

    def __missing__(self, name: str) -> np.ndarray:
        raise KeyError(f"an op reads {name}, which is not among its inputs")


class ColumnKind(NamedTuple):
    """Kind of column within a kind of row."""

    kind: str  # of the column, the same in all rows
    tokens: tuple[int, ...]  # symbols that can stand there; `symbols.MASK`: a cell to fill in
    left: tuple[str, ...]  # columns of the row that can follow on its left, by name, or `END`


class RowKind(NamedTuple):
    """Kind of row: its columns by name, from the right."""

    columns: Mapping[str, ColumnKind]
    first: tuple[str, ...]  # columns that can stand at the canvas's right edge
    below: tuple[str, ...]  # kinds of rows that can stand above; "" for the solution's upper edge


def __getattr__(name: str) -> Any:
    if name == "Column":  # its released name
        return ColumnKind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
