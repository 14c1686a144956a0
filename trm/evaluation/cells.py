"""The cells of a grid, measured by Lightning on any number of devices, and gathered.

A work item is one cell of one checkpoint. Each finished cell is a file of its own,

    DIR/cells/<checkpoint>-<settings>/<digits of a>x<digits of b>.json

named by a hash of the checkpoint's file and one of everything else that decides the figures, the
clock's among them: a run that was killed goes on where it ended, and no other checkpoint, settings
or kind of device can take its cells.
"""

import hashlib
import json
import logging
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import lightning as L
import torch
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader

from canvas.problems import Task
from trm.evaluation.files import make_folder, read_object, sweep, write_object
from trm.evaluation.grid import KEYS, measure_cell
from trm.evaluation.models import describe_all, versions
from trm.evaluation.problems import SPLIT
from trm.evaluation.readings import FORMAT, GRID
from trm.solving.checkpoint import find_checkpoint, load_solver
from trm.solving.solver import Solver

PICTURE, REPORT = "grid.png", "grid.md"  # of an evaluation's folder
_HASH = "[0-9a-f]" * 12  # as a pattern


@dataclass(frozen=True)
class Settings:
    """What is asked, of every model alike.

    Attributes:
        digits_a, digits_b: the lengths of the grid.
        problems: of a cell, or as many as there are.
        seed: which problems.
        steps: supervision steps a row gets at most; None: as each checkpoint says.
        batch_size: problems solved at once.
    """

    digits_a: tuple[int, ...]
    digits_b: tuple[int, ...]
    problems: int = 128
    seed: int = 0
    steps: int | None = None
    batch_size: int = 128

    def key(self, device: str) -> str:
        """A hash of what decides a cell's figures, beside its checkpoint and its lengths.

        Args:
            device: the kind that computes them: cpu, cuda or mps.
        """
        deciding = {"format": FORMAT, "split": SPLIT, "versions": versions(), "device": device}
        deciding |= asdict(self)
        del deciding["digits_a"], deciding["digits_b"]
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Item:
    """One cell of one checkpoint, and the file for its figures."""

    checkpoint: Path
    digits_a: int
    digits_b: int
    file: Path


def measure(
    checkpoints: Sequence[str | Path],
    settings: Settings,
    output: str | Path,
    names: Sequence[str] | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    nodes: int = 1,
) -> dict[str, Any] | None:
    """Measure all cells that are not measured yet, and gather all of them in ``grid.json``.

    Args:
        checkpoints: files, or folders of runs.
        settings: what is asked.
        output: folder, the same for all nodes.
        names: a label for each checkpoint; None: the names of their runs.
        accelerator, devices, nodes: as Lightning's trainer takes them.

    Returns:
        What was written to ``grid.json``; None in all processes but the first.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the checkpoints, their names, the folder or the devices do not suit.
    """
    output = Path(output)
    _check_output(output)
    trainer = _trainer(accelerator, devices, nodes)
    models = describe_all(checkpoints, names, settings.steps)
    key = settings.key(trainer.strategy.root_device.type)
    items = {
        id(model): [
            Item(find_checkpoint(model["checkpoint"]), a, b, folder / f"{a}x{b}.json")
            for a in settings.digits_a
            for b in settings.digits_b
        ]
        for model in models
        for folder in [output / "cells" / f"{model['sha256'][:12]}-{key}"]
    }
    todo = {
        item.file: item  # two files may hold the same checkpoint
        for model in models
        for item in sorted(items[id(model)], key=lambda item: -_cost(item, Task(**model["task"])))
        if _finished(item) is None
    }
    for folder in {item.file.parent for item in todo.values()}:
        sweep(folder, "*.json")
    if todo:
        every = {item.file for wanted in items.values() for item in wanted}
        if trainer.is_global_zero and len(todo) < len(every):
            print(f"{len(every) - len(todo)} of {len(every)} cells are done already")
        _run(trainer, list(todo.values()), settings)
    if not trainer.is_global_zero:
        return None
    grid = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "settings": {"split": SPLIT, **asdict(settings), "devices": devices * nodes},
        "models": [
            {**model, "cells": [_figures(item) for item in items[id(model)]]} for model in models
        ],
    }
    write_object(output / GRID, grid)
    return json.loads(json.dumps(grid))  # as a reader of the file gets it


def _cost(item: Item, task: Task) -> int:
    """About how long a cell takes: cells of the canvas for each row of the working."""
    height, width = task.rules.extent(item.digits_a, item.digits_b)
    return height * height * width


def _check_output(output: Path) -> None:
    """Make the folder; raise ValueError if files are in the way that no evaluation wrote."""
    make_folder(output)
    there = [name for name in (GRID, PICTURE, REPORT) if (output / name).exists()]
    ours = any(output.glob(f"cells/{_HASH}-{_HASH}")) or "format" in (
        read_object(output / GRID) or {}
    )
    if there and not ours:
        raise ValueError(
            f"{output / there[0]} is in the way, and trm evaluate did not write it: choose another "
            "--output"
        )


def _finished(item: Item) -> dict[str, Any] | None:
    """A cell's figures; None where they are not measured yet, or their file is damaged."""
    cell = read_object(item.file) or {}
    whole = cell.keys() == {*KEYS, "computed_on"}
    if whole and (cell["digits_a"], cell["digits_b"]) == (item.digits_a, item.digits_b):
        return cell
    return None


def _figures(item: Item) -> dict[str, Any]:
    cell = _finished(item)
    if cell is None:
        raise ValueError(
            f"the figures of {item.digits_a} x {item.digits_b} digits are not in {item.file}: all "
            "nodes must see the same --output folder"
        )
    return cell


class _Cells(L.LightningModule):
    """Measures one item a step of Lightning's predict loop."""

    def __init__(self, items: list[Item | None], settings: Settings) -> None:
        super().__init__()
        self.items, self.settings = items, settings
        self.held: tuple[Path, Solver] | None = None  # the items of a checkpoint come in a row

    def on_predict_start(self) -> None:
        """Stop at a SIGTERM; Lightning would note it, and its predict loop go on."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._stop)  # Lightning restores the former one
        if self.trainer.received_sigterm:
            self._stop()

    def _stop(self, *_: object) -> NoReturn:
        launcher = self.trainer.strategy.launcher
        if launcher is not None:
            launcher.kill(signal.SIGTERM)  # the processes that this one has started
        raise SystemExit(128 + signal.SIGTERM)

    def predict_step(self, index: int) -> None:
        """Measure an item, and write its file."""
        item = self.items[index]
        if item is None:
            return
        if self.held is None or self.held[0] != item.checkpoint:
            self.held = None  # makes room first
            solver = load_solver(item.checkpoint, self.settings.steps, device=str(self.device))
            self.held = item.checkpoint, solver
        cell = measure_cell(
            self.held[1],
            item.digits_a,
            item.digits_b,
            self.settings.problems,
            self.settings.seed,
            self.settings.batch_size,
        )
        write_object(item.file, cell | {"computed_on": _computer(self.device)})

    def on_predict_end(self) -> None:
        """Wait until every process is done."""
        self.trainer.strategy.barrier("cells")


def _computer(device: torch.device) -> dict[str, Any]:
    cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if cuda else device.type,
        "threads": torch.get_num_threads(),
    }


class _Bar(RichProgressBar):
    @property
    def predict_description(self) -> str:
        return "cells"


def _trainer(accelerator: str, devices: int, nodes: int) -> L.Trainer:
    with _quiet():
        try:
            return L.Trainer(
                accelerator=accelerator,
                devices=devices,
                num_nodes=nodes,
                logger=False,
                callbacks=[_Bar()],
                enable_checkpointing=False,
                enable_model_summary=False,
            )
        except MisconfigurationException as error:
            raise ValueError(str(error)) from error  # Lightning's own word for a wrong call


def _run(trainer: L.Trainer, todo: list[Item], settings: Settings) -> None:
    """Measure the items."""
    # Lightning wants an item for each process. Each takes every n-th, so that all have large and
    # small cells, the large ones first.
    idle = max(0, trainer.world_size - len(todo))
    module = _Cells([*todo, *[None] * idle], settings)
    indices = range(len(module.items))
    loader: DataLoader[int] = DataLoader(indices, collate_fn=itemgetter(0))  # type: ignore[arg-type]
    with _quiet():
        try:
            trainer.predict(module, loader, return_predictions=False)
        except MisconfigurationException as error:
            raise ValueError(str(error)) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Lightning says about itself and the machine."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PossibleUserWarning)
            for message in (".*treespec, LeafSpec.*", "predict returned None.*"):
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
