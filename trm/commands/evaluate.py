"""`trm evaluate`: accuracy of models on problems of many sizes, also larger than in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canvas.task import Task
from trm.commands import puzzles
from trm.commands.arguments import Arguments
from trm.commands.parser import Parser, whole
from trm.evaluation.grid import Grid
from trm.evaluation.grid_format import FILES, REPORT

EXAMPLES = """\
examples:
  trm evaluate --checkpoint runs/trm-quick --digits-a 1..5 --digits-b 1..3 --output grid
  trm evaluate --checkpoint trm-lattice-whole-seed0 gpt-lattice-learned_2d-seed0 \\
      --digits-a 4,8 --digits-b 4,8 --problems 25 --output beside
  trm evaluate --checkpoint C --view random --digits-a 4,8 --digits-b 4,8 --output turned
  trm evaluate --checkpoint C --views 8 --digits-a 2,3 --digits-b 2 --output voted
  trm evaluate --checkpoint addition-gpt-seed0 --digits 1..8 --addends 2 --output sums

The folder gets a report with its table and pictures, and all problems as CSV and JSON Lines. The
same command continues a measurement that was stopped.
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_solver(several=True)
    parser.add_solving()
    add = parser.add_argument
    add("--output", required=True, metavar="DIR", help="folder for the results")
    sizes = parser.add_argument_group(
        "sizes", "two of these, for the rows and the columns of the grid; like 1..10 or 1..4,8"
    )
    parser.add_sizes(group=sizes)
    add("--problems", type=whole(1), default=128, help="held-out ones per cell (default: 128)")
    what = "of a checkpoint of puzzles: folder of arrays, whose test split is measured"
    add("--data", metavar="FOLDER", help=what)
    add("--seed", type=whole(0), default=0, help="selects the problems (default: 0)")
    what = "problems at once, all views together; devices share a cell by batches (default: 32)"
    add("--batch-size", type=whole(1), default=32, help=what)

    what = "also write the pictures and accuracy by length for TensorBoard, to DIR/tensorboard"
    add("--tensorboard", action="store_true", help=what)


def run(args: Arguments) -> int:
    """Measure the grid, or continue an earlier measurement; then draw and print a summary."""
    if puzzles.of_puzzles(args):
        return puzzles.evaluate(args)
    args.refuse("only a checkpoint of puzzles is measured on arrays", "data")
    # Wrong arguments raise here, before anything is measured.
    args.check_sizes()
    solvers, checkpoints = args.solvers("cpu", args.steps), args.checkpoints

    from trm.evaluation.measure import EvaluationSettings, measure

    (first, rows), (second, columns) = grid_sizes(args, solvers[0].task).items()
    how: dict[str, Any] = {n: getattr(args, n) for n in ("problems", "seed", "steps", "batch_size")}
    how |= {"voting": args.voting(), "precision": args.settled_precision(), "start": args.start}
    how["sampling"] = args.sampling()
    settings = EvaluationSettings((first, second), tuple(rows), tuple(columns), **how)
    output, where = Path(args.output), (args.accelerator, args.devices, args.nodes)
    grid = measure(checkpoints, settings, output, *where, args.quiet)
    if grid is not None:  # in the first of several processes
        show_grid(args, grid, output)
        cells = [cell for model in grid.models for cell in model["cells"]]
        views = [cell["views"] for cell in cells if cell.get("views")]
        args.note_views(min(views, default=args.views) / args.views, " in some cells")
    return 0


def show_grid(args: Arguments, grid: Grid, output: Path) -> None:
    """Write a grid's pictures and reports, and print its summary and the names of the files."""
    from rich.console import Console

    from trm.evaluation.grid_report import print_summary
    from trm.figures.grids import write_files

    write_files(grid, output)
    if getattr(args, "tensorboard", False):
        from trm.figures.grids import write_events

        write_events(grid, output / "tensorboard")
    print_summary(Console(highlight=False), grid, output / REPORT)
    for file in filter(Path.exists, (output / name for name in FILES)):
        args.info.print(str(file))


def grid_sizes(args: Arguments, task: Task) -> dict[str, list[int]]:
    """Return rows and columns of the grid; default: from training's least to twice its most."""
    return args.sizes(task, lambda low, high: range(low, 2 * high + 1))
