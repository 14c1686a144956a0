"""Pages worked out in order, each cell once, against the ways that take longer.

The classical page in base 3 (`docs/models/standard-base3-seed0.safetensors`) against supervision
steps until a row has settled, as models need them whose cells see each other; and the shipped
lattice along fronts, many rows at once, against row by row. Both ways solve the same held-out
problems with the same weights.
"""

import argparse
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from canvas.problems import Problems
from canvas.render import Drawing
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.evaluation.cell_problems import cell_problems
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import OnRow, Predictor, Rollout
from trm.solving.solver import Solver

PAGE = Path(__file__).parents[1] / "docs" / "models" / "standard-base3-seed0.safetensors"


class InSteps(IterativePredictor):
    """Takes supervision steps even where it need not."""

    @property
    def in_order(self) -> bool:  # type: ignore[override]
        """Never."""
        return False


class RowByRow(IterativePredictor):
    """Begins a row when the one above it is done."""

    def free_running(self, drawing: Drawing, on_row: OnRow | None = None) -> Rollout:
        """See `Predictor`."""
        return Predictor.free_running(self, drawing, on_row)


def compare(
    quick: Solver, slow: type[IterativePredictor], digits: list[int], problems: int, repeats: int
) -> None:
    """Print a line a size: the solver as it is, and with another predictor of the same model."""
    slowly = replace(quick, predictor=slow(quick.predictor.model, 256))
    for n in digits:
        asked = cell_problems(quick.task, (n, n), problems, 0)
        seconds: dict[str, list[float]] = {"quick": [], "slow": []}
        for _ in range(repeats):
            pages = {}
            for name, one in (("quick", quick), ("slow", slowly)):
                begun = time.perf_counter()
                pages[name] = solved(one, asked)
                seconds[name].append((time.perf_counter() - begun) / problems)
        alike = sum(a == b for a, b in zip(*pages.values(), strict=True))
        short, long = (statistics.median(times) for times in seconds.values())
        print(
            f"{n:3} x {n:<3} {short:9.3f} s {long:10.3f} s {long / short:7.1f}"
            f"   {alike} of {problems}",
            flush=True,
        )


def solved(solver: Solver, problems: Problems) -> list[bytes]:
    """The canvases that a model fills."""
    return [solution.canvas.tobytes() for solution in solver.solve(problems)]


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--problems", type=int, default=16)
    parser.add_argument("--long", type=int, nargs="+", default=[8, 16, 32], help="of the lattice")
    parser.add_argument("--few", type=int, default=1, help="problems of the lattice")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("digits       in order     in steps   ratio   alike")
    compare(load_solver(PAGE, 256), InSteps, args.digits, args.problems, args.repeats)
    print("\ndigits   along fronts   row by row   ratio   alike")
    compare(load_solver(SHIPPED), RowByRow, args.long, args.few, args.repeats)


if __name__ == "__main__":
    main()
