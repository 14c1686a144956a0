"""`trm evaluate`: how far models get beyond the sizes of problems that they were trained on."""

import argparse
import re
from pathlib import Path
from typing import Any

from augment.symmetry import SYMMETRIES
from canvas.sampling import FAMILIES
from canvas.task import Task
from trm.checkpoints import SHIPPED, find_checkpoint
from trm.commands.arguments import (
    add_checkpoint,
    add_devices,
    add_import,
    add_precision,
    info_console,
    precision_of,
    sizes_given,
    whole,
)
from trm.commands.contexts import PROBLEMS as CONTEXT_PROBLEMS
from trm.commands.contexts import show_contexts
from trm.commands.voting_arguments import add_voting, voting_of, with_voting
from trm.evaluation.grid_schema import AXES, BOARD, FAMILY, GRID, PICTURE, REPORT
from trm.files import replacing, sweep

_RANGE = re.compile(r"([1-9]\d{0,99})(?:(?:\.\.|-)([1-9]\d{0,99}))?")
_MOST = 1000  # lengths in a range
PROBLEMS, BATTERY_PROBLEMS = 128, 12  # of a cell
BATTERY_DIGITS = (4, 8, 16, 32, 64, 100)


def lengths(text: str) -> list[int]:
    """The whole numbers that ``3``, ``1..10``, ``1-10`` or ``1..4,8`` stand for, in order."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        ends = [int(end) for end in found.groups() if end] if found else [1, 0]
        if ends[0] > ends[-1]:
            raise argparse.ArgumentTypeError(
                f"{part!r} is no range of lengths; write it like 1..10, or 1..4,8"
            )
        if ends[-1] - ends[0] >= _MOST:
            raise argparse.ArgumentTypeError(f"{part!r} is a range of more than {_MOST:,} lengths")
        numbers.update(range(ends[0], ends[-1] + 1))
    return sorted(numbers)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    # Without a default of argparse's own, which would be extended, too.
    add_checkpoint(parser, nargs="+", action="extend", default=None)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    sizes = parser.add_argument_group(
        "sizes", "two of these, the rows and the columns of the grid; like 1..10 or 1..4,8"
    )
    for axis, meaning in AXES.items():
        sizes.add_argument(f"--{axis.replace('_', '-')}", type=lengths, metavar="N", help=meaning)
    sizes.add_argument(
        "--battery",
        action="store_true",
        help="families of structured problems instead, such as nines, zeros inside and 10..02, "
        f"of --digits N (default: {','.join(map(str, BATTERY_DIGITS))})",
    )
    sizes.add_argument(
        "--contexts",
        action="store_true",
        help="what can meet in a cell instead: every digit, factor and carry within the training "
        "range, row by row, and which are wrong",
    )
    parser.add_argument(
        "--problems",
        type=whole(1),
        help=f"of each cell, held out (default: {PROBLEMS}; in a battery {BATTERY_PROBLEMS}; with "
        f"--contexts those that are looked through, {CONTEXT_PROBLEMS})",
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="which problems (default: 0)")
    parser.add_argument(
        "--steps",
        type=whole(1),
        help="supervision steps a row gets at most, for recursive models (default: as each "
        "checkpoint says)",
    )
    parser.add_argument(
        "--batch-size", type=whole(1), default=128, help="problems at once (default: 128)"
    )
    parser.add_argument(
        "--name",
        nargs="+",
        action="extend",
        help="what to call the models, one name a checkpoint (default: their runs' names)",
    )
    add_devices(parser)
    add_precision(parser)
    add_import(parser)
    parser.add_argument("--nodes", type=whole(1), default=1, help="machines (default: 1)")
    parser.add_argument(
        "--oversubscribe", action="store_true", help="more processes than CPU cores"
    )
    parser.add_argument(
        "--view",
        choices=tuple(SYMMETRIES),
        default="e",
        help="turn every page like this before the model sees it (default: e, as it is)",
    )
    add_voting(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, or go on measuring; then draw and sum up."""
    if args.contexts:
        return show_contexts(args)
    voting = voting_of(args)
    checkpoints = args.checkpoint or [SHIPPED]
    for checkpoint in checkpoints:
        find_checkpoint(checkpoint)

    from trm.checkpoints.loading import load_solver
    from trm.evaluation.grid_run import Settings, measure

    tasks = []
    for checkpoint in checkpoints:  # says what is wrong before anything is measured
        solver = load_solver(checkpoint, device="cpu")
        tasks.append(solver.task)
        if args.view != "e":
            solver = solver.turned(args.view)
        if voting is not None:
            with_voting(solver, args)
    axes, rows, columns = sizes_of(args, tasks[0])
    settings = Settings(
        axes=axes,
        rows=rows,
        columns=columns,
        problems=args.problems or (BATTERY_PROBLEMS if args.battery else PROBLEMS),
        seed=args.seed,
        steps=args.steps,
        batch_size=args.batch_size,
        voting=voting,
        view=args.view,
        precision=precision_of(args),
    )
    output = Path(args.output)
    grid = measure(
        checkpoints,
        settings,
        output,
        args.name,
        args.accelerator,
        args.devices,
        args.nodes,
        args.quiet,
        args.oversubscribe,
    )
    if grid is not None:  # in the first of several processes
        _show(grid, output)
        info_console(args).print(
            f"figures   {output / GRID}\n"
            f"heat map  {output / PICTURE}\n"
            f"report    {output / REPORT}\n"
            f"browse    tensorboard --logdir {output / BOARD}"
        )
    return 0


def sizes_of(
    args: argparse.Namespace, task: Task
) -> tuple[tuple[str, str], tuple[Any, ...], tuple[int, ...]]:
    """Axes, rows and columns of the grid that a command line asks for.

    Raises:
        ValueError: the task has no such problems.
    """
    return (_battery if args.battery else _sizes)(args, task)


def _battery(
    args: argparse.Namespace, task: Task
) -> tuple[tuple[str, str], tuple[str, ...], tuple[int, ...]]:
    """The same of a battery: all families, and the digits of their problems.

    Raises:
        ValueError: other sizes are given, or the task has problems of another kind.
    """
    others = [axis for axis in AXES if axis != "digits" and getattr(args, axis, None)]
    if others:
        option = f"--{others[0].replace('_', '-')}"
        raise ValueError(
            f"a battery is measured by the digits of its problems: --digits, not {option}"
        )
    if task.arity[0] > 2 or task.arity[1] < 2:
        raise ValueError(f"a battery has problems of two operands, and {task.name} other ones")
    return (FAMILY, "digits"), tuple(FAMILIES), tuple(args.digits or BATTERY_DIGITS)


def _sizes(
    args: argparse.Namespace, task: Task
) -> tuple[tuple[str, str], tuple[int, ...], tuple[int, ...]]:
    """What the sizes of the grid are measured in, and those of rows and columns.

    Raises:
        ValueError: not two measures that belong together, or none of the task's.
    """
    given, axes = sizes_given(args, task)
    low, high = (tuple(given.get(axis) or _around(task, axis)) for axis in axes)
    return axes, low, high


def _around(task: Task, axis: str) -> tuple[int, ...]:
    """The sizes of a grid for which none are given: training's, and as many again."""
    low, high = task.ranges.get(axis, (1, 3))
    return tuple(range(low, 2 * high + 1))


def _show(grid: dict[str, Any], output: Path) -> None:
    from rich.console import Console

    from trm.evaluation.report import markdown, print_summary
    from trm.figures.heatmaps import save_grid
    from trm.figures.tensorboard_curves import write_tensorboard

    sweep(output, "grid.*")
    with replacing(output / PICTURE) as part:
        save_grid(part, grid)
    with replacing(output / REPORT) as part:
        part.write_text(markdown(grid, PICTURE), encoding="utf-8")
    write_tensorboard(output, grid)
    print_summary(Console(highlight=False), grid)
