"""`trm benchmark`: files of problems for models of any kind, and scores of their answers."""

import argparse
from dataclasses import replace
from pathlib import Path

from trm.benchmark.scoring import grid_of, score, write_read
from trm.benchmark.suites import SUITES, Suite, export
from trm.commands.arguments import Arguments, Parser, results, whole
from trm.evaluation.grid import FILES, GRID
from trm.files import make_own_folder, write_json, write_text

BOARD, PAGE = Path("board"), Path("docs/board.md")  # of this project, from its root
EXAMPLES = """\
examples:
  trm benchmark export --suite multiply-v1 --output multiply-v1
  trm benchmark score predictions.jsonl --suite multiply-v1 --output scored
  trm benchmark board

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
    asked.add_argument("--suite", required=True, choices=SUITES, metavar="NAME", help=about)
    about = "for organisers: a large random number selects other problems of the same kind"
    asked.add_argument("--seed", type=whole(2**32, 2**64 - 1), default=0, help=about)
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
        if name != "board":
            into = "folder for the files"
            action.add_argument("--output", metavar="DIR", required=True, help=into)


def run(args: Arguments) -> int:
    """Run the named action."""
    code: int = args.act(args)
    return code


def _suite(args: Arguments) -> Suite:
    """Return the chosen suite, or the chosen part of it."""
    return replace(SUITES[args.suite].within(args.up_to), seed=args.seed)


def _export(args: Arguments) -> int:
    """Write a suite of problems as a file, and print its checksum."""
    suite = _suite(args)
    file = export(suite, Path(args.output))
    args.info.print(f"{file}: {len(suite.items):,} problems, SHA-256 {suite.checksum}")
    return 0


def _score(args: Arguments) -> int:
    """Score the predictions of any model for a suite; write a grid, its pictures and a summary."""
    file, output = Path(args.predictions), Path(args.output)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}: give a file of predictions")
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
    from trm.benchmark.board import page

    write_text(PAGE, page(BOARD))
    args.info.print(PAGE)
    return 0
