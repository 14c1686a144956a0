"""Do models end in the same solution from any state?

    python benchmarks/healing.py cells --output docs/healing.png
    python benchmarks/healing.py starts --checkpoint trm-quick-seed0 --digits 3 2 --problems 40

*cells*: of cell models, the supervision steps until nothing changes, by length, from the blank
canvas and from random messages and symbols, beside the longest chain of cells; as a figure and a
table. Each random start is one of its problem's own.

*starts*: of a recursive transformer, the share of states that end in the correct row, in the row of
the model's own start, and in a row that changes no more. Rows are teacher-forced, and nothing
halts. States are the model's own start, normal noise in all cells, and what the own start ended in,
with noise in a random half of the cells. Then whole solutions, free-running, as `trm solve` takes
them. Intervals are bootstraps over problems; where all ends are alike, Wilson's for the problems.
Last, rows that stay incorrect: after how many further steps, and how far the state still moves.

Held-out problems of the test split.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from canvas.drawing import RowSteps, row_steps
from canvas.picture import to_text
from canvas.symbols import MASK
from trm import load_solver
from trm.evaluation.grid_cells import cell_problems
from trm.evaluation.statistics import Share, bootstrap
from trm.figures.style import mark, new_figure, save, tidy
from trm.io.markdown import table
from trm.models.iterative import Loop
from trm.models.states import map_state, named
from trm.runtime.torch_settings import tensor_for
from trm.solving.noise import random_state
from trm.solving.solver import Solver

CELL_MODELS = ("lattice", "written-seed1")
SIZES = (2, 4, 6, 8, 12, 16)
UNCHANGED = 8  # last steps in which a row may not change, to count as settled
AT_ONCE = 64  # rows
FURTHER = 500  # steps after which an incorrect row is looked at again


class Steps(NamedTuple):
    """Supervision steps of a model's problems of one length, int64 [N]."""

    digits: int  # of both numbers
    start: str  # blank, or noise
    steps: np.ndarray  # until nothing changes
    bound: np.ndarray  # cells in the longest chain
    correct: np.ndarray  # bool [N]


def settling(name: str, sizes: Sequence[int], problems: int, starts: int, seed: int) -> list[Steps]:
    """Measure the steps of a cell model, from the blank canvas and from random states."""
    blank = load_solver(name, steps=10_000, device="cpu")
    found = []
    for digits in sizes:
        drawn = cell_problems(blank.task, (digits, digits), problems, seed)
        solvers = {"blank": [blank], "noise": [blank.from_noise(i) for i in range(starts)]}
        for start, of in solvers.items():
            solved = [one for solver in of for one in solver.solve(drawn)]
            counts = [[one.steps, one.longest_chain or 0, one.correct] for one in solved]
            steps, bound, correct = np.array(counts).T
            found.append(Steps(digits, start, steps, bound, correct.astype(bool)))
    return found


def draw(found: dict[str, list[Steps]], note: str) -> Any:
    """Draw steps against digits, with the bound, a panel for each model."""
    figure = new_figure(9, 4, "Steps until nothing changes, all cells at once", note)
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (name, of) in zip(panels, found.items(), strict=True):
        for i, start in enumerate(("blank", "noise")):
            here = [one for one in of if one.start == start]
            lengths = np.array([one.digits for one in here])
            middle = np.array([np.median(one.steps) for one in here])
            ends = [[one.steps.min() for one in here], [one.steps.max() for one in here]]
            about = "the blank canvas" if start == "blank" else "random messages and symbols"
            style = {"label": f"from {about}", "capsize": 3, "linewidth": 1.2, **mark(i)}
            reach = np.abs(np.array(ends) - middle)
            axes.errorbar(lengths + 0.12 * (2 * i - 1), middle, reach, **style)
        longest = [one.bound.max() for one in of if one.start == "blank"]
        digits = [one.digits for one in of if one.start == "blank"]
        axes.plot(digits, longest, "k--", label="longest chain of cells: the bound")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("digits of each number")
        axes.set_xticks(digits)
        tidy(axes)
    panels[0].set_ylim(0)  # of all panels
    panels[0].set_ylabel("supervision steps")
    panels[0].legend(frameon=False, fontsize=8.5)
    return figure


def cells(args: argparse.Namespace) -> None:
    """Draw the figure, and print its figures."""
    found = {
        name: settling(name, args.sizes, args.problems, args.starts, args.seed)
        for name in args.checkpoint or CELL_MODELS
    }
    lines = [
        [name, f"{one.digits}", one.start, f"{one.correct.sum()} of {len(one.correct)}",
         f"{np.median(one.steps):g} ({one.steps.min()} to {one.steps.max()})", f"{one.bound.max()}"]
        for name, of in found.items() for one in of
    ]  # fmt: skip
    heads = ["model", "digits", "start", "correct", "steps, median (range)", "longest chain"]
    print(table(heads, lines))
    if args.output:
        note = f"{args.problems} held-out problems of each length, {args.starts} random starts each"
        save(draw(found, f"{note}; median, lowest and highest."), args.output)


class Ended(NamedTuple):
    """Ends of B rows."""

    cells: np.ndarray  # uint8 [B, H, W], with the row filled in
    settled: np.ndarray  # bool [B], unchanged in the last `UNCHANGED` steps
    state: Any  # of the model, on the CPU


def follow(
    solver: Solver, inputs: np.ndarray, steps: int, begin: Callable[[Loop], Any] | None = None
) -> Ended:
    """Take supervision steps on rows, from the model's own start or from another state."""
    tokens = tensor_for(solver.predictor.model, inputs)
    loop = Loop(solver.predictor.model, tokens)
    if begin is not None:
        loop.state = begin(loop)
    before, calm = tokens, torch.zeros(len(tokens), dtype=torch.long)
    for _ in range(steps):
        loop.step()
        answer = loop.read()[0].argmax(dim=-1).to(tokens.dtype)
        answer = torch.where(tokens == MASK, answer, tokens)
        calm = (calm + 1) * (answer == before).flatten(1).all(dim=1)
        before = answer
    return Ended(before.numpy(), (calm >= UNCHANGED).numpy(), loop.state)


def halves(state: Any, noise: Any, generator: torch.Generator) -> Any:
    """Return a state with noise in a random half of its cells; parts are [B, cells, D]."""
    some = next(iter(named(state).values()))
    chosen = torch.rand(some.shape[:2], generator=generator) < 0.5
    return map_state(lambda z, n: torch.where(chosen.unsqueeze(-1), n, z), state, noise)


def row_ends(solver: Solver, rows: RowSteps, steps: int, starts: int) -> dict[str, list[Ended]]:
    """Follow every row from its own start, from noise, and from its own end, half disturbed."""
    ends: dict[str, list[list[Ended]]] = {"own": [[]], "noise": [], "half": []}
    for kind in ("noise", "half"):
        ends[kind] = [[] for _ in range(starts)]
    for first in range(0, len(rows.inputs), AT_ONCE):
        inputs = rows.inputs[first : first + AT_ONCE]
        own = follow(solver, inputs, steps)
        ends["own"][0].append(own)
        for number in range(starts):
            which = np.full(len(inputs), number)
            generator = torch.Generator().manual_seed(1_000 * number + first)

            def noise(loop: Loop, inputs: np.ndarray = inputs, which: np.ndarray = which) -> Any:
                return random_state(loop, inputs, 0, which)

            def half(loop: Loop, own: Ended = own, noise: Any = noise, by: Any = generator) -> Any:
                return halves(own.state, noise(loop), by)

            ends["noise"][number].append(follow(solver, inputs, steps, noise))
            ends["half"][number].append(follow(solver, inputs, steps, half))
    return {kind: [joined(parts) for parts in of] for kind, of in ends.items()}


def joined(parts: Sequence[Ended]) -> Ended:
    """Return the ends of several batches as one, without states: they differ in size."""
    cells, settled = (np.concatenate([one[i] for one in parts]) for i in (0, 1))
    return Ended(cells, settled, None)


def share(hits: np.ndarray, problem: np.ndarray) -> str:
    """Percent of hits, bool [starts, N], with an interval over problems, int64 [N]."""
    of = np.bincount(problem).astype(float) * len(hits)
    low, high = bootstrap(np.bincount(problem, weights=hits.sum(axis=0)), of)
    if low == high:  # all alike: Wilson's interval, as if each problem were one try
        low, high = Share(int(hits.mean() * len(of)), len(of)).interval
    return f"{100 * hits.mean():.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def starts(args: argparse.Namespace) -> None:
    """Print the shares of a recursive transformer, and some rows that stay incorrect."""
    solver = load_solver(args.checkpoint[0], steps=args.steps, device="cpu")
    problems = cell_problems(solver.task, args.digits, args.problems, args.seed)
    rows = row_steps(solver.draw_worked(problems))
    with torch.inference_mode():
        found = row_ends(solver, rows, args.steps, args.starts)
    own, lines, stuck = found["own"][0], [], []
    for kind, ends in found.items():
        right = np.array([(one.cells == rows.labels).all(axis=(1, 2)) for one in ends])
        same = np.array([(one.cells == own.cells).all(axis=(1, 2)) for one in ends])
        calm = np.array([one.settled for one in ends])
        columns = (right, same, ~right & calm, ~right & ~calm)
        lines.append([kind, f"{right.size}", *(share(one, rows.problem) for one in columns)])
        stuck += [(kind, i, j) for i, j in np.argwhere(~right & calm)]
    lengths = " x ".join(map(str, args.digits))
    print(f"{args.checkpoint[0]}, {lengths} digits, {len(problems)} problems")
    print(f"{len(rows.inputs)} rows, {args.starts} starts of each, {args.steps} steps\n")
    heads = ["start", "ends", "correct", "as from its own start", "incorrect, unchanged"]
    print(table([*heads, "incorrect, changing"], lines), flush=True)
    of = np.arange(len(problems))
    solvers = {"own": [solver], "noise": [solver.from_noise(i) for i in range(args.starts)]}
    for kind, each in solvers.items():
        solved = [one.solve(problems) for one in each]
        right = np.array([[one.correct for one in each] for each in solved])
        print(
            f"\nwhole solutions, {kind}: {right.sum()} of {right.size}, {share(right, of)}", end=""
        )
        some, all_of = right.any(axis=0), right.all(axis=0)
        print(f"; {all_of.sum()} from every start, {(some & ~all_of).sum()} from some", flush=True)
    shown: set[int] = set()
    for kind, i, j in stuck:
        if kind != "half" and j not in shown and len(shown) < args.show:
            shown.add(j)
            attractor(solver, rows, int(j), args.steps, None if kind == "own" else int(i))


@torch.inference_mode()
def attractor(solver: Solver, rows: RowSteps, row: int, steps: int, start: int | None) -> None:
    """Print a row that stays incorrect, and what it is after further steps.

    Args:
        solver: of a recursive transformer.
        rows: all rows.
        row: index of the row.
        steps: after which the row was judged.
        start: number of its random start; None: the model's own start.
    """
    inputs = rows.inputs[row : row + 1]

    def begin(loop: Loop) -> Any:
        return loop.state if start is None else random_state(loop, inputs, 0, np.array([start]))

    first = follow(solver, inputs, steps, begin)
    later = follow(solver, inputs, FURTHER, lambda _: first.state)
    after = follow(solver, inputs, 1, lambda _: later.state)
    z, next_z = (torch.cat([*map(torch.flatten, named(s.state).values())]) for s in (later, after))
    moved = float((next_z - z).norm() / z.norm())
    end = Loop(solver.predictor.model, tensor_for(solver.predictor.model, inputs))
    end.state = later.state
    sure, same = float(end.read()[1].sigmoid()), bool((later.cells == first.cells).all())
    name = "the model's own start" if start is None else f"random start {start}"
    print(f"\nrow {row}, from {name}: after {FURTHER} further steps the same: {same};")
    print(f"one more step moves the state by {moved:.1e} of its length; confidence {sure:.3f}")
    print(f"\n{to_text(later.cells[0])}\n\ncorrect:\n\n{to_text(rows.labels[row])}")


def main() -> None:
    """Measure one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["cells", "starts"])
    parser.add_argument("--checkpoint", nargs="+")
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--starts", type=int, default=4, help="random states of each problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="digits, of cells")
    parser.add_argument("--output", type=Path, help="a PNG, of cells")
    parser.add_argument("--digits", type=int, nargs=2, default=(3, 2), help="of starts")
    parser.add_argument("--steps", type=int, default=64, help="of each row, of starts")
    parser.add_argument("--show", type=int, default=2, help="most incorrect rows to print")
    args = parser.parse_args()
    {"cells": cells, "starts": starts}[args.what](args)


if __name__ == "__main__":
    main()
