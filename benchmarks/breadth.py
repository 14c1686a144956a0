"""Breadth by the verifier: noisy rollouts of a problem, of which the most confident one is taken.

    python benchmarks/breadth.py --checkpoint trm-lattice-whole-seed0 --digits 12 12

Held-out problems of the test split, upright. Each is solved free-running in ``--rollouts`` ways:
once without noise, and then with noise on z_H before each supervision step. *Chosen*: the solution
of the highest confidence, which is the product of that in its rows. *Any*: at least one of them is
correct, which no choice can exceed. AUROC is that of the confidence, over all rollouts: the
probability that it is higher in a correct solution than in an incorrect one. Where all are correct,
or all incorrect, there is none.
"""

import argparse
from pathlib import Path

import numpy as np
from votes import held_out, right

from trm import load_solver
from trm.evaluation.statistics import Share, auroc
from trm.io.markdown import known, table
from trm.solving.rows import Prediction, fill_row_by_row, solve_once
from trm.solving.solver import Solver


def rollouts_of(
    solver: Solver, digits: list[int], problems: int, rollouts: int, noise: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rollouts are correct, bool [B, R], and their confidence, float64 [B, R]."""
    drawing = solver.draw_worked(held_out(solver, problems, seed, digits))
    predictor = solver.predictor.with_options(noise=noise, seed=seed)
    correct, sure = [], []
    for number in range(rollouts):

        def fill(
            inputs: np.ndarray, active: np.ndarray, row: int, number: int = number
        ) -> Prediction:
            return solve_once(predictor, inputs, np.full(len(inputs), number))

        found = fill_row_by_row(fill, drawing)
        correct.append(right(drawing, found.canvases))
        sure.append(found.confidence.astype(np.float64).prod(axis=1))
    return np.stack(correct, axis=1), np.stack(sure, axis=1)


def measured(
    solver: Solver, name: str, counts: list[int], noises: list[float], args: argparse.Namespace
) -> list[list[str]]:
    """Return the lines of a checkpoint: a line for each noise and number of rollouts."""
    lines = []
    for noise in noises:
        correct, sure = rollouts_of(
            solver, args.digits, args.problems, max(counts), noise, args.seed
        )
        area = auroc(sure.ravel(), correct.ravel())
        for count in counts:
            best = sure[:, :count].argmax(axis=1)
            chosen = correct[np.arange(len(correct)), best]
            shares = (
                str(Share(int(some.sum()), len(correct)))
                for some in (chosen, correct[:, :count].any(axis=1))
            )
            lines.append([name, str(noise), str(count), *shares, known(area, "{:.3f}")])
            print(*lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure checkpoint after checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint", nargs="+", required=True)
    add("--problems", type=int, default=40)
    add("--digits", type=int, nargs="+", required=True, help="of each operand")
    add("--rollouts", type=int, nargs="+", default=[1, 4, 16], help="the first is without noise")
    add("--noise", type=float, nargs="+", default=[0.1, 0.3], help="deviation on z_H")
    add("--seed", type=int, default=0, help="of problems and noise")
    args = parser.parse_args()
    lines = []
    for file in args.checkpoint:
        lines += measured(
            load_solver(file), Path(file).stem, sorted(args.rollouts), args.noise, args
        )
    print(table(["model", "noise", "rollouts", "chosen", "any", "AUROC"], lines))


if __name__ == "__main__":
    main()
