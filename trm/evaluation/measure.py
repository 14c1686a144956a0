"""Measurement of the grid: accuracy of each model at sizes up to and beyond those of training.

A cell is a size: the lengths of two operands, or digits and number of addends. Its problems belong
to the test split, are different from each other, and are the same for every model. A cell is
measured in parts of some problems each, which all devices share, so that none waits for a slow
cell. Parts do not depend on the number of devices, so that it changes no figure. Each finished part
is a file,

    DIR/cells/<checkpoint>-<settings>/<row>x<column>-<first problem>.json

without a number if it is the whole cell: the figures of its problems, and a record of each.

<checkpoint> is a hash of the checkpoint's file. <settings> is a hash of everything else that
affects the figures, times included. A killed run therefore continues where it stopped, and cells
are never reused for another checkpoint, other settings or another kind of device.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canvas.problems import Problems
from trm.checkpoints import find_checkpoint
from trm.evaluation.diagnosis import KINDS, WrongRow, tally, wrong_rows_of
from trm.evaluation.grid import Grid, empty_cell, errors, new_grid, pooled
from trm.evaluation.grid_cells import SPLIT, fitted, region_of, size_name
from trm.evaluation.grid_format import FILES, FORMAT, GRID, KEYS, MEANS, RECORDS, SHARES
from trm.evaluation.models import check_models, describe_all, load_described
from trm.evaluation.statistics import Share
from trm.io.csv_records import write_csv
from trm.io.files import alone, make_own_folder, read_object, versions, write_json, writing
from trm.runtime import progress
from trm.runtime.devices import OneProcess, join_processes, make_files, open_devices
from trm.runtime.flops import counted_flops
from trm.runtime.limits import lacks_memory
from trm.runtime.precision import FLOAT32
from trm.solving.orientation import relative
from trm.solving.predictor import Sampling
from trm.solving.solution import Solution, unset_columns
from trm.solving.solver import Solver
from trm.solving.teacher_forced import teacher_forced
from trm.solving.voting import Voting

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_RECORDS = "records"  # key of a part's records
_MOST_CELLS = 2**19  # of the canvases of a batch, some kilobytes each; larger batches are split


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation, the same for every model."""

    axes: tuple[str, str]  # measures of sizes along rows and columns
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    problems: int = 128  # per cell, or as many as exist
    seed: int = 0  # selects the problems
    steps: int | None = None  # most supervision steps a row; None: the checkpoint's own
    batch_size: int = 128
    voting: Voting | None = None  # in free-running solving; None: one view
    precision: str = FLOAT32  # resolved, see `trm.runtime.precision`
    start: str = "initial"  # "noise": every canvas starts from a random state
    sampling: Sampling | None = None  # of a GPT; None: the likeliest symbols

    @property
    def parts(self) -> list[range]:
        """Problems of each part of a cell: as many together as fit a batch with all views."""
        size = max(8, self.batch_size // (self.voting.solutions if self.voting else 1))
        every = range(self.problems)
        return [every[first : first + size] for first in every[::size]]

    def key(self, device: str) -> str:
        """Hash all that affects figures on cpu, cuda or mps, except checkpoint and size."""
        deciding: dict[str, Any] = {
            "format": FORMAT,
            "split": SPLIT,
            "versions": versions(),
            "device": device,
        }
        deciding |= asdict(self) | {"kinds": list(KINDS)}
        del deciding["rows"], deciding["columns"]
        if self.start == "initial":  # as in files before this setting
            del deciding["start"]
        if self.sampling is None:
            del deciding["sampling"]
        if self.voting and (orientation := deciding["voting"].pop("orientation")):
            deciding["voting"]["given"] = orientation  # its name in earlier files
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:12]


def measure(
    checkpoints: Sequence[str | Path],
    settings: EvaluationSettings,
    output: str | Path,
    accelerator: str = "auto",
    devices: int | list[int] = 1,
    nodes: int = 1,
    quiet: bool = False,
) -> Grid | None:
    """Measure all cells that are not measured yet, and collect all cells in ``grid.json``.

    The folder is the same for all nodes. Devices are as for `trm.runtime.devices.open_devices`.
    Returns the written grid in the first process, None in the others.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the checkpoints, folder or devices are unsuitable; the folder holds another
            model's evaluation, or another process is at work in it; or a checkpoint was replaced
            meanwhile.
    """
    output = Path(output)
    fabric = open_devices(accelerator, devices, nodes, settings.precision)
    measured_before = any(output.glob("cells/*-*/*x*.json"))  # then its other files are ours, too
    make_own_folder(output, "trm evaluate", () if measured_before else FILES)
    models = describe_all(checkpoints, settings.steps)
    check_models(output / GRID, models)
    join_processes(fabric)
    # The other processes wait for the first.
    with alone(output / GRID) if fabric.is_global_zero else nullcontext():
        check_models(output / GRID, models)  # again: another process may have been at work
        return _measure(models, settings, output, fabric, quiet)


def _measure(
    models: list[dict[str, Any]],
    settings: EvaluationSettings,
    output: Path,
    fabric: "Fabric | OneProcess",
    quiet: bool,
) -> Grid | None:
    """Measure the cells of described models in joined processes, see `measure`."""
    key = settings.key(fabric.device.type)
    sizes = list(product(settings.rows, settings.columns))
    parts = settings.parts

    def file_of(model: dict[str, Any], size: tuple[int, int], part: range) -> Path:
        name = "{}x{}".format(*size) + (f"-{part.start}" if len(parts) > 1 else "")
        return output / f"cells/{model['sha256'][:12]}-{key}" / f"{name}.json"

    # The large cells first; two checkpoints may be the same one.
    items = {
        file_of(model, size, part): (
            find_checkpoint(model["checkpoint"]),
            model["sha256"],
            size,
            part,
        )
        for model, size, part in product(models, sorted(sizes, key=lambda n: -prod(n)), parts)
    }
    loaded = dict[Path, Solver]()  # the current checkpoint's solver; its items are consecutive

    def measured(item: tuple[Path, str, tuple[int, int], range]) -> dict[str, Any]:
        checkpoint, sha256, size, part = item
        cold = checkpoint not in loaded
        if cold:
            loaded.clear()  # frees memory first
            options: Any = {"device": str(fabric.device), "voting": settings.voting}
            solver = load_described(checkpoint, sha256, settings.steps, **options)
            solver = solver.from_noise() if settings.start == "noise" else solver
            loaded[checkpoint] = solver.sampled(settings.sampling)
        return measure_part(loaded[checkpoint], settings, size, part, cold)

    def is_measured(file: Path) -> bool:
        cell = read_object(file) or {}
        known = cell.keys() == {*KEYS, _RECORDS}
        return known and (cell["row"], cell["column"]) == items[file][2]

    what = "cells" if len(parts) == 1 else "parts of cells"
    make_files(fabric, items, measured, is_measured, what, quiet)
    if not fabric.is_global_zero:
        return None
    for model in models:
        found = [[read_object(file_of(model, size, p)) or {} for p in parts] for size in sizes]
        model["cells"] = [*map(joined, found)]

    def records() -> Iterator[dict[str, Any]]:
        for model, size, part in product(models, sizes, parts):
            about = {"model": model["name"], **dict(zip(settings.axes, size, strict=True))}
            for record in (read_object(file_of(model, size, part)) or {})[_RECORDS]:
                yield about | record

    lines, table = (output / name for name in RECORDS)
    with writing(lines) as sink:
        for record in records():
            sink.write(json.dumps(record) + "\n")
    with writing(table) as sink:
        write_csv(sink, records)
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
) -> dict[str, Any]:
    """Measure one cell of one model; see `EvaluationSettings` for the arguments.

    Returns a `trm.evaluation.grid_format.CellData`.

    Raises:
        ValueError: the device has too little memory for the batch.
    """
    row, column = size
    settings = EvaluationSettings(axes, (row,), (column,), problems, seed, batch_size=batch_size)
    return joined([measure_part(solver, settings, size, range(problems))])


def measure_part(
    solver: Solver,
    settings: EvaluationSettings,
    size: tuple[int, int],
    part: range,
    cold: bool = True,
) -> dict[str, Any]:
    """Measure some problems of a cell, with one model.

    Args:
        solver: of the model.
        settings: of the evaluation.
        size: of the cell.
        part: the problems, one of `EvaluationSettings.parts`. FLOPs are counted in the first part.
        cold: whether the model has not run in this process yet; it then solves one problem more.

    Returns:
        A `trm.evaluation.grid_format.CellData`, and the records of the problems.

    Raises:
        ValueError: the device has too little memory for the batch.
    """
    axes = settings.axes
    on_canvas, problems, reason = fitted(solver, axes, size, settings.problems, settings.seed)
    problems, first = problems[part.start : part.stop], part.start == 0
    cell = empty_cell(size, region_of(solver, axes, size)) | {
        "applicable": on_canvas is not None,
        "problems": len(problems),
        "reason": reason,
        _RECORDS: [],
    }
    if on_canvas is None or reason is not None or not len(problems):
        return cell
    try:
        found = _solved(on_canvas, problems, settings.batch_size, warm=first or cold)
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise ValueError(
            f"{size_name(axes, size, solver.task.unit)}: there is too little memory for "
            f"{min(settings.batch_size, len(problems))} problems at once. Use a smaller "
            "--batch-size, or smaller sizes"
        ) from None
    if not first:
        found["flops_per_problem"] = None
    return cell | found


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a whole cell, a `trm.evaluation.grid_format.CellData`, from its parts in order."""
    first = {name: parts[0][name] for name in KEYS}
    first["problems"] = sum(part["problems"] for part in parts)
    known = [part for part in parts if part["height"] is not None]
    if not known:
        return first
    shares = [name for name in (*SHARES, "readable") if first[name]]
    cell = first | {name: pooled(known, name).data() for name in shares}
    for name in MEANS:
        if name == "flops_per_problem":
            continue
        # Steps of a row are counted by rows, all others by problems.
        by_row = name == "steps" and first["longest_chain"] is None
        weights = [p["rows_free_running"]["total"] if by_row else p["problems"] for p in known]
        values = [part[name] or 0.0 for part in known]
        if first[name] is not None:
            cell[name] = float(np.average(values, weights=weights))
    for name in ("solved", "answered"):
        cell[name] = "".join(part[name] for part in known)
    cell["confidences"] = [p for part in known for p in part["confidences"]]
    if first["read_as"] is not None:
        counts = sum((Counter(part["read_as"]) for part in known), Counter[str]())
        cell["read_as"] = dict(counts)
    cell["errors"] = {
        kind: share.data() | {"chance": chance if share.total else None}
        for kind, (share, chance) in errors(known).items()
    }
    return cell


def _solved(solver: Solver, problems: Problems, batch_size: int, warm: bool) -> dict[str, Any]:
    solutions: list[Solution] = []
    wrong_rows: list[WrongRow] = []
    forced_rows, seconds = Share(0, 0), 0.0
    solver = replace(solver, predictor=solver.predictor.with_options())  # without cached results
    with counted_flops() as counter, progress.part(0, 0, 1):
        if warm:
            solver.solve(problems[:1])  # also warms up the device for the timed runs
    cells = solver.draw_worked(problems[:1]).truth.size
    batch_size = min(batch_size, max(1, _MOST_CELLS // cells))
    # The share of free-running work: rows on true ones take at most as long as one view.
    solving = 1 - 1 / (1 + (solver.voting.solutions if solver.voting else 1))
    for start in range(0, len(problems), batch_size):
        batch = problems[start : start + batch_size]
        between, end = start + solving * len(batch), start + len(batch)
        drawing = solver.draw_worked(batch)
        began, written = time.perf_counter(), None
        with progress.part(start, between, len(problems)):
            if solver.voting is None:
                written = solver.predictor.free_running(drawing)
                found = solver.solutions(batch, drawing, written)
            else:
                found = solver.solve_drawing(batch, drawing)
        solutions += found
        seconds += time.perf_counter() - began
        wrong_rows += wrong_rows_of(solver, drawing, found)
        with progress.part(between, end, len(problems)):
            forced = teacher_forced(solver.predictor, drawing, written)
        forced_rows += Share(int(forced.rows_exact.sum()), len(forced.rows_exact))
    height, width = solutions[0].canvas.shape
    solved, answered = [bool(s.exact) for s in solutions], [s.correct for s in solutions]
    chains = [s.longest_chain for s in solutions if s.longest_chain is not None]
    units = len(solutions) if chains else sum(len(s.rows) for s in solutions)
    guessed = solver.orientation_unknown
    # The confidence in a guess of an orientation is known before its answer is read.
    whole = [float(np.prod(s.row_confidence)) if guessed else s.confidence for s in solutions]
    left_out = {"line", "canvas", "error"} | unset_columns(solver.voting)
    rows = Share(sum(int(s.correct_rows) for s in solutions), sum(len(s.rows) for s in solutions))
    return {
        "height": height,
        "width": width,
        "solutions": Share(sum(solved), len(solved)).data(),
        "answers": Share(sum(answered), len(answered)).data(),
        "rows_free_running": rows.data(),
        "rows_teacher_forced": forced_rows.data(),
        "steps": sum(s.steps for s in solutions) / units or None,
        "longest_chain": float(np.mean(chains)) if chains else None,
        "views": _views(solver.voting, solutions),
        "agreement": float(np.mean([s.agreement for s in solutions])) if solver.voting else None,
        "confidence": float(np.mean([s.confidence for s in solutions])),
        "confidences": [round(p, 6) for p in whole],
        "readable": Share(
            sum(bool(s.readable and s.readable.exact) for s in solutions), len(solutions)
        ).data()
        if guessed
        else None,
        "read_as": dict(Counter(relative(s, s.guess) for s in solutions if s.guess))
        if guessed
        else None,
        "seconds_per_problem": seconds / len(solutions),
        "solved": "".join("01"[one] for one in solved),
        "answered": "".join("01"[one] for one in answered),
        "flops_per_problem": counter.get_total_flops(),
        "errors": tally(solver.task, wrong_rows),
        _RECORDS: [
            {name: value for name, value in s.record(canvas=False).items() if name not in left_out}
            for s in solutions
        ],
    }


def _views(voting: Voting | None, solutions: list[Solution]) -> float | None:
    """Return the mean views, or guesses, of one order of a problem; None without a vote."""
    if voting is None:
        return None
    orders = voting.orders if voting.orientation is None else 1  # the second needs no guess
    return float(np.mean([s.views for s in solutions])) / orders


Settings = EvaluationSettings  # its released name
