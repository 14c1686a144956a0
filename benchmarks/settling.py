"""Do later digits settle later? The step or loop in which each digit of a row last changed.

    python benchmarks/settling.py --checkpoint trm-canvas-lattice-seed0 --digits 3 2 --problems 100

Of a recursive transformer it is the supervision step, of a looped GPT the loop. Held-out problems
of the test split with numbers of these lengths, free-running, one at a time.
Digits are counted from the right end of each row's number. A digit that keeps the symbol of the
first step has step 1. Wrong solutions are left out and counted.
"""

import argparse
from typing import Any

import numpy as np

from canvas.problems import Problems
from canvas.symbols import BLANK
from trm import load_solver
from trm.evaluation.grid_cells import cell_problems
from trm.extras.analysis.settled import last_changes
from trm.io.markdown import table
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.solver import Moment, Solver, solve_watched


def settled_steps(solver: Solver, problem: Problems) -> list[tuple[int, int]] | None:
    """Place from the right, from 1, and step of each digit that was filled in; None: wrong."""
    if isinstance(solver.predictor, GPTPredictor):
        [solution] = solver.solve(problem)
        [changed] = solver.predictor.last_changes(solver.draw(problem))
    else:
        moments: list[Moment] = []
        solution = solve_watched(solver, problem, moments.append)
        changed = last_changes(moments)
    if not solution.correct:
        return None
    found = []
    for row in np.flatnonzero(changed.any(axis=1)):
        columns = np.flatnonzero((solution.canvas[row] != BLANK) & (changed[row] > 0))
        found += [(place, int(changed[row, c])) for place, c in enumerate(columns[::-1], start=1)]
    return found


def main() -> None:
    """Print a table for each pair of lengths."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--digits", type=int, nargs=2, action="append", required=True)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    about = "H and L cycles of a step, in place of training's, to see more of what happens in it"
    parser.add_argument("--cycles", type=int, nargs=2, metavar=("H", "L"), help=about)
    parser.add_argument("--steps", type=int, help="most steps of a row, or loops of a GPT")
    args = parser.parse_args()
    solver = load_solver(args.checkpoint, steps=args.steps)
    if args.cycles:
        config: Any = solver.predictor.model.config
        config.H_cycles, config.L_cycles = args.cycles
    for digits in args.digits:
        problems = cell_problems(solver.task, digits, args.problems, args.seed)
        of_each = [settled_steps(solver, problems[np.array([i])]) for i in range(len(problems))]
        right = [one for one in of_each if one is not None]
        places, steps = np.array([pair for one in right for pair in one]).reshape(-1, 2).T
        lines = []
        for place in np.unique(places):
            here = steps[places == place]
            later = " ".join(f"{100 * (here >= step).mean():.1f}" for step in (2, 3, 5))
            lines.append([f"{place}", f"{len(here):,}", f"{here.mean():.3f}", later])
        print(f"{digits[0]} x {digits[1]} digits, {len(right)} of {len(problems)} right\n")
        heads = [
            "digit from the right",
            "digits",
            "mean step or loop",
            "% in step or loop 2, 3, 5 or later",
        ]
        print(table(heads, lines), flush=True)
        print()


if __name__ == "__main__":
    main()
