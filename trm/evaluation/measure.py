"""How far each model gets beyond the sizes of problems that it was trained on: the grid, measured.

A cell is a size: the lengths of two operands, or digits and number of addends. Its problems belong
to the test split, are different from each other, and are the same for every model. A cell is
measured whole, on one device, so that the number of devices changes no figure. Each finished cell
is a file of its own,

    DIR/cells/<checkpoint>-<settings>/<row>x<column>.json

named by a hash of the checkpoint's file and one of everything else that decides the figures, the
clock's among them: a run that was killed goes on where it ended, and no other checkpoint, settings
or kind of device can take its cells.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from canvas.problems import Problems
from trm.checkpoints import find_checkpoint
from trm.checkpoints.loading import load_solver
from trm.devices import join_processes, make_files, open_devices
from trm.evaluation.grid import FILES, FORMAT, GRID, KEYS, Grid, new_grid
from trm.evaluation.models import check_models, describe_all
from trm.files import make_own_folder, read_object, versions, write_json
from trm.flops import counted_flops
from trm.grid_cells import SPLIT, fitted, region, size_name
from trm.precision import FLOAT32
from trm.solving.rollout import teacher_forced
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.voting import Voting
from trm.statistics import Share


@dataclass(frozen=True)
class Settings:
    """What is asked, of every model alike."""

    axes: tuple[str, str]  # what sizes are measured in, along rows and columns
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    problems: int = 128  # of a cell, or as many as there are
    seed: int = 0  # which problems
    steps: int | None = None  # supervision steps a row at most; None: as each checkpoint says
    batch_size: int = 128
    voting: Voting | None = None  # of free-running solving; None: one view
    precision: str = FLOAT32  # settled, see `trm.precision`

    def key(self, device: str) -> str:
        """A hash of what decides figures on cpu, cuda or mps, beside checkpoint and size."""
        deciding = {"format": FORMAT, "split": SPLIT, "versions": versions(), "device": device}
        deciding |= asdict(self)
        del deciding["rows"], deciding["columns"]
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:12]


def measure(
    checkpoints: Sequence[str | Path],
    settings: Settings,
    output: str | Path,
    accelerator: str = "auto",
    devices: int | list[int] = 1,
    nodes: int = 1,
    quiet: bool = False,
) -> Grid | None:
    """Measure all cells that are not measured yet, and gather all of them in ``grid.json``.

    The folder is the same for all nodes; devices are as `trm.devices.open_devices` takes them.
    Returns what was written, None in all processes but the first. FileNotFoundError: there is no
    such checkpoint. ValueError: the checkpoints, folder or devices do not suit, or it holds another
    model's evaluation.
    """
    output = Path(output)
    fabric = open_devices(accelerator, devices, nodes, settings.precision)
    measured_before = any(output.glob("cells/*-*/*x*.json"))  # then its other files are ours, too
    make_own_folder(output, "trm evaluate", () if measured_before else FILES)
    models = describe_all(checkpoints, settings.steps)
    check_models(output / GRID, models)
    join_processes(fabric)
    key = settings.key(fabric.device.type)
    sizes = list(product(settings.rows, settings.columns))

    def file_of(model: dict[str, Any], size: tuple[int, int]) -> Path:
        return output / f"cells/{model['sha256'][:12]}-{key}" / "{}x{}.json".format(*size)

    # The large cells first; two checkpoints may be the same one.
    items = {
        file_of(model, size): (find_checkpoint(model["checkpoint"]), size)
        for model, size in product(models, sorted(sizes, key=lambda size: -prod(size)))
    }
    held = dict[Path, Solver]()  # by checkpoint the one that is asked, as its items come in a row

    def measured(item: tuple[Path, tuple[int, int]]) -> dict[str, Any]:
        checkpoint, size = item
        if checkpoint not in held:
            held.clear()  # makes room first
            how: Any = {"device": str(fabric.device), "voting": settings.voting}
            held[checkpoint] = load_solver(checkpoint, settings.steps, **how)
        asked = (settings.problems, settings.seed, settings.batch_size)
        return measure_cell(held[checkpoint], settings.axes, size, *asked)

    def is_measured(file: Path) -> bool:
        cell = read_object(file) or {}
        return cell.keys() == {*KEYS} and (cell["row"], cell["column"]) == items[file][1]

    make_files(fabric, items, measured, is_measured, None if quiet else "cells")
    if not fabric.is_global_zero:
        return None
    for model in models:
        model["cells"] = [read_object(file_of(model, size)) for size in sizes]
    asked = {"split": SPLIT, **asdict(settings), "devices": fabric.world_size}
    asked["device"] = fabric.device.type
    grid = new_grid(asked, models)
    write_json(output / GRID, grid)
    return Grid(json.loads(json.dumps(grid)))  # as a reader of the file gets it


def measure_cell(
    solver: Solver,
    axes: tuple[str, str],
    size: tuple[int, int],
    problems: int = 128,
    seed: int = 0,
    batch_size: int = 128,
) -> dict[str, Any]:
    """One cell of one model, a `trm.evaluation.grid.CellData`; see `Settings` for the arguments.

    ValueError: the device has too little memory for the batch.
    """
    on_canvas, asked, reason = fitted(solver, axes, size, problems, seed)
    cell = dict.fromkeys(KEYS) | {
        "row": size[0],
        "column": size[1],
        "region": region(solver.task.ranges, axes, size),
        "applicable": on_canvas is not None,
        "problems": len(asked),
        "reason": reason,
    }
    if on_canvas is None or reason is not None:
        return cell
    try:
        return cell | _figures(on_canvas, asked, batch_size)
    except torch.OutOfMemoryError:
        raise ValueError(
            f"{size_name(axes, size)}: the device has too little memory for "
            f"{min(batch_size, len(asked))} problems at once. Take a smaller --batch-size"
        ) from None


def _figures(solver: Solver, problems: Problems, batch_size: int) -> dict[str, Any]:
    solutions: list[Solution] = []
    forced_rows, seconds = Share(0, 0), 0.0
    solver.predictor.clear_cache()
    with counted_flops() as counter:
        solver.solve(problems[:1])  # which also warms the device up for what is timed
    for start in range(0, len(problems), batch_size):
        batch = problems[start : start + batch_size]
        drawing = solver.draw_worked(batch)
        began, written = time.perf_counter(), None
        if solver.voting is None:
            written = solver.predictor.free_running(drawing)
            solutions += solver.solutions(batch, drawing, written)
        else:
            solutions += solver.solve_drawing(batch, drawing)
        seconds += time.perf_counter() - began
        known = written if solver.predictor.row_by_row else None
        forced = teacher_forced(solver.predictor, drawing, known)
        forced_rows += Share(int(forced.rows_exact.sum()), len(forced.rows_exact))
    height, width = solutions[0].canvas.shape
    solved, answered = [bool(s.exact) for s in solutions], [s.correct for s in solutions]
    rows = Share(sum(int(s.rows_right) for s in solutions), sum(len(s.rows) for s in solutions))
    return {
        "height": height,
        "width": width,
        "solutions": Share(sum(solved), len(solved)).data(),
        "answers": Share(sum(answered), len(answered)).data(),
        "rows_free_running": rows.data(),
        "rows_teacher_forced": forced_rows.data(),
        "steps": float(np.mean([n for s in solutions for n in s.row_steps])) or None,
        "views": _views(solver.voting, solutions),
        "confidence": float(np.mean([s.confidence for s in solutions])),
        "seconds_per_problem": seconds / len(solutions),
        "solved": "".join("01"[one] for one in solved),
        "answered": "".join("01"[one] for one in answered),
        "flops_per_problem": counter.get_total_flops(),
    }


def _views(voting: Voting | None, solutions: list[Solution]) -> float | None:
    """Mean number of views of a problem in one order of its operands; None without a vote."""
    return float(np.mean([s.views for s in solutions])) / voting.orders if voting else None
