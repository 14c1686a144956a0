"""Rows per second of free-running solving.

By default with an untrained model of the shape of trm/quick, whose number of supervision steps is
known: every row takes all that configs/trm/quick.yaml allows. With `--checkpoint`, with trained
models in turn, on the same held-out problems.
"""

import argparse
import statistics
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
import yaml

from canvas.multiplication import Multiplication
from canvas.render import Drawing, draw
from canvas.sampling import sample
from trm.checkpoints.loading import load_solver
from trm.evaluation.cell_problems import cell_problems
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor

CONFIG = Path(__file__).parents[1] / "configs/trm/quick.yaml"


def timed(predictor: IterativePredictor, drawing: Drawing, bf16: bool) -> float:
    """Seconds to fill every row of every canvas."""
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
        predictor.free_running(drawing)
    return time.perf_counter() - start


def trained(options: argparse.Namespace) -> None:
    """Time trained models in turn, in both precisions."""
    solvers = {name: load_solver(name) for name in options.checkpoint}
    cases = [(name, bf16) for name in solvers for bf16 in (False, True)]
    task = next(iter(solvers.values())).task
    print(f"{'batch':>6}  {'rows/s':>9}  {'fewest':>9}  {'most':>9}  {'right':>11}        model")
    for batch in options.batches:
        problems = cell_problems(task, tuple(options.digits), batch, 0)
        problems = problems[[i % len(problems) for i in range(batch)]]
        rates: dict[tuple[str, bool], list[float]] = {case: [] for case in cases}
        right = {}
        for repeat in range(options.repeats + 1):
            for name, bf16 in cases:
                start = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                    solutions = solvers[name].solve(problems)
                took = time.perf_counter() - start
                right[name, bf16] = sum(solution.correct for solution in solutions)
                if repeat:  # the first round also allocates
                    rows = sum(len(solution.row_confidence) for solution in solutions)
                    rates[name, bf16].append(rows / took)
        for (name, bf16), found in rates.items():
            middle, low, high = statistics.median(found), min(found), max(found)
            counted = f"{right[name, bf16]} of {batch}"
            print(
                f"{batch:>6}  {middle:>9,.0f}  {low:>9,.0f}  {high:>9,.0f}  {counted:>11}  "
                f"{'bf16' if bf16 else 'fp32'}  {name}"
            )


def main() -> None:
    """Time batch sizes and precisions in turn, or trained models."""
    settings = yaml.safe_load(CONFIG.read_text())["model"]["init_args"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs=2, default=(3, 2), help="of a and b")
    parser.add_argument("--batches", type=int, nargs="+", default=(1, 16, 128))
    parser.add_argument(
        "--steps", type=int, default=settings["solve_steps"], help="supervision steps a row"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--checkpoint", nargs="+", help="trained models of one task instead")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.checkpoint:
        trained(options)
        return

    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**settings["network"]["init_args"]["config"])).eval()
    predictor = IterativePredictor(model, options.steps, halt=False)
    n, m = options.digits
    task = Multiplication("lattice", digits_a=(n, n), digits_b=(m, m))
    height, width = (cells + 2 for cells in task.extent())
    drawings = {}
    for batch in options.batches:
        problems = sample(task, 0, "test", 0, np.arange(batch))
        drawings[batch] = draw(task.rules.prompt(problems), height, width, 1, 1)

    cases = [(batch, bf16) for batch in options.batches for bf16 in (False, True)]
    seconds: dict[tuple[int, bool], list[float]] = {case: [] for case in cases}
    for repeat in range(options.repeats + 1):
        for batch, bf16 in cases:
            took = timed(predictor, drawings[batch], bf16)
            if repeat:  # the first round also allocates
                seconds[batch, bf16].append(took)

    print(
        f"{n} x {m} digits, lattice on {height} x {width}, {options.steps} steps a row, "
        f"{options.threads} thread(s), median of {options.repeats} interleaved repeats"
    )
    print(f"{'batch':>6}  {'fp32 rows/s':>12}  {'bf16 rows/s':>12}  {'ratio':>6}")
    for batch in options.batches:
        rows = int(drawings[batch].steps.sum())
        full, half = (rows / statistics.median(seconds[batch, bf16]) for bf16 in (False, True))
        print(f"{batch:>6}  {full:>12,.1f}  {half:>12,.1f}  {half / full:>6.2f}")


if __name__ == "__main__":
    main()
