"""Accuracy of a model in each symmetry of the square, and of votes over views, at equal cost.

    python benchmarks/votes.py --checkpoint docs/models/trm-canvas-seed0.safetensors --problems 500

The problems are different ones of the test split, with lengths drawn evenly over the range of
training (or only those of ``--digits A B``). Each lies at a random place on the canvas of training.
Accuracy is that of whole solutions, each row built on the model's own rows. The first table has one
view in each symmetry that the model was trained in. In the second, votes on whole solutions share
their rollouts, so all votes of a line choose from the same answers. Their cost is that of the
views, in supervision steps (for a GPT: in sequences). Canvases that are equal in two views are
solved once.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from augment.views import View
from canvas.problems import Problems, keys, random_below, random_words
from canvas.render import WorkedDrawing
from canvas.sampling import sample
from trm import load_solver
from trm.grid_cells import cell_problems
from trm.markdown import table
from trm.solving.solver import Solver
from trm.solving.voting import Voting
from trm.solving.voting_settings import VOTES
from trm.statistics import Share

SPLIT = "test"
_PLACE = 1  # purpose of a random key
AT_ONCE = 250  # problems


def held_out(solver: Solver, number: int, seed: int, digits: Sequence[int] | None) -> Problems:
    """Return up to a number of different problems of the test split."""
    if digits:
        return cell_problems(solver.task, digits, number, seed)
    task: Any = replace(solver.task, long_bias=0.0)  # type: ignore[type-var]
    drawn = sample(task, seed, SPLIT, 0, np.arange(8 * number))
    _, first = np.unique([str(one) for one in drawn.to_ints()], return_index=True)
    return drawn[np.sort(first)[:number]]


def placed(solver: Solver, problems: Problems, seed: int) -> WorkedDrawing:
    """Draw the solved problems on the canvas of training, each at a random place."""
    rules, canvas = solver.task.layout_impl, solver.canvas
    sizes = rules.sizes(problems)
    room = rules.room(solver.task.longest, solver.task.base)
    height, width = np.maximum(canvas.size(*room), sizes.max(axis=1))
    if canvas.cut:
        height = width = max(height, width)
    words = random_words(keys(seed, SPLIT, _PLACE, np.arange(len(problems))), 2)
    top, left = random_below(words, np.array([height, width]) - sizes.T + 1).T
    return rules.draw_worked(problems, int(height), int(width), top=top, left=left)


def right(drawing: WorkedDrawing, canvases: np.ndarray) -> np.ndarray:
    """Test which solutions are correct in every cell, bool [B]."""
    return (canvases == drawing.truth).all(axis=(1, 2))


def in_symmetry(solver: Solver, drawing: WorkedDrawing, name: str) -> np.ndarray:
    """Test which solutions are correct with every canvas in one symmetry, bool [B]."""
    parts = []
    for start in range(0, len(drawing), AT_ONCE):
        some = drawing[np.arange(start, min(start + AT_ONCE, len(drawing)))]
        views = [View(name)] * len(some)
        parts.append(right(some, solver.predictor.free_running_views(some, views).canvases))
    return np.concatenate(parts)


def voted(
    solver: Solver, problems: Problems, drawing: WorkedDrawing, voting: Voting
) -> tuple[np.ndarray, float]:
    """Return which solutions are correct after a vote, bool [B], and the mean work of a problem."""
    voter, parts, work = solver.with_voting(voting), [], 0
    for start in range(0, len(drawing), AT_ONCE):
        index = np.arange(start, min(start + AT_ONCE, len(drawing)))
        solutions = voter.solve_drawing(problems[index], drawing[index])
        parts.append([bool(one.exact) for one in solutions])
        work += sum(sum(one.row_steps) or one.views for one in solutions)
    return np.concatenate(parts), work / len(drawing)


def measured(file: Path, args: argparse.Namespace) -> str:
    """Return both tables of a checkpoint as Markdown."""
    solver = load_solver(file)
    problems = held_out(solver, args.problems, args.seed, args.digits)
    drawing = placed(solver, problems, args.seed)
    lines: list[list[str]] = []
    turned = {}
    for name in solver.trained_symmetries:
        turned[name] = in_symmetry(solver, drawing, name)
        lines.append([name, str(Share(int(turned[name].sum()), len(problems)))])
        print(*lines[-1], flush=True)
    one = turned[solver.trained_symmetries[0]]
    text = table(["view", "solved"], lines) + "\n\n"
    alone, base = voted(solver, problems, drawing, Voting())
    lines = []
    for views in args.views:
        for per in args.per:
            for vote in args.votes or VOTES:
                how = Voting(views=views, vote=vote, per=per)
                found, work = voted(solver, problems, drawing, how)
                mended, broken = (found & ~alone).sum(), (alone & ~found).sum()
                changed = int(mended + broken)
                p = binomtest(int(mended), changed).pvalue if changed else 1.0
                share = str(Share(int(found.sum()), len(problems)))
                figures = f"{mended} / {broken}", f"{p:.2g}"
                lines.append([str(views), per, vote, share, *figures, f"{work / base:.1f}"])
                print(*lines[-1], flush=True)
    heads = ["views", "vote per", "vote", "solved", "mended / broken", "p", "times the work"]
    first = Share(int(one.sum()), len(problems))
    return f"{file.name}: one view {first}\n\n{text}{table(heads, lines)}"


def main() -> None:
    """Measure checkpoint after checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint", nargs="+", type=Path, required=True)
    add("--problems", type=int, default=500)
    add("--digits", type=int, nargs="+", help="of each operand; default: the range of training")
    add("--seed", type=int, default=0, help="which problems, and where they lie")
    add("--views", type=int, nargs="*", default=[4, 8, 16])
    add("--votes", nargs="+", choices=VOTES, help="default: all")
    add("--per", nargs="+", default=["row", "solution"])
    args = parser.parse_args()
    for file in args.checkpoint:
        print(f"\n{measured(file, args)}", flush=True)


if __name__ == "__main__":
    main()
