"""Puzzles of any kind in memory: their canvas, their symbols, and arrays of them."""

from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

_MOST_SYMBOLS = 256  # as cells are uint8
MOST_CELLS = 2**16  # of a canvas


@dataclass(frozen=True)
class PuzzleFormat:
    """Canvas and symbols of puzzles.

    Raises:
        ValueError: a number is out of range, or numbers do not fit together.
    """

    height: int
    width: int
    vocab_size: int  # symbols have the ids from 0 up to below this number
    pad: int | None = None  # id of cells outside a puzzle, which are copied; None: none
    ignored: int | None = None  # label of cells that are neither learned nor scored; None: of none
    characters: str = ""  # character of each id, in text and pictures; empty: the ids themselves
    unknown: str = ""  # character of the cells to fill in, as of Sudoku; empty: all cells are

    def __post_init__(self) -> None:
        for name, most in (("height", MOST_CELLS), ("width", MOST_CELLS)):
            check_plain_int(name, getattr(self, name), 1, most)
        check_plain_int("vocab_size", self.vocab_size, 2, _MOST_SYMBOLS)
        if self.pad is not None:
            check_plain_int("pad_id", self.pad, 0, self.vocab_size - 1)
        if self.cells > MOST_CELLS:
            raise ValueError(f"a canvas of {self.cells:,} cells is too large: {MOST_CELLS:,} fit")
        if self.ignored is not None and type(self.ignored) is not int:
            raise ValueError(f"ignore_label_id is a whole number or null, not {self.ignored!r}")
        text = self.characters
        if not isinstance(text, str) or (text and len(set(text)) != self.vocab_size):
            raise ValueError(
                f"characters has one character for each of the {self.vocab_size} symbols, all "
                f"different, not {text!r}"
            )
        if self.unknown and (len(self.unknown) > 1 or self.unknown not in text):
            raise ValueError(
                f"unknown is the character of cells to fill in, one of {text or 'characters'}, not "
                f"{self.unknown!r}"
            )
        if any(one.isspace() for one in text):
            raise ValueError("characters: a blank has no place in a line of text, take another")

    @property
    def cells(self) -> int:
        """Cells of a canvas."""
        return self.height * self.width

    def inside(self, inputs: Any) -> Any:
        """Return the cells of puzzles that are filled in, bool of the shape of ``inputs``."""
        return inputs == inputs if self.pad is None else inputs != self.pad

    def unknown_cells(self, inputs: Any) -> Any:
        """Return the cells that a model fills in, bool of the shape of ``inputs``."""
        if not self.unknown:
            return self.inside(inputs)
        return inputs == self.characters.index(self.unknown)

    def to_text(self, canvas: np.ndarray) -> str:
        """Return a canvas as a line: its characters, or its ids with blanks between them."""
        ids = canvas.reshape(-1).tolist()
        if self.characters:
            return "".join(self.characters[i] for i in ids)
        return " ".join(map(str, ids))

    def from_text(self, line: str) -> list[int]:
        """Return the ids of a line, see `to_text`; ids may be separated by commas, too.

        Raises:
            ValueError: there is no such symbol.
        """
        if not self.characters:
            words = line.replace(",", " ").split()
            wrong = [word for word in words if not word.isascii() or not word.isdigit()]
            if wrong:
                raise ValueError(
                    f"{wrong[0][:20]!r} is no id of a symbol: without data.characters in the "
                    "config of the training a line has ids, like 1 3 2"
                )
            return [int(word) for word in words]
        ids = {one: i for i, one in enumerate(self.characters)}
        if wrong := [one for one in line if one not in ids]:
            raise ValueError(f"{wrong[0]!r} is none of the symbols {self.characters}")
        return [ids[one] for one in line]


@dataclass(frozen=True)
class Puzzles:
    """Puzzles with their solutions."""

    format: PuzzleFormat
    inputs: np.ndarray  # uint8 [N, H, W]
    labels: np.ndarray  # uint8 [N, H, W], 0 where `answer` is False
    answer: np.ndarray  # bool [N, H, W], cells that are learned and scored
    puzzles: np.ndarray  # int64 [P + 1], first row of each puzzle; a puzzle may have several
    groups: np.ndarray  # int64 [G + 1], first puzzle of each group

    def __len__(self) -> int:
        return len(self.inputs)

    def ends(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each of G groups and the row after its last, int64 [G] both."""
        return self.puzzles[self.groups[groups]], self.puzzles[self.groups[groups + 1]]


def check_symbols(
    source: str | Path, cells: np.ndarray, vocab_size: int, counted: np.ndarray | None = None
) -> None:
    """Check that cells are symbols of a vocabulary.

    Args:
        source: of the cells, for the message.
        cells: integers [N, cells].
        vocab_size: symbols are 0 to below this number.
        counted: cells that are checked, bool [N, cells]; None: all.

    Raises:
        ValueError: one is not; the message names the first.
    """
    wrong = (cells < 0) | (cells >= vocab_size)
    if counted is not None:
        wrong &= counted
    if wrong.any():
        row, cell = (int(part[0]) for part in wrong.nonzero())
        ends = f"0 to {vocab_size - 1}"
        raise ValueError(
            f"{source}: row {row}, cell {cell} is {int(cells[row, cell])}, and symbols are {ends}"
        )


def sides_of(
    cells: int, height: int | None, width: int | None, what: str, remedy: str
) -> tuple[int, int]:
    """Return height and width of a canvas of so many cells; a square unless a side is given.

    Args:
        cells: their number.
        height: of the canvas; None: it follows from the width.
        width: of the canvas; None: it follows from the height.
        what: has so many cells, for a message.
        remedy: settings that a message names.

    Raises:
        ValueError: there is no such canvas.
    """
    if height is None and width is None:
        if isqrt(cells) ** 2 != cells:
            raise ValueError(f"{what} has {cells} cells, which is no square: set {remedy}")
        return isqrt(cells), isqrt(cells)
    high = height or cells // (width or 1)
    wide = width or cells // high
    if high * wide != cells:
        raise ValueError(f"{what} has {cells} cells, and not {high} x {wide} (height x width)")
    return high, wide


def check_plain_int(name: str, value: Any, least: int, most: int) -> None:
    """Raise a ValueError unless a setting is an int from ``least`` to ``most``.

    Checkpoints contain these settings, so integers of NumPy are refused, too.
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is a whole number from {least} to {most:,}, not {value!r}")
