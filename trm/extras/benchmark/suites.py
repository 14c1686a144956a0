"""Suites: fixed sets of problems, drawn from the test split by a public rule, and their files.

A suite is a list of cells. A cell is a size of problems, or a family and a size. Its problems are
drawn by `trm.evaluation.grid_cells` with the suite's seed. Problems of a cell are different from
each other; there are fewer where the test split has no more. They are numbered in the order of
drawing, like ``multiply-v1/12x7/031``.

A suite never changes. A changed suite gets a new name, with the next version.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from augment.symmetry import apply
from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.picture import to_text
from canvas.problems import MOST_OPERANDS, MOST_RANDOM, Problems
from canvas.sampling import FAMILIES, family_problems
from canvas.task import Task
from trm.evaluation.grid_cells import FAMILY, Key, cell_problems
from trm.extras.benchmark.answers import read_canvas, read_number
from trm.io.files import make_folder, write_text

VIEWS = ("e", "r180", "t", "h")  # of canvas-v1: upright, upside down, transposed, mirrored
_ADDENDS = 3  # of the additions of canvas-v1

# Ranges of any length, so that only the test split is ever drawn, see `family_problems`.
_ANY = (1, MOST_RANDOM)
MULTIPLICATION = Multiplication("standard", digits_a=_ANY, digits_b=_ANY)
ADDITION = Addition("column", digits=_ANY, addends=(2, MOST_OPERANDS))


@dataclass(frozen=True)
class Suite:
    """Fixed set of problems."""

    name: str  # with its version
    what: str  # description of its problems, in a sentence
    axes: tuple[str, str]  # measures of the sizes of its cells, as in ``grid.json``
    cells: tuple[Key, ...]
    problems: int  # per cell, or as many as exist
    task: Task = field(default_factory=lambda: MULTIPLICATION)
    # Row → task with its layout, and view; for rows whose questions and answers are whole canvases.
    canvases: dict[str, tuple[Task, str]] = field(default_factory=dict)
    seed: int = 0  # selects the problems: 0 for the public ones, any other for an organiser's

    @property
    def label(self) -> str:
        """Start of all ids: the name, and for an organiser's seed also 8 digits of its hash."""
        found = hashlib.sha256(f"canvas-trm {self.name} {self.seed}".encode()).hexdigest()[:8]
        return f"{self.name}-seed-{found}" if self.seed else self.name

    @cached_property
    def items(self) -> list["Item"]:
        """All problems, cell by cell."""
        return list(_items(self))

    @property
    def text(self) -> str:
        """Canonical file in ASCII: a line of JSON for each item, see `record`."""
        return "".join(json.dumps(record(item)) + "\n" for item in self.items)

    @property
    def checksum(self) -> str:
        """SHA-256 of the canonical file, in hexadecimal."""
        return hashlib.sha256(self.text.encode("ascii")).hexdigest()

    @property
    def whole(self) -> bool:
        """True if answers are whole canvases, and not numbers."""
        return bool(self.canvases)

    def task_of(self, row: int | str) -> Task:
        """Return the task of the problems in a row."""
        return self.canvases[str(row)][0] if self.whole else self.task

    def read(self, text: str) -> str | None:
        """Return the answer in a text, a number or a canvas; None: there is none."""
        return read_canvas(text) if self.whole else read_number(text)

    def within(self, most: int | None) -> "Suite":
        """Return the part whose operands have at most ``most`` digits; None: the whole suite.

        Raises:
            ValueError: there are no such problems.
        """
        sizes = [i for i, axis in enumerate(self.axes) if axis.startswith("digits")]
        cells = [c for c in self.cells if most is None or all(int(c[i]) <= most for i in sizes)]
        if not cells:
            raise ValueError(f"{self.name} has no problem of at most {most} digits")
        return replace(self, cells=tuple(cells))


class Item(NamedTuple):
    """Problem of a suite."""

    id: str  # suite, cell and number; it never changes
    row: int | str
    column: int
    operands: tuple[int, ...]
    question: str  # ``12 * 34 =``, or the canvas with the given cells
    answer: str  # a number in digits, or the finished canvas
    layout: str | None = None  # of a canvas, like its view
    view: str | None = None


_SIZES = range(1, 21)
_CANVASES: dict[str, tuple[Task, str]] = {
    f"{layout} {view}": (replace(task, layout=layout), view)
    for task in (MULTIPLICATION, ADDITION)
    for layout in task.layouts
    for view in VIEWS
}
SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "multiply-v1",
            "products of two numbers of 1 to 20 digits each, every pair of lengths",
            ("digits_a", "digits_b"),
            tuple(product(_SIZES, _SIZES)),
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
            "multiply-4096-v1",
            "products of two numbers of 309, 617 and 1,233 digits, as long as 1,024, 2,048 and "
            "4,096 bits",
            ("digits_a", "digits_b"),
            tuple((n, n) for n in (309, 617, 1233)),
            10,
        ),
        Suite(
            "structured-v1",
            "products of two numbers with a structure that is rare at random: nines, powers of "
            "ten, zeros inside, one digit again and again",
            (FAMILY, "digits"),
            tuple(product(FAMILIES, (4, 8, 16, 32, 64, 100))),
            25,
        ),
        Suite(
            "addition-v1",
            "sums of two to four numbers of equally many digits, 1 to 20, 50 and 100",
            ("digits", "addends"),
            tuple(product((*_SIZES, 50, 100), (2, 3, 4))),
            100,
            ADDITION,
        ),
        Suite(
            "canvas-v1",
            "whole worked solutions of long multiplication and addition (of three numbers) on a "
            "canvas, in every layout, upright and turned",
            (FAMILY, "digits"),
            tuple(product(_CANVASES, (2, 4, 8, 12))),
            25,
            canvases=_CANVASES,
        ),
    )
}


def _items(suite: Suite) -> Iterator[Item]:
    label, seed = suite.label, suite.seed
    texts: Iterable[tuple[str, ...]]
    for row, column in suite.cells:
        task, where = suite.task_of(row), f"{row}x{column}"
        if isinstance(row, str):
            where = f"{re.sub(r'[^a-z0-9.]+', '-', row)}-{column}"
        if suite.whole:
            lengths = (column,) * (_ADDENDS if isinstance(task, Addition) else 2)
            problems = cell_problems(task, lengths, suite.problems, seed)
            texts = _canvases(*suite.canvases[str(row)], problems)
        else:
            if isinstance(row, str):
                problems = family_problems(task, row, column, suite.problems, seed)
            else:
                lengths = task.of_size(**dict(zip(suite.axes, (row, column), strict=True)))
                problems = cell_problems(task, lengths, suite.problems, seed)
            sign = " + " if isinstance(task, Addition) else " * "
            texts = [
                (f"{sign.join(map(str, operands))} =", str(task.answer(operands)))
                for operands in problems.to_ints()
            ]
        for i, (operands, what) in enumerate(zip(problems.to_ints(), texts, strict=True)):
            yield Item(f"{label}/{where}/{i:03d}", row, column, operands, *what)


def _canvases(task: Task, view: str, problems: Problems) -> Iterator[tuple[str, str, str, str]]:
    """Yield canvases with the given cells, finished canvases, and their layout and view."""
    drawing = task.canvas_layout.draw_worked(problems)
    for i in range(len(problems)):
        cut = np.s_[i, : drawing.heights[i], : drawing.widths[i]]
        given, truth = (to_text(apply(view, c[cut])) for c in (drawing.canvases, drawing.truth))
        yield given, truth, task.layout, view


def record(item: Item) -> dict[str, Any]:
    """Return a problem as plain data for export; numbers are text."""
    operands = [str(n) for n in item.operands]
    where: dict[str, Any] = {"row": item.row, "column": item.column, "operands": operands}
    if item.layout is not None:
        where |= {"layout": item.layout, "view": item.view}
    texts = {"question": item.question, "answer": item.answer, "metadata": where}
    return {"id": item.id, "suite": item.id.partition("/")[0], **texts}


def export(suite: Suite, output: Path) -> Path:
    """Write a suite's canonical file into a folder.

    Raises:
        ValueError: the folder contains another part of the suite.
    """
    make_folder(output)
    file = output / f"{suite.label}.jsonl"
    if file.exists() and file.read_text(encoding="utf-8") != suite.text:
        raise ValueError(
            f"{file} holds another part of the suite already: choose another --output, or remove it"
        )
    write_text(file, suite.text)
    return file
