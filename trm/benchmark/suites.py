"""The suites: fixed sets of problems, drawn from the test split by a public rule.

A suite is a list of cells, each a size of problems (or a family of them and a size), and a number
of problems for every cell. Its problems follow from that and from a seed alone:

- `trm.evaluation.cell_problems.problems_of` draws the problems of a cell with the seed `SEED`, or
  with one that follows from an organiser's secret (`seed_of`). They are different from each other.
  A cell holds fewer than the others where the test split has no more of that size.
- All of them belong to the test split of `canvas.problems.split_of`, a hash of the operands. No
  problem of the training or validation split can be among them, whatever the seed.
- Problems are numbered in the order in which they are drawn: ``multiply-v1/12x7/031``.

A suite never changes. What should change gets a new name, with the next version.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from augment.symmetry import apply
from canvas.addition import Addition
from canvas.choices import check_choice
from canvas.families import FAMILIES
from canvas.multiplication import Multiplication
from canvas.picture import to_text
from canvas.problems import MOST_DIGITS, MOST_OPERANDS, Problems
from canvas.render import draw_worked
from canvas.task import Task
from trm.evaluation.cell_problems import problems_of
from trm.evaluation.grid_schema import FAMILY, Key

SEED = 0  # of the public suites
VIEWS = ("e", "r180", "t", "h")  # of canvas-v1: upright, upside down, transposed, mirrored
SECRET_BYTES = 16  # that an organiser's secret has at least

# Of any length, so that nothing but the test split is ever drawn, see `family_problems`.
_ANY = (1, MOST_DIGITS)
MULTIPLICATION = Multiplication("standard", digits_a=_ANY, digits_b=_ANY)
ADDITION = Addition("column", digits=_ANY, addends=(2, MOST_OPERANDS))
_SIGNS = {Multiplication: " * ", Addition: " + "}  # in questions


@dataclass(frozen=True)
class Suite:
    """A fixed set of problems.

    Attributes:
        name: with its version.
        what: it asks, in a sentence.
        axes: what the sizes of its cells are measured in, as in ``grid.json``.
        cells: their sizes, (row, column), in order.
        problems: of a cell, or as many as there are.
        task: whose problems these are, where no row has one of its own.
        canvases: of the rows whose questions and answers are whole canvases: the task with its
            layout, and the view; empty for suites of numbers.
    """

    name: str
    what: str
    axes: tuple[str, str]
    cells: tuple[Key, ...]
    problems: int
    task: Task = field(default_factory=lambda: MULTIPLICATION)
    canvases: dict[str, tuple[Task, str]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether whole canvases are asked for, and not numbers."""
        return bool(self.canvases)

    def task_of(self, row: int | str) -> Task:
        """Whose problems stand in a row."""
        return self.canvases[str(row)][0] if self.whole else self.task

    def view_of(self, row: int | str) -> str:
        """The symmetry in which a row's canvases are shown; ``e``, upright, of numbers."""
        return self.canvases[str(row)][1] if self.whole else "e"

    def within(self, most: int | None) -> "Suite":
        """The part whose operands have at most so many digits; None: all of it.

        Raises:
            ValueError: there is none.
        """
        sizes = [i for i, axis in enumerate(self.axes) if axis.startswith("digits")]
        cells = [c for c in self.cells if most is None or all(int(c[i]) <= most for i in sizes)]
        if not cells:
            raise ValueError(f"{self.name} has no problem of at most {most} digits")
        return replace(self, cells=tuple(cells))


@dataclass(frozen=True)
class Item:
    """One problem of a suite.

    Attributes:
        id: suite, cell and number; it never changes.
        row, column: of its cell.
        operands: the numbers.
        question: as it is put: ``12 * 34 =``, or the canvas with what is given.
        answer: the right one: a number in digits, or the finished canvas.
        layout, view: of a canvas; None for numbers.
    """

    id: str
    row: int | str
    column: int
    operands: tuple[int, ...]
    question: str
    answer: str
    layout: str | None = None
    view: str | None = None


def _grid(rows: Sequence[int | str], columns: Sequence[int]) -> tuple[Key, ...]:
    return tuple((row, column) for row in rows for column in columns)


def _canvases() -> dict[str, tuple[Task, str]]:
    """The rows of canvas-v1: every layout in several views."""
    return {
        f"{layout} {view}": (replace(task, layout=layout), view)
        for task in (MULTIPLICATION, ADDITION)
        for layout in task.layouts
        for view in VIEWS
    }


_SIZES = range(1, 21)
SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "multiply-v1",
            "products of two numbers of 1 to 20 digits each, every pair of lengths",
            ("digits_a", "digits_b"),
            _grid(_SIZES, _SIZES),
            100,
        ),
        Suite(
            "multiply-long-v1",
            "products of two numbers of 50, 100 and 200 digits",
            ("digits_a", "digits_b"),
            tuple((n, n) for n in (50, 100, 200)),
            50,
        ),
        Suite(
            "structured-v1",
            "products of two numbers with a structure that is rare at random: nines, powers of "
            "ten, zeros inside, one digit again and again",
            (FAMILY, "digits"),
            _grid(tuple(FAMILIES), (4, 8, 16, 32, 64, 100)),
            25,
        ),
        Suite(
            "addition-v1",
            "sums of two to four numbers of equally many digits, 1 to 20, 50 and 100",
            ("digits", "addends"),
            _grid((*_SIZES, 50, 100), (2, 3, 4)),
            100,
            ADDITION,
        ),
        Suite(
            "canvas-v1",
            "whole workings of long multiplication and addition (of three numbers) on a canvas, "
            "in every layout, upright and turned",
            (FAMILY, "digits"),
            _grid(tuple(_canvases()), (2, 4, 8, 12)),
            25,
            canvases=_canvases(),
        ),
    )
}
_ADDENDS = 3  # of the additions of canvas-v1
_AT_ONCE = 256  # canvases drawn together


def suite_named(name: str) -> Suite:
    """The suite of that name.

    Raises:
        ValueError: there is none.
    """
    check_choice("--suite", name, SUITES)
    return SUITES[name]


def read_secret(file: str | Path) -> bytes:
    """An organiser's secret: what a file holds, without blanks around it.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is too short to be kept from those who guess.
    """
    secret = Path(file).read_bytes().strip()
    if len(secret) < SECRET_BYTES:
        raise ValueError(
            f"{file} holds a secret of {len(secret)} bytes, and {SECRET_BYTES} are needed at "
            "least: make one with `openssl rand -hex 32`"
        )
    return secret


def seed_of(suite: Suite, secret: bytes | None = None) -> int:
    """The seed that a suite's problems are drawn with, 0 to 2⁶⁴ − 1.

    With a secret it is the first 8 bytes of SHA-256 of ``canvas-trm seed NAME`` (the suite's), a
    line feed and the secret, the first byte the highest.
    """
    return SEED if secret is None else int.from_bytes(_digest("seed", suite, secret)[:8])


def label_of(suite: Suite, secret: bytes | None = None) -> str:
    """What ids begin with: the suite's name; with a secret, 8 digits that tell it from others.

    These follow from the secret by another hash than the seed, and do not give it away.
    """
    if secret is None:
        return suite.name
    return f"{suite.name}-secret-{_digest('label', suite, secret)[:4].hex()}"


def _digest(purpose: str, suite: Suite, secret: bytes) -> bytes:
    return hashlib.sha256(f"canvas-trm {purpose} {suite.name}\n".encode() + secret).digest()


def items(suite: Suite, secret: bytes | None = None) -> Iterator[Item]:
    """The problems of a suite, cell by cell.

    Args:
        suite: one of `SUITES`, or a part of it.
        secret: of an organiser, for other problems of the same kind; None: the public ones.
    """
    label, seed = label_of(suite, secret), seed_of(suite, secret)
    for row, column in suite.cells:
        problems = _problems(suite, (row, column), seed)
        numbered = f"{label}/{cell_name(row, column)}/{{:03d}}"
        names = [numbered.format(i) for i in range(len(problems))]
        task, view = suite.task_of(row), suite.view_of(row)
        make = make_canvases if suite.whole else make_numbers
        yield from make(task, names, problems, [(row, column)] * len(problems), view)


def _problems(suite: Suite, cell: Key, seed: int) -> Problems:
    """The problems of a cell. Those of canvases have operands of equally many digits."""
    if not suite.whole:
        return problems_of(suite.task, suite.axes, cell, suite.problems, seed)[1]
    task, digits = suite.task_of(cell[0]), cell[1]
    if isinstance(task, Addition):
        axes, size = ("digits", "addends"), (digits, _ADDENDS)
    else:
        axes, size = ("digits_a", "digits_b"), (digits, digits)
    return problems_of(task, axes, size, suite.problems, seed)[1]


def cell_name(row: int | str, column: int) -> str:
    """A cell in an id: ``12x7``, or ``near-powers-16``."""
    if isinstance(row, int):
        return f"{row}x{column}"
    return f"{re.sub(r'[^a-z0-9.]+', '-', row)}-{column}"


def make_numbers(
    task: Task, names: Sequence[str], problems: Problems, cells: Sequence[Key], view: str = "e"
) -> Iterator[Item]:
    """Problems that ask for a number.

    Args:
        task: whose problems these are.
        names: the id of each.
        problems: as many.
        cells: row and column of each.
        view: not used: numbers have none.
    """
    sign = _SIGNS[type(task)]
    for name, cell, operands in zip(names, cells, problems.to_ints(), strict=True):
        question = f"{sign.join(map(str, operands))} ="
        yield Item(name, *cell, operands, question, str(task.answer(operands)))


def make_canvases(
    task: Task, names: Sequence[str], problems: Problems, cells: Sequence[Key], view: str = "e"
) -> Iterator[Item]:
    """The same as canvases cut to the working: what is given, and the finished one.

    Args:
        task: whose problems these are, with the layout.
        names, problems, cells: see `make_numbers`.
        view: in which they are shown.
    """
    for start in range(0, len(problems), _AT_ONCE):
        part = problems[start : start + _AT_ONCE]
        worked = task.rules.work(part)
        size = int(worked.heights.max()), int(worked.widths.max())
        drawing = draw_worked(worked, *size)
        for i, operands in enumerate(part.to_ints()):
            cut = np.s_[: worked.heights[i], : worked.widths[i]]
            given, truth = (
                to_text(apply(view, canvases[i][cut]))
                for canvases in (drawing.canvases, drawing.truth)
            )
            name, cell = names[start + i], cells[start + i]
            yield Item(name, *cell, operands, given, truth, task.layout, view)


def record(item: Item) -> dict[str, Any]:
    """A problem as plain data, as it is exported; numbers as text."""
    metadata: dict[str, Any] = {
        "row": item.row,
        "column": item.column,
        "operands": [str(n) for n in item.operands],
    }
    if item.layout is not None:
        metadata |= {"layout": item.layout, "view": item.view}
    return {
        "id": item.id,
        "suite": item.id.partition("/")[0],
        "question": item.question,
        "answer": item.answer,
        "metadata": metadata,
    }


def json_line(item: Item) -> str:
    """A problem as a line of the suite's canonical file, with its end of line; ASCII."""
    return json.dumps(record(item)) + "\n"


def checksum(suite: Suite, secret: bytes | None = None) -> str:
    """SHA-256 of the suite's canonical file, in hexadecimal: of all its `json_line`."""
    return checksum_of(items(suite, secret))


def checksum_of(problems: Iterable[Item]) -> str:
    """The same of problems that are drawn already."""
    found = hashlib.sha256()
    for item in problems:
        found.update(json_line(item).encode("ascii"))
    return found.hexdigest()
