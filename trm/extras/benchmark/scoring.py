"""Reader and scores, by cell, of any model's predictions for a suite.

Predictions are JSON Lines, perhaps compressed by gzip. A line is an object ``{"id": …,
"prediction": …}``, with the id of a problem. The prediction is a text or a whole number, a list of
lines for a canvas, or null for none. Other keys are ignored. Records of ``trm solve`` are accepted,
too: their ``answer`` is the prediction, or their ``canvas`` in a suite of canvases. The first line
may be ``{"about": …}``, see `ModelNote`.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from canvas.choices import shortened
from trm.evaluation.grid import Grid, empty_cell, new_grid
from trm.evaluation.grid_cells import Key, region
from trm.evaluation.grid_format import OUTCOMES
from trm.evaluation.statistics import Share
from trm.extras.benchmark.suites import Item, Suite
from trm.io.files import fingerprint, numbered_lines, validated, writing

Ranges = dict[str, tuple[int, int]]
_RECORD = {"line", "operands", "answer", "correct", "confidence"}  # some keys of trm solve


class ModelNote(BaseModel):
    """Optional description of the model in a file of predictions."""

    model: str
    parameters: int | None = None
    ranges: Ranges | None = None  # fewest and most of each measure of the problems in training


class _Line(BaseModel):
    id: str
    prediction: str | list[str] | None


_ABOUT, _LINE = TypeAdapter(ModelNote), TypeAdapter(_Line)
# Numbers stay text: they may be longer than Python's limit for int().
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def read_predictions(
    file: str | Path, suite: Suite
) -> tuple[ModelNote | None, dict[str, str | None]]:
    """Read a file of predictions.

    Returns the description of its model, or None, and the results of `Suite.read` by item id.

    Raises:
        ValueError: a line is no prediction, or is for an unknown problem or one predicted before.
    """
    about, found, ids = None, dict[str, str | None](), {item.id for item in suite.items}
    lines = list(numbered_lines(Path(file)))
    for number, line in lines:
        where = f"{file}, line {number:,}"
        try:
            data = _DECODER.decode(line.decode("utf-8"))
        except (ValueError, RecursionError):
            shown = shortened(line.decode("utf-8", "replace").strip())
            raise ValueError(f"{where}: not JSON: {shown}") from None
        if isinstance(data, dict) and "about" in data and not (about or found):
            about = validated(_ABOUT, data["about"], where)
            continue
        if isinstance(data, dict) and "prediction" not in data and data.keys() >= _RECORD:
            wanted = "canvas" if suite.whole else "answer"
            if wanted not in data:
                raise ValueError(f"{where}: no canvas: run trm solve with --canvases")
            data["prediction"] = data[wanted]
        one = validated(_LINE, data, where)
        if one.id not in ids:
            raise ValueError(
                f"{where}: {shortened(one.id)} is no problem of {suite.label}, as far as it is "
                "asked for by --up-to and --seed"
            )
        if one.id in found:
            raise ValueError(f"{where}: {one.id} has a prediction in an earlier line already")
        text = "\n".join(one.prediction) if isinstance(one.prediction, list) else one.prediction
        found[one.id] = suite.read(text or "")
    if not found:
        what = f'{file} holds no prediction: write lines like {{"id": …, "prediction": …}}'
        raise ValueError(what)
    return about, found


@dataclass(frozen=True)
class Scored:
    """Score of a file of predictions."""

    about: ModelNote
    model: dict[str, Any]  # an entry of ``grid.json``
    cells: dict[Key, Share]  # share of correct predictions in each cell with problems
    read: dict[str, str | None] = field(repr=False)  # item id → answer in the prediction
    missing: int  # problems without a prediction; they count as incorrect
    wrong: Item | None  # shortest problem with an incorrect prediction

    @property
    def unread(self) -> int:
        """Number of predictions without an answer; they count as incorrect, too."""
        return sum(text is None for text in self.read.values())

    @property
    def share(self) -> Share:
        """Share of correct predictions among all problems."""
        return sum(self.cells.values(), Share(0, 0))


def score(file: str | Path, suite: Suite, name: str) -> Scored:
    """Score a file of predictions for a suite; a problem without one counts as incorrect.

    ``name`` is the model's name if the file does not contain one.

    Raises:
        ValueError: `read_predictions` refuses the file, or its ranges have other measures.
    """
    about, read = read_predictions(file, suite)
    about = about or ModelNote(model=name)
    share = "solutions" if suite.whole else "answers"
    measures = suite.task.ranges.keys()
    asked_for = (measures & suite.axes) or measures
    if about.ranges and not asked_for <= about.ranges.keys() <= measures:
        raise ValueError(
            f"the first line of predictions for {suite.name} gives ranges of "
            f"{' and '.join(sorted(asked_for))}, not of {' and '.join(about.ranges)}"
        )
    by_cell: dict[Key, list[Item]] = {cell: [] for cell in suite.cells}
    for item in suite.items:
        by_cell[item.row, item.column].append(item)
    cells, shares, wrong = [], dict[Key, Share](), list[Item]()
    for size, items in by_cell.items():
        right = [read.get(item.id) == suite.read(item.answer) for item in items]
        wrong += [a for a, good in zip(items, right, strict=True) if a.id in read and not good]
        cell = empty_cell(size, region(about.ranges, suite.axes, size))
        cell["problems"] = len(items)
        cell["reason"] = None if items else "no such problem belongs to the test split"
        if items:
            shares[size] = Share(sum(right), len(right))
            cell[share] = shares[size].data()
            cell[OUTCOMES[share]] = "".join("01"[one] for one in right)
        cells.append(cell)
    unknown = ("family", "model", "solve_steps", "seed", "canvas", "step", "cost")
    model = {
        "name": about.model,
        "checkpoint": str(file),
        "sha256": fingerprint(Path(file)),
        "parameters": about.parameters,
        **dict.fromkeys(unknown),
        "task": {
            "task": "canvases" if suite.whole else suite.task.name,
            "base": 10,
            "layout": None,
        },
        "ranges": about.ranges,
        "cells": cells,
    }
    least = min(wrong, key=lambda item: (len(item.question), item.operands), default=None)
    return Scored(about, model, shares, read, len(suite.items) - len(read), least)


def write_read(folder: Path, suite: Suite, scored: Scored) -> Path:
    """Write the answers and the description of the model as a new, small file of predictions."""
    file = folder / f"predictions-{suite.name}.jsonl.gz"
    with writing(file) as sink:
        sink.write(json.dumps({"about": scored.about.model_dump()}) + "\n")
        for name, text in scored.read.items():
            sink.write(json.dumps({"id": name, "prediction": text}) + "\n")
    return file


def grid_of(suite: Suite, model: dict[str, Any]) -> Grid:
    """Return a ``grid.json`` for a model's score in a suite; it omits an organiser's seed."""
    settings: dict[str, Any] = {
        "split": "test",
        "seed": suite.label.removeprefix(f"{suite.name}-") if suite.seed else 0,
        "problems": suite.problems,
        "axes": list(suite.axes),
        "suite": {"name": suite.label, "checksum": suite.checksum},
    }
    return new_grid(settings, [model])
