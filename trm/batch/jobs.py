"""Files of problems in, files of answers out, on any number of devices, resumed where they stopped.

A file is worked on in units of some hundred problems. What a problem gets depends on its unit, the
checkpoint and the settings, not on the number of devices or on what was done before. A finished
unit is a line of its process's shard,

    .NAME.<hash>.parts/<process>.jsonl

beside the output NAME; the hash is of everything that decides the records. Once all units are
there, the first process merges the shards in order, the output appears under its name, and the
folder goes.
"""

import glob
import hashlib
import heapq
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch.utils.data import DataLoader, IterableDataset

from canvas.task import Task
from trm.batch.formats import Entry, Reader, check_source, format_of, output_format
from trm.batch.solving import (
    Summary,
    answer,
    batched,
    columns,
    unit_size,
    writer_for,
    written,
)
from trm.checkpoints import find_checkpoint
from trm.checkpoints.loading import load_solver
from trm.devices import Work, make_trainer, run
from trm.files import alone, fingerprint, is_special, make_folder, replacing, sweep
from trm.precision import FLOAT32
from trm.solving.record import COLUMNS
from trm.solving.solver import Solver
from trm.solving.voting import Voting

_log = logging.getLogger(__name__)

Line = dict[str, Any]  # a record as it is written

_HASH = "[0-9a-f]" * 12  # as a pattern, of `Job.key`


@dataclass(frozen=True)
class Job:
    """A file to work through.

    Attributes:
        checkpoint, steps, height, width: see `trm.checkpoints.loading.load_solver`.
        source: the problems, CSV or JSON Lines.
        output: for the records.
        voting: how many views are asked; None: one.
        batch_size: problems at once; None: by the device.
        canvases: whether records hold the worked canvas.
        input_format, output_format: `csv` or `jsonl`; None: by the files' names.
        precision: one of `trm.precision.PRECISIONS`, settled.
    """

    checkpoint: Path
    source: Path
    output: Path
    steps: int | None = None
    height: int | None = None
    width: int | None = None
    voting: Voting | None = None
    batch_size: int | None = None
    canvases: bool = False
    input_format: str | None = None
    output_format: str | None = None
    precision: str = FLOAT32

    def load(self, device: str) -> Solver:
        """The solver, on a device."""
        solver = load_solver(self.checkpoint, self.steps, self.height, self.width, device)
        return solver if self.voting is None else solver.with_voting(self.voting)

    def key(self, device: str) -> str:
        """A hash of what decides the records."""
        deciding = asdict(self) | {"device": device, "torch": torch.__version__}
        deciding["columns"] = COLUMNS  # what another version may have written differently
        deciding["checkpoint"] = fingerprint(find_checkpoint(self.checkpoint))
        deciding["source"] = fingerprint(self.source)
        del deciding["output"]
        text = json.dumps(deciding, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def work_through(
    job: Job,
    accelerator: str = "auto",
    devices: int | list[int] = 1,
    nodes: int = 1,
    quiet: bool = False,
) -> Summary | None:
    """Work through a file, or go on with it, and write the output once all of it is done.

    Args:
        job: what is to be done.
        accelerator, devices, nodes: see `trm.devices.make_trainer`.
        quiet: without a progress bar.

    Returns:
        What became of the file; None in all processes but the first.

    Raises:
        FileNotFoundError: there is no such checkpoint or file.
        ValueError: the files, the checkpoint or the devices do not suit, or another process is at
            work on the same output.
    """
    _check_files(job)
    trainer = make_trainer(accelerator, devices, nodes, [], job.precision)
    # The other processes wait for the first.
    with alone(job.output) if trainer.is_global_zero else nullcontext():
        return _work_through(job, trainer, quiet)


def _work_through(job: Job, trainer: L.Trainer, quiet: bool) -> Summary | None:
    kind = trainer.strategy.root_device.type
    solver = job.load("cpu")  # says what is wrong with the call before anything is done
    size = job.batch_size or unit_size(job.voting, kind)
    with job.source.open("rb") as file:
        reader = Reader(file, str(job.source), _input_format(job), solver.task)
        writer = writer_for(solver, reader, _written(job), job.canvases)
        total = sum(1 for _ in reader)
    output = job.output.resolve()
    parts = output.with_name(f".{output.name}.{job.key(kind)}.parts")
    make_folder(parts)
    units = -(-total // size)
    done = {unit for unit, _ in _finished(parts)}
    _log.debug("%d lines in units of %d; %d units done, in %s", total, size, len(done), parts)
    if len(done) < units:
        entries = _Entries(job, solver.task, size, done, trainer)
        work, todo = _Units(job, entries), DataLoader(entries, batch_size=None)
        trainer.callbacks.append(_Shard(parts))  # type: ignore[attr-defined]
        if not quiet and trainer.is_global_zero:
            trainer.callbacks.append(_Bar(total, len(done) * size, trainer))  # type: ignore[attr-defined]
        run(trainer, work, todo)
    if not trainer.is_global_zero:
        return None
    name = glob.escape(output.name)
    sweep(output.parent, name)
    summary = Summary()
    with replacing(output) as whole:
        with whole.open("w", encoding="utf-8") as sink:
            sink.write(writer.head())
            expected = 0
            for unit, records in _finished(parts):
                if unit != expected:
                    break
                expected += 1
                for record in records:
                    sink.write(writer.line(record))
                    summary.add(record)
        if expected < units:
            raise ValueError(
                f"unit {expected} of {units} is not in {parts}, which all nodes must see: the same "
                "command goes on where it was"
            )
    for begun in output.parent.glob(f".{name}.{_HASH}.parts"):  # with other settings, too
        shutil.rmtree(begun)
    return summary


def _check_files(job: Job) -> None:
    check_source(job.source)
    if job.output.is_dir() or (job.output.exists() and job.output.samefile(job.source)):
        what = "a folder" if job.output.is_dir() else "the input itself"
        raise ValueError(f"--output {job.output} is {what}: choose another")
    if is_special(job.output):
        raise ValueError(f"--output {job.output} is no file that could be replaced: choose another")
    make_folder(job.output.parent)
    _input_format(job)
    _written(job)


def _input_format(job: Job) -> str | None:
    return format_of(str(job.source), job.input_format)


def _written(job: Job) -> str:
    return output_format(str(job.output), job.output_format)


def _finished(parts: Path) -> Iterator[tuple[int, list[Line]]]:
    """Units that shards hold whole, in order and each once, with their records."""

    def read(shard: Path) -> Iterator[tuple[int, list[Line]]]:
        with shard.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):  # the last line of a killed process may not
                    unit, records = json.loads(line)
                    yield unit, records

    last = -1
    shards = [read(shard) for shard in sorted(parts.glob("*.jsonl"))]
    for unit, records in heapq.merge(*shards, key=lambda item: item[0]):
        if unit != last:
            yield unit, records
        last = unit


class _Entries(IterableDataset[tuple[int, list[Entry]]]):
    """The units that are still to be done; each process reads the file, and takes every n-th."""

    def __init__(self, job: Job, task: Task, size: int, done: set[int], trainer: L.Trainer) -> None:
        self.job, self.task, self.size, self.done, self.trainer = job, task, size, done, trainer

    def __iter__(self) -> Iterator[tuple[int, list[Entry]]]:
        mine, processes, turn = self.trainer.global_rank, self.trainer.world_size, 0
        with self.job.source.open("rb") as file:
            reader = Reader(file, str(self.job.source), _input_format(self.job), self.task)
            for unit, entries in enumerate(batched(reader, self.size)):
                if unit in self.done:
                    continue
                if turn % processes == mine:
                    yield unit, entries
                turn += 1


class _Units(Work):
    """Solves a unit a step of Lightning's predict loop."""

    def __init__(self, job: Job, entries: _Entries) -> None:
        super().__init__()
        self.job, self.entries = job, entries
        self.solver: Solver | None = None

    def setup(self, stage: str) -> None:
        """Agree on what is to be done: a process of a job just killed may have added to it."""
        self.entries.done = self.trainer.strategy.broadcast(self.entries.done)

    def predict_step(self, batch: tuple[int, list[Entry]]) -> tuple[int, list[Line]]:
        """The unit's records."""
        unit, entries = batch
        if self.solver is None:
            self.solver = self.job.load(str(self.device))
        names = columns(self.solver, self.job.canvases)
        solved = answer(self.solver, entries, self.job.canvases)
        return unit, [written(record, names) for record in solved]

    def transfer_batch_to_device(self, batch: Any, device: torch.device, index: int) -> Any:
        """Problems stay: solvers send what they need."""
        return batch


class _Shard(BasePredictionWriter):
    """Appends each unit to the process's shard, and sees to it that it is on the disk."""

    def __init__(self, parts: Path) -> None:
        super().__init__(write_interval="batch")
        self.file = parts / f"{uuid.uuid4().hex}.jsonl"

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: Any,
        *_: Any,
    ) -> None:
        """Write a unit."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(prediction, ensure_ascii=False, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


class _Bar(L.Callback):
    """Problems done, their rate, and the time left, on the first process's standard error."""

    def __init__(self, total: int, done: int, trainer: L.Trainer) -> None:
        self.bar = Progress(
            TextColumn("solving"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} problems/s"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("", total=total, completed=min(done, total), rate="?")
        self.processes, self.before, self.solved = trainer.world_size, done, 0
        self.began = time.monotonic()

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Show it."""
        self.began = time.monotonic()
        self.bar.start()

    def on_predict_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        *_: Any,
    ) -> None:
        """Other processes are taken to be about as far."""
        task = self.bar.tasks[0]
        self.solved += len(batch[1]) * self.processes
        rate = self.solved / max(time.monotonic() - self.began, 1e-9)
        done = min(self.before + self.solved, task.total or 0)
        self.bar.update(self.task, completed=done, rate=f"{rate:,.1f}")

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Leave it as it is."""
        self.bar.stop()

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        """The same."""
        self.bar.stop()
