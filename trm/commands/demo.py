"""`trm demo`: watch a trained model work, and learn how often it is right."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from canvas.problems import Problems
from canvas.sampling import sample
from trm.checkpoints import SHIPPED, find_checkpoint
from trm.commands.arguments import add_solver, info_console, one_device, whole
from trm.commands.solve import solve_and_show
from trm.files import make_folder

if TYPE_CHECKING:
    from rich.console import Console

    from trm.solving.solver import Solver
    from trm.solving.watching import Moment

FOLDER = "demo"  # for the pictures of the shipped model: nothing is written beside that
SHOWN = 3  # problems worked out before the reader's eyes
FACTORS = (2, 4)  # digits of the longer problems, of the longest in training
LONGER = 50  # problems of each such size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_solver(parser)
    parser.add_argument("--problems", type=whole(1), default=1000, help="held out (default: 1000)")
    parser.add_argument("--seed", type=whole(0), default=0, help="which problems (default: 0)")
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="for the pictures (default: beside the checkpoint; of the model that comes with the "
        f"package, {FOLDER})",
    )


def run(args: argparse.Namespace) -> int:
    """Watch, measure, draw, and say what to try next."""
    checkpoint = find_checkpoint(args.checkpoint)
    # A run keeps its checkpoints in a folder of that name; any other checkpoint stands alone.
    folder = checkpoint.parent
    run_folder = folder.parent if folder.name == "checkpoints" else folder
    output = Path(args.output or (FOLDER if checkpoint == SHIPPED else run_folder))
    make_folder(output)

    from rich.console import Console

    from trm.checkpoints.loading import load_solver

    solver = load_solver(checkpoint, args.steps, device=one_device(args))
    task = solver.task
    console = Console(highlight=False)

    console.rule("Problems it has never seen, row by row")
    shown = sample(task, args.seed, "test", 0, np.arange(SHOWN), task.longest)
    for i in range(SHOWN):
        solve_and_show(console, solver, shown[i : i + 1], watch=True)

    console.rule("How often it is right")
    _measure(console, solver, args.problems, args.seed, args.quiet)

    console.rule("Longer than anything it was trained on")
    try:
        _try_longer(console, solver, args.seed, args.quiet)
    except ValueError as error:
        console.print(f"It cannot try: {error}\n")

    picture, animation = _draw(solver, shown[:1], output)
    problem = task.names(shown)[-1].replace(" ", "")
    beside = info_console(args)
    beside.rule("What to try next")
    if shutil.which("trm") is None:
        beside.print(f"first         export PATH={Path(sys.executable).parent}:$PATH")
    which = "" if checkpoint == SHIPPED else f"--checkpoint {checkpoint} "
    beside.print(
        f"look at       {picture}\n"
        f"watch         {animation}\n"
        f"your problem  trm solve {which}--watch {problem}"
    )
    if folder != run_folder:
        beside.print(f"see inside    tensorboard --logdir {run_folder}")
    beside.print("train more    trm fit --config generalise/lattice")
    return 0


def _measure(console: Console, solver: Solver, problems: int, seed: int, quiet: bool) -> None:
    from rich.progress import track
    from rich.table import Table

    from trm.evaluation.accuracy import answers, by_size, held_out, workings
    from trm.evaluation.grid import AXES

    batch = 100
    solutions = []
    starts = range(0, problems, batch)
    for start in track(starts, "solving", console=console, transient=True, disable=quiet):
        solutions += held_out(solver, min(batch, problems - start), seed=seed, first=start)
    cells = by_size(solutions, solver.task)
    rows = sorted({a for a, _ in cells})
    columns = sorted({b for _, b in cells})
    first, second = (AXES[axis] for axis in solver.task.axes)
    heads = [f"{second} {b}" for b in columns]
    table = Table(first, *heads, title="right answers")
    for a in rows:
        shares = [cells.get((a, b)) for b in columns]
        table.add_row(str(a), *["" if s is None else f"{s.value:.1%} of {s.total}" for s in shares])
    console.print(table)
    console.print(
        f"{answers(solutions)} of held-out answers exact, every row built on the model's own;\n"
        f"{workings(solutions)} of whole workings exact. Test problems, sizes drawn evenly, "
        f"problem seed {seed}.\n",
        soft_wrap=True,
    )


def _try_longer(console: Console, solver: Solver, seed: int, quiet: bool) -> None:
    """One problem with more digits than in training, and how many of some are right.

    Raises:
        ValueError: the model takes no problem of that size.
    """
    from rich.progress import track

    from trm.evaluation.accuracy import answers

    task = solver.task
    batches = []
    for factor in FACTORS:
        lengths = tuple(factor * n for n in task.longest)
        batches.append(sample(task, seed, "test", 0, np.arange(LONGER), lengths))
    solver.draw(batches[-1])  # complain before the first is shown
    solve_and_show(console, solver, batches[0][:1])
    shares = []
    for problems in track(batches, "solving", console=console, transient=True, disable=quiet):
        shares.append(answers(solver.solve(problems, with_truth=True)))
    for factor, share in zip(FACTORS, shares, strict=True):
        size = " x ".join(str(factor * n) for n in task.longest)
        console.print(f"{size} digits: {share} of answers right", soft_wrap=True)
    console.print()


def _draw(solver: Solver, problem: Problems, output: Path) -> tuple[Path, Path]:
    from canvas.picture import save_gif
    from trm.figures.animation import animate
    from trm.solving.watching import solve_watched

    moments: list[Moment] = []
    film = list(animate(solve_watched(solver, problem, moments.append), moments))
    picture, animation = output / "solved.png", output / "solving.gif"
    film[-1][0].savefig(picture)
    save_gif(animation, film)
    return picture, animation
