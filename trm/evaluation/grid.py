"""The grid: how far each model gets beyond the sizes of problems that it was trained on.

A cell is a size: the lengths of two operands, or digits and number of addends; in a battery it is a
family of structured problems and their digits. Its problems belong to the test split, are different
from each other, and are the same for every model. A cell is measured whole, on one device, so that
the number of devices changes no figure.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from canvas.problems import Problems
from trm.evaluation.cell_problems import SPLIT, problems_of
from trm.evaluation.diagnostics import Diagnostics, diagnose
from trm.evaluation.grid_schema import KEYS, Key, region, size_name
from trm.evaluation.statistics import Share
from trm.flops import counted_flops
from trm.solving.rollout import teacher_forced
from trm.solving.solution import Solution
from trm.solving.solver import Solver


def measure_cell(
    solver: Solver,
    axes: tuple[str, str],
    size: Key,
    problems: int = 128,
    seed: int = 0,
    batch_size: int = 128,
) -> dict[str, Any]:
    """One cell of one model, as in ``grid.json``, see `trm.evaluation.grid_schema`.

    Args:
        solver: the model; its task says what is within the training range.
        axes: what sizes are measured in, see `trm.evaluation.cell_problems.problems_of`.
        size: of the cell's problems.
        problems: how many are asked, or all that there are.
        seed: which problems.
        batch_size: problems solved at once.

    Raises:
        ValueError: the device has too little memory for the batch.
    """
    task = solver.task
    lengths, asked = problems_of(task, axes, size, problems, seed)
    fitted, refused = None, ""
    try:
        fitted = solver.for_lengths(lengths)
    except ValueError as error:  # the layout has no room for as many operands
        refused = str(error)
    name = size_name(axes, size)
    cell = dict.fromkeys(KEYS) | {
        "row": size[0],
        "column": size[1],
        "region": region(task.ranges, axes, size),
        "applicable": fitted is not None,
        "problems": len(asked),
    }
    if refused:
        cell["reason"] = refused
        return cell
    if fitted is None:
        height, width = task.rules.room(lengths, task.base)
        cell["reason"] = (
            f"the model cannot work on a canvas of {height} x {width} cells or more "
            f"(height x width), which {name} need"
        )
        return cell
    if not len(asked):
        cell["reason"] = f"no problem of {name} in base {task.base} belongs to the {SPLIT} split"
        return cell
    try:
        return cell | _figures(fitted, asked, batch_size)
    except torch.OutOfMemoryError:
        raise ValueError(
            f"{name}: the device has too little memory for "
            f"{min(batch_size, len(asked))} problems at once. Take a smaller --batch-size"
        ) from None


def _figures(solver: Solver, problems: Problems, batch_size: int) -> dict[str, Any]:
    solutions: list[Solution] = []
    rows = np.zeros(2, dtype=np.int64)  # free-running ones: right, all
    right = total = 0  # teacher-forced rows
    diagnostics = Diagnostics()
    seconds = 0.0
    with counted_flops() as counter:
        solver.solve(problems[:1])  # which also warms the device up for what is timed
    solver = replace(solver, predictor=solver.predictor.with_cache())
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
        right, total = right + int(forced.rows_exact.sum()), total + len(forced.rows_exact)
        diagnostics += diagnose(solver.task, batch, drawing, forced)
        for solution in solutions[start:]:
            rows += solution.rows_right, len(solution.rows)
    height, width = solutions[0].canvas.shape
    return {
        "height": height,
        "width": width,
        "solutions": Share(sum(bool(s.exact) for s in solutions), len(solutions)).data(),
        "answers": Share(sum(s.correct for s in solutions), len(solutions)).data(),
        "rows_free_running": Share(*rows.tolist()).data(),
        "rows_teacher_forced": Share(right, total).data(),
        "steps": float(np.mean([n for s in solutions for n in s.row_steps])) or None,
        "confidence": float(np.mean([s.confidence for s in solutions])),
        "seconds_per_problem": seconds / len(solutions),
        "diagnostics": diagnostics.to_json(),
        "solved": "".join("01"[bool(s.exact)] for s in solutions),
        "answered": "".join("01"[s.correct] for s in solutions),
        "flops_per_problem": counter.get_total_flops(),
    }
