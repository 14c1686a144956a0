"""Layouts: how a worked multiplication is written down, row by row.

A layout turns operands into a `Worked` batch: the finished working, cell by cell, and which cells
are given. It is the one owner of row geometry. Adding a layout is one class with a name below.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from canvas import symbols
from canvas.arithmetic import Numbers, add_shifted, drop_lowest_digit, times_digit
from canvas.choices import check_choice

GIVEN, PARTIAL, SUM, PRODUCT = range(4)
ROW_KINDS = ("given", "partial product", "running sum", "product")  # the name of each kind
ABSENT = -1


@dataclass(frozen=True)
class Worked:
    """A batch of finished workings, each in the top left corner of its own array.

    Attributes:
        symbols: ``uint8 [B, R, C]`` ids, blank outside a working.
        given: ``bool [B, R, C]``, cells that are shown from the start.
        kinds: ``int8 [B, R]``, each row's index in `ROW_KINDS`, `ABSENT` below the last row.
        heights, widths: ``int64 [B]``, the size of each working.
        first_step: the first row that has to be worked out; all rows below it have to be, too.
    """

    symbols: np.ndarray
    given: np.ndarray
    kinds: np.ndarray
    heights: np.ndarray
    widths: np.ndarray
    first_step: int

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def steps(self) -> np.ndarray:
        """Rows to work out, ``int64 [B]``."""
        return self.heights - self.first_step


class Row(NamedTuple):
    """One row of every working that has it."""

    kind: int
    numbers: Numbers  # [B]
    shift: int  # blank columns at its right end
    row: np.ndarray | int  # which one of the working, [B] or the same for all
    present: np.ndarray  # bool [B], which workings have it


class Addend(NamedTuple):
    """A part of a row: number · factor · base^shift."""

    number: int
    factor: int
    shift: int


class Layout(ABC):
    """How operands become rows."""

    name: str
    first_step: int = 2
    margin: int = 0  # columns at the right end that digits of the rows never use

    @abstractmethod
    def rows(self, a: Numbers, b: Numbers) -> Iterator[Row]:
        """The rows that have to be worked out."""

    @abstractmethod
    def addends(self, a: int, b: int, base: int) -> list[list[Addend]]:
        """What each row that has to be worked out, in order, is the sum of.

        A row is taken as the number that it shows, whatever the blank columns at its right end:
        place 0 is the row's own lowest digit.
        """

    @abstractmethod
    def extent(self, digits_a: int, digits_b: int) -> tuple[int, int]:
        """The smallest canvas (height, width) that fits every product of such operands."""

    @abstractmethod
    def read_operands(
        self, content: np.ndarray, sign: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The ids of a and of b, ``uint8``, least significant first, from one working.

        The content ``uint8 [R, C]`` is cut to its bounding box; its one sign is at ``sign``, a row
        and a column. Blanks may lie around the ids, and these need not be digits; the reader says
        so.

        Raises:
            ValueError: the sign is not where the layout puts it.
        """

    @abstractmethod
    def answer_places(self, content: np.ndarray) -> list[tuple[int, int]]:
        """Row and column of the product's digits, least significant first, in one working.

        The content ``uint8 [R, C]`` is a finished working cut to its bounding box. What stands
        there need not be digits where the working is flawed; the reader says so.
        """

    def _check_sign(self, sign: tuple[int, int], expected: tuple[int, int]) -> None:
        if sign != expected:
            raise ValueError(f"the sign is not where the {self.name} layout puts it")

    def _write_givens(self, content: np.ndarray, a: Numbers, b: Numbers) -> None:
        """The operands, onto right-to-left content ``[B, R, C]``."""
        _write(content, 0, 0, a)
        _write(content, 1, 0, b)
        content[np.arange(len(b)), 1, b.lengths + 1] = symbols.TIMES

    def _given(self, shape: tuple[int, ...]) -> np.ndarray:
        """Which cells of right-to-left content are given."""
        given = np.zeros(shape, dtype=bool)
        given[:, : self.first_step] = True
        return given

    def work(self, a: Numbers, b: Numbers) -> Worked:
        """The finished workings of a · b, for operands of at least 1.

        Raises:
            ValueError: an operand is zero, or the operands differ in base or number.
        """
        if a.base != b.base or len(a) != len(b):
            raise ValueError("multiplicands and multipliers must be equal in number and base")
        if not (a.digits.any(axis=1).all() and b.digits.any(axis=1).all()):
            raise ValueError("operands must be positive: a canvas shows no multiplication by zero")
        a, b = a.trimmed(), b.trimmed()
        height, width = self.extent(int(a.lengths.max()), int(b.lengths.max()))
        content = np.full((len(a), height, width), symbols.BLANK, dtype=np.uint8)
        kinds = np.full((len(a), height), ABSENT, dtype=np.int8)
        kinds[:, : self.first_step] = GIVEN
        self._write_givens(content, a, b)
        for kind, numbers, shift, row, present in self.rows(a, b):
            _write(content, row, shift + self.margin, numbers, present)
            kinds[present, row if isinstance(row, int) else row[present]] = kind
        given = self._given(content.shape) & (kinds != ABSENT)[:, :, None]
        heights = (kinds != ABSENT).sum(axis=1)
        kinds[np.arange(len(a)), heights - 1] = PRODUCT
        widths = self._widths(content, a)
        return Worked(
            symbols=_left_to_right(content, widths, symbols.BLANK),
            given=_left_to_right(given, widths, False),
            kinds=kinds,
            heights=heights,
            widths=widths,
            first_step=self.first_step,
        )

    def _widths(self, content: np.ndarray, a: Numbers) -> np.ndarray:
        used = (content != symbols.BLANK).any(axis=1)
        return used.shape[1] - np.argmax(used[:, ::-1], axis=1)


def _write(
    content: np.ndarray,
    row: np.ndarray | int,
    shift: int,
    numbers: Numbers,
    present: np.ndarray | None = None,
) -> None:
    """Write numbers into one row of each right-to-left working, ``shift`` columns from its end."""
    n = min(numbers.digits.shape[1], content.shape[2] - shift)
    ids = numbers.digits[:, :n] + np.uint8(symbols.DIGIT_ZERO)
    inside = np.arange(n) < numbers.lengths[:, None]
    if present is not None:
        inside &= present[:, None]
    if isinstance(row, int):
        np.copyto(content[:, row, shift : shift + n], ids, where=inside)
    else:
        sample, place = np.nonzero(inside)
        content[sample, row[sample], shift + place] = ids[inside]


def _left_to_right(cells: np.ndarray, widths: np.ndarray, empty: int) -> np.ndarray:
    """Right-to-left cells ``[B, R, C]`` the other way round, each working's first column at 0."""
    B, R, C = cells.shape
    room = np.full((B, R, 2 * C), empty, dtype=cells.dtype)
    room[:, :, :C] = cells[:, :, ::-1]
    return sliding_window_view(room, C, axis=2)[np.arange(B), :, C - widths]


def _partials(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, np.ndarray]]:
    """Each multiplier digit's place i, the products a · b_i, and which samples have that digit."""
    n = int(b.lengths.max())
    multiplicands = Numbers(np.repeat(a.digits, n, axis=0), np.repeat(a.lengths, n), a.base)
    products = times_digit(multiplicands, b.digits[:, :n].reshape(-1))
    for i in range(n):
        yield i, products[i::n], i < b.lengths


def _sums(a: Numbers, b: Numbers) -> Iterator[tuple[int, Numbers, Numbers, np.ndarray]]:
    """As `_partials`, with the running sum up to and including place i after the product."""
    total: Numbers | None = None
    for i, partial, present in _partials(a, b):
        total = partial if total is None else add_shifted(total, partial, i)
        yield i, partial, total, present


def _factors(a: int, b: int, base: int) -> list[Addend]:
    """The products a · b_i that a · b is the sum of."""
    factors: list[Addend] = []
    while b:
        b, digit = divmod(b, base)
        factors.append(Addend(a, digit, len(factors)))
    return factors


def _value(addends: list[Addend], base: int) -> int:
    return sum(number * factor * base**shift for number, factor, shift in addends)


def _partials_and_sums(a: int, b: int, base: int) -> tuple[list[list[Addend]], list[list[Addend]]]:
    """The addends of the rows of `_sums`: the products a · b_i, and the running sums of them."""
    partials, sums, total = [], [], 0
    for number, digit, i in _factors(a, b, base):
        partials.append([Addend(number, digit, 0)])
        sums.append([Addend(total, 1, 0), Addend(number * digit, 1, i)])
        total = _value(sums[-1], base)
    return partials, sums


class RowLayout(Layout):
    """Layouts that write the operands above the working, and the product in the last row."""

    def extent(self, digits_a: int, digits_b: int) -> tuple[int, int]:
        """See `Layout.extent`."""
        return self._height(digits_b), max(digits_a + digits_b, digits_b + 2)

    @abstractmethod
    def _height(self, digits_b: int) -> int:
        """Rows of a working."""

    def read_operands(
        self, content: np.ndarray, sign: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Layout.read_operands`."""
        self._check_sign(sign, (1, sign[1]))
        return content[0, ::-1], content[1, : sign[1] : -1]

    def answer_places(self, content: np.ndarray) -> list[tuple[int, int]]:
        """See `Layout.answer_places`."""
        filled = np.flatnonzero(content[-1] != symbols.BLANK)
        return [(len(content) - 1, column) for column in range(filled[-1], filled[0] - 1, -1)]


class Standard(RowLayout):
    """a; ``*_b``; the partial products; the product. What schools teach."""

    name = "standard"

    def _height(self, digits_b: int) -> int:
        return digits_b + 3

    def rows(self, a: Numbers, b: Numbers) -> Iterator[Row]:
        """See `Layout.rows`."""
        for i, partial, total, present in _sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            last = b.lengths == i + 1
            yield Row(PRODUCT, total, 0, 3 + i, last)

    def addends(self, a: int, b: int, base: int) -> list[list[Addend]]:
        """See `Layout.addends`."""
        partials, _ = _partials_and_sums(a, b, base)
        product = [Addend(_value(row, base), 1, i) for i, row in enumerate(partials)]
        return [*partials, product]


class RunningSum(RowLayout):
    """All partial products, then all running sums: the additions are written out, too."""

    name = "running_sum"

    def _height(self, digits_b: int) -> int:
        return 2 * digits_b + 2

    def rows(self, a: Numbers, b: Numbers) -> Iterator[Row]:
        """See `Layout.rows`."""
        for i, partial, total, present in _sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + i, present)
            yield Row(SUM, total, 0, 2 + i + b.lengths, present)

    def addends(self, a: int, b: int, base: int) -> list[list[Addend]]:
        """See `Layout.addends`."""
        partials, sums = _partials_and_sums(a, b, base)
        return partials + sums


class Interleaved(RowLayout):
    """Each partial product followed at once by the running sum: a row needs those just above."""

    name = "interleaved"

    def _height(self, digits_b: int) -> int:
        return 2 * digits_b + 2

    def rows(self, a: Numbers, b: Numbers) -> Iterator[Row]:
        """See `Layout.rows`."""
        for i, partial, total, present in _sums(a, b):
            yield Row(PARTIAL, partial, i, 2 + 2 * i, present)
            yield Row(SUM, total, 0, 3 + 2 * i, present)

    def addends(self, a: int, b: int, base: int) -> list[list[Addend]]:
        """See `Layout.addends`."""
        rows = zip(*_partials_and_sums(a, b, base), strict=True)
        return [row for pair in rows for row in pair]


class Accumulate(RowLayout):
    """One row a multiplier digit: the running total so far."""

    name = "accumulate"

    def _height(self, digits_b: int) -> int:
        return digits_b + 2

    def rows(self, a: Numbers, b: Numbers) -> Iterator[Row]:
        """See `Layout.rows`."""
        for i, _, total, present in _sums(a, b):
            yield Row(SUM, total, 0, 2 + i, present)

    def addends(self, a: int, b: int, base: int) -> list[list[Addend]]:
        """See `Layout.addends`."""
        rows, total = [], 0
        for factor in _factors(a, b, base):
            rows.append([Addend(total, 1, 0), factor])
            total = _value(rows[-1], base)
        return rows


class Lattice(Layout):
    """Multiplicand on top, one multiplier digit beside each row: nothing shifts, nothing grows.

    Row i holds t_i = ⌊t_(i−1) / base⌋ + a · b_i, never more than one digit longer than a. The
    product is read down the last column of the grid and along its last row::

        _321_*      t_0 = 321·4            = 1284  → 4
        1284_4      t_1 = 128 + 321·5      = 1733  → 3
        1733_5      t_2 = 173 + 321·6      = 2099  → 2099
        2099_6                                       321 · 654 = 209934
    """

    name = "lattice"
    first_step = 1
    margin = 2

    def extent(self, digits_a: int, digits_b: int) -> tuple[int, int]:
        """See `Layout.extent`."""
        return digits_b + 1, digits_a + 1 + self.margin

    def rows(self, a: Numbers, b: Numbers) -> Iterator[Row]:
        """See `Layout.rows`."""
        total: Numbers | None = None
        for i, partial, present in _partials(a, b):
            total = partial if total is None else add_shifted(drop_lowest_digit(total), partial)
            yield Row(SUM, total, 0, 1 + i, present)

    def addends(self, a: int, b: int, base: int) -> list[list[Addend]]:
        """See `Layout.addends`."""
        rows, total = [], 0
        for number, digit, _ in _factors(a, b, base):
            rows.append([Addend(total // base, 1, 0), Addend(number, digit, 0)])
            total = _value(rows[-1], base)
        return rows

    def read_operands(
        self, content: np.ndarray, sign: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Layout.read_operands`."""
        self._check_sign(sign, (0, content.shape[1] - 1))
        return content[0, : -self.margin][::-1], content[1:, -1]

    def answer_places(self, content: np.ndarray) -> list[tuple[int, int]]:
        """See `Layout.answer_places`."""
        last, column = len(content) - 1, content.shape[1] - 1 - self.margin
        filled = np.flatnonzero(content[last, : column + 1] != symbols.BLANK)
        start = filled[0] if filled.size else column
        down = [(row, column) for row in range(1, last)]
        return [*down, *((last, place) for place in range(column, start - 1, -1))]

    def _write_givens(self, content: np.ndarray, a: Numbers, b: Numbers) -> None:
        _write(content, 0, self.margin, a)
        content[:, 0, 0] = symbols.TIMES
        inside = np.arange(b.digits.shape[1]) < b.lengths[:, None]
        digits = b.digits + np.uint8(symbols.DIGIT_ZERO)
        content[:, 1:, 0] = np.where(inside, digits, symbols.BLANK)

    def _given(self, shape: tuple[int, ...]) -> np.ndarray:
        given = super()._given(shape)
        given[:, :, 0] = True
        return given

    def _widths(self, content: np.ndarray, a: Numbers) -> np.ndarray:
        return a.lengths + 1 + self.margin


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (Standard(), RunningSum(), Interleaved(), Accumulate(), Lattice())
}


def get_layout(name: str) -> Layout:
    """The layout of that name.

    Raises:
        ValueError: there is none; the message lists the names.
    """
    check_choice("layout", name, LAYOUTS)
    return LAYOUTS[name]
