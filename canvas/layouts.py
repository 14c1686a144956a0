"""Layouts: how a worked problem is written down, row by row.

A layout draws the operands as a `Drawing`, which is all that a model gets to see, and works
problems out as a `WorkedDrawing` for training and evaluation; `read` gets the numbers back from a
canvas. The layouts are beside their tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.cells.local_rule import LocalRule
from canvas.choices import OwnCodeError
from canvas.drawing import Drawing, WorkedDrawing
from canvas.problems import Problems

GIVEN, PARTIAL, SUM, ANSWER, CARRIES = range(5)
# The name of each kind of row.
ROW_KINDS = ("given", "partial product", "running sum", "answer", "carries")
ABSENT = -1

CellIndex = tuple[int, int]  # row and column of a cell


class Row(NamedTuple):
    """One row of every worked solution that has it."""

    kind: int
    numbers: Numbers  # [B]
    shift: int  # blank columns at its right end
    row: np.ndarray | int  # which one of the worked solution, [B] or the same for all
    present: np.ndarray  # bool [B], which worked solutions have it


class Layout(ABC):
    """Layout of a problem: writes operands as rows.

    Rows are written from the right: column 0 of what follows is the rightmost one. An own layout
    gives ``name``, `room`, `write_operands`, `rows` and `read_operands`; the layouts of a task have
    a base class that knows some of these.
    """

    name: str  # by which configurations call it
    sign: int  # id of the symbol that stands on the canvas once, between or beside the operands
    margin: int = 0  # columns at the right end that digits of the rows never use
    given_columns: int = 0  # columns at the right end that are given in every row
    local_rule: type[LocalRule] | None = (
        None  # messages and function of its cells; None: not declared
    )
    latent_rule: type[LocalRule] | None = None  # the same for networks that invent some of that

    def __init_subclass__(cls) -> None:
        """A layout that writes rows of its own does not inherit the local rule."""
        if "rows" in vars(cls) and "local_rule" not in vars(cls):
            cls.local_rule = cls.latent_rule = None

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

    def draw(
        self,
        problems: Problems,
        height: int | None = None,
        width: int | None = None,
        top: np.ndarray | int = 0,
        left: np.ndarray | int = 0,
    ) -> Drawing:
        """Draw unsolved problems; arguments as for `draw_worked`."""
        return Drawing(**_placed(self._begin(problems), height, width, top, left))

    def draw_worked(
        self,
        problems: Problems,
        height: int | None = None,
        width: int | None = None,
        top: np.ndarray | int = 0,
        left: np.ndarray | int = 0,
        trim: bool = False,
    ) -> WorkedDrawing:
        """B problems with their worked solutions, each at its own offset on a canvas.

        The canvases' size is by default what the largest solution needs; ``top`` and ``left`` are
        where each begins, ``int64 [B]`` or the same for all; ``trim``: without the columns at the
        left ends that answers leave blank. ValueError: a solution does not fit, or `rows` and
        `room` do not agree.
        """
        drawn = self._begin(problems)
        sizes = drawn["heights"], drawn["widths"]
        content = drawn["truth"] = drawn["canvases"].copy()
        kinds = np.full(content.shape[:2], ABSENT, dtype=np.int8)
        kinds[np.arange(content.shape[1]) < drawn["first_step"][:, None]] = GIVEN
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
        if trim:
            used = (content != symbols.BLANK).any(axis=1)
            drawn["widths"] = used.shape[1] - used[:, ::-1].argmax(axis=1)
        return WorkedDrawing(**_placed(drawn, height, width, top, left), kinds=kinds)

    def sizes(self, problems: Problems) -> np.ndarray:
        """Rows and columns that each worked solution needs at most, ``int64 [2, B]``."""
        different, which = np.unique(problems.lengths, axis=0, return_inverse=True)
        rooms = [self.room([n for n in one if n], problems.base) for one in different.tolist()]
        return np.array(rooms, dtype=np.int64).reshape(-1, 2)[which.reshape(-1)].T

    def _begin(self, problems: Problems) -> dict[str, np.ndarray]:
        """Parts of a `Drawing` of problems by their names, whose columns run from the right."""
        heights, widths = self.sizes(problems)
        shape = len(problems), int(heights.max(initial=1)), int(widths.max(initial=1))
        canvases = np.full(shape, symbols.BLANK, dtype=np.uint8)
        self.write_operands(canvases, problems)
        first, row = self.first_step(problems), np.arange(shape[1])
        given = np.zeros(shape, dtype=bool)
        given[row < first[:, None]] = True
        given[:, :, : self.given_columns] = True
        given &= (row < heights[:, None])[:, :, None]
        sizes = {"heights": heights, "widths": widths, "first_step": first}
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


def _placed(
    drawn: dict[str, np.ndarray],
    height: int | None,
    width: int | None,
    top: np.ndarray | int,
    left: np.ndarray | int,
) -> dict[str, Any]:
    """Place the output of `Layout._begin` on canvases, see `Layout.draw_worked`."""
    heights, widths = drawn["heights"], drawn["widths"]
    height = int(heights.max(initial=1)) if height is None else height
    width = int(widths.max(initial=1)) if width is None else width
    top, left = (np.broadcast_to(np.asarray(n, dtype=np.int64), heights.shape) for n in (top, left))
    bottom, right = (int(ends.max(initial=0)) for ends in (top + heights, left + widths))
    if bottom > height or right > width:
        needed = f"at least {bottom} x {right} (height x width), not {height} x {width}"
        raise ValueError(f"a worked solution needs a canvas of {needed}")
    B, R, C = drawn["given"].shape
    drawn["given"] &= np.arange(C) < widths[:, None, None]
    # Blank cells of a part may lie beyond the canvas, below and on its left.
    below, beside = (top + R).max(initial=0), (C - left - widths).max(initial=0)
    at = np.arange(B), top, left + widths + beside - C
    found = {**drawn, "top": top, "left": left}
    for name in ("canvases", "given", "truth"):
        if (part := drawn.get(name)) is not None:
            blank = False if name == "given" else symbols.BLANK
            room = np.full((B, max(height, below), beside + width), blank, dtype=part.dtype)
            windows = sliding_window_view(room, (R, C), axis=(1, 2), writeable=True)
            windows[at] = part[:, :, ::-1]
            found[name] = np.ascontiguousarray(room[:, :height, beside:])
    return found


class Reading(NamedTuple):
    """Operands and answer that are read from a canvas, correct or not."""

    operands: tuple[int, ...]
    answer: int
    answer_cells: tuple[CellIndex, ...]  # of the answer's digits on the canvas, the lowest first


def read(canvas: np.ndarray, layout: Layout, base: int = 10) -> Reading:
    """Operands and answer of one canvas ``uint8 [H, W]``.

    A ValueError says why the canvas is no worked solution in that layout.
    """
    rows, columns = np.nonzero(canvas != symbols.BLANK)
    if not rows.size:
        raise ValueError("the canvas is blank: there is no problem on it")
    content = canvas[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    if (content == symbols.MASK).any():
        raise ValueError("a row is still masked: the canvas is not worked out")
    signs = np.argwhere(content == layout.sign)
    if len(signs) != 1:
        sign = symbols.CHARACTERS[layout.sign]
        raise ValueError(f"a canvas has one sign {sign!r}, this one has {len(signs)}")
    row, column = signs[0].tolist()
    named = {}
    for name, ids in layout.read_operands(content, (row, column)).items():
        filled = np.flatnonzero(ids != symbols.BLANK)
        named[name] = ids[filled[0] : filled[-1] + 1] if filled.size else filled
    operands = tuple(_number(ids, name, base) for name, ids in named.items())
    lengths = [len(ids) for ids in named.values()]
    if len(content) != (expected := layout.room(lengths, base)[0]):
        raise ValueError(
            f"operands of {' and '.join(map(str, lengths))} digits take {expected} rows in the "
            f"{layout.name} layout, this canvas has {len(content)}: it is not worked out"
        )
    cells = layout.answer_cells(content)
    answer = np.array([content[cell] for cell in cells], dtype=np.uint8)
    top, left = int(rows.min()), int(columns.min())
    places = tuple((top + row, left + column) for row, column in cells)
    return Reading(operands, _number(answer, "answer", base), places)


def _number(ids: np.ndarray, name: str, base: int) -> int:
    """A number from ids, least significant first; every one of them has to be a digit."""
    if not ids.size:
        raise ValueError(f"the {name} is blank")
    digits = symbols.DIGIT_OF[ids]
    if ((digits < 0) | (digits >= base)).any():
        raise ValueError(f"the {name} {symbols.decode(ids[::-1])!r} is not a number in base {base}")
    return Numbers.from_digits(digits[None].astype(np.uint8), base).to_ints()[0]
