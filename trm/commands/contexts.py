"""`trm evaluate --contexts`: every digit, factor and carry that can meet within the training range.

What is shown, and what counts, is in `trm.evaluation.contexts`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from trm.checkpoints import SHIPPED, find_checkpoint
from trm.commands.arguments import info_console, one_device
from trm.commands.voting_arguments import voting_of
from trm.files import make_folder, read_object, replacing, sweep
from trm.precision import FLOAT32

if TYPE_CHECKING:
    from rich.console import Console

    from trm.evaluation.contexts import ContextCoverage

FILE, PICTURE = "contexts.json", "contexts.png"
PROBLEMS = 20_000  # of each split, looked through
_TIMES = 3  # that each context is shown
_LISTED = 20  # wrong ones, at most


def show_contexts(args: argparse.Namespace) -> int:
    """Show, judge, draw and sum up.

    Raises:
        ValueError: arguments that belong to a grid, or a layout whose contexts are not known.
    """
    checkpoints = args.checkpoint or [SHIPPED]
    _refuse(args, checkpoints)
    find_checkpoint(checkpoints[0])

    from rich.console import Console
    from rich.progress import Progress

    from trm.checkpoints.loading import load_solver
    from trm.evaluation.contexts import cover_contexts
    from trm.evaluation.grid_models import describe, labels
    from trm.figures.contexts import contexts_figure

    solver = load_solver(checkpoints[0], args.steps, device=one_device(args))
    output = Path(args.output)
    make_folder(output)
    if any((output / name).exists() for name in (FILE, PICTURE)) and "contexts" not in (
        read_object(output / FILE) or {}
    ):
        raise ValueError(
            f"{output / FILE} or {PICTURE} is in the way, and --contexts did not write it: choose "
            "another --output"
        )
    sweep(output, "contexts.*")
    searched = args.problems or PROBLEMS
    beside = info_console(args)
    with Progress(console=beside, transient=True, disable=not beside.is_terminal) as progress:
        bar = progress.add_task("looking and solving", total=2 * searched)
        coverage = cover_contexts(
            solver, searched, _TIMES, args.seed, lambda n: progress.advance(bar, n)
        )
    model = describe(checkpoints[0], (args.name or labels(checkpoints))[0], args.steps)
    del model["config"]
    with replacing(output / FILE) as part:
        content = {"model": model, "seed": args.seed, **coverage.to_json()}
        part.write_text(json.dumps(content) + "\n", encoding="utf-8")
    title = f"{model['name']}, {solver.task.layout}: what meets in a cell"
    with replacing(output / PICTURE) as part:
        contexts_figure(coverage, title).savefig(part, format="png")
    _tell(Console(highlight=False), coverage)
    beside.print(f"figures  {output / FILE}\npicture  {output / PICTURE}")
    return 0


def _refuse(args: argparse.Namespace, checkpoints: list[str | Path]) -> None:
    """Raise ValueError if something is asked for that belongs to grids."""
    from trm.evaluation.grid_schema import AXES

    given = [f"--{axis.replace('_', '-')}" for axis in AXES if getattr(args, axis) is not None]
    given += ["--battery"] * args.battery + ["--view"] * (args.view != "e")
    given += ["--precision"] * (args.precision != FLOAT32)
    given += ["several views, rollouts or orders"] * (voting_of(args) is not None)
    given += ["several checkpoints"] * (len(checkpoints) > 1)
    if given:
        raise ValueError(
            "--contexts shows one model single rows of the sizes it was trained on, as they are: "
            f"leave out {', '.join(given)}"
        )


def _tell(console: Console, coverage: ContextCoverage) -> None:
    """Print how many contexts there were and how they went, and the first wrong ones."""
    import numpy as np
    from rich.table import Table

    from trm.evaluation.contexts import ENDS, FIELDS

    failing, number = coverage.failing(), len(coverage.contexts)
    never = coverage.trained == 0
    known = number - int(never.sum())
    right = np.ones(number, dtype=bool)
    right[failing] = False
    console.print(
        f"{number:,} contexts in {coverage.searched:,} held-out problems, {coverage.problems:,} of "
        f"which were shown\nalways right: {right.sum():,}; of {known:,} that "
        f"{coverage.searched:,} training problems have, {(right & ~never).sum():,}; of "
        f"{never.sum():,} that they do not have, {(right & never).sum():,}",
        soft_wrap=True,
    )
    if not len(failing):
        return
    table = Table(
        *FIELDS[:4], "of the row", "right", "confidence", "in 100,000 digits of training",
        title=f"wrong ones{f', {_LISTED} of {len(failing):,}' if len(failing) > _LISTED else ''}",
    )  # fmt: skip
    for i in failing[:_LISTED]:
        *parts, end, _ = coverage.contexts[i].tolist()
        table.add_row(
            *map(str, parts),
            ENDS[end],
            f"{coverage.right[i]} of {coverage.shown[i]}",
            f"{coverage.confidence[i]:.3f}",
            f"{1e5 * coverage.trained[i] / coverage.digits:.1f}",
        )
    console.print(table)
