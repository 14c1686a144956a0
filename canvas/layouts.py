"""Layouts: rules for writing a worked problem, row by row.

A layout draws the operands as a `Drawing`: all that a model reads. It draws worked solutions as a
`WorkedDrawing`, for training and evaluation. `canvas.reading` reads the numbers back from a canvas.
Layouts are defined in the modules of their tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.boxes import ends, written_box  # noqa: F401 - released here
from canvas.cells.local_rule import LocalRule
from canvas.choices import OwnCodeError, accept_released
from canvas.drawing import Drawing, WorkedDrawing, placed
from canvas.problems import Problems
from canvas.reading import CellIndex, Reading, read  # noqa: F401 - released here

GIVEN, PARTIAL, SUM, ANSWER, CARRIES = range(5)
# Names of the kinds of rows.
ROW_KINDS = ("given", "partial product", "running sum", "answer", "carries")
ABSENT = -1


class Row(NamedTuple):
    """One row in each of B worked solutions."""

    kind: int
    numbers: Numbers  # [B]
    shift: int  # blank columns at its right end
    row: np.ndarray | int  # index of the row in a worked solution, int64 [B] or one for all
    present: np.ndarray  # bool [B], False if the worked solution does not have this row


class Layout(ABC):
    """Layout of a problem: places of operands, rows and answer, and what is written there.

    `write_operands` and `rows` count columns from the right, as digits are counted: column 0 is the
    rightmost one. `read_operands` and `answer_cells` read cells from left to right, as on a canvas.

    Your own layout defines ``name``, `room`, `write_operands`, `rows` and `read_operands`, and
    ``sign`` if its canvases have one. The layouts of a task can share a base class that defines
    some of these.
    """

    name: str  # in configs
    # Id of the symbol that stands on the canvas once, between or beside the operands; None: none.
    sign: int | None = None
    margin: int = 0  # columns at the right end that digits of the rows never use
    given_columns: int = 0  # columns at the right end that are given in every row
    # True: all its cells are filled in at the same time, but those that `write_operands` writes; no
    # row is given, and nothing is filled in beside a solution.
    together: bool = False
    from_the_left: bool = False  # whether the rows of a drawing begin at its left end
    # Messages and function of its cells; None: not declared.
    local_rule: type[LocalRule] | None = None
    latent_rule: type[LocalRule] | None = None  # the same for networks with latent codes

    def __init_subclass__(cls) -> None:
        """Drop an inherited local rule if the layout defines its own rows."""
        if "rows" in vars(cls) and "local_rule" not in vars(cls):
            cls.local_rule = cls.latent_rule = None
        accept_released(cls, "given_rows", "first_step")

    @abstractmethod
    def room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        """Return height and width that fit every problem whose operands have these digit counts.

        Example: ``Lattice().room([2, 2], base=10)`` is (3, 5).
        """

    def extent(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        """Return height and width that fit every problem with operands of at most these lengths.

        By default that is the `room` of the longest ones.
        """
        return self.room(lengths, base)

    @abstractmethod
    def write_operands(self, content: np.ndarray, problems: Problems) -> None:
        """Write the given symbols of problems.

        Args:
            content: uint8 [B, R, C], blank, with columns from right to left.
            problems: B problems.
        """

    @abstractmethod
    def rows(self, operands: Sequence[Numbers]) -> Iterator[Row]:
        """Yield the rows to be filled in."""

    @abstractmethod
    def read_operands(self, content: np.ndarray, sign: CellIndex) -> dict[str, np.ndarray]:
        """Return the ids of each operand by name, uint8, least significant first.

        Blanks may lie around the ids.

        Args:
            content: uint8 [R, C], one worked solution, left to right, cut to its bounding box.
            sign: row and column of the sign; (0, 0) in a layout without one.

        Raises:
            ValueError: the sign is not at its place in this layout.
        """

    def implied_lengths(self, content: np.ndarray) -> list[int]:
        """Return the digits of each operand, by the written cells of an unsolved problem.

        The problem may be shown in a wrong orientation: no symbol is required at its place. By
        default each line is an operand.

        Args:
            content: uint8 [R, C], the given cells of one problem, cut to their bounding box.
        """
        written = content != symbols.BLANK
        if self.sign is not None:
            written &= content != self.sign
        return [max(1, int(n)) for n in written.sum(axis=1)]

    def answer_cells(self, content: np.ndarray) -> list[CellIndex]:
        """Return the cells of the answer's digits, least significant first.

        By default the answer is the last row.

        Args:
            content: uint8 [R, C], a worked solution cut to its bounding box, correct or not.
        """
        filled = np.flatnonzero(content[-1] != symbols.BLANK).tolist()
        span = range(filled[-1], filled[0] - 1, -1) if filled else ()
        return [(len(content) - 1, column) for column in span]

    def given_rows(self, problems: Problems) -> np.ndarray:
        """Return the number of rows that are given, int64 [B]; by default one for each operand."""
        return problems.counts * (not self.together)

    first_step = given_rows  # its released name

    def draw(
        self,
        problems: Problems,
        height: int | None = None,
        width: int | None = None,
        top: np.ndarray | int = 0,
        left: np.ndarray | int = 0,
    ) -> Drawing:
        """Draw unsolved problems; arguments as for `draw_worked`."""
        drawn = self._begin(problems)
        return Drawing(**placed(drawn, height, width, top, left, self.together))

    def draw_worked(
        self,
        problems: Problems,
        height: int | None = None,
        width: int | None = None,
        top: np.ndarray | int = 0,
        left: np.ndarray | int = 0,
        trim: bool = False,
    ) -> WorkedDrawing:
        """Draw B problems with their worked solutions, each at its own offset on a canvas.

        Args:
            problems: to be drawn.
            height: of the canvases; None: that of the tallest solution.
            width: of the canvases; None: that of the widest solution.
            top: first row of each solution, int64 [B] or one for all.
            left: first column of each solution, int64 [B] or one for all.
            trim: leave out columns at the left end that are blank in all rows.

        Raises:
            ValueError: a solution does not fit, or `rows` and `room` do not agree.
        """
        drawn = self._work(problems, trim)
        kinds = drawn.pop("kinds")
        parts = placed(drawn, height, width, top, left, self.together)
        return WorkedDrawing(**parts, kinds=kinds)

    def _work(self, problems: Problems, trim: bool) -> dict[str, Any]:
        """Return the parts of a `WorkedDrawing` by name, with columns from right to left."""
        drawn = self._begin(problems)
        sizes = drawn["heights"], drawn["widths"]
        content = drawn["truth"] = drawn["canvases"].copy()
        kinds = np.full(content.shape[:2], ABSENT, dtype=np.int8)
        kinds[np.arange(content.shape[1]) < drawn["given_rows"][:, None]] = GIVEN
        for kind, numbers, shift, row, present in self.checked_rows(problems):
            if not present.any():
                continue
            too_wide = shift + self.margin + numbers.lengths > sizes[1]
            outside = present & (too_wide | (row >= sizes[0]))
            if outside.any():
                i = int(np.argmax(outside))
                where = int(np.broadcast_to(row, outside.shape)[i]) + 1
                columns = shift + self.margin + int(numbers.lengths[i])
                what = f"row {where} of PROBLEM takes columns 1 to {columns}, and ROOM"
                raise self._error(problems, i, f"{what}: let it return as much as all rows need")
            write(content, row, shift + self.margin, numbers, present)
            kinds[present, row if isinstance(row, int) else row[present]] = kind
        heights = (kinds != ABSENT).sum(axis=1)
        if (heights != sizes[0]).any():
            i = int(np.argmax(heights != sizes[0]))
            row = int(np.argmax(kinds[i] == ABSENT)) + 1
            raise self._error(
                problems,
                i,
                f"rows() yields no row {row} of PROBLEM, and ROOM: yield a Row for it with "
                "`present` true, of at least one digit, or let room() return fewer rows",
            )
        kinds[np.arange(len(kinds)), heights - 1] = ANSWER  # of whichever kind it was yielded
        if trim:
            used = (content != symbols.BLANK).any(axis=1)
            drawn["widths"] = ends(used)[1]
        return {**drawn, "kinds": kinds}

    def checked_rows(self, problems: Problems) -> Iterator[Row]:
        """Yield `rows`, after a check of their types.

        Raises:
            OwnCodeError: a row or a part of it is something else.
        """
        found, size = self.rows(problems.operands), len(problems)
        if not isinstance(found, Iterable):
            raise self._error(problems, 0, f"rows() returns {found!r}, and has to yield each Row")
        for one in found:
            if not isinstance(one, Row):
                raise self._error(
                    problems, 0, f"rows() gives {one!r} where a canvas.layouts.Row is due"
                )
            _, numbers, shift, row, present = one
            if not isinstance(numbers, Numbers) or len(numbers) != size:
                due = f"`numbers` is a canvas.arithmetic.Numbers of {size} numbers, one a problem"
            elif np.shape(present) != (size,) or np.asarray(present).dtype != bool:
                due = f"`present` is bool [{size}], one a problem"
            elif not isinstance(shift, Integral) or shift < 0:
                due = "`shift` is a number of columns from 0 up"
            elif np.asarray(row).dtype.kind not in "iu" or (np.asarray(row) < 0).any():
                due = f"`row` is an index from 0 up, or int64 [{size}], one a problem"
            else:
                yield one
                continue
            raise self._error(problems, 0, f"rows() yields a Row with a wrong part: {due}")

    def check_operands(self, problems: Problems) -> None:
        """Raise an OwnCodeError if `write_operands` writes outside of `room`."""
        sizes = self.sizes(problems)
        more = int(problems.lengths.sum(axis=1).max(initial=0)) + problems.lengths.shape[1]
        R, C = (sizes.max(axis=1, initial=1) + more).tolist()
        content = np.full((len(problems), R, C), symbols.BLANK, dtype=np.uint8)
        self.write_operands(content, problems)
        for axis, what, count in ((2, "rows", R), (1, "columns", C)):
            used = (content != symbols.BLANK).any(axis=axis) * np.arange(1, count + 1)
            needed, there = used.max(axis=1), sizes[2 - axis]
            if (needed > there).any():
                i = int(np.argmax(needed > there))
                takes = f"the operands of PROBLEM take {needed[i]} {what}"
                raise self._error(
                    problems, i, f"{takes}, and ROOM: let it return as much as they need"
                )

    def _error(self, problems: Problems, i: int, what: str) -> OwnCodeError:
        """Return an error about a problem, in which PROBLEM and ROOM stand for it and its room."""
        operands = [numbers.to_text()[i] for numbers in problems.operands]
        sign = " " if self.sign is None else f" {symbols.ALL_CHARACTERS[self.sign]} "
        name = sign.join(filter(None, operands))
        if "ROOM" in what:
            lengths = [n for n in problems.lengths[i].tolist() if n]
            height, width = self.room(lengths, problems.base)
            room = f"room({lengths}, {problems.base}) returns {height} x {width} (rows x columns)"
            what = what.replace("ROOM", room)
        return OwnCodeError(f"the layout {self.name} is wrong: {what.replace('PROBLEM', name)}")

    def draw_guess(
        self,
        content: np.ndarray,
        base: int,
        operands: tuple[int, int],
        place: Callable[[int, int], tuple[int, int, int, int]],
    ) -> Drawing:
        """Draw an unsolved problem of which only the written cells are known.

        Its first written line counts as the first line of an upright problem. The rows below the
        operands are to be filled in, except written cells. For an upright problem the result is
        that of `draw`.

        Args:
            content: uint8 [R, C], the given cells, cut to their bounding box, in any orientation.
            base: of the numbers.
            operands: fewest and most operands of a problem.
            place: called with the rows and columns of the solution; returns height and width of the
                canvas, and the solution's first row and column.

        Raises:
            ValueError: the layout has no room for so many operands, or `place` raised it.
        """
        fewest, most = operands
        lengths = self.implied_lengths(content)[:most]
        lengths += [1] * (fewest - len(lengths))
        rows, columns = np.maximum(self.room(lengths, base), content.shape).tolist()
        height, width, top, left = place(rows, columns)
        canvas = np.full((1, height, width), symbols.BLANK, dtype=np.uint8)
        right = left + columns
        first_column = left if self.from_the_left else right - content.shape[1]
        written = slice(first_column, first_column + content.shape[1])
        canvas[0, top : top + len(content), written] = content
        example = Problems.from_ints([[base ** (n - 1) for n in lengths]], base)
        given_rows = self.given_rows(example)
        given = canvas != symbols.BLANK
        given[0, top : top + int(given_rows[0]), left:right] = True
        heights, widths, tops, lefts = np.array([[rows], [columns], [top], [left]], dtype=np.int64)
        return Drawing(heights, widths, given_rows, canvas, given, tops, lefts)

    def sizes(self, problems: Problems) -> np.ndarray:
        """Return the most rows and columns of each worked solution, int64 [2, B].

        Raises:
            OwnCodeError: `room` returns something else than two numbers from 1 up.
        """
        different, which = np.unique(problems.lengths, axis=0, return_inverse=True)
        rooms = [self._room([n for n in one if n], problems.base) for one in different.tolist()]
        return np.array(rooms, dtype=np.int64).reshape(-1, 2)[which.reshape(-1)].T

    def _room(self, lengths: Sequence[int], base: int) -> tuple[int, int]:
        room = self.room(lengths, base)
        whole = isinstance(room, Sequence) and all(isinstance(n, Integral) and n > 0 for n in room)
        if not whole or len(room) != 2:
            raise OwnCodeError(
                f"the layout {self.name} is wrong: room({lengths}, {base}) returns {room!r}: let "
                "it return height and width, two whole numbers from 1 up"
            )
        return room

    def _begin(self, problems: Problems) -> dict[str, np.ndarray]:
        """Return the parts of a `Drawing` by name, with columns from right to left."""
        heights, widths = self.sizes(problems)
        shape = len(problems), int(heights.max(initial=1)), int(widths.max(initial=1))
        canvases = np.full(shape, symbols.BLANK, dtype=np.uint8)
        try:
            self.write_operands(canvases, problems)
        except (IndexError, ValueError):
            self.check_operands(problems)  # raises if the room was too small
            raise
        given_rows, row = self.given_rows(problems), np.arange(shape[1])
        given = np.zeros(shape, dtype=bool)
        given[row < given_rows[:, None]] = True
        given[:, :, : self.given_columns] = True
        given &= (row < heights[:, None])[:, :, None]
        if self.together:
            given |= canvases != symbols.BLANK
        sizes = {"heights": heights, "widths": widths, "given_rows": given_rows}
        return {**sizes, "canvases": canvases, "given": given}

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
    """Write numbers into a row of right-to-left content, ``shift`` columns from the right end."""
    n = min(numbers.digits.shape[1], content.shape[2] - shift)
    ids = symbols.ids_of(numbers.base)[numbers.digits[:, :n]]
    inside = np.arange(n) < numbers.lengths[:, None]
    if present is not None:
        inside &= present[:, None]
    if isinstance(row, int):
        np.copyto(content[:, row, shift : shift + n], ids, where=inside)
    else:
        sample, place = np.nonzero(inside)
        content[sample, row[sample], shift + place] = ids[inside]


def table(layouts: Sequence[Layout]) -> Mapping[str, Layout]:
    """Return layouts by name."""
    return {layout.name: layout for layout in layouts}
