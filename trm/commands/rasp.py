"""`trm rasp`: the program that a model should implement, alone, or beside a model's heads.

Programs are written in RASP (Weiss, Goldberg and Yahav 2021, "Thinking like transformers"): one for
the rows of each layout, see trm/rasp/programs.py. A problem alone is worked out by the program;
with --output the attention of a model's heads is compared with the program's selectors.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from trm.checkpoints import SHIPPED, find_checkpoint
from trm.commands.arguments import (
    add_checkpoint,
    add_devices,
    add_import,
    check_problems,
    info_console,
    lengths,
    one_device,
    read_problems,
    sizes_given,
    whole,
)
from trm.evaluation.grid import AXES
from trm.files import make_own_folder, replacing, write_object

if TYPE_CHECKING:
    from rich.console import Console

    from canvas.task import Task
    from trm.rasp.overlap import Head, Overlap
    from trm.rasp.study import Comparison

FILE = "rasp.json"
EXAMPLES = """\
examples:
  trm rasp 123x45 --layout lattice                # the program alone
  trm rasp --output compared                      # beside the heads of the shipped model
  trm rasp 2539x839 --checkpoint C --digits-a 4,8 --digits-b 4,8 --output compared

Into the folder go rasp.json, all figures; overlap.png, each head's attention on what each selector
selects; and heads.png, the heads and their best selectors on one row of one problem. TensorBoard
shows the same.
"""
_BOARD = ".trm-rasp"  # what the names of TensorBoard's files of ours end in
_TOO = 0.1  # a gain that makes a second selector worth a word
_ALONE, _COMPARED = ("layout", "base"), ("checkpoint", *AXES, "problems", "seed", "row")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "problem",
        nargs="?",
        help="like 123x45; with --output the one that is drawn (default: one of those held out)",
    )
    alone = parser.add_argument_group("the program alone")
    alone.add_argument(
        "--layout", help="see `trm render --help` (default: standard, and of addition column)"
    )
    alone.add_argument("--base", type=int, choices=range(2, 11), metavar="2..10")
    compared = parser.add_argument_group("beside the heads of a model")
    compared.add_argument("--output", metavar="DIR", help="folder for figures and pictures")
    add_checkpoint(parser, default=None)
    for axis, meaning in AXES.items():
        compared.add_argument(
            f"--{axis.replace('_', '-')}",
            type=lengths,
            metavar="N",
            help=f"{meaning}, like 4 or 4,8 (default: the longest of training)",
        )
    compared.add_argument(
        "--problems", type=whole(1), help="of each size, held out, all rows of each (default: 16)"
    )
    compared.add_argument("--seed", type=whole(0), help="of the problems (default: 0)")
    compared.add_argument(
        "--row",
        type=whole(1),
        metavar="N",
        help="of the rows to fill in, the one that is drawn, from 1 (default: the last)",
    )
    add_devices(parser)
    add_import(parser)


def run(args: argparse.Namespace) -> int:
    """Run the program, or compare."""
    unused = _ALONE if args.output else _COMPARED
    wrong = [f"--{name.replace('_', '-')}" for name in unused if getattr(args, name) is not None]
    if args.problem is not None:
        check_problems([args.problem])
    if args.output:
        if wrong:
            raise ValueError(f"{wrong[0]} is the checkpoint's in a comparison: leave it out")
        return _compare(args)
    if wrong:
        raise ValueError(f"{wrong[0]} is of a comparison with a model: add --output DIR")
    if args.problem is None:
        raise ValueError(
            "name a problem for the program, like 123x45, or --output DIR to compare the heads of "
            "a model with it"
        )
    return _run_program(args)


def _run_program(args: argparse.Namespace) -> int:
    """Work one problem out by the program, and print it."""
    from rich.console import Console

    from canvas import TASKS
    from canvas.picture import to_terminal
    from canvas.render import draw_worked
    from trm.rasp.programs import PROGRAMS
    from trm.rasp.running import check_program, run_program

    kinds = [k for k in TASKS.values() if any(sign in args.problem for sign in k.signs)]
    kind = kinds[0] if kinds else TASKS["multiplication"]
    task = kind(**{"layout": args.layout or next(iter(kind.layouts)), "base": args.base or 10})
    check_program(task.layout)
    problems = read_problems([args.problem], task)
    worked = task.rules.work(problems).trimmed()
    height, width = int(worked.heights[0]), int(worked.widths[0])
    drawing = draw_worked(worked, height + 2, width + 2, 1, 1)
    ran = run_program(task.layout, drawing, task.base)
    console = Console(highlight=False)
    about = " ".join((PROGRAMS[task.layout].__doc__ or "").split("\n\n")[0].split())
    console.print(f"{task.layout}: {about}")
    truth, given = drawing.truth[0], drawing.given[0]
    console.print(to_terminal(ran.canvases[0], truth=truth, given=given))
    right = drawing.rows_right(ran.canvases)[0]
    console.print(f"rows right: {right.sum()} of {len(right)}")
    console.print(f"rules applied, row by row: {', '.join(map(str, ran.iterations))}")
    console.print(f"selectors: {', '.join(ran.selectors)}")
    return 0


def _compare(args: argparse.Namespace) -> int:
    """Compare heads with selectors; print, draw and write."""
    checkpoint = args.checkpoint or SHIPPED
    find_checkpoint(checkpoint)

    import numpy as np
    from rich.console import Console
    from torch.utils.tensorboard.writer import SummaryWriter

    from canvas import symbols
    from canvas.picture import pixels
    from trm.checkpoints.loading import load_solver
    from trm.evaluation.cell_problems import cell_problems
    from trm.evaluation.models import describe, labels, versions
    from trm.figures.rasp import overlap_figure, rasp_figure
    from trm.models.gpt import GPT
    from trm.rasp.language import Selector
    from trm.rasp.running import check_program
    from trm.rasp.study import compare_heads, one_row

    solver = load_solver(checkpoint, device=one_device(args))
    check_program(solver.task.layout)
    task = solver.task
    sizes = _sizes(args, task)
    count, seed = args.problems or 16, args.seed or 0
    if args.problem is None:
        problem = cell_problems(task, task.of_size(**sizes[0]), 1, seed)
    else:
        problem = read_problems([args.problem], task)
    if len(problem):
        number = int(solver.draw(problem).steps[0])
        if args.row and args.row > number:
            name = task.names(problem)[0]
            raise ValueError(f"--row {args.row}: {name} has {number} rows to fill in")
    output = Path(args.output)
    make_own_folder(output, "trm rasp", (FILE, "heads.png", "overlap*.png"), "program_selectors")
    beside, console = info_console(args), Console(highlight=False)
    found = [compare_heads(solver, size, count, seed, beside.print) for size in sizes]
    row, at, seen = one_row(solver, problem, args.row and args.row - 1)
    cells = np.argwhere(row.answer[0] & (row.labels[0] != symbols.BLANK))
    cell = int(cells[len(cells) // 2][0]), int(cells[len(cells) // 2][1])
    canvas = row.inputs[0].copy()
    if isinstance(solver.predictor.model, GPT):  # it has read the row as far as the cell
        canvas[cell[0], cell[1] + 1 :] = row.labels[0][cell[0], cell[1] + 1 :]
    attention = {n: weights[:, 0, :, :, : canvas.size] for n, weights in seen.attention.items()}
    selectors = seen.selectors
    if seen.visible is not None:
        read = Selector(seen.visible[:, : canvas.size])
        selectors = {name: one & read for name, one in selectors.items()}
    name = task.names(problem)[0].replace("x", "×")
    title = (
        f"{name}, row {at + 1}: what the framed cell selects, and what the head looks at\n"
        f"(selectors by their overlap over {found[0].problems} problems of {found[0].name})"
    )
    figures = {"heads": rasp_figure(canvas, cell, attention, selectors, found[0].heads, title)}
    for one in found:
        ending = "" if len(found) == 1 else "_" + "x".join(map(str, one.size.values()))
        heading = (
            f"Attention on what is selected\n{one.problems} problems of {one.name}, {task.layout}"
        )
        figures[f"overlap{ending}"] = overlap_figure(one.heads, heading)
    about = describe(checkpoint, labels([checkpoint])[0])
    del about["config"]
    data = {
        "format": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": about,
        "versions": versions(),
        "settings": {"problems": count, "seed": seed},
        "program_selectors": sorted(seen.used),
        "sizes": [one.as_dict() for one in found],
    }
    for old in [*output.glob(f"events.out.tfevents.*{_BOARD}"), *output.glob("overlap*.png")]:
        old.unlink()
    write_object(output / FILE, data)
    with SummaryWriter(str(output), filename_suffix=_BOARD) as board:
        for title, figure in figures.items():
            with replacing(output / f"{title}.png") as part:
                figure.savefig(part, format="png")
            board.add_image(f"rasp/{title}", pixels(figure), dataformats="HWC")
    for one in found:
        _tell(console, one, task.layout)
    for file in (FILE, *(f"{title}.png" for title in figures)):
        beside.print(f"{output / file}")
    beside.print(f"browse  tensorboard --logdir {output}")
    return 0


def _sizes(args: argparse.Namespace, task: Task) -> list[dict[str, int]]:
    """All combinations of what is named; a measure that is not named is training's longest."""
    given, axes = sizes_given(args, task)
    named = [given.get(axis) or [task.ranges[axis][1]] for axis in axes]
    return [dict(zip(axes, size, strict=True)) for size in product(*named)]


def _tell(console: Console, found: Comparison, layout: str) -> None:
    """Print each head with the selector that matches it best, and the next one."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    several = len({head.update for head in found.heads}) > 1
    columns = ("layer", "head", "selector", "overlap", "baseline", "untrained", "next best")
    title = f"{found.name}: {found.problems} problems, {found.rows} rows"
    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column != columns[-1])
    for head, before in zip(found.heads, found.untrained, strict=True):
        if head.head == 1 and table.rows:
            table.add_section()
        layer = f"{head.update}, {head.layer}" if several else str(head.layer)
        best = head.best
        table.add_row(
            layer if head.head == 1 else "",
            str(head.head),
            _starred(best),
            _with_interval(best),
            f"{best.baseline:.2f}",
            f"{before.of(best.selector).overlap:.2f}",
            _next_best(head),
        )
    console.print(table)
    console.print(
        f"* in the program of {layout}, which writes {found.program_right} of these rows right. "
        "Overlap: attention on the selected cells, with its 95 % interval; baseline: that of "
        "uniform attention over all that the head can see; untrained: that of the head before "
        "training."
    )


def _starred(one: Overlap) -> str:
    return f"{one.selector} *" if one.in_program else one.selector


def _with_interval(one: Overlap) -> str:
    """Like 0.79 ±0.01; of a single problem without."""
    half = max(one.overlap - one.low, one.high - one.overlap)
    return f"{one.overlap:.2f} ±{half:.2f}" if one.problems > 1 else f"{one.overlap:.2f}"


def _next_best(head: Head) -> str:
    """Another selector at whose cells the head looks, too; empty if there is none."""
    from trm.rasp.page import LINES

    for one in head.overlaps[1:]:
        alike = _direction(one.selector) == _direction(head.best.selector)  # often the same cell
        if one.gain >= _TOO and not alike and one.selector not in LINES:
            return f"{_starred(one)} {one.overlap:.2f}"
    return ""


def _direction(selector: str) -> str:
    return selector.removeprefix("first written ").removeprefix("far ")
