"""The evaluation of the note's own code: views turned first and masked after, against the reverse.

    python benchmarks/turned_first.py --checkpoint docs/models/trm-canvas-lattice-seed0.safetensors

Row steps of held-out problems, each from true rows, at a random place of a canvas of training; 16
views each, a symmetry and then a shift. *Masked, then turned*: the view moves the masked row.
*Turned, then masked*: the canvas with the row filled in is turned, and then masked in the line that
has the row's number in an upright canvas, counted from the first line of the solution. In six of
eight symmetries that is no row task: another line is masked, and the row is seen. That is what the
note's own code did. The most confident view decides. It is correct if all cells that
are masked in it are: so the note counted, each view by its own label, and a problem if all of its
rows are correct.
"""

import argparse
from pathlib import Path

import numpy as np
from votes import held_out, placed

from augment.symmetry import SYMMETRIES
from augment.views import View, apply_views, distinct_views
from canvas import symbols
from canvas.drawing import WorkedDrawing, row_steps
from trm import load_solver
from trm.evaluation.statistics import Share
from trm.io.markdown import table
from trm.solving.predictor import Predictor


def views_of(drawing: WorkedDrawing, count: int, seed: int) -> list[list[View]]:
    """Return so many views of each problem, the identity first."""
    found = []
    for space in drawing.space:
        found.append(distinct_views(space, tuple(SYMMETRIES), count, seed))
    return found


def outcomes(
    predictor: Predictor, drawing: WorkedDrawing, views: list[list[View]], turned_first: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve every row step in every view.

    Returns:
        Of all N row steps in each of V views: whether all masked cells are correct, bool [N, V];
        the confidence, float [N, V]; and the problem of each step, int64 [N].
    """
    steps = row_steps(drawing)
    right, sure = [], []
    for n in range(len(views[0])):
        mine = [views[problem][n] for problem in steps.problem]
        labels, inputs, masked = (
            apply_views(mine, part) for part in (steps.labels, steps.inputs, steps.answer)
        )
        if turned_first:
            space, given = (
                apply_views(mine, part[steps.problem]) for part in (drawing.space, drawing.given)
            )
            row = space.any(axis=2).argmax(axis=1) + drawing.given_rows[steps.problem] + steps.row
            masked = (np.arange(labels.shape[1]) == row[:, None])[:, :, None] & ~given
            inputs = np.where(masked, np.uint8(symbols.MASK), labels)
        filled, confidence = [], []
        most = predictor.at_once(*inputs.shape[1:])
        for start in range(0, len(inputs), most):
            found = predictor(inputs[start : start + most])
            filled.append(found.canvases)
            confidence.append(found.confidence)
        same = np.concatenate(filled) == labels
        right.append((same | ~masked).all(axis=(1, 2)))
        sure.append(np.concatenate(confidence))
    return np.stack(right, axis=1), np.stack(sure, axis=1), steps.problem


def whole(rows: np.ndarray, problem: np.ndarray) -> Share:
    """Return the share of problems all of whose rows are correct."""
    wrong = np.bincount(problem, weights=~rows) > 0
    return Share(int((~wrong).sum()), len(wrong))


def measured(file: Path, args: argparse.Namespace) -> str:
    """Return the table of a checkpoint, as Markdown."""
    solver = load_solver(file)
    problems = held_out(solver, args.problems, args.seed, args.digits)
    drawing = placed(solver, problems, args.seed)
    views = views_of(drawing, args.views, args.seed)
    fewest = min(map(len, views))
    views = [mine[:fewest] for mine in views]
    lines = []
    for name, first in (("masked, then turned", False), ("turned, then masked", True)):
        right, sure, problem = outcomes(solver.predictor, drawing, views, first)
        chosen = sure.argmax(axis=1)
        won = right[np.arange(len(right)), chosen]
        row = [name, str(Share(int(won.sum()), len(won))), str(whole(won, problem))]
        row += [f"{100 * right.mean():.1f} %", f"{sure.max(axis=1).mean():.3f}"]
        lines.append([*row, str(whole(right[:, 0], problem))])
        print(*lines[-1], flush=True)
    heads = ["16 views", "rows of the most confident view", "problems", "rows of all views"]
    heads[0] = f"{fewest} views"
    return f"{file.name}\n\n{table([*heads, 'its confidence', 'problems in one view'], lines)}"


def main() -> None:
    """Measure checkpoint after checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint", nargs="+", type=Path, required=True)
    add("--problems", type=int, default=100)
    add("--views", type=int, default=16)
    add("--digits", type=int, nargs="+", help="of each operand; default: the range of training")
    add("--seed", type=int, default=0, help="which problems, and where they lie")
    args = parser.parse_args()
    for file in args.checkpoint:
        print(f"\n{measured(file, args)}", flush=True)


if __name__ == "__main__":
    main()
