"""Whether voting helps: every vote over the same views of the same held-out problems.

Each look at a canvas is taken once and remembered, so that all votes, by row and by solution, are
about the same answers, and cost little more than one. What they would cost by themselves is told
in supervision steps, and in seconds on the first problems, without the memory.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from augment.symmetry import SYMMETRIES
from augment.views import View
from canvas.problems import Problems
from canvas.render import Drawing
from trm.checkpoints.loading import load_solver
from trm.evaluation.cell_problems import cell_problems
from trm.evaluation.statistics import Share
from trm.solving.rollout import Look, Prediction, Predictor, Rollout
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.voting_settings import PER, VOTES, Voting


class Remembering(Predictor):
    """A model that is never asked the same twice until `forget`.

    Args:
        predictor: the model.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.model = predictor, predictor.model
        self.turns, self.translation_invariant = predictor.turns, predictor.translation_invariant
        self.forget()

    def forget(self) -> None:
        """Start with an empty memory."""
        self.memory: dict[bytes, Prediction] = {}
        self.alone: dict[bytes, tuple[Rollout, np.ndarray | None]] = {}
        self.noisy: dict[tuple[float, float], Remembering] = {}

    def perturbed(self, noise: float, temperature: float) -> "Remembering":
        """See `Predictor`; each noise has a memory of its own."""
        chance = noise, temperature
        if chance not in self.noisy:
            self.noisy[chance] = Remembering(self.predictor.perturbed(noise, temperature))
        return self.noisy[chance]

    def accepts(self, height: int, width: int) -> bool:
        """See `Predictor`."""
        return self.predictor.accepts(height, width)

    def look(self, inputs: np.ndarray, steps: int | None = None) -> Look:
        """See `Predictor`."""
        return self.predictor.look(inputs, steps)

    def __call__(
        self, inputs: np.ndarray, keys: np.ndarray | None = None, log_probs: bool = False
    ) -> Prediction:
        """See `Predictor`; log-probabilities are always kept."""
        noise = np.zeros(len(inputs), dtype=np.uint64) if keys is None else keys
        names = [
            repr(canvas.shape).encode() + canvas.tobytes() + key.tobytes()
            for canvas, key in zip(inputs, noise, strict=True)
        ]
        new = [i for i, name in enumerate(names) if name not in self.memory]
        if new:
            filled = self.predictor(inputs[new], None if keys is None else keys[new], True)
            for place, i in enumerate(new):
                self.memory[names[i]] = filled.take(np.array([place]))
        return Prediction.joined([self.memory[name] for name in names])

    def free_running_views(
        self,
        drawing: Drawing,
        views: Sequence[View],
        keys: np.ndarray | None = None,
        log_probs: bool = False,
    ) -> tuple[Rollout, np.ndarray | None]:
        """See `Predictor`."""
        if type(self.predictor).free_running_views is Predictor.free_running_views:
            return super().free_running_views(drawing, views, keys, log_probs)
        # A model that writes all rows in one go remembers the lot.
        name = repr((views, drawing.canvases.tobytes(), None if keys is None else list(keys)))
        if name.encode() not in self.alone:
            self.alone[name.encode()] = self.predictor.free_running_views(
                drawing, views, keys, True
            )
        return self.alone[name.encode()]


def cell(text: str) -> tuple[int, int]:
    """Digits of the multiplicand and of the multiplier, for argparse."""
    a, b = map(int, text.split("x"))
    return a, b


def settings(args: argparse.Namespace) -> list[Voting]:
    """All that is compared."""
    few = [Voting(views, args.symmetries) for views in args.views]
    for rollouts in args.rollouts:
        few += [Voting(1, args.symmetries, rollouts=rollouts, noise=x) for x in args.noise]
        few += [
            Voting(1, args.symmetries, rollouts=rollouts, temperature=x) for x in args.temperature
        ]
    return [replace(voting, per=per, vote=vote) for voting in few for per in PER for vote in VOTES]


def solve_all(solver: Solver, problems: Problems, size: int) -> list[Solution]:
    """Solve any number of problems, so many at once."""
    parts = [solver.solve(problems[i : i + size]) for i in range(0, len(problems), size)]
    return [solution for part in parts for solution in part]


def reading(voting: Voting | None, mine: list[Solution], one: list[Solution]) -> dict[str, Any]:
    """How often one setting is right, and which problems it mends and breaks against one view."""
    right, alone = np.array([s.exact for s in mine]), np.array([s.exact for s in one])
    share = Share(int(right.sum()), len(mine))
    return {
        "views": voting.views if voting else 1,
        "rollouts": voting.rollouts if voting else 1,
        "noise": voting.noise if voting else 0.0,
        "temperature": voting.temperature if voting else 0.0,
        "per": voting.per if voting else None,
        "vote": voting.vote if voting else None,
        "right": share.right,
        "problems": share.total,
        "interval": share.interval,
        "mended": int((right & ~alone).sum()),
        "broken": int((~right & alone).sum()),
        "looks": float(np.mean([s.views for s in mine])),
        "steps": float(np.mean([sum(s.row_steps) for s in mine])),
    }


def seconds(
    solver: Solver, cases: list[Voting], problems: Problems, size: int, repeats: int = 3
) -> list[float]:
    """Seconds a problem without the memory: one view, then each case, medians over turns."""
    solvers = [solver, *(solver.with_voting(voting) for voting in cases)]
    took = np.zeros((repeats, len(solvers)))
    for turn in range(repeats):
        for i, case in enumerate(solvers):
            start = time.perf_counter()
            solve_all(case, problems, size)
            took[turn, i] = time.perf_counter() - start
    return [float(x) for x in np.median(took, axis=0) / len(problems)]


def measure(args: argparse.Namespace, digits_a: int, digits_b: int) -> dict[str, Any]:
    """All settings on one cell of the grid."""
    plain = load_solver(args.checkpoint, args.steps, args.side, args.side, device=args.device)
    solver = replace(plain, predictor=Remembering(plain.predictor))
    memory = solver.predictor
    assert isinstance(memory, Remembering)
    problems = cell_problems(plain.task, (digits_a, digits_b), args.problems, args.seed)
    cases = settings(args)
    one: list[Solution] = []
    by_case: list[list[Solution]] = [[] for _ in cases]
    for start in range(0, len(problems), args.batch_size):
        part = problems[start : start + args.batch_size]
        memory.forget()
        one += solver.solve(part, with_truth=True)
        for mine, voting in zip(by_case, cases, strict=True):
            mine += solver.with_voting(voting).solve(part, with_truth=True)
        print(f"{digits_a} x {digits_b}: {len(one)} of {len(problems)}", flush=True)
    # Votes cost alike, but what the product needs: log-probabilities.
    timed = [voting for voting in cases if voting.vote == "majority"]
    took = seconds(plain, timed, problems[: args.timed], args.batch_size) if args.timed else []
    return {
        "digits": [digits_a, digits_b],
        "one": reading(None, one, one) | {"seconds": took[0] if took else None},
        "votes": [
            reading(voting, mine, one)
            | {"seconds": took[1 + timed.index(replace(voting, vote="majority"))] if took else None}
            for voting, mine in zip(cases, by_case, strict=True)
        ],
    }


def table(cells: list[dict[str, Any]]) -> str:
    """The readings as Markdown, a line for each way of looking."""

    def percent(reading: dict[str, Any]) -> str:
        low, high = (100 * x for x in reading["interval"])
        value = 100 * reading["right"] / reading["problems"]
        change = f", +{reading['mended']} −{reading['broken']}" if reading["vote"] else ""
        return f"{value:.1f} ({low:.1f} to {high:.1f}{change})"

    lines = []
    for cell in cells:
        one = cell["one"]
        lines += [
            f"\n{cell['digits'][0]} x {cell['digits'][1]}, {one['problems']} problems\n",
            f"| looks | per | {' | '.join(VOTES)} | steps | seconds a problem |",
            "|" + "---|" * (len(VOTES) + 4),
        ]
        cost = f"{one['seconds']:.3f}" if one["seconds"] else ""
        lines.append(f"| 1 | | {percent(one)} |{' |' * len(VOTES)} {cost} |")
        for start in range(0, len(cell["votes"]), len(VOTES)):
            votes = cell["votes"][start : start + len(VOTES)]
            first = votes[0]
            chance = " ".join(f"{k} {first[k]:g}" for k in ("noise", "temperature") if first[k])
            what = (
                f"{first['rollouts']} rollouts, {chance}" if chance else f"{first['views']} views"
            )
            ratio = first["steps"] / one["steps"] if one["steps"] else first["looks"]
            cost = f"{first['seconds']:.3f}" if first["seconds"] else ""
            said = " | ".join(map(percent, votes))
            lines.append(f"| {what} | {first['per']} | {said} | {ratio:.1f} times | {cost} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument(
        "--digits", type=cell, nargs="+", required=True, metavar="AxB", help="like 4x4 8x8"
    )
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--views", type=int, nargs="*", default=(4, 16, 64))
    parser.add_argument("--symmetries", nargs="+", choices=[*SYMMETRIES, "all"])
    parser.add_argument("--rollouts", type=int, nargs="*", default=())
    parser.add_argument("--noise", type=float, nargs="*", default=())
    parser.add_argument("--temperature", type=float, nargs="*", default=())
    parser.add_argument("--side", type=int, help="of a square canvas (default: as trained)")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--timed", type=int, default=32, help="problems to time (0: none)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path, help="a JSON file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.symmetries is not None:
        names = SYMMETRIES if "all" in args.symmetries else args.symmetries
        args.symmetries = tuple(names)
    cells = []
    for digits_a, digits_b in args.digits:
        cells.append(measure(args, digits_a, digits_b))
        if args.output:
            args.output.write_text(json.dumps(cells, indent=1))
        print(table(cells[-1:]), flush=True)


if __name__ == "__main__":
    main()
