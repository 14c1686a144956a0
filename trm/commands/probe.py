"""`trm probe`: which sub-tasks can be read from a model's states, and what it makes of them.

Linear probes on a frozen model, one for each sub-task (a hint of the layout), each state and each
supervision step, or each block of a GPT. They are fitted to problems of the training split, and
read on held-out problems of several sizes.
"""

import argparse
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from canvas.task import Task
from trm.checkpoints import find_checkpoint
from trm.commands.arguments import (
    add_checkpoint,
    add_devices,
    add_import,
    info_console,
    lengths,
    number,
    one_device,
    sizes_given,
    whole,
)
from trm.evaluation.grid import AXES
from trm.files import make_own_folder, replacing, sweep

FILE, PICTURE = "probe.json", "probe.png"
STEPS = 8  # supervision steps that are probed, unless the model solves with fewer
EXAMPLES = """\
examples:
  trm probe --checkpoint runs/standard_base3 --output probed
  trm probe --checkpoint C --digits-a 4,8 --digits-b 4,8 --steps 1..4,8,16 --output probed
  trm probe --checkpoint runs/gpt-standard --problems 64 --output probed

Into the folder go probe.json, all figures, and probe.png. The layout has to name sub-tasks (hints),
as standard does.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    add_checkpoint(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    sizes = parser.add_argument_group(
        "sizes",
        "lengths like 4 or 1..4,8; all combinations are probed (default: two sizes within the "
        "training range, three beyond it)",
    )
    for axis, meaning in AXES.items():
        sizes.add_argument(f"--{axis.replace('_', '-')}", type=lengths, metavar="N", help=meaning)
    parser.add_argument(
        "--problems", type=whole(1), default=32, help="of each size, held out (default: 32)"
    )
    parser.add_argument(
        "--train-problems",
        type=whole(1),
        default=400,
        help="of the training split, to fit the probes to (default: 400)",
    )
    parser.add_argument(
        "--seed", type=whole(0), default=0, help="of problems and control tasks (default: 0)"
    )
    parser.add_argument(
        "--steps",
        type=lengths,
        metavar="N",
        help=f"supervision steps that are probed, like 1..8,16 (default: 1..{STEPS}, or as many "
        "as the model solves with if these are fewer; of one that works in the order of writing "
        "also the last, when nothing changes any more); of a looped GPT, the last one is how often "
        "its blocks are applied",
    )
    parser.add_argument(
        "--layers", action="store_true", help="probe after each layer within a step, too"
    )
    parser.add_argument(
        "--l2",
        type=number(0),
        default=1e-3,
        help="weight decay of the probes (default: 0.001)",
    )
    add_devices(parser)
    add_import(parser)


def run(args: argparse.Namespace) -> int:
    """Fit, read, draw and sum up."""
    find_checkpoint(args.checkpoint)

    from dataclasses import replace

    from rich.console import Console

    from trm.checkpoints.loading import load_solver
    from trm.evaluation.models import describe, labels, versions
    from trm.figures.probing import probing_figure
    from trm.probing.report import print_study
    from trm.probing.study import Settings, check_hints, run_probes

    last = None if args.steps is None else args.steps[-1]
    solver = load_solver(args.checkpoint, last, device=one_device(args))
    check_hints(solver.task)
    sizes = chosen_sizes(args, solver.task)
    output = Path(args.output)
    make_own_folder(output, "trm probe", (FILE, PICTURE), "hints")
    beside = info_console(args)
    most = getattr(solver.predictor, "max_steps", STEPS)
    usual = {*range(1, min(STEPS, most) + 1), *([most] if solver.predictor.in_order else [])}
    settings = Settings(
        seed=args.seed,
        steps=tuple(args.steps or sorted(usual)),
        layers=args.layers,
        problems=args.problems,
        train_problems=args.train_problems,
        l2=args.l2,
    )
    study = run_probes(solver, sizes, settings, beside.print)
    about = describe(args.checkpoint, labels([args.checkpoint])[0])
    del about["config"]
    study = replace(
        study,
        model=about,
        versions=versions(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    sweep(output, "probe.*")
    study.write(output)
    with replacing(output / PICTURE) as part:
        probing_figure(study).savefig(part, format="png")
    print_study(Console(highlight=False), study)
    beside.print(f"figures  {output / FILE}\npicture  {output / PICTURE}")
    return 0


def chosen_sizes(args: argparse.Namespace, task: Task) -> list[dict[str, int]] | None:
    """The sizes that are named; None: none is. A measure that is not named is training's longest.

    Raises:
        ValueError: not two measures that belong together, or none of the task's.
    """
    given, axes = sizes_given(args, task)
    if not given:
        return None
    low, high = (given.get(axis) or [task.ranges.get(axis, (1, 3))[1]] for axis in axes)
    return [{axes[0]: a, axes[1]: b} for a, b in product(low, high)]
