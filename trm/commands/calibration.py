"""`trm calibration`: whether confidence and agreement tell right answers from wrong ones."""

import argparse
import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trm.batch.formats import format_of
from trm.commands.arguments import info_console
from trm.evaluation.statistics import Share
from trm.files import make_folder, replacing


class Judged(NamedTuple):
    """The solved problems of a file.

    Attributes:
        right: ``bool [N]``.
        confidence: ``float [N]``.
        agreement: ``float [N]``.
    """

    right: np.ndarray
    confidence: np.ndarray
    agreement: np.ndarray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "records", nargs="+", metavar="FILE", help="that trm solve --input has written"
    )
    parser.add_argument(
        "--output", metavar="FILE.png", required=True, help="risk-coverage curves and calibration"
    )


def run(args: argparse.Namespace) -> int:
    """Read, draw, report."""
    output = Path(args.output)
    if output.suffix != ".png":
        raise ValueError(f"--output {output} has to end in .png")
    make_folder(output.parent)
    files = [Path(name) for name in args.records]
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        names = [str(file) for file in files]
    read = {name: read_judged(file) for name, file in zip(names, files, strict=True)}

    from rich.console import Console
    from rich.table import Table

    from trm.evaluation.selective_prediction import (
        COVERAGES,
        reliability,
        risk_coverage,
        trust_figure,
    )

    curves, bins, rights, problems = {}, {}, {}, 0
    for name, judged in read.items():
        problems = max(problems, len(judged.right))
        scores = {"confidence": judged.confidence}
        if (judged.agreement < 1).any():
            scores["agreement"] = judged.agreement
        for kind, score in scores.items():
            curves[f"{name}, {kind}"] = risk_coverage(score, judged.right)
        rights[name] = Share(int(judged.right.sum()), len(judged.right))
        bins[name] = reliability(judged.confidence, judged.right)
    with replacing(output) as part:
        trust_figure(curves, bins, problems).savefig(part, format="png")
    console = Console(highlight=False)
    for name, right in rights.items():
        error = f"calibration error {100 * bins[name].error:.1f} %"
        console.print(f"{name}: {right} right, {error}", soft_wrap=True, markup=False)
    table = Table("of the surest", *curves, title="wrong, by the score they are ranked by")
    for coverage in COVERAGES:
        risks = [f"{100 * curve.at(coverage):.2f} %" for curve in curves.values()]
        table.add_row(f"{coverage:.0%}", *risks)
    table.add_row("mean", *(f"{100 * curve.area:.2f} %" for curve in curves.values()))
    console.print(table)
    info_console(args).print(f"figure  {output}")
    return 0


def read_judged(file: Path) -> Judged:
    """The solved problems of a file of records, CSV or JSON Lines; lines with an error left out.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds something else, or no solved problem.
    """
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file} of records")
    read = _csv if format_of(str(file)) == "csv" else _json
    try:
        rows = [
            (record["correct"], float(record["confidence"]), float(record["agreement"]))
            for record in read(file)
            if not record["error"]
        ]
    except (KeyError, TypeError, ValueError, RecursionError, csv.Error):
        raise ValueError(f"{file} does not hold records of trm solve --input") from None
    if not rows:
        raise ValueError(f"{file} holds no solved problem")
    right, confidence, agreement = zip(*rows, strict=True)
    judged_right = np.array([value in (True, "true") for value in right])
    return Judged(judged_right, np.array(confidence), np.array(agreement))


def _json(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _csv(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
