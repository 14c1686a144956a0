"""The cells of a grid, measured by Lightning on any number of devices, and gathered.

A work item is one cell of one checkpoint. Each finished cell is a file of its own,

    DIR/cells/<checkpoint>-<settings>/<row>x<column>.json

named by a hash of the checkpoint's file and one of everything else that decides the figures, the
clock's among them: a run that was killed goes on where it ended, and no other checkpoint, settings
or kind of device can take its cells.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import RichProgressBar
from torch.utils.data import DataLoader

from trm.checkpoints import find_checkpoint
from trm.checkpoints.loading import load_solver
from trm.devices import Work, make_trainer, run
from trm.evaluation.cell_problems import SPLIT
from trm.evaluation.grid import measure_cell
from trm.evaluation.grid_models import describe_all, versions
from trm.evaluation.grid_schema import FORMAT, GRID, KEYS, PICTURE, REPORT, Key
from trm.files import make_own_folder, read_object, sweep, write_object
from trm.precision import FLOAT32
from trm.solving.solver import Solver
from trm.solving.voting import Voting

_log = logging.getLogger(__name__)

_HASH = "[0-9a-f]" * 12  # as a pattern


@dataclass(frozen=True)
class Settings:
    """What is asked, of every model alike.

    Attributes:
        axes: what the sizes of problems are measured in, along rows and columns.
        rows, columns: the sizes of the grid; of a battery its rows are families.
        problems: of a cell, or as many as there are.
        seed: which problems.
        steps: supervision steps a row gets at most; None: as each checkpoint says.
        batch_size: problems solved at once.
        voting: how many views a problem is seen in, free-running; None: one.
        view: the symmetry in which a model is shown every canvas.
        precision: one of `trm.precision.PRECISIONS`, settled.
    """

    axes: tuple[str, str]
    rows: tuple[int, ...] | tuple[str, ...]
    columns: tuple[int, ...]
    problems: int = 128
    seed: int = 0
    steps: int | None = None
    batch_size: int = 128
    voting: Voting | None = None
    view: str = "e"
    precision: str = FLOAT32

    def key(self, device: str) -> str:
        """A hash of what decides a cell's figures, beside its checkpoint and its size.

        Args:
            device: the kind that computes them: cpu, cuda or mps.
        """
        deciding = {"format": FORMAT, "split": SPLIT, "versions": versions(), "device": device}
        deciding |= asdict(self)
        del deciding["rows"], deciding["columns"]
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Item:
    """One cell of one checkpoint, and the file for its figures."""

    checkpoint: Path
    size: Key
    file: Path


def measure(
    checkpoints: Sequence[str | Path],
    settings: Settings,
    output: str | Path,
    names: Sequence[str] | None = None,
    accelerator: str = "auto",
    devices: int | list[int] = 1,
    nodes: int = 1,
    quiet: bool = False,
    oversubscribe: bool = False,
) -> dict[str, Any] | None:
    """Measure all cells that are not measured yet, and gather all of them in ``grid.json``.

    Args:
        checkpoints: files, or folders of runs.
        settings: what is asked.
        output: folder, the same for all nodes.
        names: a label for each checkpoint; None: the names of their runs.
        accelerator, devices, nodes, oversubscribe: see `trm.devices.make_trainer`.
        quiet: without a progress bar.

    Returns:
        What was written to ``grid.json``; None in all processes but the first.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the checkpoints, their names, the folder or the devices do not suit.
    """
    output = Path(output)
    make_own_folder(
        output, "trm evaluate", (GRID, PICTURE, REPORT), "format", f"cells/{_HASH}-{_HASH}"
    )
    callbacks = [] if quiet else [_Bar()]
    trainer = make_trainer(
        accelerator, devices, nodes, callbacks, oversubscribe, settings.precision
    )
    models = describe_all(checkpoints, names, settings.steps)
    key = settings.key(trainer.strategy.root_device.type)
    items = {
        id(model): [
            Item(
                find_checkpoint(model["checkpoint"]),
                (a, b),
                folder / f"{a}x{b}.json".replace(" ", "_"),
            )
            for a in settings.rows
            for b in settings.columns
        ]
        for model in models
        for folder in [output / "cells" / f"{model['sha256'][:12]}-{key}"]
    }
    todo = {
        item.file: item  # two files may hold the same checkpoint
        for model in models
        for item in sorted(items[id(model)], key=_cost)
        if _finished(item) is None
    }
    for folder in {item.file.parent for item in todo.values()}:
        sweep(folder, "*.json")
    if todo:
        every = {item.file for wanted in items.values() for item in wanted}
        if trainer.is_global_zero and len(todo) < len(every) and not quiet:
            print(f"{len(every) - len(todo)} of {len(every)} cells are done already")
        _run(trainer, list(todo.values()), settings)
    if not trainer.is_global_zero:
        return None
    grid = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "settings": {"split": SPLIT, **asdict(settings), "devices": trainer.world_size},
        "models": [
            {**model, "cells": [_figures(item) for item in items[id(model)]]} for model in models
        ],
    }
    write_object(output / GRID, grid)
    return json.loads(json.dumps(grid))  # as a reader of the file gets it


def _cost(item: Item) -> int:
    """The more, the earlier an item is measured."""
    row, column = item.size
    return -column * (column if isinstance(row, str) else row)


def _finished(item: Item) -> dict[str, Any] | None:
    """A cell's figures; None where they are not measured yet, or their file is damaged."""
    cell = read_object(item.file) or {}
    whole = cell.keys() == {*KEYS, "computed_on"}
    if whole and (cell["row"], cell["column"]) == item.size:
        return cell
    return None


def _figures(item: Item) -> dict[str, Any]:
    cell = _finished(item)
    if cell is None:
        raise ValueError(
            f"the figures of the cell {item.size[0]} x {item.size[1]} are not in {item.file}: all "
            "nodes must see the same --output folder"
        )
    return cell


class _Cells(Work):
    """Measures one item a step of Lightning's predict loop."""

    def __init__(self, items: list[Item | None], settings: Settings) -> None:
        super().__init__()
        self.items, self.settings = items, settings
        self.held: tuple[Path, Solver] | None = None  # the items of a checkpoint come in a row

    def predict_step(self, index: int) -> None:
        """Measure an item, and write its file."""
        item = self.items[index]
        if item is None:
            return
        if self.held is None or self.held[0] != item.checkpoint:
            self.held = None  # makes room first
            solver = load_solver(item.checkpoint, self.settings.steps, device=str(self.device))
            if self.settings.view != "e":
                solver = solver.turned(self.settings.view)
            if self.settings.voting is not None:
                solver = solver.with_voting(self.settings.voting)
            self.held = item.checkpoint, solver
        cell = measure_cell(
            self.held[1],
            self.settings.axes,
            item.size,
            self.settings.problems,
            self.settings.seed,
            self.settings.batch_size,
        )
        _log.debug("%d x %d: solutions %s", *item.size, cell["solutions"])
        write_object(item.file, cell | {"computed_on": _computer(self.device)})


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


def _run(trainer: L.Trainer, todo: list[Item], settings: Settings) -> None:
    """Measure the items."""
    # Lightning wants an item for each process. Each takes every n-th, so that all have large and
    # small cells, the large ones first.
    idle = max(0, trainer.world_size - len(todo))
    module = _Cells([*todo, *[None] * idle], settings)
    indices = range(len(module.items))
    loader: DataLoader[int] = DataLoader(indices, collate_fn=itemgetter(0))  # type: ignore[arg-type]
    run(trainer, module, loader)
