"""Measurement of the grid: accuracy of each model at sizes up to and beyond those of training.

A cell is a size: the lengths of two operands, or digits and number of addends. Its problems belong
to the test split, are different from each other, and are the same for every model. One device
measures a whole cell, so the number of devices changes no figure. Each finished cell is a file,

    DIR/cells/<checkpoint>-<settings>/<row>x<column>.json

<checkpoint> is a hash of the checkpoint's file. <settings> is a hash of everything else that
affects the figures, times included. A killed run therefore continues where it stopped, and cells
are never reused for another checkpoint, other settings or another kind of device.
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

from canvas.drawing import WorkedDrawing
from canvas.problems import Problems
from trm.checkpoints import find_checkpoint
from trm.checkpoints.loading import load_solver
from trm.devices import join_processes, make_files, open_devices
from trm.evaluation.diagnosis import KINDS, WrongRow, first_wrong_rows, tally
from trm.evaluation.grid import FILES, FORMAT, GRID, KEYS, Grid, new_grid
from trm.evaluation.models import check_models, describe_all
from trm.files import make_own_folder, read_object, versions, write_json
from trm.flops import counted_flops
from trm.grid_cells import SPLIT, fitted, region, size_name
from trm.precision import FLOAT32
from trm.progress import Meter
from trm.solving.rollout import teacher_forced
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.voting import Voting
from trm.statistics import Share


@dataclass(frozen=True)
class Settings:
    """Settings of an evaluation, the same for every model."""

    axes: tuple[str, str]  # measures of sizes along rows and columns
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    problems: int = 128  # per cell, or as many as exist
    seed: int = 0  # selects the problems
    steps: int | None = None  # most supervision steps a row; None: the checkpoint's own
    batch_size: int = 128
    voting: Voting | None = None  # in free-running solving; None: one view
    precision: str = FLOAT32  # resolved, see `trm.precision`
    start: str = "initial"  # "noise": every canvas starts from a random state

    def key(self, device: str) -> str:
        """Hash all that affects figures on cpu, cuda or mps, except checkpoint and size."""
        deciding = {"format": FORMAT, "split": SPLIT, "versions": versions(), "device": device}
        deciding |= asdict(self) | {"kinds": list(KINDS)}
        del deciding["rows"], deciding["columns"]
        if self.start == "initial":  # as in files before this setting
            del deciding["start"]
        if self.voting and self.voting.given is None:
            del deciding["voting"]["given"]
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
    """Measure all cells that are not measured yet, and collect all cells in ``grid.json``.

    The folder is the same for all nodes. Devices have the form of `trm.devices.open_devices`.
    Returns the written grid in the first process, None in the others.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the checkpoints, folder or devices are unsuitable, or the folder holds another
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
    loaded = dict[Path, Solver]()  # the current checkpoint's solver; its items are consecutive
    meter = Meter("cells")

    def measured(item: tuple[Path, tuple[int, int]]) -> dict[str, Any]:
        checkpoint, size = item
        if checkpoint not in loaded:
            loaded.clear()  # frees memory first
            options: Any = {"device": str(fabric.device), "voting": settings.voting}
            solver = load_solver(checkpoint, settings.steps, **options).reporting(meter)
            loaded[checkpoint] = solver.from_noise() if settings.start == "noise" else solver
        arguments = (settings.problems, settings.seed, settings.batch_size)
        return measure_cell(loaded[checkpoint], settings.axes, size, *arguments, meter)

    def is_measured(file: Path) -> bool:
        cell = read_object(file) or {}
        return cell.keys() == {*KEYS} and (cell["row"], cell["column"]) == items[file][1]

    make_files(fabric, items, measured, is_measured, meter, quiet)
    if not fabric.is_global_zero:
        return None
    for model in models:
        model["cells"] = [read_object(file_of(model, size)) for size in sizes]
    entry = {"split": SPLIT, **asdict(settings), "devices": fabric.world_size}
    entry["device"] = fabric.device.type
    grid = new_grid(entry, models)
    write_json(output / GRID, grid)
    return Grid(json.loads(json.dumps(grid)))  # equal to the grid read from the file


def measure_cell(
    solver: Solver,
    axes: tuple[str, str],
    size: tuple[int, int],
    problems: int = 128,
    seed: int = 0,
    batch_size: int = 128,
    meter: Meter | None = None,
) -> dict[str, Any]:
    """Measure one cell of one model; see `Settings` for the arguments.

    The batches of problems are parts of the meter, to which the solver may report.
    Returns a `trm.evaluation.grid.CellData`.

    Raises:
        ValueError: the device has too little memory for the batch.
    """
    on_canvas, drawn, reason = fitted(solver, axes, size, problems, seed)
    cell = dict.fromkeys(KEYS) | {
        "row": size[0],
        "column": size[1],
        "region": region(solver.task.ranges, axes, size),
        "applicable": on_canvas is not None,
        "problems": len(drawn),
        "reason": reason,
    }
    if on_canvas is None or reason is not None:
        return cell
    try:
        return cell | _figures(on_canvas, drawn, batch_size, meter or Meter("problems"))
    except torch.OutOfMemoryError:
        raise ValueError(
            f"{size_name(axes, size)}: the device has too little memory for "
            f"{min(batch_size, len(drawn))} problems at once. Use a smaller --batch-size"
        ) from None


def _figures(solver: Solver, problems: Problems, batch_size: int, meter: Meter) -> dict[str, Any]:
    solutions: list[Solution] = []
    wrong_rows: list[WrongRow] = []
    forced_rows, seconds = Share(0, 0), 0.0
    solver.predictor.clear_cache()
    with counted_flops() as counter, meter.part(0, 0, 1):
        solver.solve(problems[:1])  # also warms up the device for the timed runs
    # The share of free-running work: rows on true ones take at most as long as one view.
    solving = 1 - 1 / (1 + (solver.voting.samples if solver.voting else 1))
    for start in range(0, len(problems), batch_size):
        batch = problems[start : start + batch_size]
        between, end = start + solving * len(batch), start + len(batch)
        drawing = solver.draw_worked(batch)
        began, written = time.perf_counter(), None
        with meter.part(start, between, len(problems)):
            if solver.voting is None:
                written = solver.predictor.free_running(drawing)
                found = solver.solutions(batch, drawing, written)
            else:
                found = solver.solve_drawing(batch, drawing)
        solutions += found
        seconds += time.perf_counter() - began
        wrong_rows += _wrong_rows(solver, drawing, found)
        known = written if solver.predictor.row_by_row else None
        with meter.part(between, end, len(problems)):
            forced = teacher_forced(solver.predictor, drawing, known, meter)
        forced_rows += Share(int(forced.rows_exact.sum()), len(forced.rows_exact))
    height, width = solutions[0].canvas.shape
    solved, answered = [bool(s.exact) for s in solutions], [s.correct for s in solutions]
    chains = [s.longest_chain for s in solutions if s.longest_chain is not None]
    steps = [s.steps for s in solutions] if chains else [n for s in solutions for n in s.row_steps]
    rows = Share(sum(int(s.rows_right) for s in solutions), sum(len(s.rows) for s in solutions))
    return {
        "height": height,
        "width": width,
        "solutions": Share(sum(solved), len(solved)).data(),
        "answers": Share(sum(answered), len(answered)).data(),
        "rows_free_running": rows.data(),
        "rows_teacher_forced": forced_rows.data(),
        "steps": float(np.mean(steps)) or None,
        "longest_chain": float(np.mean(chains)) if chains else None,
        "views": _views(solver.voting, solutions),
        "confidence": float(np.mean([s.confidence for s in solutions])),
        "seconds_per_problem": seconds / len(solutions),
        "solved": "".join("01"[one] for one in solved),
        "answered": "".join("01"[one] for one in answered),
        "flops_per_problem": counter.get_total_flops(),
        "errors": tally(solver.task, wrong_rows),
    }


def _wrong_rows(
    solver: Solver, drawing: WorkedDrawing, solutions: list[Solution]
) -> list[WrongRow]:
    """Return the first wrong row of each incorrect solution of the problems of a drawing."""
    swapped, rows = [], []
    canvases = drawing.truth.copy()
    for i, solution in enumerate(solutions):
        if solution.truth is not None and np.array_equal(solution.truth, drawing.truth[i]):
            canvases[i] = solution.canvas
        elif not solution.exact:  # a vote has chosen the solution with the operands swapped
            swapped.append(solution)
    for one in swapped:
        problem = Problems.from_ints([one.operands[::-1]], solver.task.base)
        rows += first_wrong_rows(solver.task, solver.draw_worked(problem), one.canvas[None])
    return first_wrong_rows(solver.task, drawing, canvases) + rows


def _views(voting: Voting | None, solutions: list[Solution]) -> float | None:
    """Return the mean views of a problem in one order of its operands; None without a vote."""
    return float(np.mean([s.views for s in solutions])) / voting.orders if voting else None
