"""Formats of rows: digits in plain order, and index hints.

A GPT reads the rows of a canvas from the right, so that it writes the lowest digit of a number
first (reversed order). `Formatted` draws the rows of a layout such that the same reading gives
another sequence. Examples, 604 + 87 in the layout `column`, canvas and sequence:

    _604_    _406_#_78_+#_196_#    reversed
    +_87_
    _691_

    406__    __604#_+_87#__691#    plain
    78_+_
    196__

    __6h0g4f    f4g0h6__#f7g8___+#f1g9h6__#    reversed, with index hints
    +___8g7f
    __6h9g1f

    4f0g6h__    __h6g0f4#+___g8f7#__h6g9f1#    plain, with index hints
    7f8g___+
    1f9g6h__
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.layouts import CellIndex, Layout, Row
from canvas.problems import Problems, hashes, random_below


class Formatted(Layout):
    """A layout in another format of its rows. It has no local rule.

    With ``index_hints`` each digit is preceded, in the order of reading, by a marker of its place
    (Zhou et al. 2023, "What algorithms can transformers learn?", arXiv 2310.16028). Digits of one
    column have the same marker. The markers are consecutive letters. Which one is the first depends
    on a hash of the operands, so that short numbers train the markers of long ones, too.

    Args:
        layout: the layout, whose sign is on the canvas once.
        plain: a row begins with the highest digit, in the order in which a GPT reads it; else with
            the lowest.
        index_hints: digits have markers.
    """

    def __init__(self, layout: Layout, plain: bool, index_hints: bool) -> None:
        self.layout, self.plain, self.index_hints = layout, plain, index_hints
        self.name, self.sign = layout.name, layout.sign
        self.from_the_left = plain

    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        height, width = self.layout.room(lengths, base)
        if not self.index_hints:
            return height, width
        if width > len(symbols.MARKERS):
            raise ValueError(
                f"index hints have markers for {len(symbols.MARKERS)} columns, and numbers of "
                f"{' and '.join(map(str, lengths))} digits take {width} columns in the layout "
                f"{self.name}: take shorter numbers, or set index_hints to false"
            )
        return height, 2 * width

    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        self.layout.write_operands(content, problems)

    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        return self.layout.rows(operands)

    def given_rows(self, problems: Problems) -> np.ndarray:
        return self.layout.given_rows(problems)

    def check_operands(self, problems: Problems) -> None:
        self.layout.check_operands(problems)

    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        columns = self._columns(content.shape[1])
        if sign[1] not in columns:
            raise ValueError("the sign is where index hints have a marker")
        return self.layout.read_operands(content[:, columns], (sign[0], columns.index(sign[1])))

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        columns = self._columns(content.shape[1])
        cells = self.layout.answer_cells(content[:, columns])
        return [(row, columns[column]) for row, column in cells]

    def implied_lengths(self, content: np.ndarray) -> list[int]:
        marked = np.isin(content, symbols.MARKERS)
        return self.layout.implied_lengths(np.where(marked, np.uint8(symbols.BLANK), content))

    def _columns(self, width: int) -> list[int]:
        """Return the columns of the layout itself, from left to right, in content so wide."""
        columns = range(width) if self.plain else range(width)[::-1]  # from the lowest digit on
        if self.index_hints:
            columns = columns[0::2] if self.plain else columns[1::2]
        return [*columns][::-1]

    def _begin(self, problems: Problems) -> dict[str, Any]:
        self.sizes(problems)  # raises if there are too few markers
        return self._formatted(self.layout._begin(problems), problems)

    def _work(self, problems: Problems, trim: bool) -> dict[str, Any]:
        self.sizes(problems)
        return self._formatted(self.layout._work(problems, trim), problems)

    def _formatted(self, drawn: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Change the format of parts of a drawing, whose columns are from right to left."""
        for name in {"canvases", "given", "truth"} & drawn.keys():
            drawn[name] = self._marked(drawn[name], problems)
        if self.index_hints:
            drawn["widths"] = 2 * drawn["widths"]
        if self.plain:
            column = np.arange(drawn["given"].shape[2])
            mirrored = drawn["widths"][:, None] - 1 - column  # below 0: outside of the solution
            for name in {"canvases", "given", "truth"} & drawn.keys():
                part = np.take_along_axis(drawn[name], mirrored[:, None, :] % len(column), axis=2)
                part[np.broadcast_to(mirrored[:, None, :] < 0, part.shape)] = (
                    False if name == "given" else symbols.BLANK
                )
                drawn[name] = part
        return drawn

    def _marked(self, part: np.ndarray, problems: Problems) -> np.ndarray:
        """Return content [B, R, C] with a column for markers beside each one, [B, R, 2 C]."""
        if not self.index_hints:
            return part
        wide = part.repeat(2, axis=2)
        if part.dtype == bool:
            return wide
        # The same with and without blank columns at the left end, which `trim` leaves out.
        spare = len(symbols.MARKERS) - self.layout.sizes(problems)[1]
        first = random_below(hashes(problems), spare + 1)
        place = (first[:, None] + np.arange(part.shape[2])).clip(max=len(symbols.MARKERS) - 1)
        digit = symbols.DIGIT_OF[part] >= 0
        markers = np.where(digit, symbols.MARKERS[place][:, None], np.uint8(symbols.BLANK))
        # A marker is read before its digit.
        wide[:, :, 1 if self.plain else 0 :: 2] = markers
        return wide
