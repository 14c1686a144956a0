"""Solving any number of problems: from Python, from files on several devices, from pipes.

Results are records, see `trm.solving.solution`. A file is solved in batches of some hundred
problems. The record of a problem depends on its batch, the checkpoint and the settings, not on the
number of devices or on interruptions. The records of a finished batch are a file,
``.NAME.<hash>.parts/<number>.json``, beside the output NAME. The hash covers everything that
affects them. Once all batches are finished, the first process joins these files to the output and
deletes the folder.
"""

import glob
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from queue import Empty, Queue
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from canvas.problems import Problems
from trm.checkpoints import find_checkpoint
from trm.io.csv_records import write_csv
from trm.io.files import alone, fingerprint, make_folder, numbered_lines, writing
from trm.io.problem_files import Entry, carried_name, format_of, read_entries
from trm.runtime.devices import join_processes, make_files, open_devices
from trm.runtime.precision import FLOAT32
from trm.solving.solution import COLUMNS, unset_columns
from trm.solving.solver import Solver
from trm.solving.voting import Voting

_MOMENT = 0.25  # seconds that a problem of a pipe waits for others of its batch
_HASH = "[0-9a-f]" * 12  # pattern of `Job.key`


def solve(
    solver: Solver,
    problems: Iterable[str | Sequence[int]],
    batch_size: int | None = None,
    canvases: bool = False,
) -> Iterator[dict[str, Any]]:
    """Solve any number of problems in batches, and yield a record of each.

    In a record ``line`` counts from 1. An item that is not a problem of the task gets a record with
    an ``error``.

    Args:
        solver: the model.
        problems: texts like ``123x45``, or operands.
        batch_size: problems in a batch; None: some hundred.
        canvases: whether records contain the solved canvas as text.

    Raises:
        ValueError: ``problems`` is a single text, which would be read letter by letter, or no list;
            or ``solver`` is something else.
    """
    if isinstance(problems, str) or not isinstance(problems, Iterable):
        alone = "one text" if isinstance(problems, str) else f"{problems!r}"
        example = problems if isinstance(problems, str) else "123x45"
        raise ValueError(f"give a list of problems, like [{example!r}], not {alone}")
    if not isinstance(solver, Solver):
        raise ValueError(f"{solver!r} is not a solver: take trm.load_solver(...)")

    def entry(line: int, problem: str | Sequence[int]) -> Entry:
        task = solver.task
        try:
            operands = task.parse(problem) if isinstance(problem, str) else tuple(problem)
            task.problems([operands])
        except (TypeError, ValueError) as error:
            why = str(error)
            if isinstance(error, TypeError):
                why = f"{problem!r} is not a problem: give a text like '123x456' or operands"
            return Entry(line, problem=problem if isinstance(problem, str) else None, error=why)
        return Entry(line, operands)

    entries = (entry(line, operands) for line, operands in enumerate(problems, start=1))
    size = batch_size or _batch_size(solver.voting, solver.predictor.device)
    return (
        record for batch in _batches(entries, size) for record in answer(solver, batch, canvases)
    )


def answer(solver: Solver, entries: list[Entry], canvases: bool) -> list[dict[str, Any]]:
    """Return the records of entries, in their order; with ``canvases`` also the solved canvas."""
    known = [{"line": e.line, "problem": e.problem, "error": e.error} for e in entries]
    records = [dict.fromkeys(COLUMNS) | one for one in known]
    valid = [(i, e.operands) for i, e in enumerate(entries) if e.operands is not None]
    if valid:
        problems = Problems.from_ints([operands for _, operands in valid], solver.task.base)
        misfits = solver.misfits(problems)
        for (i, _), misfit in zip(valid, misfits, strict=True):
            records[i]["error"] = misfit
        fit = np.array([k for k, misfit in enumerate(misfits) if misfit is None], dtype=np.int64)
        for k, solution in zip(fit.tolist(), solver.solve(problems[fit]), strict=True):
            i = valid[k][0]
            records[i] = solution.record(entries[i].line, canvases)
    return records


@dataclass
class Summary:
    """Counts of a file's records."""

    problems: int = 0
    correct: int = 0
    errors: int = 0
    beyond: int = 0  # of other sizes than those in training
    few_views: int = 0  # with fewer views than requested
    share_of_views: float = 1.0  # lowest share of the requested views

    def write(self, sink: IO[str], records: list[dict[str, Any]]) -> None:
        """Write and count records, one JSON object in each line.

        Non-ASCII characters are escaped if the encoding may lack some.
        """
        escaped = not (getattr(sink, "encoding", None) or "utf").lower().startswith("utf")
        for record in records:
            sink.write(json.dumps(record, ensure_ascii=escaped, allow_nan=False) + "\n")
        self.count(records)

    def count(self, records: list[dict[str, Any]]) -> None:
        """Count records."""
        for record in records:
            self.problems += 1
            self.correct += bool(record["correct"])
            self.errors += record["error"] is not None
            self.beyond += record["in_range"] is False
            share = (record.get("views") or 1) / (record.get("views_asked") or 1)
            self.few_views += share < 1
            self.share_of_views = min(self.share_of_views, share)

    def __str__(self) -> str:
        solved = self.problems - self.errors
        records = "record" if self.problems == 1 else "records"
        text = f"{self.problems:,} {records}: {self.correct:,} of {solved:,} answers correct"
        if self.beyond:
            text += f", {self.beyond:,} outside the lengths trained on"
        lines = "line" if self.errors == 1 else "lines"
        return text + (f", {self.errors:,} {lines} with an error" if self.errors else "")


class Job(NamedTuple):
    """A file of problems to solve and its output, CSV or JSON Lines each."""

    solver: Solver
    checkpoint: Path  # the solver's
    source: Path
    output: Path
    batch_size: int | None = None  # problems in a batch; None: by the device
    canvases: bool = False  # whether records contain the solved canvas
    precision: str = FLOAT32  # one of `trm.runtime.precision.PRECISIONS`, after `settle`

    @property
    def csv(self) -> bool:
        """True if the output is CSV, by its name."""
        return format_of(str(self.output)) == "csv"

    def entries(self, file: BinaryIO | None = None) -> Iterator[Entry]:
        """Read the problems of the source, or of a pipe in its place."""
        source, lines = str(self.source), numbered_lines(self.source, file)
        return read_entries(lines, source, format_of(source), self.solver.task)

    def lines(self, entries: list[Entry]) -> list[dict[str, Any]]:
        """Return the records of entries as written, with the other columns of their lines."""
        left_out = {"exact"} | unset_columns(self.solver.voting)  # exact needs the true solution
        left_out |= set() if self.canvases else {"canvas"}
        lines = []
        records = answer(self.solver, entries, self.canvases)
        for record, entry in zip(records, entries, strict=True):
            line = {name: value for name, value in record.items() if name not in left_out}
            lines.append(line | {carried_name(k, COLUMNS): v for k, v in entry.other.items()})
        return lines

    def key(self, device: str) -> str:
        """Return a hash of everything that affects the records."""
        import torch

        solver, predictor = self.solver, self.solver.predictor
        deciding = {
            "columns": COLUMNS,  # may differ in another version
            "device": (device, self.precision, torch.__version__),
            "files": (fingerprint(find_checkpoint(self.checkpoint)), fingerprint(self.source)),
            "model": (predictor.model.config, predictor.max_steps),
            "start": predictor.options.start_seed,
            "sampling": predictor.options.sampling,
            "solver": (solver.canvas, solver.voting, predictor.certain),
            "records": (self.batch_size, self.canvases),
        }
        return hashlib.sha256(json.dumps(deciding, default=str).encode()).hexdigest()[:12]


def stream(job: Job, source: BinaryIO | None, sink: IO[str] | None) -> Summary:
    """Solve problems from a pipe or to one, and write records batch by batch.

    A batch of a pipe ends early if problems come slowly: its records are not kept waiting.

    Args:
        job: files and settings.
        source: None: the job's source.
        sink: None: the job's output.
    """
    summary = Summary()
    size = job.batch_size or _batch_size(job.solver.voting, job.solver.predictor.device)
    with ExitStack() as open_ones:
        out: IO[str] = sink or open_ones.enter_context(writing(job.output))
        table = sink is None and job.csv
        # The columns are known at the end: lines of JSON may have different keys.
        lines: IO[str] = open_ones.enter_context(_kept()) if table else out
        in_batches = _batches if source is None and job.source.is_file() else _timely_batches
        for batch in in_batches(job.entries(source), size):
            summary.write(lines, job.lines(batch))
            lines.flush()
        if table:

            def records() -> Iterator[dict[str, Any]]:
                lines.seek(0)
                return map(json.loads, lines)

            write_csv(out, records)
    return summary


def work_through(
    job: Job,
    accelerator: str = "auto",
    devices: int | list[int] = 1,
    nodes: int = 1,
    quiet: bool = False,
) -> Summary | None:
    """Solve a file, or resume it, and write the output once all of it is solved.

    Args:
        job: files and settings.
        accelerator: as in `trm.runtime.devices.open_devices`.
        devices: as there.
        nodes: as there.
        quiet: whether to print no progress.

    Returns:
        Counts of records; None in all processes but the first.

    Raises:
        ValueError: another process is writing the same output, or its path is unusable.
    """
    if job.output.is_dir() or (job.output.exists() and job.output.samefile(job.source)):
        what = "a folder" if job.output.is_dir() else "the input itself"
        raise ValueError(f"--output {job.output} is {what}: choose another")
    fabric = open_devices(accelerator, devices, nodes, job.precision)
    make_folder(job.output.parent)
    join_processes(fabric)
    kind = fabric.device.type
    job.solver.predictor.model.to(fabric.device)
    size = job.batch_size or _batch_size(job.solver.voting, kind)
    output = job.output.resolve()
    if output.exists() and fabric.is_global_zero and not quiet:
        print(f"{job.output} exists: it is computed again, and then replaced", file=sys.stderr)
    # The other processes wait for the first.
    with alone(job.output) if fabric.is_global_zero else nullcontext():
        numbers = range(-(-sum(1 for _ in job.entries()) // size))
        folder = output.with_name(f".{output.name}.{job.key(kind)}.parts")
        parts = {folder / f"{number}.json": number for number in numbers}
        batches = enumerate(_batches(job.entries(), size))

        def solved(wanted: int) -> list[dict[str, Any]]:
            return job.lines(next(batch for number, batch in batches if number == wanted))

        make_files(fabric, parts, solved, Path.is_file, "parts of the file", quiet)
        if not fabric.is_global_zero:
            return None
        summary = Summary()

        def records() -> Iterator[list[dict[str, Any]]]:
            return (json.loads(part.read_text(encoding="utf-8")) for part in parts)

        with writing(output) as sink:
            for of_batch in records():
                if job.csv:
                    summary.count(of_batch)
                else:
                    summary.write(sink, of_batch)
            if job.csv:
                write_csv(sink, lambda: chain.from_iterable(records()))
        # Delete the parts, also those of other settings.
        for kept in output.parent.glob(f".{glob.escape(output.name)}.{_HASH}.parts"):
            shutil.rmtree(kept)
    return summary


def _kept() -> IO[str]:
    """Return a temporary text file, whose lines end in a line feed alone."""
    return TemporaryFile("w+", encoding="utf-8", newline="\n")


def _batch_size(voting: Voting | None, device: str) -> int:
    samples = 256 if device == "cpu" else 8192
    return max(8, samples // (voting.solutions if voting else 1))


def _batches(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    rest = iter(entries)
    while batch := list(islice(rest, size)):
        yield batch


def _timely_batches(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """Yield lists of at most ``size`` entries, each at most `_MOMENT` after its first one came."""
    come: Queue[Entry | BaseException | None] = Queue(size)

    def read() -> None:
        try:
            for entry in entries:
                come.put(entry)
            come.put(None)
        except BaseException as error:  # raised again by the caller's thread
            come.put(error)

    Thread(target=read, daemon=True).start()  # it may wait for a line when the process ends
    batch, until = list[Entry](), 0.0
    while True:
        try:
            one = come.get(timeout=max(0.0, until - time.monotonic()) if batch else _MOMENT)
        except Empty:
            if batch:
                yield batch
                batch = []
            continue
        if isinstance(one, Entry):
            until = until if batch else time.monotonic() + _MOMENT
            batch.append(one)
        if batch and (len(batch) == size or not isinstance(one, Entry)):
            yield batch
            batch = []
        if isinstance(one, BaseException):
            raise one
        if one is None:
            return
