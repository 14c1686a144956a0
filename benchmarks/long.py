"""Very long problems, one by one: whole solutions, answers and rows that are right, and seconds.

    python benchmarks/long.py --checkpoint docs/models/lattice-base2-seed0.safetensors --digits 1024

Each row is built on the model's own rows. `trm evaluate` fills every row from the true rows, too,
which takes memory that grows with the cube of the digits.
"""

import argparse
import time
from pathlib import Path

import torch

from trm import load_solver
from trm.evaluation.cell_problems import cell_problems
from trm.evaluation.statistics import Share


def main() -> None:
    """A line for each problem, and a sum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, help="default: the shipped model")
    parser.add_argument("--digits", type=int, default=200, help="of both operands")
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0, help="of the test problems that are drawn")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    solver = load_solver(options.checkpoint, device="cpu")
    digits = (options.digits, options.digits)
    problems = cell_problems(solver.task, digits, options.problems, options.seed)
    whole = answers = right = rows = 0
    for i in range(len(problems)):
        begun = time.perf_counter()
        (solution,) = solver.solve(problems[i : i + 1], with_truth=True)
        seconds = time.perf_counter() - begun
        whole, answers = whole + bool(solution.exact), answers + bool(solution.correct)
        right, rows = right + solution.rows_right, rows + len(solution.rows)
        print(
            f"problem {i + 1}: {solution.rows_right:,} of {len(solution.rows):,} rows right, "
            f"{seconds:.1f} s",
            flush=True,
        )
    for name, one, all_ in (
        ("whole solutions", whole, len(problems)),
        ("answers", answers, len(problems)),
        ("rows", right, rows),
    ):
        low, high = Share(one, all_).interval
        print(f"{name:>15}  {one:,} of {all_:,} ({low:.1%} to {high:.1%})")


if __name__ == "__main__":
    main()
