"""Growth of the cost of solving with digits, problems at once, views, and processes.

Two models solve held-out problems, each row built on their own rows: the shipped model, by
wavefront, and docs/models/decimal-seed0, in supervision steps. A slope is that of the logarithms
between a point and the one before: 1 is proportional growth, 2 is quadratic growth. Views are
symmetries and shifts on a canvas of 12 x 12. The model decimal-seed0 solves problems in each view,
and votes at the end.
"""

import argparse
import csv
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import in_turn

from augment.symmetry import SYMMETRIES
from canvas.canvas_size import Canvas
from canvas.problems import Problems
from trm import load_solver
from trm.evaluation.grid_cells import cell_problems
from trm.solving.solver import Solver
from trm.solving.voting_settings import Voting

MODELS = Path(__file__).parents[1] / "docs/models"
STEPWISE = MODELS / "decimal-seed0.safetensors"
SIDE = 12


def drawn(solver: Solver, digits: int, number: int) -> Problems:
    """Return a number of held-out problems, with repetitions if fewer exist."""
    problems = cell_problems(solver.task, (digits, digits), number, 0)
    return problems[np.arange(number) % len(problems)]


def _timed(go: Callable[[], Any], _: int) -> Any:
    return go()


def table(runs: dict[int, Callable[[], Any]], repeats: int) -> None:
    """Print a line a point: median seconds, and the slope since the point before."""
    seconds = in_turn({f"{n}": partial(_timed, go) for n, go in runs.items()}, repeats)
    before: tuple[int, float] | None = None
    print("                          slope")
    for point in runs:
        median, slope = statistics.median(seconds[f"{point}"]), ""
        if before is not None:
            slope = f"{math.log(median / before[1]) / math.log(point / before[0]):8.2f}"
        print(f"{point:>8,} {median:>14.4g} {slope}", flush=True)
        before = point, median


def grown(title: str, points: dict[int, Problems], solver: Solver, repeats: int) -> None:
    """Print a title and the `table` for a model and the problems of each point."""
    print(f"\n{title}")
    table({n: partial(solver.solve, problems) for n, problems in points.items()}, repeats)


def in_processes(number: int, folder: Path) -> None:
    """Solve a file with the command, in a number of processes of one thread each."""
    words = ["-m", "trm", "solve", "--input", "problems.csv", "--output", "answers.jsonl"]
    words += ["--accelerator", "cpu", "--devices", str(number), "--quiet"]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *words], cwd=folder, env=alone, check=True)
    (folder / "answers.jsonl").unlink()


def main() -> None:
    """Measure all kinds of growth in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs="+", default=[4, 8, 16, 32, 64, 100])
    parser.add_argument("--in-steps", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16, 64, 256, 1024])
    parser.add_argument("--views", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--problems", type=int, default=20000, help="of the file for processes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        f"PyTorch {torch.__version__}, {options.threads} thread(s), "
        f"median of {options.repeats} interleaved rounds"
    )
    models = {
        "the shipped model, in order": (load_solver(device="cpu"), options.digits),
        "decimal-seed0, in steps": (load_solver(STEPWISE, device="cpu"), options.in_steps),
    }
    for name, (solver, digits) in models.items():
        points = {n: drawn(solver, n, 1) for n in digits}
        grown(f"digits of both, {name}: seconds a problem", points, solver, options.repeats)
    for name, (solver, _) in models.items():
        points = {n: drawn(solver, 4, n) for n in options.batches}
        grown(f"4 x 4 problems at once, {name}: seconds", points, solver, options.repeats)
    placed = replace(models["decimal-seed0, in steps"][0], canvas=Canvas(SIDE, SIDE))
    problems = drawn(placed, 4, 16)
    print(f"\nviews of 16 problems of 4 x 4 on {SIDE} x {SIDE}, decimal-seed0: seconds")
    voting = {n: Voting(n, symmetries=tuple(SYMMETRIES), per="solution") for n in options.views}
    voters = {n: placed.with_voting(v) if n > 1 else placed for n, v in voting.items()}
    table(
        {n: partial(solver.solve, problems) for n, solver in voters.items()},
        options.repeats,
    )
    print(f"\nprocesses, `trm solve` with a file of {options.problems:,} problems: seconds")
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "problems.csv").open("w", newline="", encoding="utf-8") as file:
            pairs = drawn(models["the shipped model, in order"][0], 4, options.problems).to_ints()
            csv.writer(file).writerows([("a", "b"), *pairs])
        table(
            {n: partial(in_processes, n, Path(folder)) for n in options.processes},
            options.repeats,
        )


if __name__ == "__main__":
    main()
