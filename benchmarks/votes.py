"""Accuracy of a model in each symmetry of the square, and of votes over views, at equal cost.

    python benchmarks/votes.py --checkpoint docs/models/trm-canvas-seed0.safetensors --problems 500

Different held-out problems of the test split, lengths drawn evenly over the range of training (or
of ``--digits A B`` alone), each at a random place on the canvas of training; whole solutions, each
row built on the model's own rows. The first table has one view in each symmetry that the model was
trained in, or in each of the eight with ``--symmetries all``. In the second these vote, and all
votes judge the same answers. The third, of ``--views`` and ``--rollouts``, takes shifts and noise
as well. Work is counted in supervision steps (of a GPT: in sequences); what looks the same in two
views is worked out once.
"""

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from timing import even

from augment.symmetry import SYMMETRIES
from augment.views import View
from canvas.drawing import WorkedDrawing
from canvas.problems import Problems, Split, keys, random_below, random_words
from canvas.sampling import sample
from trm import load_solver
from trm.evaluation.grid_cells import cell_problems
from trm.evaluation.statistics import Share
from trm.io.markdown import table
from trm.solving.solver import Solver
from trm.solving.voting import VOTES, Voting, decide

SPLIT: Split = "test"
_PLACE = 1  # purpose of a random key
AT_ONCE = 250  # problems


def held_out(solver: Solver, number: int, seed: int, digits: Sequence[int] | None) -> Problems:
    """Different problems of the test split, as many as there are up to a number."""
    if digits:
        return cell_problems(solver.task, digits, number, seed)
    drawn = sample(even(solver.task), seed, SPLIT, 0, np.arange(8 * number))
    _, first = np.unique([str(one) for one in drawn.to_ints()], return_index=True)
    return drawn[np.sort(first)[:number]]


def placed(solver: Solver, problems: Problems, seed: int) -> WorkedDrawing:
    """The problems worked out on training's canvas, each at a random place."""
    rules, canvas = solver.task.canvas_layout, solver.canvas
    sizes = rules.sizes(problems)
    room = rules.room(solver.task.longest, solver.task.base)
    height, width = np.maximum(canvas.size(*room), sizes.max(axis=1))
    if canvas.cut:
        height = width = max(height, width)
    words = random_words(keys(seed, SPLIT, _PLACE, np.arange(len(problems))), 2)
    top, left = random_below(words, np.array([height, width]) - sizes.T + 1).T
    return rules.draw_worked(problems, int(height), int(width), top=top, left=left)


def right(drawing: WorkedDrawing, canvases: np.ndarray) -> np.ndarray:
    """Return the solutions that are right in every cell, bool [B]."""
    return (canvases == drawing.truth).all(axis=(1, 2))


def in_symmetry(
    solver: Solver, drawing: WorkedDrawing, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solutions of canvases that are each seen in one symmetry.

    Returns the canvases uint8 [B, H, W], the confidence in each float [B], and the work int [B].
    """
    parts = []
    for start in range(0, len(drawing), AT_ONCE):
        some = drawing[np.arange(start, min(start + AT_ONCE, len(drawing)))]
        found = solver.predictor.free_running(some, [View(name)] * len(some))
        parts.append((found.canvases, found.confidence.prod(axis=1), found.steps.sum(axis=1)))
    canvases, sure, steps = (np.concatenate(part) for part in zip(*parts, strict=True))
    return canvases, sure, steps


def of_symmetries(
    vote: str, views: int, drawing: WorkedDrawing, seen: Sequence[tuple[np.ndarray, ...]], seed: int
) -> np.ndarray:
    """Return the solutions that are right if so many symmetries vote, bool [B].

    The first is the identity, the others are drawn for each problem.
    """
    random, won = np.random.default_rng(seed), []
    for i in range(len(drawing)):
        which = [0, *(1 + random.permutation(len(seen) - 1))][:views]
        answers = [seen[w][0][i].tobytes() for w in which]
        decision = decide(vote, answers, np.array([seen[w][1][i] for w in which]))
        won.append(seen[which[decision.behind[0]]][0][i])
    return right(drawing, np.stack(won))


def voted(
    solver: Solver, problems: Problems, drawing: WorkedDrawing, voting: Voting
) -> tuple[np.ndarray, float]:
    """Return the solutions that are right after a vote, bool [B], and the work of a problem."""
    asked, parts, work = solver.with_voting(voting), [], 0
    for start in range(0, len(drawing), AT_ONCE):
        index = np.arange(start, min(start + AT_ONCE, len(drawing)))
        solutions = asked.solve_drawing(problems[index], drawing[index])
        parts.append([bool(one.exact) for one in solutions])
        work += sum(sum(one.row_steps) or one.views for one in solutions)
    return np.concatenate(parts), work / len(drawing)


def measured(file: Path, args: argparse.Namespace) -> str:
    """All tables of a checkpoint, as Markdown."""
    solver = load_solver(file)
    problems = held_out(solver, args.problems, args.seed, args.digits)
    drawing = placed(solver, problems, args.seed)

    def line(found: np.ndarray, *first: str, work: float = 1.0) -> list[str]:
        mended, broken = int((found & ~alone).sum()), int((alone & ~found).sum())
        p = binomtest(mended, mended + broken).pvalue if mended + broken else 1.0
        figures = f"{mended} / {broken}", f"{p:.2g}", f"{work:.1f}"
        cells = [*first, str(Share(int(found.sum()), len(problems))), *figures]
        print(*cells, flush=True)
        return cells

    names = tuple(SYMMETRIES) if args.symmetries == "all" else solver.trained_symmetries
    seen = [in_symmetry(solver, drawing, name) for name in names]
    alone, steps = right(drawing, seen[0][0]), sum(seen[0][2])
    change = ["solved", "mended / broken", "p", "times the work"]
    one = [
        line(right(drawing, canvases), name, f"{100 * sure.mean():.1f} %")
        for name, (canvases, sure, _) in zip(names, seen, strict=True)
    ]
    text = f"{file.name}\n\n{table(['view', 'mean confidence', *change], one)}"
    votes = args.votes or list(VOTES)
    several = [n for n in (2, 4, 8) if n <= len(seen)]
    if several:
        lines = [
            line(of_symmetries(v, n, drawing, seen, args.seed), str(n), v, work=n)
            for n in several
            for v in votes
        ]
        text += f"\n\n{table(['symmetries', 'vote on solutions', *change], lines)}"
    lines = []
    for views, rollouts, per, vote in product(args.views, args.rollouts, args.per, votes):
        noise = args.noise if rollouts > 1 else 0.0
        how = Voting(views=views, rollouts=rollouts, noise=noise, vote=vote, per=per)
        found, work = voted(solver, problems, drawing, how)
        base = steps / len(problems) or 1
        lines.append(line(found, str(views), str(rollouts), per, vote, work=work / base))
    if lines:
        text += f"\n\n{table(['views', 'rollouts', 'vote per', 'vote', *change], lines)}"
    return text


def main() -> None:
    """Measure checkpoint after checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--checkpoint", nargs="+", type=Path, required=True)
    add("--problems", type=int, default=500)
    add("--digits", type=int, nargs="+", help="of each operand; default: the range of training")
    add("--seed", type=int, default=0, help="which problems, and where they lie")
    add("--symmetries", choices=("trained", "all"), default="trained", help="of the single views")
    add("--views", type=int, nargs="*", default=[], help="symmetries and shifts: a table more")
    add("--rollouts", type=int, nargs="+", default=[1], help="of each of these views")
    add("--noise", type=float, default=0.1, help="deviation on z_H where there are several")
    add("--votes", nargs="+", choices=VOTES, help="default: all")
    add("--per", nargs="+", default=["row", "solution"])
    args = parser.parse_args()
    for file in args.checkpoint:
        print(f"\n{measured(file, args)}", flush=True)


if __name__ == "__main__":
    main()
