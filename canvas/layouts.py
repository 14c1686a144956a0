"""Layouts: how a worked problem is written down, row by row.

A layout draws the operands as a `Prompt`, which is all that a model gets to see, and works a
problem out as a `Worked` batch for training and evaluation. The layouts are beside their tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.choices import OwnCodeError
from canvas.problems import Problems

if TYPE_CHECKING:
    from canvas.windows import LocalRule

GIVEN, PARTIAL, SUM, ANSWER, CARRIES = range(5)
# The name of each kind of row.
ROW_KINDS = ("given", "partial product", "running sum", "answer", "carries")
ABSENT = -1

CellIndex = tuple[int, int]  # row and column of a cell


@dataclass(frozen=True)
class Sizes:
    """How large the worked solutions of a batch of problems are."""

    heights: np.ndarray  # int64 [B], as the widths: the space that each solution needs at most
    widths: np.ndarray
    first_step: np.ndarray  # int64 [B], the first row that has to be worked out, as all below

    def __len__(self) -> int:
        return len(self.heights)

    @property
    def steps(self) -> np.ndarray:
        """Rows to work out, ``int64 [B]``."""
        return self.heights - self.first_step


@dataclass(frozen=True)
class Prompt(Sizes):
    """A batch of problems to be worked out, each in the top left corner: nothing of the answer."""

    symbols: np.ndarray  # uint8 [B, R, C] ids, blank but for what is given
    given: np.ndarray  # bool [B, R, C], cells that are shown from the start


@dataclass(frozen=True)
class Worked(Prompt):
    """The same with worked solutions."""

    truth: np.ndarray  # uint8 [B, R, C] ids, blank outside a worked solution
    kinds: np.ndarray  # int8 [B, R], each row's index in `ROW_KINDS`, `ABSENT` below the last row

    def trimmed(self) -> "Worked":
        """A single one without the columns at its left end that its answer leaves blank."""
        assert len(self) == 1
        used = (self.truth[0] != symbols.BLANK).any(axis=0)
        first = int(np.argmax(used))
        parts = {name: getattr(self, name)[:, :, first:] for name in ("symbols", "given", "truth")}
        return replace(self, widths=self.widths - first, **parts)


class Row(NamedTuple):
    """One row of every worked solution that has it."""

    kind: int
    numbers: Numbers  # [B]
    shift: int  # blank columns at its right end
    row: np.ndarray | int  # which one of the worked solution, [B] or the same for all
    present: np.ndarray  # bool [B], which worked solutions have it


class Layout(ABC):
    """How operands become rows.

    Rows are written from the right: column 0 of what follows is the rightmost one. An own layout
    gives ``name``, `room`, `write_operands`, `rows` and `read_operands`; the layouts of a task have
    a base class that knows some of these.

    Attributes:
        name: by which configurations call it.
        sign: id of the symbol that stands on the canvas once, between or beside the operands.
        margin: columns at the right end that digits of the rows never use.
        given_columns: columns at the right end that are given in every row.
        local_rule: what cells hand on to their neighbours, a `canvas.windows.LocalRule`; None: not
            declared.
        untold_rule: the same for networks that invent what they hand on; None: `local_rule`.
    """

    name: str
    sign: int
    margin: int = 0
    given_columns: int = 0
    local_rule: "type[LocalRule] | None" = None
    untold_rule: "type[LocalRule] | None" = None

    def __init_subclass__(cls) -> None:
        """A layout that writes rows of its own does not inherit the local rule."""
        if "rows" in vars(cls) and "local_rule" not in vars(cls):
            cls.local_rule = cls.untold_rule = None

    @abstractmethod
    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        """Height and width that fit every problem whose operands have so many digits."""

    @abstractmethod
    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        """Write what is given onto right-to-left content ``uint8 [B, R, C]``."""

    @abstractmethod
    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """The rows that have to be worked out."""

    @abstractmethod
    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        """The ids of each operand, ``uint8``, least significant first, by what it is called.

        The content ``uint8 [R, C]`` is one worked solution, left to right, cut to its bounding box;
        blanks may lie around the ids. ValueError: ``sign`` is not where the layout puts it.
        """

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        """Row and column of the answer's digits, least significant first: by default the last row.

        The content ``uint8 [R, C]`` is a worked solution cut to its bounding box, perhaps flawed.
        """
        filled = np.flatnonzero(content[-1] != symbols.BLANK).tolist()
        span = range(filled[-1], filled[0] - 1, -1) if filled else ()
        return [(len(content) - 1, column) for column in span]

    def first_step(self, problems: Problems) -> np.ndarray:
        """The first row that has to be worked out, ``int64 [B]``: the one below the operands."""
        return problems.counts

    def prompt(self, problems: Problems) -> Prompt:
        """What is shown of problems that are to be worked out."""
        return self._begin(problems)[1]

    def work(self, problems: Problems) -> Worked:
        """Problems with their worked solutions; ValueError if `rows` and `room` do not agree."""
        content, prompt = self._begin(problems)
        sizes = prompt.heights, prompt.widths
        kinds = np.full(content.shape[:2], ABSENT, dtype=np.int8)
        kinds[np.arange(content.shape[1]) < prompt.first_step[:, None]] = GIVEN
        for kind, numbers, shift, row, present in self.rows(problems.operands):
            too_wide = shift + self.margin + numbers.lengths > sizes[1]
            outside = present & (too_wide | (row >= sizes[0]))
            if outside.any():
                size = " x ".join(str(side[int(np.argmax(outside))]) for side in sizes)
                what = f"writes outside the {size} cells that its room() says: make the two agree"
                raise OwnCodeError(f"the layout {self.name} {what}")
            write(content, row, shift + self.margin, numbers, present)
            kinds[present, row if isinstance(row, int) else row[present]] = kind
        heights = (kinds != ABSENT).sum(axis=1)
        if (heights != sizes[0]).any():
            i = int(np.argmax(heights != sizes[0]))
            what = f"draws {heights[i]} rows where its room() says {sizes[0][i]}"
            raise OwnCodeError(f"the layout {self.name} {what}: make the two agree")
        kinds[np.arange(len(kinds)), heights - 1] = ANSWER
        truth = _left_to_right(content, sizes[1], symbols.BLANK)
        return Worked(**vars(prompt), truth=truth, kinds=kinds)

    def sizes(self, problems: Problems) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns ``int64 [B]`` that each worked solution needs at most."""
        room = cache(lambda *lengths: self.room([n for n in lengths if n], problems.base))
        found = [room(*lengths) for lengths in problems.lengths.tolist()]
        heights, widths = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return heights, widths

    def _begin(self, problems: Problems) -> tuple[np.ndarray, Prompt]:
        """Right-to-left content with the operands on it, and what is shown of the problems."""
        heights, widths = self.sizes(problems)
        shape = len(problems), int(heights.max(initial=1)), int(widths.max(initial=1))
        content = np.full(shape, symbols.BLANK, dtype=np.uint8)
        self.write_operands(content, problems)
        first, row = self.first_step(problems), np.arange(shape[1])
        given = np.zeros(shape, dtype=bool)
        given[row < first[:, None]] = True
        given[:, :, : self.given_columns] = True
        given &= (row < heights[:, None])[:, :, None]
        cells = _left_to_right(content, widths, symbols.BLANK)
        shown = _left_to_right(given, widths, False)
        return content, Prompt(heights, widths, first, cells, shown)

    def _check_sign(self, sign: CellIndex, expected: CellIndex) -> None:
        if sign != expected:
            raise ValueError(f"the sign is not where the {self.name} layout puts it")


def write(
    content: np.ndarray,
    row: np.ndarray | int,
    shift: int,
    numbers: Numbers,
    present: np.ndarray | None = None,
) -> None:
    """Write numbers into one row of right-to-left content, ``shift`` columns from its right end."""
    n = min(numbers.digits.shape[1], content.shape[2] - shift)
    ids = symbols.DIGIT_IDS[numbers.digits[:, :n]]
    inside = np.arange(n) < numbers.lengths[:, None]
    if present is not None:
        inside &= present[:, None]
    if isinstance(row, int):
        np.copyto(content[:, row, shift : shift + n], ids, where=inside)
    else:
        sample, place = np.nonzero(inside)
        content[sample, row[sample], shift + place] = ids[inside]


def table(layouts: Sequence[Layout]) -> Mapping[str, Layout]:
    """Layouts by their names."""
    return {layout.name: layout for layout in layouts}


def _left_to_right(cells: np.ndarray, widths: np.ndarray, empty: int) -> np.ndarray:
    """Right-to-left cells ``[B, R, C]`` the other way round, each one's first column at 0."""
    B, R, C = cells.shape
    room = np.full((B, R, 2 * C), empty, dtype=cells.dtype)
    room[:, :, :C] = cells[:, :, ::-1]
    return sliding_window_view(room, C, axis=2)[np.arange(B), :, C - widths]
