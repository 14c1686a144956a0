"""The card of an export: what it is, how it was drawn, and what to mind."""

from collections import Counter
from collections.abc import Mapping, Sequence

from canvas.symbols import CHARACTERS
from trm.benchmark.suites import (
    SUITES,
    Item,
    Suite,
    checksum_of,
    label_of,
)
from trm.benchmark.training import Training
from trm.evaluation.grid_schema import LABELS
from trm.markdown import table

CARD = "CARD.md"
_FORMATS = {
    "jsonl": "JSON Lines: an object with `id`, `suite`, `question`, `answer` and `metadata` a line",
    "csv": "CSV with a header; `operands` is a JSON list",
    "trm": "the puzzle data sets of HRM and TRM: inputs are canvases with what is given, labels "
    "the finished ones",
    "txt": "tokens of uint16 as nanoGPT reads them; `meta.json` has the vocabulary",
}


def card(
    suite: Suite,
    parts: Mapping[str, Sequence[Item]],
    format: str,
    secret: bytes | None = None,
    training: Training | None = None,
    layout: str | None = None,
) -> str:
    """The card as Markdown. It follows from its arguments alone, and bears no date.

    Args:
        suite: what is exported.
        parts: the problems of ``test`` and, where there are any, ``train`` and ``validation``.
        format: of `trm.benchmark.formats.FORMATS`.
        secret, training, layout: see `trm.benchmark.formats.export`.
    """
    problems = parts["test"]
    label, part = label_of(suite, secret), suite.cells != SUITES[suite.name].cells
    counts = Counter((item.row, item.column) for item in problems)
    fewest = min((counts[cell] for cell in suite.cells), default=0)
    each = f"{suite.problems:,} a cell"
    if fewest < suite.problems:
        each += f", fewer (as few as {fewest}) where the test split has no more of a size"
    digest = checksum_of(problems)
    rows = [
        ["what", f"{suite.what}{', a part of them' if part else ''}"],
        ["problems", f"{len(problems):,} in {len(suite.cells)} cells, {each}"],
        ["cells", f"{LABELS[suite.axes[0]]} x {LABELS[suite.axes[1]]}"],
        ["format", _FORMATS[format] + (f"; layout {layout}" if layout else "")],
        ["checksum", f"`{digest}` (SHA-256 of the suite as JSON Lines, `{label}.jsonl`)"],
        ["licence", "MIT"],
    ]
    if training is not None:
        held = f"{len(parts['train']):,} of the training split"
        if "validation" in parts:
            held += f", {len(parts['validation']):,} of the validation split"
        rows.append(["to train on", f"{held}: {training}"])
    drawn = (
        "with the seed 0"
        if secret is None
        else "with a seed that follows from a secret of the organiser: SHA-256 of a line "
        f"`canvas-trm seed {suite.name}` and the secret, the first 8 bytes. Whoever has the secret "
        "can draw the suite again"
    )
    text = [
        f"# {label}",
        table(["", ""], rows),
        "## How the problems are drawn",
        "A hash of the operands puts every problem, whatever its size, into the training (80 %), "
        "validation (10 %) or test split (10 %); it does not depend on the operands' order. The "
        f"problems of this suite are all of the test split, different from each other, drawn "
        f"{drawn}. The same suite, drawn again, is the same to the last byte.",
        "## Contamination",
        "Training data that is made with this package, or that leaves out what "
        "`canvas.problems.split_of` calls test, holds none of these problems. A model whose "
        "training data is not known may have met some of them: short ones, of up to 3 x 3 digits, "
        "are all over the web, and this file may be, too. Of operands of 6 digits and more, "
        "chance alone gives a problem of this suite to hardly any training set; and an organiser "
        "can draw a suite that nobody has seen by `--secret`.",
        "## Scoring",
        'Predictions are JSON Lines like `{"id": "…", "prediction": "…"}`, scored by '
        f"`trm score predictions.jsonl --suite {suite.name} --output DIR`"
        + (" with the same `--secret`" if secret is not None else "")
        + (" with the same `--up-to`." if part else "."),
    ]
    if suite.whole or layout:
        text += [
            "## Canvases",
            f"The symbols, by their ids from 0: `{CHARACTERS}`. `_` is blank, `*` and `+` are the "
            "signs; `trm render` draws a problem in any layout.",
        ]
    return "\n\n".join(text) + "\n"
