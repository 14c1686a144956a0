"""A suite as a file of JSON Lines, with a card ``CARD.md`` that says what it is."""

from collections.abc import Sequence
from pathlib import Path

from canvas import symbols
from trm.benchmark.suites import SUITES, Item, Suite, checksum, items, json_line, label_of
from trm.evaluation.grid import LABELS
from trm.files import make_folder, write_text
from trm.markdown import table

CARD = "CARD.md"


def export(suite: Suite, output: Path, seed: int = 0) -> list[Path]:
    """Write a suite, and its card; returns the files.

    The folder is made, empty, or one of the same export; ValueError: it holds something else.
    """
    problems = list(items(suite, seed))
    text = _card(suite, problems, seed)
    make_folder(output)
    known = output / CARD
    same = known.is_file() and known.read_text(encoding="utf-8") == text
    if any(output.iterdir()) and not same:
        raise ValueError(
            f"{output} holds something else already: choose another --output, or empty this one"
        )
    file = output / f"{label_of(suite, seed)}.jsonl"
    write_text(file, "".join(map(json_line, problems)))
    write_text(known, text)
    return [file, known]


def _card(suite: Suite, problems: Sequence[Item], seed: int) -> str:
    """The card of an export as Markdown; it follows from the arguments of `export` alone."""
    label, part = label_of(suite, seed), suite.cells != SUITES[suite.name].cells
    each = f"{suite.problems:,} a cell, or as many as the test split has"
    rows = [
        ["what", f"{suite.what}{', a part of them' if part else ''}"],
        ["problems", f"{len(problems):,} in {len(suite.cells)} cells, {each}"],
        ["cells", f"{LABELS[suite.axes[0]]} x {LABELS[suite.axes[1]]}"],
        ["format", "JSON Lines: `id`, `suite`, `question`, `answer` and `metadata` a line"],
        ["checksum", f"`{checksum(problems)}` (SHA-256 of `{label}.jsonl`)"],
        ["licence", "MIT"],
    ]
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
