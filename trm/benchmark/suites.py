"""The suites: fixed sets of problems, drawn from the test split by a public rule, and as files.

A suite is a list of cells, each a size of problems (or a family of them and a size), drawn by
`trm.evaluation.cell_problems` with the suite's seed. Problems of a cell are
different from each other, fewer where the test split has no more, and numbered in the order in
which they are drawn: ``multiply-v1/12x7/031``.

A suite never changes. What should change gets a new name, with the next version.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from augment.symmetry import apply
from canvas import symbols
from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.picture import to_text
from canvas.problems import MOST_DRAWN, MOST_OPERANDS, Problems
from canvas.sampling import FAMILIES, family_problems
from canvas.task import Task
from trm.evaluation.cell_problems import cell_problems
from trm.evaluation.grid import FAMILY, LABELS, Key
from trm.files import make_folder, write_text
from trm.markdown import table

CARD = "CARD.md"  # beside an exported suite
VIEWS = ("e", "r180", "t", "h")  # of canvas-v1: upright, upside down, transposed, mirrored
_ADDENDS = 3  # of the additions of canvas-v1

# Of any length, so that nothing but the test split is ever drawn, see `family_problems`.
_ANY = (1, MOST_DRAWN)
MULTIPLICATION = Multiplication("standard", digits_a=_ANY, digits_b=_ANY)
ADDITION = Addition("column", digits=_ANY, addends=(2, MOST_OPERANDS))


@dataclass(frozen=True)
class Suite:
    """A fixed set of problems."""

    name: str  # with its version
    what: str  # it asks, in a sentence
    axes: tuple[str, str]  # what the sizes of its cells are measured in, as in ``grid.json``
    cells: tuple[Key, ...]
    problems: int  # of a cell, or as many as there are
    task: Task = field(default_factory=lambda: MULTIPLICATION)
    # Of rows whose questions and answers are whole canvases: the task with its layout, the view.
    canvases: dict[str, tuple[Task, str]] = field(default_factory=dict)
    seed: int = 0  # which problems: of 0 they are public, of any other an organiser's

    @property
    def label(self) -> str:
        """What ids begin with: the name; of an organiser's seed, also 8 digits of its hash."""
        found = hashlib.sha256(f"canvas-trm {self.name} {self.seed}".encode()).hexdigest()[:8]
        return f"{self.name}-seed-{found}" if self.seed else self.name

    @cached_property
    def items(self) -> list["Item"]:
        """All problems, cell by cell."""
        return list(_items(self))

    @property
    def checksum(self) -> str:
        """SHA-256 of its canonical file, in hexadecimal: of the `json_line` of all its items."""
        return hashlib.sha256("".join(map(json_line, self.items)).encode("ascii")).hexdigest()

    @property
    def whole(self) -> bool:
        """Whether whole canvases are asked for, and not numbers."""
        return bool(self.canvases)

    def task_of(self, row: int | str) -> Task:
        """Whose problems stand in a row."""
        return self.canvases[str(row)][0] if self.whole else self.task

    def within(self, most: int | None) -> "Suite":
        """The part whose operands have at most so many digits; None: all. Or a ValueError."""
        sizes = [i for i, axis in enumerate(self.axes) if axis.startswith("digits")]
        cells = [c for c in self.cells if most is None or all(int(c[i]) <= most for i in sizes)]
        if not cells:
            raise ValueError(f"{self.name} has no problem of at most {most} digits")
        return replace(self, cells=tuple(cells))


@dataclass(frozen=True)
class Item:
    """One problem of a suite."""

    id: str  # suite, cell and number; it never changes
    row: int | str
    column: int
    operands: tuple[int, ...]
    question: str  # ``12 * 34 =``, or the canvas with what is given
    answer: str  # a number in digits, or the finished canvas
    layout: str | None = None  # of a canvas, as its view
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
    asked: Iterable[tuple[str, ...]]
    for row, column in suite.cells:
        task, where = suite.task_of(row), f"{row}x{column}"
        if isinstance(row, str):
            where = f"{re.sub(r'[^a-z0-9.]+', '-', row)}-{column}"
        if suite.whole:
            lengths = (column,) * (_ADDENDS if isinstance(task, Addition) else 2)
            problems = cell_problems(task, lengths, suite.problems, seed)
            asked = _canvases(*suite.canvases[str(row)], problems)
        else:
            if isinstance(row, str):
                problems = family_problems(task, row, column, suite.problems, seed)
            else:
                lengths = task.of_size(**dict(zip(suite.axes, (row, column), strict=True)))
                problems = cell_problems(task, lengths, suite.problems, seed)
            sign = " + " if isinstance(task, Addition) else " * "
            asked = [
                (f"{sign.join(map(str, operands))} =", str(task.answer(operands)))
                for operands in problems.to_ints()
            ]
        for i, (operands, what) in enumerate(zip(problems.to_ints(), asked, strict=True)):
            yield Item(f"{label}/{where}/{i:03d}", row, column, operands, *what)


def _canvases(task: Task, view: str, problems: Problems) -> Iterator[tuple[str, str, str, str]]:
    """Canvases with what is given, and finished; their layout and view."""
    drawing = task.rules.draw_worked(problems)
    for i in range(len(problems)):
        cut = np.s_[i, : drawing.heights[i], : drawing.widths[i]]
        given, truth = (to_text(apply(view, c[cut])) for c in (drawing.canvases, drawing.truth))
        yield given, truth, task.layout, view


def record(item: Item) -> dict[str, Any]:
    """A problem as plain data, as it is exported; numbers as text."""
    operands = [str(n) for n in item.operands]
    where: dict[str, Any] = {"row": item.row, "column": item.column, "operands": operands}
    if item.layout is not None:
        where |= {"layout": item.layout, "view": item.view}
    asked = {"question": item.question, "answer": item.answer, "metadata": where}
    return {"id": item.id, "suite": item.id.partition("/")[0], **asked}


def json_line(item: Item) -> str:
    """A problem as a line of the suite's canonical file, with its end of line; ASCII."""
    return json.dumps(record(item)) + "\n"


def export(suite: Suite, output: Path) -> list[Path]:
    """Write a suite, and its card; returns the files.

    The folder is made, empty, or one of the same export; ValueError: it holds something else.
    """
    text = _card(suite)
    make_folder(output)
    known = output / CARD
    same = known.is_file() and known.read_text(encoding="utf-8") == text
    if any(output.iterdir()) and not same:
        raise ValueError(
            f"{output} holds something else already: choose another --output, or empty this one"
        )
    file = output / f"{suite.label}.jsonl"
    write_text(file, "".join(map(json_line, suite.items)))
    write_text(known, text)
    return [file, known]


def _card(suite: Suite) -> str:
    """The card of an export as Markdown; it follows from the suite alone."""
    label, part = suite.label, suite.cells != SUITES[suite.name].cells
    each = f"{suite.problems:,} a cell, or as many as the test split has"
    rows = [
        ["what", f"{suite.what}{', a part of them' if part else ''}"],
        ["problems", f"{len(suite.items):,} in {len(suite.cells)} cells, {each}"],
        ["cells", f"{LABELS[suite.axes[0]]} x {LABELS[suite.axes[1]]}"],
        ["format", "JSON Lines: `id`, `suite`, `question`, `answer` and `metadata` a line"],
        ["checksum", f"`{suite.checksum}` (SHA-256 of `{label}.jsonl`)"],
        ["licence", "MIT"],
    ]
    drawn = "an organiser's seed" if suite.seed else "the seed 0"
    if suite.whole:
        symbol = "their symbols, by their ids from 0"
        rows.append(["canvases", f"{symbol}: `{symbols.CHARACTERS}`; `_` is blank"])
    return f"""\
# {label}

{table(["", ""], rows)}

These are different problems of the test split, drawn with {drawn}. A hash of the operands in any
order puts every problem into the training (80 %), validation (10 %) or test split (10 %): see
`canvas.problems.split_of`. Contamination: training data that leaves out the test split holds none
of these; other data may hold short ones by chance, or this file. `--seed` draws unseen ones.

`trm benchmark score predictions.jsonl --suite {suite.name} --output DIR`, with the same `--up-to`
and `--seed` if any, takes JSON Lines like `{{"id": "…", "prediction": "…"}}`.
"""
