"""`trm benchmark`: files of problems for models of any kind, and scores of their answers."""

import argparse
from dataclasses import replace
from pathlib import Path

from trm.commands.arguments import Arguments
from trm.commands.output import results
from trm.commands.parser import Parser, whole
from trm.evaluation.grid_format import AXES, FILES, GRID
from trm.extras.benchmark.row_step_files import FORMATS, RowStepFiles
from trm.extras.benchmark.scoring import grid_of, score, write_read
from trm.extras.benchmark.suites import SUITES, Suite, export
from trm.io.files import check_file, make_own_folder, write_json, write_text

_PROBLEMS = {"train": 10_000, "test": 1_000}  # of row steps
_SECRET = 2**32  # smallest seed of an organiser
BOARD, PAGE = Path("board"), Path("docs/board.md")  # of this project, from its root
EXAMPLES = """\
examples:
  trm benchmark export --suite multiply-v1 --output multiply-v1
  trm benchmark score predictions.jsonl --suite multiply-v1 --output scored
  trm benchmark board
  trm benchmark export --format trm --layout lattice --digits-a 1..3 --digits-b 1..3 --output data

Predictions are JSON Lines like {"id": "multiply-v1/2x2/000", "prediction": "…"}, or the records of
`trm solve`. In a text a stated answer counts, as in \\boxed{…}, or else the last number.
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    common = Parser(add_help=False)  # may stand on either side of the action
    common.add_verbosity(argparse.SUPPRESS)
    asked = Parser(add_help=False)
    about = f"one of {', '.join(SUITES)}"
    asked.add_argument("--suite", choices=SUITES, metavar="NAME", help=about)
    about = "for organisers: a large random number selects other problems of the same kind"
    asked.add_argument("--seed", type=whole(0, 2**64 - 1), default=0, help=about)
    about = "only problems of at most N digits (default: all)"
    asked.add_argument("--up-to", type=whole(1), metavar="N", help=about)

    for name, does, about, parents in (
        ("export", _export, "write a suite of problems as files", [asked, common]),
        ("score", _score, "score the predictions of any model", [asked, common]),
        ("board", _board, "write the board's web page from its folders", [common]),
    ):
        action = actions.add_parser(name, help=about, description=does.__doc__, parents=parents)
        action.set_defaults(act=does)
        if name == "score":
            action.add_argument("predictions", metavar="FILE", help="JSON Lines, or .gz of them")
        if name == "export":
            _add_row_steps(action)
        if name != "board":
            into = "folder for the files"
            action.add_argument("--output", metavar="DIR", required=True, help=into)


def _add_row_steps(action: Parser) -> None:
    """Add the options of exported row steps."""
    known = "; ".join(f"{name}: {what}" for name, what in ({"suite": "a suite"} | FORMATS).items())
    about = f"{known} (default: suite)"
    action.add_argument("--format", choices=("suite", *FORMATS), default="suite", help=about)
    group = action.add_argument_group("row steps", "of any task, for training by other code")
    action.add_task(group, "trm and jsonl")
    for split, most in _PROBLEMS.items():
        option = "--problems" if split == "train" else f"--{split}-problems"
        about = f"different problems of the {split} split, or as many as exist (default: {most:,})"
        group.add_argument(option, type=whole(1), metavar="N", help=about)
    action.add_canvas(" (default: what the largest problems need)", group)
    action.add_import()


def run(args: Arguments) -> int:
    """Run the named action."""
    code: int = args.act(args)
    return code


def _suite(args: Arguments) -> Suite:
    """Return the chosen suite, or the chosen part of it."""
    if args.suite is None:
        raise ValueError(f"name a --suite: {', '.join(SUITES)}")
    if 0 < args.seed < _SECRET:
        raise ValueError(
            f"--seed of a suite is 0 for the public problems, or a secret from {_SECRET:,} up"
        )
    return replace(SUITES[args.suite].within(args.up_to), seed=args.seed)


def _export(args: Arguments) -> int:
    """Write a suite of problems as a file, and print its checksum; or row steps of a task."""
    if args.format != "suite":
        return _export_row_steps(args)
    others = ("layout", "task", *AXES, "height", "width", "problems", "test_problems", "base")
    args.refuse("a suite has problems of its own; --format trm or jsonl has others", *others)
    suite = _suite(args)
    file = export(suite, Path(args.output))
    args.info.print(f"{file}: {len(suite.items):,} problems, SHA-256 {suite.checksum}")
    return 0


def _export_row_steps(args: Arguments) -> int:
    """Write row steps of a task, and print their numbers."""
    args.refuse("row steps are of a task, and of no suite", "suite", "up_to")
    task = args.described_task(f"--format {args.format}")
    rows, columns = task.extent()
    problems = {
        "train": args.problems or _PROBLEMS["train"],
        "test": args.test_problems or _PROBLEMS["test"],
    }
    size = args.height or rows, args.width or columns
    files, output = RowStepFiles(task, problems, *size, args.seed), Path(args.output)
    for split, (count, steps) in files.write(args.format, output).items():
        fewer = ", all that there are" if count < problems[split] else ""
        args.info.print(f"{output}: {split}, {count:,} problems{fewer}, {steps:,} row steps")
    return 0


def _score(args: Arguments) -> int:
    """Score the predictions of any model for a suite; write a grid, its pictures and a summary."""
    file, output = Path(args.predictions), Path(args.output)
    check_file(file, "a file of predictions")
    suite = _suite(args)
    scored = score(file, suite, file.name.partition(".")[0])
    make_own_folder(output, "trm benchmark score", FILES)
    grid = grid_of(suite, scored.model)

    from trm.commands.evaluate import show_grid

    write_json(output / GRID, grid)
    show_grid(args, grid, output)
    args.info.print(f"answers   {write_read(output, suite, scored)}")
    missing = (
        f"; incorrect as predictions are missing: {scored.missing:,}" if scored.missing else ""
    )
    unread = f"; predictions without a readable answer: {scored.unread:,}"
    name = scored.model["name"]
    results().print(f"{name}: {scored.share}{missing}{unread if scored.unread else ''}")
    return 0


def _board(args: Arguments) -> int:
    """Score every entry in the board's folder, and write the board's web page."""
    from trm.extras.benchmark.board import page

    write_text(PAGE, page(BOARD))
    args.info.print(PAGE)
    return 0
