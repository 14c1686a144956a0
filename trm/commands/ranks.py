"""`trm ranks`: how many directions the weights and states of models make use of, layer by layer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trm.checkpoints import SHIPPED, find_checkpoint
from trm.commands.arguments import (
    add_checkpoint,
    add_devices,
    add_import,
    info_console,
    one_device,
    whole,
)
from trm.files import make_own_folder, replacing, write_object

if TYPE_CHECKING:
    from rich.table import Table

    from trm.probing.ranks import Rank

FILE, PICTURE = "ranks.json", "ranks.png"
STEP = 8  # supervision step in which states are read
EXAMPLES = """\
examples:
  trm ranks --output ranks                                        # of the shipped model
  trm ranks --checkpoint depth-1 depth-2 depth-4 --output ranks   # side by side

Into the folder go ranks.json, all figures, and ranks.png.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    add_checkpoint(parser, nargs="+", action="extend", default=None)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--problems",
        type=whole(1),
        default=32,
        help="held out, as long as the longest of training, in whose rows states are read "
        "(default: 32)",
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="of the problems (default: 0)")
    parser.add_argument(
        "--step",
        type=whole(1),
        help=f"the supervision step in which states are read (default: {STEP}; of a model that "
        "works in the order of writing the last one, when nothing changes any more)",
    )
    add_devices(parser)
    add_import(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, draw, and print."""
    checkpoints = args.checkpoint or [SHIPPED]
    for checkpoint in checkpoints:
        find_checkpoint(checkpoint)

    from dataclasses import asdict

    from rich.console import Console

    from trm.checkpoints.loading import load_solver
    from trm.evaluation.models import describe, labels, versions
    from trm.figures.ranks import ranks_figure
    from trm.probing.ranks import state_ranks, weight_ranks

    output = Path(args.output)
    make_own_folder(output, "trm ranks", (FILE, PICTURE), "effective_ranks")
    device, found, models = one_device(args), {}, []
    for checkpoint, name in zip(checkpoints, labels(checkpoints), strict=True):
        info_console(args).print(f"reading {name}")
        solver = load_solver(checkpoint, device=device)
        about = describe(checkpoint, name)
        del about["config"]
        of_model = weight_ranks(solver.predictor.model)
        step = args.step or STEP
        if not args.step and solver.predictor.in_order:
            step = getattr(solver.predictor, "max_steps", step)
        of_model += state_ranks(solver, args.problems, args.seed, step)
        found[name] = of_model
        models.append(about | {"read_in": step, "ranks": [asdict(one) for one in of_model]})
    data = {
        "format": 1,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "settings": {"problems": args.problems, "seed": args.seed, "step": args.step},
        "effective_ranks": models,
    }
    write_object(output / FILE, data)
    with replacing(output / PICTURE) as part:
        ranks_figure(found).savefig(part, format="png")
    console = Console(highlight=False)
    for name, of_model in found.items():
        console.print(_table(name, of_model))
    info_console(args).print(f"figures  {output / FILE}\npicture  {output / PICTURE}")
    return 0


def _table(name: str, ranks: Sequence[Rank]) -> Table:
    """The ranks of one model."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=name, box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for column in ("", "layer", "", "effective rank", "of", "share"):
        table.add_column(column, justify="left" if not column else "right")
    kind, tokens = None, next((one.tokens for one in ranks if one.tokens), 0)
    table.caption = f"states of {tokens:,} tokens"
    for one in ranks:
        if kind not in (None, one.kind):
            table.add_section()
        table.add_row(
            "" if one.kind == kind else one.kind,
            str(one.layer),
            one.name,
            f"{one.rank:.1f}",
            str(one.full),
            f"{one.share:.2f}",
        )
        kind = one.kind
    return table
