"""Any number of problems to records, some hundred at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from canvas.picture import to_text
from canvas.problems import Problems
from trm.batch.formats import OPERANDS, Entry, Reader, Writer, carried_name, make_writer
from trm.checkpoints.loading import load_solver
from trm.solving.rollout import at_once
from trm.solving.solver import Solution, Solver
from trm.solving.voting import Voting

COLUMNS = (
    *("line", "a", "b", "answer", "correct", "confidence", "calibrated", "doubt", "agreement"),
    "steps",
)
VOTE_COLUMNS = ("views", "votes")

_UNIT = {"cpu": 256}  # looks at problems in a unit
_UNIT_ELSEWHERE = 8192

Record = dict[str, Any]


def solve(
    checkpoint: str | Path,
    problems: Iterable[tuple[int, int]],
    voting: Voting | None = None,
    steps: int | None = None,
    height: int | None = None,
    width: int | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    canvases: bool = False,
) -> Iterator[Record]:
    """Work any number of problems out, a record each, as they come.

    Args:
        checkpoint, steps, height, width, device: see `trm.checkpoints.loading.load_solver`.
        problems: operands from 1 up; only some hundred of them are held at a time.
        voting: how many views are asked, and how they agree; None: one.
        batch_size: problems at once; None: by the device.
        canvases: whether records hold the worked canvas, as text.

    Returns:
        As ``trm solve --input`` writes them, see `columns`; ``line`` counts from 1.

    Raises:
        FileNotFoundError, ValueError: the checkpoint or the voting cannot be used.
    """
    solver = load_solver(checkpoint, steps, height, width, device)
    solver = solver if voting is None else solver.with_voting(voting)
    entries = (_entry(line, pair) for line, pair in enumerate(problems, start=1))
    size = batch_size or unit_size(solver.voting, solver.predictor.device)
    return (
        record
        for unit in batched(entries, size)
        for record in answer(solver, unit, canvases, write=int)
    )


def _entry(line: int, pair: tuple[int, int]) -> Entry:
    a, b = pair
    given = {"a": a, "b": b}
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in pair):
        return Entry(line, given, error=f"{a!r} x {b!r}: operands are whole numbers from 1 up")
    return Entry(line, given, (a, b))


def columns(solver: Solver, canvases: bool) -> list[str]:
    """What every record holds, beside what is carried through from its line.

    ``line`` of the input from 1; ``a``, ``b`` and the ``answer`` with the digits of the model's
    base, ``answer`` null where no number can be read off the canvas; whether it is ``correct``; the
    ``confidence`` in the whole working, whether it is ``calibrated``, and if not, why it is in
    ``doubt``; the ``agreement`` of views; supervision ``steps`` over all
    rows and views; with voting the number of ``views`` and their ``votes``, see `Vote`; the
    ``canvas`` if it is wanted; and ``error``, null for what was solved.
    """
    votes = VOTE_COLUMNS if solver.voting else ()
    return [*COLUMNS, *votes, *(["canvas"] if canvases else []), "error"]


def unit_size(voting: Voting | None, device: str) -> int:
    """Problems that are taken on together, by the kind of device and the number of views."""
    looks = voting.looks if voting else 1
    return max(8, _UNIT.get(device, _UNIT_ELSEWHERE) // looks)


def answer(
    solver: Solver, entries: list[Entry], canvases: bool, write: Callable[[str], Any]
) -> list[Record]:
    """The records of some entries, in their order.

    On a canvas that is cut, only problems of equal lengths share a batch: what one of them gets
    does not depend on how long the others are.

    Args:
        solver: the model.
        entries: some of them perhaps no problems.
        canvases: whether records hold the worked canvas.
        write: from a number's digits to what stands in a record.
    """
    errors = {i: entry.error for i, entry in enumerate(entries) if entry.error is not None}
    todo = [i for i in range(len(entries)) if i not in errors]
    solutions: dict[int, Solution] = {}
    if todo:
        pairs = [entry.pair for entry in entries if entry.pair is not None]
        problems = Problems.from_ints(pairs, solver.task.base)
        sizes = [(int(r), int(c)) for r, c in zip(*solver.task.room(problems), strict=True)]
        misfits = solver.misfits(problems)
        fitting = []
        for k, i in enumerate(todo):
            told = misfits[k]
            if told is None:
                fitting.append(k)
            else:
                errors[i] = told
        for group in _groups(solver, fitting, sizes):
            for k, solution in zip(group, solver.solve(problems[np.array(group)]), strict=True):
                solutions[todo[k]] = solution
    return [
        _record(solver, entry, solutions.get(i), errors.get(i), canvases, write)
        for i, entry in enumerate(entries)
    ]


def _groups(solver: Solver, wanted: list[int], sizes: list[tuple[int, int]]) -> Iterator[list[int]]:
    """Which of the problems are solved together, given the rows and columns that each takes up."""
    if not solver.canvas.cut:
        sizes = [(0, 0)] * len(sizes)
    for size, group in groupby(sorted(wanted, key=sizes.__getitem__), key=sizes.__getitem__):
        yield from batched(group, at_once(solver.predictor, *solver.canvas.size(*size)))


def _record(
    solver: Solver,
    entry: Entry,
    solution: Solution | None,
    error: str | None,
    canvases: bool,
    write: Callable[[str], Any],
) -> Record:
    record: Record = dict.fromkeys(columns(solver, canvases)) | {"line": entry.line, "error": error}
    record |= entry.given
    if solution is not None:
        numbers = {"a": solution.a, "b": solution.b, "answer": solution.product}
        record |= {
            name: None if number is None else write(solver.write(number))
            for name, number in numbers.items()
        }
        record |= {
            "correct": solution.correct,
            "confidence": round(solution.confidence, 6),
            "calibrated": not solution.doubt,
            "doubt": solution.doubt or None,
            "agreement": round(solution.agreement, 6),
            "steps": sum(solution.row_steps),
        }
        if solver.voting:
            votes = [
                [vote._asdict() | {"confidence": round(vote.confidence, 6)} for vote in votes]
                for votes in solution.votes
            ]
            record |= {"views": solution.views, "votes": votes}
        if canvases:
            record["canvas"] = to_text(solution.canvas)
    return record | {carried_name(name, record): value for name, value in entry.other.items()}


@dataclass
class Summary:
    """What became of a file: numbers of records, counted as they go by."""

    problems: int = 0
    correct: int = 0
    errors: int = 0

    def add(self, record: Record) -> None:
        """Count a record."""
        self.problems += 1
        self.correct += bool(record["correct"])
        self.errors += record["error"] is not None

    def __str__(self) -> str:
        solved = self.problems - self.errors
        told = f"{_many(self.problems, 'record')}: {self.correct:,} of {solved:,} products right"
        return told + (f", {_many(self.errors, 'line')} with an error" if self.errors else "")


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def stream(
    solver: Solver,
    source: BinaryIO,
    sink: IO[str],
    name: str = "standard input",
    batch_size: int | None = None,
    canvases: bool = False,
    input_format: str | None = None,
    output_format: str = "jsonl",
) -> Summary:
    """Work through a pipe: records are written as soon as their unit is solved.

    Args:
        solver: the model.
        source: binary, of problems.
        sink: for the records.
        name: of the source, for messages.
        batch_size, canvases, input_format: see `Job`.
        output_format: `csv` or `jsonl`.

    Raises:
        ValueError: the source has no header, or not the columns a and b.
    """
    reader = Reader(source, name, input_format, solver.task.base)
    writer = writer_for(solver, reader, output_format, canvases)
    sink.write(writer.head())
    summary = Summary()
    for unit in batched(reader, batch_size or unit_size(solver.voting, solver.predictor.device)):
        for record in answer(solver, unit, canvases, digits):
            sink.write(writer.line(record))
            summary.add(record)
        sink.flush()
    return summary


def writer_for(solver: Solver, reader: Reader, format: str, canvases: bool) -> Writer:
    """A writer of what the solver makes of what the reader reads."""
    ours = columns(solver, canvases)
    if reader.columns is None:
        return make_writer(format, ours, None)
    others = [carried_name(name, ours) for name in reader.columns if name not in OPERANDS]
    return make_writer(format, ours, others)


def digits(text: str) -> int | str:
    """A number as its digits in the model's base, for JSON."""
    return int(text) if len(text) < 4000 else text  # Python reads no more by default


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Items in lists of that size, the last one perhaps shorter."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
