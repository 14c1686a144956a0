"""Any number of problems to records, some hundred at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import IO, Any, BinaryIO

import numpy as np

from canvas.problems import Problems
from trm.batch.formats import OPERANDS, PROBLEM, Entry, Reader
from trm.batch.writers import Writer, carried_name, make_writer
from trm.solving.record import COLUMNS, Record
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.voting import Voting

_UNIT = {"cpu": 256}  # samples of problems in a unit
_UNIT_ELSEWHERE = 8192


def solve(
    solver: Solver,
    problems: Iterable[Sequence[int]],
    batch_size: int | None = None,
    canvases: bool = False,
) -> Iterator[Record]:
    """Work any number of problems out, a record each, as they come.

    Args:
        solver: the model.
        problems: operands; only some hundred problems are held at a time.
        batch_size: problems at once; None: by the device.
        canvases: whether records hold the worked canvas, as text.

    Returns:
        Records, ``line`` counts from 1; what is no problem of the task has an ``error``.
    """
    entries = (_entry(solver, line, one) for line, one in enumerate(problems, start=1))
    size = batch_size or unit_size(solver.voting, solver.predictor.device)
    return (record for unit in batched(entries, size) for record in answer(solver, unit, canvases))


def _entry(solver: Solver, line: int, operands: Sequence[int]) -> Entry:
    if any(isinstance(n, bool) or not isinstance(n, int) for n in operands):
        return Entry(line, error=f"{operands!r}: operands are whole numbers")
    try:
        solver.task.problems([operands])
    except ValueError as error:
        return Entry(line, error=str(error))
    return Entry(line, tuple(operands))


def columns(solver: Solver, canvases: bool) -> list[str]:
    """Of a `Record`, what is written of each problem of a file."""
    left_out = set() if solver.voting else {"views", "votes"}
    left_out |= {"exact"} | (set() if canvases else {"canvas"})
    return [name for name in COLUMNS if name not in left_out]


def unit_size(voting: Voting | None, device: str) -> int:
    """Problems that are taken on together, by the kind of device and the number of views."""
    samples = voting.samples if voting else 1
    return max(8, _UNIT.get(device, _UNIT_ELSEWHERE) // samples)


def answer(solver: Solver, entries: list[Entry], canvases: bool) -> list[Record]:
    """The records of some entries, in their order.

    Args:
        solver: the model.
        entries: some of them perhaps no problems.
        canvases: whether records hold the worked canvas.
    """
    errors = {i: entry.error for i, entry in enumerate(entries) if entry.error is not None}
    todo = [i for i in range(len(entries)) if i not in errors]
    solutions: dict[int, Solution] = {}
    if todo:
        asked = [entry.operands for entry in entries if entry.operands is not None]
        problems = Problems.from_ints(asked, solver.task.base)
        fitting = []
        for k, misfit in enumerate(solver.misfits(problems)):
            if misfit is None:
                fitting.append(k)
            else:
                errors[todo[k]] = misfit
        fit = np.array(fitting, dtype=np.int64)
        for batch in solver.batches(problems[fit]):
            own = fit[batch]
            for k, solution in zip(own.tolist(), solver.solve(problems[own]), strict=True):
                solutions[todo[k]] = solution
    return [
        _record(entry, solutions.get(i), errors.get(i), canvases) for i, entry in enumerate(entries)
    ]


def _record(entry: Entry, solution: Solution | None, error: str | None, canvas: bool) -> Record:
    if solution is None:
        return Record(line=entry.line, problem=entry.problem, error=error, other=entry.other)
    return replace(solution.record(entry.line, canvas), other=entry.other)


def written(record: Record, names: list[str]) -> dict[str, Any]:
    """A record as it is written to a file: these columns, and what else its line held."""
    data = record.data()
    line = {name: data[name] for name in names}
    return line | {carried_name(name, line): value for name, value in record.other.items()}


@dataclass
class Summary:
    """What became of a file: numbers of records, counted as they go by."""

    problems: int = 0
    correct: int = 0
    errors: int = 0
    beyond: int = 0  # of other sizes than those trained on

    def add(self, record: dict[str, Any]) -> None:
        """Count a record as it is written."""
        self.problems += 1
        self.correct += bool(record["correct"])
        self.errors += record["error"] is not None
        self.beyond += record["in_range"] is False

    def __str__(self) -> str:
        solved = self.problems - self.errors
        text = f"{_many(self.problems, 'record')}: {self.correct:,} of {solved:,} answers right"
        if self.beyond:
            text += f", {self.beyond:,} outside the lengths trained on"
        return text + (f", {_many(self.errors, 'line')} with an error" if self.errors else "")


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
    reader = Reader(source, name, input_format, solver.task)
    writer = writer_for(solver, reader, output_format, canvases)
    sink.write(writer.head())
    summary, names = Summary(), columns(solver, canvases)
    for unit in batched(reader, batch_size or unit_size(solver.voting, solver.predictor.device)):
        for record in answer(solver, unit, canvases):
            line = written(record, names)
            sink.write(writer.line(line))
            summary.add(line)
        sink.flush()
    return summary


def writer_for(solver: Solver, reader: Reader, format: str, canvases: bool) -> Writer:
    """A writer of what the solver makes of what the reader reads."""
    ours = columns(solver, canvases)
    if reader.columns is None:
        return make_writer(format, ours, None)
    taken = (PROBLEM, OPERANDS)
    others = [carried_name(name, ours) for name in reader.columns if name not in taken]
    return make_writer(format, ours, others)


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Items in lists of that size, the last one perhaps shorter."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
