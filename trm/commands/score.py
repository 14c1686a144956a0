"""`trm score`: the predictions of any model for a suite of problems, scored."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trm.commands.arguments import info_console, shortened
from trm.commands.benchmark import add_part, add_suite
from trm.commands.compare import FILES
from trm.evaluation.grid_schema import FAMILY, GRID, PICTURE, REPORT, figure_shown
from trm.files import make_own_folder, replacing, write_object

if TYPE_CHECKING:
    from trm.benchmark.scoring import Ranges, Scored
    from trm.benchmark.suites import Suite

EXAMPLES = """\
examples:
  trm score predictions.jsonl --suite multiply-v1 --output scored
  trm score ours.jsonl theirs.jsonl.gz --suite addition-v1 --output scored \\
      --name ours theirs --parameters 53353 unknown --range 1..5x2..3 unknown
  trm score answers.jsonl --suite structured-v1 --output scored --compact predictions.jsonl.gz

Predictions are JSON Lines like {"id": "multiply-v1/2x2/000", "prediction": "…"}, perhaps with a
"confidence" from 0 to 1, or the records of `trm solve`. In a text, the last whole number counts,
behind the word "answer" or in \\boxed{…} where there are such; thousands may be grouped. What has
no prediction counts as wrong.
"""
UNKNOWN = "unknown"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument("predictions", nargs="+", metavar="FILE", help="JSON Lines, or .gz of them")
    add_suite(parser)
    add_part(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--strict", action="store_true", help="take predictions to the letter, and read nothing"
    )
    parser.add_argument(
        "--compact",
        metavar="FILE",
        help="write down what was read of one file, id and answer alone; .gz compresses it",
    )
    known = parser.add_argument_group(
        "what is known of the models", f"one for each file, in their order; or {UNKNOWN}"
    )
    known.add_argument("--name", nargs="+", metavar="NAME", help="(default: by the file)")
    known.add_argument("--parameters", nargs="+", type=_count, metavar="N", help="their number")
    known.add_argument(
        "--range",
        nargs="+",
        type=_ranges,
        metavar="N..M",
        help="digits of the numbers in training, like 1..4; or of both axes: 1..4x1..3",
    )


def _count(text: str) -> int | None:
    if text == UNKNOWN:
        return None
    if not re.fullmatch(r"\d[\d,_]{0,20}", text):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is no number, nor {UNKNOWN}")
    return int(re.sub("[,_]", "", text))


def _ranges(text: str) -> list[tuple[int, int]] | None:
    if text == UNKNOWN:
        return None
    found = [re.fullmatch(r"(\d{1,4})(?:\.\.(\d{1,4}))?", part) for part in text.split("x")]
    ends = [(int(one[1]), int(one[2] or one[1])) for one in found if one]
    if len(ends) < len(found) or len(ends) > 2 or any(low > high for low, high in ends):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is no range; write it like 1..4, or 1..5x2..3 for both axes"
        )
    return ends


def run(args: argparse.Namespace) -> int:
    """Read, score, draw and sum up."""
    from trm.benchmark.predictions import write_predictions
    from trm.benchmark.suites import items, read_secret, suite_named

    suite = suite_named(args.suite).within(args.up_to)
    files = [Path(name) for name in args.predictions]
    options = {name: _each(args, name, files) for name in ("name", "parameters", "range")}
    names = [name or usual for name, usual in zip(options["name"], _names(files), strict=True)]
    if len(set(names)) < len(names):
        raise ValueError(f"the models need different names, not {', '.join(names)}: give --name")
    ranges = [_of_axes(suite, ends) for ends in options["range"]]
    if args.compact and len(files) > 1:
        raise ValueError("--compact writes down what was read of one file: score one at a time")
    if args.compact:
        _check_compact(Path(args.compact), files)
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {file}: name one of predictions")
    secret = read_secret(args.secret) if args.secret else None
    output = Path(args.output)
    make_own_folder(output, "trm score", (GRID, PICTURE, REPORT, *FILES), "format")

    from trm.benchmark.scoring import grid_of, score

    problems = list(items(suite, secret))
    scored = [
        score(file, suite, problems, name, parameters, of_axes, args.strict)
        for file, name, parameters, of_axes in zip(
            files, names, options["parameters"], ranges, strict=True
        )
    ]
    grid = grid_of(suite, problems, [one.model for one in scored], secret)
    if args.compact:
        write_predictions(args.compact, scored[0].read, confidences=False)
    _show(args, grid, scored, output)
    return 0


def _check_compact(file: Path, predictions: list[Path]) -> None:
    """Look at where --compact writes.

    Raises:
        ValueError: something else is there.
    """
    from trm.benchmark.predictions import is_compact

    if file.exists() and any(file.samefile(one) for one in predictions):
        raise ValueError(f"--compact {file} is the file that is scored: choose another name")
    if file.exists() and not is_compact(file):
        raise ValueError(
            f"--compact {file} is in the way, and holds no predictions: choose another"
        )


def _each(args: argparse.Namespace, option: str, files: list[Path]) -> list[Any]:
    """What an option says of each file; None where it is not given.

    Raises:
        ValueError: it says too much or too little.
    """
    given = getattr(args, option)
    if given is not None and len(given) != len(files):
        raise ValueError(
            f"--{option} is wanted once for each file: {len(files)}, and not {len(given)}; put the "
            "files before the options"
        )
    return given or [None] * len(files)


def _names(files: list[Path]) -> list[str]:
    """What models are called by their files, or by the folders of these where that does not tell.

    A folder's name is taken where all files are called alike, as ``predictions.jsonl``.
    """
    stems = [re.sub(r"\.(jsonl|ndjson)?(\.gz)?$", "", file.name) for file in files]
    alike = len(set(stems)) < len(stems) or set(stems) <= {"predictions", "answers"}
    folders = [file.resolve().parent.name for file in files]
    return folders if alike and all(folders) else stems


def _of_axes(suite: Suite, ends: list[tuple[int, int]] | None) -> Ranges | None:
    """The ranges of training by measure.

    Raises:
        ValueError: the suite's cells have another number of measures.
    """
    if ends is None:
        return None
    axes = [axis for axis in suite.axes if axis != FAMILY]
    if len(ends) == 1 and all(axis.startswith("digits") for axis in axes):
        ends = ends * len(axes)
    if len(ends) != len(axes):
        raise ValueError(
            f"--range of {suite.name} gives {' and '.join(axes)}, like "
            f"{'x'.join(['1..5', '2..3'][: len(axes)])}"
        )
    return dict(zip(axes, ends, strict=True))


def _show(
    args: argparse.Namespace, grid: dict[str, Any], scored: list[Scored], output: Path
) -> None:
    from rich.console import Console

    from trm.commands.compare import write_comparison
    from trm.evaluation.report import markdown, print_summary
    from trm.figures.heatmaps import save_grid

    with replacing(output / PICTURE) as part:
        save_grid(part, grid, figure_shown(grid))
    with replacing(output / REPORT) as part:
        part.write_text(markdown(grid, PICTURE), encoding="utf-8")
    drawn = ""
    if scored[1:]:
        drawn = write_comparison(grid, grid["models"][0]["name"], output)
    else:
        for name in FILES:  # of an earlier comparison
            (output / name).unlink(missing_ok=True)
    write_object(output / GRID, grid)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    print_summary(Console(highlight=False), grid)
    for one in scored:
        line = f"{one.model['name']}: {one.share}"
        if one.missing:
            line += f"; wrong for want of a prediction: {one.missing:,}"
        if one.unread:
            line += f"; predictions in which nothing could be read: {one.unread:,}"
        console.print(line)
    info_console(args).print(
        f"figures    {output / GRID}\nheat map   {output / PICTURE}\nreport     {output / REPORT}"
    )
    if drawn:
        info_console(args).print("against the first model:\n" + drawn)
