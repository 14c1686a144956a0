"""Suites as files, in four formats.

jsonl  ``SUITE.jsonl``: one problem a line, `trm.benchmark.suites.json_line`. Its SHA-256 is the
       suite's checksum.
csv    ``SUITE.csv`` with the columns `COLUMNS`.
trm    the data sets of HRM and TRM: ``test/`` and ``train/`` with ``all__inputs.npy``,
       ``all__labels.npy`` (uint8 [N, H · W], the ids of `canvas.symbols`), the indices of puzzles
       and groups, ``dataset.json``; ``identifiers.json``. Inputs are canvases with what is given,
       labels the finished ones, all of one size, each in the top left corner. Every puzzle has one
       example and is a group of its own. The ids of the problems, in order, are in
       ``test/ids.txt``, and height, width and symbols in ``meta.json``.
txt    tokens as nanoGPT reads them: ``test.bin``, and to train on ``train.bin`` and ``val.bin``,
       all of uint16; ``meta.json`` with ``vocab_size``, ``itos`` and ``stoi``. Numbers are lines
       like ``12 * 34 = 408``, a token a character. Canvases are sequences as `canvas.render` has
       them: a start symbol, the rows from right to left, each with a row end, an end symbol; all
       are equally long.

A card, ``CARD.md``, lies beside them. Problems to train on, where they are wanted, are of the
training split (and a tenth as many of the validation split, but in the format trm).
"""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from canvas import symbols
from canvas.choices import check_choice
from canvas.problems import Problems
from canvas.render import to_sequences
from trm.benchmark.card import CARD, card
from trm.benchmark.suites import (
    Item,
    Suite,
    items,
    json_line,
    label_of,
    make_canvases,
    record,
)
from trm.benchmark.training import Training, training_items
from trm.files import make_folder, replacing, write_object

FORMATS = ("jsonl", "csv", "trm", "txt")
COLUMNS = ("id", "suite", "row", "column", "operands", "layout", "view", "question", "answer")
META, IDENTIFIERS, IDS = "meta.json", "identifiers.json", "ids.txt"
BLANK_IDENTIFIER = "<blank>"
_TEXT = "\n *+=0123456789"  # characters of problems that ask for numbers, by their tokens


def export(
    suite: Suite,
    format: str,
    output: Path,
    secret: bytes | None = None,
    training: Training | None = None,
    layout: str | None = None,
) -> list[Path]:
    """Write a suite, and perhaps problems to train on, into a folder.

    Args:
        suite: one of `trm.benchmark.suites.SUITES`, or a part of it.
        format: a name in `FORMATS`.
        output: a folder, which is made; an empty one, or one of the same export.
        secret: see `trm.benchmark.suites.items`.
        training: what to draw to train on; None: nothing.
        layout: in which problems that ask for numbers are drawn as canvases; None: as numbers, and
            in the format trm the task's usual one.

    Returns:
        What was written.

    Raises:
        ValueError: the folder holds something else, or there is no such format or layout.
    """
    check_choice("--format", format, FORMATS)
    parts = {"test": list(items(suite, secret))}
    if training is not None:
        parts["train"] = list(training_items(suite, training, "train"))
        if format != "trm":
            parts["validation"] = list(training_items(suite, training, "validation"))
    if format == "trm" and layout is None and not suite.whole:
        layout = suite.task.layout
    text = card(suite, parts, format, secret, training, layout)
    if layout is not None:
        if suite.whole:
            raise ValueError(f"{suite.name} has canvases in every layout: leave --layout out")
        parts = {name: drawn(suite, part, layout) for name, part in parts.items()}
    _take(output, text)
    label = label_of(suite, secret)
    if format in ("jsonl", "csv"):
        write = _jsonl if format == "jsonl" else _csv
        named = {"test": label, "train": "train", "validation": "validation"}
        files = [write(output / named[name], part) for name, part in parts.items()]
    elif format == "trm":
        files = _puzzles(output, parts)
    else:
        files = _tokens(output, parts, canvases=suite.whole or layout is not None)
    with replacing(output / CARD) as part:
        part.write_text(text, encoding="utf-8")
    return [*files, output / CARD]


def _take(output: Path, text: str) -> None:
    """Make the folder, and see that only files of the same export are in it.

    Raises:
        ValueError: there are others.
    """
    make_folder(output)
    known = output / CARD
    same = known.is_file() and known.read_text(encoding="utf-8") == text
    if any(output.iterdir()) and not same:
        raise ValueError(
            f"{output} holds something else already: choose another --output, or empty this one"
        )


def drawn(suite: Suite, problems: Iterable[Item], layout: str) -> list[Item]:
    """Problems that ask for numbers as canvases, with the same ids.

    Args:
        suite: whose problems these are.
        problems: of the suite, or to train on.
        layout: of the task's.

    Raises:
        ValueError: there is no such layout.
    """
    check_choice("--layout", layout, suite.task.layouts)
    task = replace(suite.task, layout=layout)  # type: ignore[type-var]
    asked = list(problems)
    operands = Problems.from_ints([item.operands for item in asked])
    cells = [(item.row, item.column) for item in asked]
    return list(make_canvases(task, [item.id for item in asked], operands, cells))


def cells_of(text: str) -> np.ndarray:
    """A canvas as ids, ``uint8 [H, W]``, from its text.

    Raises:
        ValueError: rows of different lengths, or characters that are no symbols.
    """
    rows = text.split("\n")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the rows of a canvas have to be equally long")
    return np.stack([symbols.encode(row) for row in rows])


def _jsonl(path: Path, problems: Sequence[Item]) -> Path:
    file = path.with_name(f"{path.name}.jsonl")
    with replacing(file) as part, part.open("w", encoding="ascii", newline="\n") as sink:
        sink.writelines(map(json_line, problems))
    return file


def _csv(path: Path, problems: Sequence[Item]) -> Path:
    file = path.with_name(f"{path.name}.csv")
    with replacing(file) as part, part.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.DictWriter(sink, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for item in problems:
            whole = record(item)
            whole |= whole.pop("metadata")
            writer.writerow(whole | {"operands": json.dumps(whole["operands"])})
    return file


def _size(parts: dict[str, list[Item]]) -> tuple[int, int]:
    """Height and width of a canvas that fits all canvases."""
    sizes = [
        (text.count("\n") + 1, len(text.partition("\n")[0]))
        for part in parts.values()
        for item in part
        for text in (item.answer,)
    ]
    return max(h for h, _ in sizes), max(w for _, w in sizes)


def _canvases(texts: Iterable[str], size: tuple[int, int]) -> np.ndarray:
    """Canvases ``uint8 [N, H, W]`` of one size, each text in the top left corner, else blank."""
    texts = list(texts)
    canvases = np.full((len(texts), *size), symbols.BLANK, dtype=np.uint8)
    for canvas, text in zip(canvases, texts, strict=True):
        cells = cells_of(text)
        canvas[: cells.shape[0], : cells.shape[1]] = cells
    return canvases


def _puzzles(output: Path, parts: dict[str, list[Item]]) -> list[Path]:
    """Write the data sets of HRM and TRM: a folder for each part."""
    height, width = size = _size(parts)
    names = list(dict.fromkeys(f"{i.layout} {i.view}" for part in parts.values() for i in part))
    known = {name: k + 1 for k, name in enumerate(names)}
    files = [output / IDENTIFIERS, output / META]
    _write_json(files[0], [BLANK_IDENTIFIER, *names])
    meta = {"height": height, "width": width, "symbols": symbols.CHARACTERS}
    write_object(files[1], meta)
    for part, problems in parts.items():
        folder, n = output / part, len(problems)
        folder.mkdir(exist_ok=True)
        kinds = [known[f"{item.layout} {item.view}"] for item in problems]
        arrays = {
            "inputs": _canvases((item.question for item in problems), size).reshape(n, -1),
            "labels": _canvases((item.answer for item in problems), size).reshape(n, -1),
            "puzzle_identifiers": np.array(kinds, dtype=np.int32),
            "puzzle_indices": np.arange(n + 1, dtype=np.int32),
            "group_indices": np.arange(n + 1, dtype=np.int32),
        }
        for name, array in arrays.items():
            files.append(folder / f"all__{name}.npy")
            with replacing(files[-1]) as file, file.open("wb") as sink:
                np.save(sink, array)
        files += [folder / "dataset.json", folder / IDS]
        described: dict[str, Any] = {
            "pad_id": symbols.PAD,
            "ignore_label_id": symbols.PAD,  # which no label is: every cell counts
            "blank_identifier_id": 0,
            "vocab_size": symbols.VOCAB_SIZE,
            "seq_len": height * width,
            "num_puzzle_identifiers": 1 + len(names),
            "total_groups": n,
            "mean_puzzle_examples": 1.0,
            "total_puzzles": n,
            "sets": ["all"],
        }
        write_object(files[-2], described)
        with replacing(files[-1]) as file:
            file.write_text("".join(f"{item.id}\n" for item in problems), encoding="utf-8")
    return files


def _tokens(output: Path, parts: dict[str, list[Item]], canvases: bool) -> list[Path]:
    """Write tokens as nanoGPT reads them."""
    alphabet = symbols.CHARACTERS if canvases else _TEXT
    meta = {
        "vocab_size": len(alphabet),
        "itos": dict(enumerate(alphabet)),
        "stoi": {character: i for i, character in enumerate(alphabet)},
    }
    size = _size(parts) if canvases else (0, 0)
    if canvases:
        meta |= {"height": size[0], "width": size[1], "tokens": size[0] * (size[1] + 1) + 2}
    files = []
    for part, problems in parts.items():
        if canvases:
            ids = to_sequences(_canvases((item.answer for item in problems), size))
            tokens = np.concatenate([ids, np.full((len(ids), 1), symbols.END)], axis=1).reshape(-1)
        else:
            text = "".join(f"{item.question} {item.answer}\n" for item in problems)
            table = np.zeros(128, dtype=np.uint16)
            table[np.frombuffer(alphabet.encode(), np.uint8)] = np.arange(len(alphabet))
            tokens = table[np.frombuffer(text.encode(), np.uint8)]
        files.append(output / f"{'val' if part == 'validation' else part}.bin")
        with replacing(files[-1]) as file:
            file.write_bytes(tokens.astype("<u2").tobytes())
    files.append(output / META)
    write_object(files[-1], meta)
    return files


def _write_json(file: Path, data: Any) -> None:
    with replacing(file) as part:
        part.write_text(json.dumps(data) + "\n", encoding="utf-8")
