"""Suites as files, in four formats, with a card ``CARD.md`` that says what they are.

docs/benchmark.md tells what the files of each of the `FORMATS` hold. Problems to train on are of
the training split, and a tenth as many of the validation split, but in the format trm.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from canvas import symbols
from canvas.choices import check_choice
from canvas.problems import Problems
from canvas.render import to_sequences
from trm.benchmark.suites import (
    SUITES,
    Item,
    Suite,
    Training,
    checksum,
    items,
    json_line,
    label_of,
    make_canvases,
    record,
    training_items,
)
from trm.evaluation.grid import LABELS
from trm.files import make_folder, replacing
from trm.markdown import table

FORMATS = {
    "jsonl": "JSON Lines: an object with `id`, `suite`, `question`, `answer` and `metadata` a line",
    "csv": "CSV with a header; `operands` is a JSON list",
    "trm": "the puzzle data sets of HRM and TRM: inputs are canvases with what is given, labels "
    "the finished ones",
    "txt": "tokens of uint16 as nanoGPT reads them; `meta.json` has the vocabulary",
}
COLUMNS = ("id", "suite", "row", "column", "operands", "layout", "view", "question", "answer")
CARD = "CARD.md"
_TEXT = "\n *+=0123456789"  # characters of problems that ask for numbers, by their tokens

Parts = Mapping[str, Sequence[Item]]  # the problems of test, and perhaps of train and validation
Files = dict[str, bytes]  # what is written, by names


def export(
    suite: Suite,
    format: str,
    output: Path,
    secret: bytes | None = None,
    training: Training | None = None,
    layout: str | None = None,
) -> list[Path]:
    """Write a suite in one of `FORMATS`, and problems to train on if asked for; returns the files.

    The folder is made, empty, or one of the same export. Problems that ask for numbers are drawn as
    canvases in a ``layout``; None: as numbers, and in the format trm in the task's usual one.
    """
    check_choice("--format", format, FORMATS)
    if layout is not None and suite.whole:
        raise ValueError(f"{suite.name} has canvases in every layout: leave --layout out")
    parts = {"test": list(items(suite, secret))}
    if training is not None:
        parts["train"] = list(training_items(suite, training, "train"))
        if format != "trm":
            parts["validation"] = list(training_items(suite, training, "validation"))
    if format == "trm" and not suite.whole:
        layout = layout or suite.task.layout
    text = _card(suite, parts, format, secret, training, layout)
    if layout is not None:
        parts = {name: drawn(suite, part, layout) for name, part in parts.items()}
    make_folder(output)
    known = output / CARD
    same = known.is_file() and known.read_text(encoding="utf-8") == text
    if any(output.iterdir()) and not same:
        raise ValueError(
            f"{output} holds something else already: choose another --output, or empty this one"
        )
    if format == "trm":
        files = _puzzles(parts)
    elif format == "txt":
        files = _tokens(parts, canvases=suite.whole or layout is not None)
    else:
        files = {
            f"{label_of(suite, secret) if name == 'test' else name}.{format}": _lines(part, format)
            for name, part in parts.items()
        }
    for name, content in (files | {CARD: text.encode()}).items():
        (output / name).parent.mkdir(exist_ok=True)
        with replacing(output / name) as file:
            file.write_bytes(content)
    return [output / name for name in (*files, CARD)]


def drawn(suite: Suite, problems: Iterable[Item], layout: str) -> list[Item]:
    """Problems that ask for numbers as canvases in a layout of the task, with the same ids."""
    check_choice("--layout", layout, suite.task.layouts)
    task = replace(suite.task, layout=layout)  # type: ignore[type-var]
    asked = list(problems)
    operands = Problems.from_ints([item.operands for item in asked])
    cells = [(item.row, item.column) for item in asked]
    return list(make_canvases(task, "e", [item.id for item in asked], operands, cells))


def cells_of(text: str) -> np.ndarray:
    """A canvas as ids, ``uint8 [H, W]``, from its text."""
    return np.stack([symbols.encode(row) for row in text.split("\n")])


def _lines(problems: Sequence[Item], format: str) -> bytes:
    """Problems as JSON Lines or CSV."""
    if format == "jsonl":
        return "".join(map(json_line, problems)).encode()
    sink = io.StringIO()
    writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for item in problems:
        whole = record(item)
        whole |= whole.pop("metadata")
        writer.writerow(whole | {"operands": json.dumps(whole["operands"])})
    return sink.getvalue().encode()


def _json(data: Any) -> bytes:
    return (json.dumps(data) + "\n").encode()


def _size(parts: Parts) -> tuple[int, int]:
    """Height and width of a canvas that fits all canvases."""
    texts = [item.answer.split("\n") for part in parts.values() for item in part]
    return max(map(len, texts)), max(len(rows[0]) for rows in texts)


def _canvases(texts: Iterable[str], size: tuple[int, int]) -> np.ndarray:
    """Canvases ``uint8 [N, H, W]`` of one size, each text in the top left corner, else blank."""
    canvases = []
    for cells in map(cells_of, texts):
        spare = [(0, side - used) for side, used in zip(size, cells.shape, strict=True)]
        canvases.append(np.pad(cells, spare, constant_values=symbols.BLANK))
    return np.stack(canvases)


def _puzzles(parts: Parts) -> Files:
    """The data sets of HRM and TRM: a folder for each part."""
    height, width = size = _size(parts)
    names = list(dict.fromkeys(f"{i.layout} {i.view}" for part in parts.values() for i in part))
    files = {
        "identifiers.json": _json(["<blank>", *names]),
        "meta.json": _json({"height": height, "width": width, "symbols": symbols.CHARACTERS}),
    }
    for part, problems in parts.items():
        n, kinds = len(problems), [1 + names.index(f"{i.layout} {i.view}") for i in problems]
        arrays = {
            "inputs": _canvases([item.question for item in problems], size).reshape(n, -1),
            "labels": _canvases([item.answer for item in problems], size).reshape(n, -1),
            "puzzle_identifiers": np.array(kinds, dtype=np.int32),
            "puzzle_indices": np.arange(n + 1, dtype=np.int32),
            "group_indices": np.arange(n + 1, dtype=np.int32),
        }
        for name, array in arrays.items():
            sink = io.BytesIO()
            np.save(sink, array)
            files[f"{part}/all__{name}.npy"] = sink.getvalue()
        no_label = symbols.PAD  # every cell counts
        described: dict[str, Any] = {"pad_id": symbols.PAD, "ignore_label_id": no_label}
        described |= {"blank_identifier_id": 0, "vocab_size": symbols.VOCAB_SIZE}
        described |= {"seq_len": height * width, "num_puzzle_identifiers": 1 + len(names)}
        described |= {"total_groups": n, "mean_puzzle_examples": 1.0, "total_puzzles": n}
        files[f"{part}/dataset.json"] = _json(described | {"sets": ["all"]})
        files[f"{part}/ids.txt"] = "".join(f"{item.id}\n" for item in problems).encode()
    return files


def _tokens(parts: Parts, canvases: bool) -> Files:
    """Tokens as nanoGPT reads them."""
    alphabet = symbols.CHARACTERS if canvases else _TEXT
    meta: dict[str, Any] = {
        "vocab_size": len(alphabet),
        "itos": dict(enumerate(alphabet)),
        "stoi": {character: i for i, character in enumerate(alphabet)},
    }
    if canvases:
        height, width = size = _size(parts)
        meta |= {"height": height, "width": width, "tokens": height * (width + 1) + 2}
    files = {}
    for part, problems in parts.items():
        if canvases:
            ids = to_sequences(_canvases([item.answer for item in problems], size))
            tokens = np.concatenate([ids, np.full((len(ids), 1), symbols.END)], axis=1).reshape(-1)
        else:
            text = "".join(f"{item.question} {item.answer}\n" for item in problems)
            codes = np.zeros(128, dtype=np.uint16)
            codes[np.frombuffer(alphabet.encode(), np.uint8)] = np.arange(len(alphabet))
            tokens = codes[np.frombuffer(text.encode(), np.uint8)]
        name = "val" if part == "validation" else part
        files[f"{name}.bin"] = tokens.astype("<u2").tobytes()
    return files | {"meta.json": _json(meta)}


def _card(
    suite: Suite,
    parts: Parts,
    format: str,
    secret: bytes | None,
    training: Training | None,
    layout: str | None,
) -> str:
    """The card of an export as Markdown; it follows from the arguments of `export` alone."""
    problems, label = parts["test"], label_of(suite, secret)
    part = suite.cells != SUITES[suite.name].cells
    counts = Counter((item.row, item.column) for item in problems)
    each, fewest = f"{suite.problems:,} a cell", min(counts[cell] for cell in suite.cells)
    if fewest < suite.problems:
        each += f", fewer (as few as {fewest}) where the test split has no more of a size"
    rows = [
        ["what", f"{suite.what}{', a part of them' if part else ''}"],
        ["problems", f"{len(problems):,} in {len(suite.cells)} cells, {each}"],
        ["cells", f"{LABELS[suite.axes[0]]} x {LABELS[suite.axes[1]]}"],
        ["format", FORMATS[format] + (f"; layout {layout}" if layout else "")],
        ["checksum", f"`{checksum(problems)}` (SHA-256 of the JSON Lines, `{label}.jsonl`)"],
        ["licence", "MIT"],
    ]
    if training is not None:
        held = f"{len(parts['train']):,} of the training split"
        if "validation" in parts:
            held += f", {len(parts['validation']):,} of the validation split"
        rows.append(["to train on", f"{held}: {training}"])
    seed, same = "with the seed 0", ""
    if secret is not None:
        seed = (
            "with the first 8 bytes of SHA-256 of a line `canvas-trm seed "
            f"{suite.name}` and an organiser's secret, which draws the suite again"
        )
        same = " with the same `--secret`"
    same += " with the same `--up-to`" if part else ""
    text = f"""\
# {label}

{table(["", ""], rows)}

Drawing: a hash of the operands in any order puts every problem into the training (80 %),
validation (10 %) or test split (10 %). These are different ones of the test split, drawn {seed}.

Contamination: training data of this package, or without what `canvas.problems.split_of` calls test,
holds none of these problems. Other data may: short problems are all over the web, and this file may
be, too; of operands of 6 digits and more, chance alone gives a problem to hardly any training set.
`--secret` draws a suite that nobody has seen.

Scoring: `trm benchmark score predictions.jsonl --suite {suite.name} --output DIR`{same} takes JSON
Lines like `{{"id": "…", "prediction": "…"}}`.
"""
    if suite.whole or layout:
        text += f"""
Canvases: the symbols, by their ids from 0, are `{symbols.CHARACTERS}`. `_` is blank, `*` and `+`
are the signs; `trm render` draws a problem in any layout.
"""
    return text
