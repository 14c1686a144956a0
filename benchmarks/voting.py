"""What many views cost: time over that of one view, voting by row and by solution.

The network is untrained and of the shape of configs/generalise/decimal.yaml; every row takes the
same number of supervision steps in every view, as in a model that was trained in them all.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
import yaml

from augment.symmetry import SYMMETRIES
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.sampling import sample
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.solving.voting import Voting

CONFIG = Path(__file__).parents[1] / "configs/generalise/decimal.yaml"
STEPS = 4


def main() -> None:
    """Time numbers of views in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--views", type=int, nargs="+", default=(4, 16, 64))
    parser.add_argument("--digits", type=int, nargs=2, default=(4, 4), help="of a and b")
    parser.add_argument("--side", type=int, help="of a square canvas (default: cut, as solved)")
    parser.add_argument("--problems", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    torch.manual_seed(0)
    network = yaml.safe_load(CONFIG.read_text())["model"]["init_args"]["network"]
    model = (
        TinyRecursiveModel(RecursiveConfig(**network["init_args"]["config"]))
        .eval()
        .to(options.device)
    )
    n, m = options.digits
    task = Multiplication("lattice", digits_a=(n, n), digits_b=(m, m))
    one = Solver(
        IterativePredictor(model, STEPS, halt=False),
        task,
        Canvas(options.side, options.side, square=True),
    )
    solvers = {(1, ""): one}
    for per in ("row", "solution"):
        for views in options.views:
            voting = Voting(views, tuple(SYMMETRIES), per=per)
            solvers[views, per] = one.with_voting(voting)
    problems = sample(task, 0, "test", 0, np.arange(options.problems))
    seconds: dict[tuple[int, str], list[float]] = {case: [] for case in solvers}
    for repeat in range(options.repeats + 1):
        for case, solver in solvers.items():
            start = time.perf_counter()
            solver.solve(problems)
            if repeat:  # the first round also allocates
                seconds[case].append(time.perf_counter() - start)

    height, width = one.draw(problems).canvases.shape[1:]
    median = {case: statistics.median(took) for case, took in seconds.items()}
    print(
        f"{options.problems} problems of {n} x {m} digits, lattice on {height} x {width}, {STEPS} "
        f"steps a row, {options.device}, {options.threads} thread(s), medians of "
        f"{options.repeats} interleaved repeats"
    )
    print(f"one view: {1000 * median[1, ''] / options.problems:.1f} ms a problem")
    print(f"{'views':>6}  {'per row':>8}  {'per solution':>12}   times one view")
    for views in options.views:
        row, solution = (median[views, per] / median[1, ""] for per in ("row", "solution"))
        print(f"{views:>6}  {row:>8.2f}  {solution:>12.2f}")


if __name__ == "__main__":
    main()
