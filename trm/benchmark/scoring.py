"""Predictions scored: exact match by cell, as the ``grid.json`` of `trm.evaluation.grid_schema`."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trm import __version__
from trm.benchmark.answers import is_right, read_answer
from trm.benchmark.predictions import Prediction, read_predictions
from trm.benchmark.suites import Item, Suite, checksum_of, label_of
from trm.evaluation.grid_schema import FORMAT, KEYS, SHOWN, region
from trm.evaluation.statistics import Share
from trm.files import fingerprint

Ranges = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Scored:
    """What became of a file of predictions.

    Attributes:
        model: an entry of ``grid.json``.
        read: what every prediction says, see `trm.benchmark.answers.read_answer`.
        missing: problems without a prediction; they count as wrong.
        unread: predictions that say nothing; they count as wrong, too.
    """

    model: dict[str, Any]
    read: dict[str, Prediction] = field(repr=False)
    missing: int
    unread: int

    @property
    def share(self) -> Share:
        """Of all problems, how many are right."""
        figures = [c["answers"] or c["solutions"] for c in self.model["cells"] if c["problems"]]
        return Share(sum(f["right"] for f in figures), sum(f["total"] for f in figures))


def score(
    file: str | Path,
    suite: Suite,
    problems: Sequence[Item],
    name: str,
    parameters: int | None = None,
    ranges: Ranges | None = None,
    strict: bool = False,
) -> Scored:
    """Score a file of predictions.

    Args:
        file: see `trm.benchmark.predictions.read_predictions`.
        suite: what was asked.
        problems: `trm.benchmark.suites.items` of it.
        name: of the model.
        parameters: of the model; None: not known.
        ranges: fewest and most of each measure of the problems it was trained on; None: not known.
        strict: take predictions to the letter.

    Raises:
        OSError, ValueError: the file cannot be read, or a line is no prediction of these problems.
    """
    asked = {item.id: item for item in problems}
    found = read_predictions(file, asked, suite.whole)
    read = {
        key: replace(one, text=_read(one.text, suite.whole, strict)) for key, one in found.items()
    }
    task = {"task": "canvases", "base": 10}
    if not suite.whole:
        task["task"] = suite.task.name
    unknown = ("family", "model", "solve_steps", "seed", "config", "canvas", "step", "epoch")
    model: dict[str, Any] = {
        "name": name,
        "checkpoint": str(file),
        "sha256": fingerprint(Path(file)),
        "parameters": parameters,
        **dict.fromkeys((*unknown, "cost")),
        "task": task | {"layout": None},
        "ranges": ranges,
    }
    model["cells"] = _cells(suite, problems, read, ranges, strict)
    unread = sum(one.text is None for one in read.values())
    return Scored(model, read, len(asked) - len(read), unread)


def _read(text: str | None, canvas: bool, strict: bool) -> str | None:
    return None if text is None else read_answer(text, canvas, strict)


def _cells(
    suite: Suite,
    problems: Sequence[Item],
    read: Mapping[str, Prediction],
    ranges: Ranges | None,
    strict: bool,
) -> list[dict[str, Any]]:
    """The cells of a model, in the suite's order."""
    figure = "solutions" if suite.whole else "answers"
    by_cell: dict[tuple[int | str, int], list[Item]] = {cell: [] for cell in suite.cells}
    for item in problems:
        by_cell[item.row, item.column].append(item)
    cells = []
    for (row, column), asked in by_cell.items():
        said = [read.get(item.id, Prediction(None)) for item in asked]
        right = [
            is_right(one.text, item.answer, suite.whole, strict)
            for one, item in zip(said, asked, strict=True)
        ]
        sure = [one.confidence for one in said if one.confidence is not None]
        cell = dict.fromkeys(KEYS) | {
            "row": row,
            "column": column,
            "region": region(ranges, suite.axes, (row, column)),
            "applicable": True,
            "reason": None if asked else "no such problem belongs to the test split",
            "problems": len(asked),
            "confidence": sum(sure) / len(sure) if sure and len(sure) == len(said) else None,
            "computed_on": None,
        }
        if asked:
            cell[figure] = Share(sum(right), len(right)).data()
            cell[SHOWN[figure]] = "".join("01"[one] for one in right)
        cells.append(cell)
    return cells


def grid_of(
    suite: Suite,
    problems: Sequence[Item],
    models: Sequence[dict[str, Any]],
    secret: bytes | None = None,
) -> dict[str, Any]:
    """What ``grid.json`` holds of models that took a suite.

    Args:
        suite: what was asked.
        problems: `trm.benchmark.suites.items` of it.
        models: of `score`.
        secret: of the organiser; it is not written down, nor is the seed.
    """
    label = label_of(suite, secret)
    settings: dict[str, Any] = {
        "split": "test",
        "seed": 0 if secret is None else label.removeprefix(f"{suite.name}-"),
        "problems": suite.problems,
        "axes": list(suite.axes),
        "rows": list(dict.fromkeys(row for row, _ in suite.cells)),
        "columns": list(dict.fromkeys(column for _, column in suite.cells)),
        **dict.fromkeys(("steps", "batch_size", "devices", "voting")),
        "view": "e",
        "suite": {"name": label, "checksum": checksum_of(problems)},
    }
    versions = {"python": platform.python_version(), "canvas-trm": __version__}
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions | {"numpy": version("numpy")},
        "settings": settings,
        "models": list(models),
    }
