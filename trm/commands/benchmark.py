"""`trm benchmark`: problems for models of any kind, as files."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from trm.checkpoints import find_checkpoint
from trm.commands.arguments import (
    QUIET,
    VERBOSE,
    add_canvas_size,
    add_solver,
    info_console,
    shortened,
    whole,
)

SUITES = ("multiply-v1", "multiply-long-v1", "structured-v1", "addition-v1", "canvas-v1")
FORMATS = ("jsonl", "csv", "trm", "txt")
BOARD, PAGE = "board", "docs/board.md"  # of this project, from its root
EXAMPLES = """\
examples:
  trm benchmark export --suite multiply-v1 --output multiply-v1
  trm benchmark export --suite canvas-v1 --format trm --train 20000 --output canvases
  trm benchmark export --suite multiply-v1 --up-to 8 --format trm --layout lattice \\
      --train 50000 --train-digits 1..4 --output lattice
  trm benchmark export --suite addition-v1 --secret secret.txt --output fresh
  trm benchmark predict --suite multiply-v1 --output predictions.jsonl
  trm benchmark board
"""
_MOST = 1000  # digits of an operand


def add_suite(parser: argparse.ArgumentParser) -> None:
    """``--suite`` and ``--secret``: which problems."""
    parser.add_argument(
        "--suite", required=True, metavar="NAME", help=f"one of {', '.join(SUITES)}"
    )
    parser.add_argument(
        "--secret",
        metavar="FILE",
        help="of an organiser: other problems of the same kind, drawn by what this file holds",
    )


def add_part(parser: argparse.ArgumentParser) -> None:
    """``--up-to``: a part of a suite."""
    parser.add_argument(
        "--up-to",
        type=whole(1, _MOST),
        metavar="N",
        help="only problems whose numbers have at most N digits (default: all of the suite)",
    )


def span(least: int) -> Callable[[str], tuple[int, int]]:
    """A reader of ranges like ``1..4``, for argparse."""

    def read(text: str) -> tuple[int, int]:
        found = re.fullmatch(r"(\d{1,4})(?:\.\.(\d{1,4}))?", text)
        low, high = (int(end or found[1]) for end in found.groups()) if found else (0, 0)
        if not least <= low <= high <= _MOST:
            raise argparse.ArgumentTypeError(
                f"{shortened(text)} is no range from {least} to {_MOST:,}; write it like "
                f"{least}..{least + 3}"
            )
        return low, high

    return read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    export = actions.add_parser(
        "export", help="a suite of problems as files", description=export_suite.__doc__
    )
    export.epilog, export.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    add_suite(export)
    export.add_argument(
        "--format",
        choices=FORMATS,
        default="jsonl",
        help="JSON Lines (default), CSV, the data sets of HRM and TRM, or tokens for nanoGPT",
    )
    export.add_argument("--output", required=True, metavar="DIR", help="a new folder for the files")
    add_part(export)
    export.add_argument(
        "--layout",
        metavar="NAME",
        help="draw problems that ask for a number as canvases in this layout (default: as numbers; "
        "with --format trm standard or column)",
    )
    train = export.add_argument_group("to train on", "problems of the training split")
    train.add_argument("--train", type=whole(1), metavar="N", help="how many (default: none)")
    train.add_argument(
        "--train-digits",
        type=span(1),
        default=(1, 4),
        metavar="N..M",
        help="digits of their numbers (default: 1..4)",
    )
    train.add_argument(
        "--train-addends",
        type=span(2),
        default=(2, 3),
        metavar="N..M",
        help="addends of sums (default: 2..3)",
    )
    train.add_argument("--train-seed", type=whole(0), default=0, metavar="N", help="(default: 0)")
    export.set_defaults(act=export_suite)
    predict = actions.add_parser(
        "predict",
        help="answers of a model of this package to a suite",
        description=predict_suite.__doc__,
    )
    add_suite(predict)
    add_part(predict)
    add_solver(predict)
    add_canvas_size(predict, "as in training, or the problem's where training cut it")
    predict.add_argument(
        "--problems",
        type=whole(1),
        metavar="N",
        help="only the first N of each cell (default: all of them)",
    )
    predict.add_argument(
        "--output", required=True, metavar="FILE", help="predictions, .jsonl or .jsonl.gz"
    )
    predict.set_defaults(act=predict_suite)
    board = actions.add_parser(
        "board",
        help="the page of the board, made from its folders",
        description=write_board.__doc__,
    )
    board.add_argument(
        "--folder",
        default=BOARD,
        metavar="DIR",
        help=f"of the entries, each a folder with card.yaml and predictions (default: {BOARD})",
    )
    board.add_argument(
        "--output", default=PAGE, metavar="FILE", help=f"the page to write (default: {PAGE})"
    )
    board.add_argument(
        "--check",
        action="store_true",
        help="write nothing, and say whether the page is what the folders make (exit code 1: no)",
    )
    board.set_defaults(act=write_board)
    for action in (export, predict, board):
        for names, words in ((QUIET, "errors alone"), (VERBOSE, "also where an error arose")):
            action.add_argument(
                *names, action="store_true", default=argparse.SUPPRESS, help=words
            )  # may stand on either side of the action


def run(args: argparse.Namespace) -> int:
    """Do what the action names."""
    code: int = args.act(args)
    return code


def export_suite(args: argparse.Namespace) -> int:
    """Write a suite of problems as files, with a card that tells what they are."""
    from trm.benchmark.formats import export
    from trm.benchmark.suites import read_secret, suite_named
    from trm.benchmark.training import Training

    suite = suite_named(args.suite).within(args.up_to)
    secret = read_secret(args.secret) if args.secret else None
    training = None
    if args.train:
        training = Training(args.train, args.train_digits, args.train_addends, args.train_seed)
    files = export(suite, args.format, Path(args.output), secret, training, args.layout)
    told = info_console(args)
    for file in files:
        told.print(f"{file}  {file.stat().st_size:,} bytes")
    return 0


def predict_suite(args: argparse.Namespace) -> int:
    """Answer a suite's problems with a model; stopped, the same command goes on where it was."""
    from trm.benchmark.suites import read_secret, suite_named

    suite = suite_named(args.suite).within(args.up_to)
    secret = read_secret(args.secret) if args.secret else None
    find_checkpoint(args.checkpoint)
    from trm.benchmark.predicting import predict

    done = predict(
        Path(args.checkpoint),
        suite,
        Path(args.output),
        secret,
        args.problems,
        args.steps,
        args.height,
        args.width,
        args.accelerator,
        args.devices,
        args.quiet,
    )
    if done is not None:
        info_console(args).print(f"{done} → {args.output}")
    return 0


def write_board(args: argparse.Namespace) -> int:
    """Score the predictions of every entry of the board, and write its page."""
    from trm.benchmark.board import page
    from trm.files import replacing

    output, text = Path(args.output), page(Path(args.folder))
    if args.check:
        if output.is_file() and output.read_text(encoding="utf-8") == text:
            info_console(args).print(f"{output} is what {args.folder} makes")
            return 0
        print(f"{output} is not what {args.folder} makes: run `trm benchmark board`")
        return 1
    with replacing(output) as part:
        part.write_text(text, encoding="utf-8")
    info_console(args).print(f"{output}")
    return 0
