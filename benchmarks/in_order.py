"""Pages worked out in order, each cell once, against supervision steps until a row has settled.

The same weights (base 3, `docs/models/standard-base3-seed0.safetensors`) solve the same held-out
problems both ways; with steps, rows end as they do in models whose cells see each other.
"""

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from canvas.problems import Problems
from trm.checkpoints.loading import load_solver
from trm.evaluation.cell_problems import cell_problems
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver

WEIGHTS = Path(__file__).parents[1] / "docs" / "models" / "standard-base3-seed0.safetensors"


class InSteps(IterativePredictor):
    """Takes supervision steps even where it need not."""

    @property
    def in_order(self) -> bool:
        """Never."""
        return False


def main() -> None:
    """Print a line a size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--problems", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    solver = load_solver(WEIGHTS, 256)
    in_steps = replace(solver, predictor=InSteps(solver.predictor.model, 256))
    print("digits       in order     in steps   ratio   alike")
    for digits in args.digits:
        problems = cell_problems(solver.task, (digits, digits), args.problems, 0)
        seconds: dict[str, list[float]] = {"in order": [], "in steps": []}
        for _ in range(args.repeats):
            pages = {}
            for name, one in (("in order", solver), ("in steps", in_steps)):
                begun = time.perf_counter()
                pages[name] = solved(one, problems)
                seconds[name].append((time.perf_counter() - begun) / args.problems)
        alike = sum(a == b for a, b in zip(*pages.values(), strict=True))
        quick, slow = (statistics.median(times) for times in seconds.values())
        print(
            f"{digits:3} x {digits:<3} {quick:9.3f} s {slow:8.3f} s {slow / quick:7.1f}"
            f"   {alike} of {args.problems}"
        )


def solved(solver: Solver, problems: Problems) -> list[bytes]:
    """The canvases that a model fills."""
    return [solution.canvas.tobytes() for solution in solver.solve(problems)]


if __name__ == "__main__":
    main()
