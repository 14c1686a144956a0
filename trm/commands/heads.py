"""`trm heads`: what each head brings to the answer, by activation patching over many pairs."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trm.checkpoints import find_checkpoint
from trm.commands.arguments import (
    add_checkpoint,
    add_devices,
    add_import,
    info_console,
    one_device,
    sizes_given,
    whole,
)
from trm.evaluation.grid import AXES
from trm.files import make_own_folder, replacing, write_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from trm.probing.heads import HeadEffects

FILE, PICTURE = "heads.json", "heads.png"
KINDS = ("digit", "factor", "carry", "total")
EXAMPLES = """\
examples:
  trm heads --output heads                                    # of the shipped model
  trm heads --checkpoint C --digits 7 --addends 2 --kinds carry --pairs 100 --output heads

Into the folder go heads.json, all figures with the problems of each pair, and heads.png.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    add_checkpoint(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--kinds",
        type=_kinds,
        default=(),
        metavar="KIND",
        help="what differs in a pair, like digit,carry: digit (another digit of a, or of an "
        "addend), factor (another multiplier digit), carry (another carry alone), total (another "
        "row above) (default: all that the task and the layout have)",
    )
    for axis, meaning in AXES.items():
        parser.add_argument(
            f"--{axis.replace('_', '-')}",
            type=whole(1),
            metavar="N",
            help=f"{meaning} (default: the most of training)",
        )
    parser.add_argument(
        "--pairs", type=whole(2), default=50, help="of each kind, held out (default: 50)"
    )
    parser.add_argument(
        "--seed", type=whole(0), default=0, help="of the pairs, and of the bootstrap (default: 0)"
    )
    add_devices(parser)
    add_import(parser)


def run(args: argparse.Namespace) -> int:
    """Draw pairs, patch, draw, and print."""
    find_checkpoint(args.checkpoint)

    from rich.console import Console

    from trm.checkpoints.loading import load_solver
    from trm.evaluation.grid import size_name
    from trm.evaluation.models import describe, labels, versions
    from trm.figures.heads import heads_figure
    from trm.probing.heads import head_effects

    solver = load_solver(args.checkpoint, device=one_device(args))
    _, axes = sizes_given(args, solver.task)
    low, high = (getattr(args, axis) or solver.task.ranges[axis][1] for axis in axes)
    size = {axes[0]: low, axes[1]: high}
    output = Path(args.output)
    make_own_folder(output, "trm heads", (FILE, PICTURE), "head_effects")
    beside = info_console(args)
    found = head_effects(solver, size, args.kinds, args.pairs, args.seed, beside.print)
    about = describe(args.checkpoint, labels([args.checkpoint])[0])
    del about["config"]
    data = {
        "format": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": about,
        "versions": versions(),
        "settings": {"pairs": args.pairs, "seed": args.seed, "size": size},
        "head_effects": [one.as_dict() for one in found],
    }
    write_object(output / FILE, data)
    title = f"What heads bring to the answer: {size_name(axes, (low, high))}"
    with replacing(output / PICTURE) as part:
        heads_figure(found, title).savefig(part, format="png")
    console = Console(highlight=False)
    console.print(_table(found))
    for one in found:
        line = f"{one.kind}: {one.meaning}, {len(one.pairs)} pairs"
        if one.left_out:
            line += f"; {one.left_out} left out, as the model is wrong in a row of them"
        console.print(line)
    console.print(
        "Effect: 0, the first problem's answer stands; 1, the model says the second's as clearly "
        "as in its own run. With the 95 % bootstrap interval over pairs."
    )
    beside.print(f"figures  {output / FILE}\npicture  {output / PICTURE}")
    return 0


def _table(found: Sequence[HeadEffects]) -> Table:
    """Heads down, kinds of pairs across."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in ("layer", "head", *(one.kind for one in found)):
        table.add_column(column, no_wrap=True)
    for layer, site in enumerate(found[0].sites):
        for head in range(len(found[0].mean[layer])):
            if head == 0 and layer:
                table.add_section()
            effects = (_with_interval(one, layer, head) for one in found)
            table.add_row("" if head else site, str(head + 1), *effects)
    return table


def _with_interval(one: HeadEffects, layer: int, head: int) -> str:
    """Like 0.79 (0.77–0.80); no minus before a zero."""
    mean, low, high = (
        f"{ends[layer][head]:.2f}".replace("-0.00", "0.00").replace("-", "−")
        for ends in (one.mean, one.low, one.high)
    )
    return f"{mean} ({low}–{high})"


def _kinds(text: str) -> tuple[str, ...]:
    """Kinds of pairs, in the order in which they are named, each once."""
    named = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in named:
        if name not in KINDS:
            raise argparse.ArgumentTypeError(
                f"{name!r} is no kind of pair; there are {', '.join(KINDS)}"
            )
    return named
