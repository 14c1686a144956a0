"""Suites as files, with a card ``CARD.md`` that says what they are.

docs/benchmark.md tells what the files of each of the `FORMATS` hold. Problems to train on are of
the training split, and a tenth as many of the validation split.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from canvas import symbols
from canvas.choices import check_choice
from trm.benchmark.suites import (
    SUITES,
    Item,
    Suite,
    Training,
    checksum,
    items,
    json_line,
    label_of,
    training_items,
)
from trm.evaluation.grid import LABELS
from trm.files import make_folder, replacing
from trm.markdown import table

FORMATS = {
    "jsonl": "JSON Lines: an object with `id`, `suite`, `question`, `answer` and `metadata` a line",
    "txt": "tokens of uint16 as nanoGPT reads them; `meta.json` has the vocabulary",
}
CARD = "CARD.md"
_TEXT = "\n *+=0123456789"  # characters of problems that ask for numbers, by their tokens

Parts = Mapping[str, Sequence[Item]]  # the problems of test, and perhaps of train and validation


def export(
    suite: Suite,
    format: str,
    output: Path,
    seed: int = 0,
    training: Training | None = None,
) -> list[Path]:
    """Write a suite in one of `FORMATS`, and problems to train on if asked for; returns the files.

    The folder is made, empty, or one of the same export; ValueError: it holds something else, or
    there are no such files of the suite.
    """
    check_choice("--format", format, FORMATS)
    if suite.whole and format == "txt":
        raise ValueError(f"{suite.name} asks for canvases, which have no such text: leave --format")
    parts = {"test": list(items(suite, seed))}
    if training is not None:
        parts["train"] = list(training_items(suite, training, "train"))
        parts["validation"] = list(training_items(suite, training, "validation"))
    text = _card(suite, parts, format, seed, training)
    make_folder(output)
    known = output / CARD
    same = known.is_file() and known.read_text(encoding="utf-8") == text
    if any(output.iterdir()) and not same:
        raise ValueError(
            f"{output} holds something else already: choose another --output, or empty this one"
        )
    if format == "txt":
        files = _tokens(parts)
    else:
        files = {
            f"{label_of(suite, seed) if name == 'test' else name}.jsonl": "".join(
                map(json_line, part)
            ).encode()
            for name, part in parts.items()
        }
    files[CARD] = text.encode()
    for name, content in files.items():
        with replacing(output / name) as file:
            file.write_bytes(content)
    return [output / name for name in files]


def _tokens(parts: Parts) -> dict[str, bytes]:
    """Files of tokens as nanoGPT reads them, a token a character, by their names."""
    codes = np.zeros(128, dtype="<u2")
    codes[np.frombuffer(_TEXT.encode(), np.uint8)] = np.arange(len(_TEXT))
    files = {}
    for part, problems in parts.items():
        text = "".join(f"{item.question} {item.answer}\n" for item in problems)
        name = "val" if part == "validation" else part
        files[f"{name}.bin"] = codes[np.frombuffer(text.encode(), np.uint8)].tobytes()
    meta = {
        "vocab_size": len(_TEXT),
        "itos": dict(enumerate(_TEXT)),
        "stoi": {character: i for i, character in enumerate(_TEXT)},
    }
    return files | {"meta.json": (json.dumps(meta) + "\n").encode()}


def _card(
    suite: Suite,
    parts: Parts,
    format: str,
    seed: int,
    training: Training | None,
) -> str:
    """The card of an export as Markdown; it follows from the arguments of `export` alone."""
    problems, label = parts["test"], label_of(suite, seed)
    part = suite.cells != SUITES[suite.name].cells
    each = f"{suite.problems:,} a cell, or as many as the test split has"
    rows = [
        ["what", f"{suite.what}{', a part of them' if part else ''}"],
        ["problems", f"{len(problems):,} in {len(suite.cells)} cells, {each}"],
        ["cells", f"{LABELS[suite.axes[0]]} x {LABELS[suite.axes[1]]}"],
        ["format", FORMATS[format]],
        ["checksum", f"`{checksum(problems)}` (SHA-256 of the JSON Lines, `{label}.jsonl`)"],
        ["licence", "MIT"],
    ]
    if training is not None:
        held = f"{len(parts['train']):,} of the training split, "
        held += f"{len(parts['validation']):,} of the validation split"
        rows.append(["to train on", f"{held}: {training}"])
    drawn = "an organiser's seed" if seed else "the seed 0"
    if suite.whole:
        symbol = "their symbols, by their ids from 0"
        rows.append(["canvases", f"{symbol}: `{symbols.CHARACTERS}`; `_` is blank"])
    return f"""\
# {label}

{table(["", ""], rows)}

These are different problems of the test split, drawn with {drawn}. A hash of the operands in any
order puts every problem into the training (80 %), validation (10 %) or test split (10 %): see
`canvas.problems.split_of`. Contamination: training data that leaves out the test split holds none
of these; other data may hold short ones by chance, or this file. `--seed` draws unseen ones.

`trm benchmark score predictions.jsonl --suite {suite.name} --output DIR`, with the same `--up-to`
and `--seed` if any, takes JSON Lines like `{{"id": "…", "prediction": "…"}}`.
"""
