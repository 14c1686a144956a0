"""Equivalents of puzzles in the way of Sudoku: symbols renamed, lines exchanged, cells revealed."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from canvas.problems import random_shares, random_words

_REVEALED = 2**12  # first counter of the random words that reveal cells


@dataclass(frozen=True)
class Equivalents:
    """Changes of a puzzle after which its solution, changed alike, solves it.

    Of a Sudoku 6 x 6 with boxes of 2 x 3: ``symbols: "123456"``, ``band: 2``, ``stack: 3``.

    Attributes:
        symbols: characters that are renamed among each other; empty: none.
        band: rows of a box. The rows of a band are exchanged, and so are bands; 0: no rows are.
        stack: columns of a box, as ``band``.
    """

    symbols: str = ""
    band: int = 0
    stack: int = 0

    def check(self, characters: str, height: int, width: int) -> None:
        """Check that puzzles have such symbols and boxes.

        Args:
            characters: one for each symbol of the puzzles.
            height: of the canvas.
            width: of the canvas.

        Raises:
            ValueError: they have not.
        """
        if missing := [one for one in self.symbols if one not in characters]:
            raise ValueError(
                f"data.equivalents.symbols: {missing[0]!r} is no symbol of these puzzles, which "
                f"have {characters or 'ids without characters: set data.characters'}"
            )
        for name, lines, size in (("band", self.band, height), ("stack", self.stack, width)):
            if lines < 0 or (lines and size % lines):
                raise ValueError(
                    f"data.equivalents.{name}: {lines} does not divide a canvas of "
                    f"{height} x {width} cells"
                )

    def apply(
        self, arrays: Mapping[str, np.ndarray], key: np.ndarray, characters: str
    ) -> dict[str, np.ndarray]:
        """Return a random equivalent of each of B puzzles.

        Args:
            arrays: of the puzzles, [B, H, W] each. All move alike; symbols are renamed in those of
                integers, where negative numbers are no symbols.
            key: random key of each puzzle, uint64 [B].
            characters: one for each symbol.
        """
        ids = np.array([characters.index(one) for one in self.symbols], dtype=np.int64)
        names = np.tile(np.arange(max(len(characters), 256)), (len(key), 1))
        names[:, ids] = ids[_orders(key, 0, 1, len(ids))[:, 0]]
        sample = np.arange(len(key))[:, None, None]
        _, height, width = next(iter(arrays.values())).shape
        rows = _lines(key, 2**10, height, self.band)[:, :, None]
        columns = _lines(key, 2**11, width, self.stack)[:, None, :]
        found = {}
        for name, array in arrays.items():
            moved = array[sample, rows, columns]
            if moved.dtype != bool:
                renamed = names[sample, np.maximum(moved, 0)].astype(moved.dtype)
                moved = np.where(moved < 0, moved, renamed)
            found[name] = moved
        return found


def reveal(
    inputs: np.ndarray, labels: np.ndarray, answer: np.ndarray, share: float, key: np.ndarray
) -> np.ndarray:
    """Return puzzles in a share of which random cells of the solution are given as well.

    In such a puzzle each cell is given with the same probability, which is random itself. So there
    are puzzles of all degrees between the given one and its solution.

    Args:
        inputs: puzzles, uint8 [B, H, W].
        labels: solutions, int64 [B, H, W].
        answer: cells that have a label, bool [B, H, W].
        share: of the puzzles, 0 to 1.
        key: random key of each puzzle, uint64 [B].
    """
    random = random_shares(random_words(key, 2 + inputs[0].size, _REVEALED))
    given = random[:, 2:] < random[:, 1:2] * (random[:, :1] < share)
    return np.where(given.reshape(inputs.shape) & answer, labels, inputs).astype(inputs.dtype)


def _lines(key: np.ndarray, start: int, size: int, inside: int) -> np.ndarray:
    """Return a random order of lines in groups of ``inside``, int64 [B, size]; 0: as they are."""
    if not inside:
        return np.tile(np.arange(size), (len(key), 1))
    groups = size // inside
    first = _orders(key, start, 1, groups)[:, 0] * inside
    within = _orders(key, start + groups, groups, inside)
    return (first[:, :, None] + within).reshape(len(key), size)


def _orders(key: np.ndarray, start: int, number: int, size: int) -> np.ndarray:
    """Return random orders of 0 to size − 1, int64 [B, number, size]."""
    words = random_words(key, number * size, start)
    return words.reshape(len(key), number, size).argsort(axis=2)
