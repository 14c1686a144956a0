"""`trm report`: compare evaluations, or measure how well confidence predicts correct answers."""

import json
from pathlib import Path

from trm.commands.arguments import Arguments
from trm.commands.output import print_table, results
from trm.commands.parser import Parser
from trm.evaluation.comparison import distinct_names, side_by_side
from trm.evaluation.grid import grid_file, read_grid
from trm.evaluation.grid_format import GRID, TRUST
from trm.evaluation.statistics import Share
from trm.io.files import check_file, make_folder, numbered_lines

EXAMPLES = """\
examples:
  trm report grid other-grid --output compared           # folders of `trm evaluate`
  trm report answers.jsonl --output calibration          # records of `trm solve`
"""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    what = "evaluations or scores to compare with the first; or files of answers to calibrate"
    parser.add_argument("found", nargs="+", metavar="DIR|FILE", help=what)
    parser.add_argument("--output", required=True, metavar="DIR", help="for pictures and report")


def run(args: Arguments) -> int:
    """Compare evaluations, or calibrate answers; write pictures and a report."""
    paths, output = [Path(name) for name in args.found], Path(args.output)
    answers = [path for path in paths if not path.is_dir() and path.suffix != ".json"]
    if answers and len(answers) < len(paths):
        raise ValueError(
            f"{answers[0]} is not a folder of trm evaluate, nor its {GRID}: report evaluations and "
            "files of answers one after the other"
        )
    if answers:
        return _calibration(args, answers, output)
    files = [grid_file(path).resolve() for path in paths]
    if twice := [str(p) for p, f in zip(paths, files, strict=True) if files.count(f) > 1]:
        raise ValueError(f"{' and '.join(twice)}: one evaluation, given more than once")
    labels = distinct_names([file.parent.name for file in files], list(map(str, paths)))
    grid = side_by_side([read_grid(path) for path in paths], labels)
    if len(grid.models) < 2:
        raise ValueError(
            "a comparison needs at least two models; give another folder of trm evaluate, or "
            "evaluate several checkpoints"
        )
    make_folder(output)
    if (output / GRID).exists():
        raise ValueError(f"--output {output} holds an evaluation: choose another folder")

    from trm.commands.evaluate import show_grid

    show_grid(args, grid, output)
    return 0


def _calibration(args: Arguments, files: list[Path], output: Path) -> int:
    """Report how well confidence and agreement separate correct answers from incorrect ones."""
    if twice := [str(f) for f in files if [g.resolve() for g in files].count(f.resolve()) > 1]:
        raise ValueError(f"{' and '.join(twice)}: one file of answers, given more than once")
    names = distinct_names([f.stem for f in files], [f.name for f in files], list(map(str, files)))
    held = {name: read_answers(file) for name, file in zip(names, files, strict=True)}
    make_folder(output)

    import numpy as np

    from trm.evaluation.statistics import COVERAGES, reliability, risk_coverage
    from trm.figures.confidence import trust_figure
    from trm.figures.style import save

    curves, bins = {}, {}
    for name, rows in held.items():
        right, confidence, agreement = (np.array(values) for values in zip(*rows, strict=True))
        score = f"{name}, confidence"
        curves[score], bins[score] = (
            risk_coverage(confidence, right),
            reliability(confidence, right),
        )
        if (agreement < 1).any():
            curves[f"{name}, agreement"] = risk_coverage(agreement, right)
        share, error = Share(int(right.sum()), len(right)), 100 * bins[score].error
        results().print(f"{name}: {share} correct, calibration error {error:.1f} %")
    save(trust_figure(curves, bins), output / TRUST)
    shown = [
        (f"{of:.0%}", *(_wrong(curve.share_at(of)) for curve in curves.values()))
        for of in COVERAGES
    ]
    shown.append(("mean", *(f"{100 * curve.area:.2f} %" for curve in curves.values())))
    title = "incorrect answers, by the score that ranks them"
    print_table(("of the most confident", *curves), shown, title, wrap=True)
    args.info.print(f"figure  {output / TRUST}")
    return 0


def _wrong(share: Share) -> str:
    return f"{100 * share.value:.2f} % ({share.right:,} of {share.total:,})"


def read_answers(file: Path) -> list[tuple[bool, float, float]]:
    """Return correctness, confidence and agreement of each solved problem in a file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, or contains no solved problems.
    """
    check_file(file, "a folder of `trm evaluate`, or records of `trm solve --output`")
    try:
        records = [json.loads(line) for _, line in numbered_lines(file)]
        rows = [
            (r["correct"] is True, float(r["confidence"]), float(r["agreement"]))
            for r in records
            if not r["error"]
        ]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(
            f"{file} does not hold answers of trm solve --input as JSON Lines: name their .jsonl"
        ) from None
    if not rows:
        raise ValueError(f"{file} holds no solved problem")
    return rows
