"""Board: accuracy of models and programs on the suites, side by side.

An entry is a folder:

    card.yaml                        description of the entry, see `Card`
    predictions-SUITE.jsonl.gz       predictions for each of its suites, for `trm benchmark score`
    random-SUITE.jsonl.gz            for a trained entry: predictions of the same network with
                                     random weights, for some problems of any suite

Every figure of the page is computed from the predictions when the page is made. A trained entry is
refused unless it fails with random weights. This ensures that its accuracy comes from training, and
not from its architecture and code.
"""

import math
import re
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, StrictBool, StringConstraints, TypeAdapter
from pydantic.dataclasses import dataclass

from canvas.choices import check_choice
from trm.evaluation.grid_cells import FAMILY, Key
from trm.evaluation.statistics import Share
from trm.extras.benchmark.scoring import Scored, score
from trm.extras.benchmark.suites import SUITES, Suite
from trm.io.config_files import read_config
from trm.io.files import files_below, validated
from trm.io.markdown import safe, table

CARD, NOTES = "card.yaml", "notes.md"
ENOUGH = 0.99  # least accuracy at a size, for the longest size
CHANCE = 0.01  # highest accuracy of random weights
CHECKED = 200  # least number of predictions with random weights
LARGEST = 2**20  # most bytes of a file

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Line = Annotated[Text, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$")]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Card:
    """Description of an entry."""

    name: Line  # name on the board
    suites: Annotated[list[str], Field(min_length=1)]  # suites with predictions
    trained: StrictBool  # True: its behaviour was learnt from data; False: written by hand
    parameters: Annotated[int, Field(ge=0, strict=True)]  # trained parameters; 0 for a program
    given: Text  # knowledge built in by design, such as the layout of the canvas
    code: Line  # a file of this project or an address
    made_with: Text  # commands that made its predictions
    trained_on: Line | None = None  # training problems, such as their lengths
    weights: Line | None = None
    proof: Line | None = None  # file of this project or address: proof for every length
    random_weights: Text | None = None  # commands that made predictions with random weights
    note: Text | None = None

    def __post_init__(self) -> None:
        for name in self.suites:
            check_choice("suites", name, SUITES)
        if self.trained and not (self.parameters and self.trained_on and self.random_weights):
            raise ValueError("a trained entry has parameters, trained_on and random_weights")


class BoardEntry(NamedTuple):
    """Entry with its scores."""

    folder: Path
    card: Card
    scored: dict[str, Scored]  # suite → score
    by_chance: dict[str, Share]  # suite → share of correct answers with random weights


def page(board: Path) -> str:
    """Return the page of the board as Markdown; it depends on the files only.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: there is no entry, or an entry is incomplete or refused.
    """
    if not board.is_dir():
        raise FileNotFoundError(f"there is no folder {board}: go to that of the project")
    folders = sorted(f for f in board.iterdir() if f.is_dir() and not f.name.startswith((".", "_")))
    if not folders:
        raise ValueError(f"{board} holds no entry: an entry is a folder with {CARD}")
    entries = [_entry(folder, read_card(folder)) for folder in folders]
    names = [anchor(entry.card.name) for entry in entries] + list(SUITES)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two headings of the page would be {twice}: give an entry another name")
    parts = [_HEAD]
    for suite in SUITES.values():
        if listed := [entry for entry in entries if suite.name in entry.scored]:
            parts += [f"## {suite.name}", f"{suite.what[0].upper()}{suite.what[1:]}."]
            parts += [_table(suite, listed)]
    parts += ["## Entries", *map(_described, entries)]
    if (notes := board / NOTES).is_file():
        parts += ["## Not on the board", notes.read_text(encoding="utf-8").strip()]
    return "\n\n".join(parts) + "\n"


def read_card(folder: Path) -> Card:
    """Read the card of an entry.

    Raises:
        ValueError: the card is missing or wrong.
    """
    file = folder / CARD
    if not file.is_file():
        raise ValueError(f"{folder} has no {CARD}: every entry has one")
    if not re.fullmatch(r"[\w.-]+", folder.name):
        raise ValueError(f"{folder}: name the folder by letters, digits, points, _ and - alone")
    return validated(TypeAdapter(Card), read_config(file), str(file))


def _entry(folder: Path, card: Card) -> BoardEntry:
    """Score an entry.

    Raises:
        ValueError: the entry is incomplete or refused.
    """
    for file in files_below(folder):
        if file.stat().st_size > LARGEST:
            raise ValueError(
                f"{file} is larger than {LARGEST:,} bytes; of predictions, trm benchmark score "
                "writes a file of the answers alone"
            )
    scored, by_chance = dict[str, Scored](), dict[str, Share]()
    for suite in card.suites:
        file = folder / f"predictions-{suite}.jsonl.gz"
        if not file.is_file():
            raise ValueError(f"{folder} has no {file.name}, and {CARD} names {suite}")
        scored[suite] = score(file, SUITES[suite], card.name)
        if card.proof and scored[suite].share.right < scored[suite].share.total:
            raise ValueError(f"{folder} is refused: it names a proof, and is wrong in {suite}")
    for suite in SUITES if card.trained else ():
        file = folder / f"random-{suite}.jsonl.gz"
        if file.is_file():
            found = score(file, SUITES[suite], card.name)
            share = Share(found.share.right, len(found.read))  # of the problems in the file
            if share.value > CHANCE:
                raise ValueError(
                    f"{folder} is refused: with random weights it is right on {share} of {suite}, "
                    "so that its answers do not come from training"
                )
            by_chance[suite] = share
    if card.trained and sum(share.total for share in by_chance.values()) < CHECKED:
        raise ValueError(
            f"{folder} is trained, and needs {CHECKED} predictions of the same network with random "
            f"weights at least: write them to random-{card.suites[0]}.jsonl.gz"
        )
    return BoardEntry(folder, card, scored, by_chance)


def longest(suite: Suite, solved: dict[Key, Share]) -> int | None:
    """Return the largest size of `ladder` up to which all sizes have an accuracy of 99 % or more.

    Returns None if the smallest size has less.
    """
    found = None
    for size, cells in sorted(ladder(suite).items()):
        if some := [solved[cell] for cell in cells if cell in solved]:  # the split may hold none
            if sum(some, Share(0, 0)).value < ENOUGH:
                break
            found = size
    return found


def ladder(suite: Suite) -> dict[int, list[Key]]:
    """Return the cells of each size n: n x n digits, all families of n digits, or two addends."""
    sizes: dict[int, list[Key]] = {}
    for row, column in suite.cells:
        if suite.axes[0] == FAMILY:
            sizes.setdefault(column, []).append((row, column))
        elif isinstance(row, int) and column == (2 if "addends" in suite.axes else row):
            sizes.setdefault(row, []).append((row, column))
    return sizes


def _table(suite: Suite, entries: list[BoardEntry]) -> str:
    """Return a table of entries with their ranks on a suite.

    Equal numbers of correct answers give equal ranks; then entries with fewer parameters come
    first.
    """
    found = [(entry.card, entry.scored[suite.name]) for entry in entries]
    found.sort(key=lambda one: (-one[1].share.right, one[0].parameters, one[0].name))
    rights, rows = [scored.share.right for _, scored in found], []
    for card, scored in found:
        share = scored.share
        # Rounded outwards; 100 only where all are right.
        ends = [math.floor(10_000 * share.interval[0]), math.ceil(10_000 * share.interval[1])]
        value, low, high = (
            f"{n / 100:.2f}".replace("100.00", "100")
            for n in (10_000 * share.right // share.total, *ends)
        )
        size, wrong = longest(suite, scored.cells), scored.wrong
        verdict = f"refuted: {safe(wrong.question.rstrip(' ='))}" if wrong else "tested"
        form = "{0} x {0}" if suite.axes == ("digits_a", "digits_b") else "{} digits"
        rows.append([
            str(1 + rights.index(share.right)),
            f"[{safe(card.name)}](#{anchor(card.name)})",
            f"{value} % ({low} to {high}) ({share.right:,} of {share.total:,})",
            f"[proved](#{anchor(card.name)})" if card.proof else verdict,
            "none" if size is None else form.format(size),
            f"{card.parameters:,}",
            "trained" if card.trained else "by hand",
            safe(card.trained_on or "–"),
        ])  # fmt: skip
    heads = ["", "entry", "correct, 95 % interval", "verdict", "longest at ≥ 99 %", "parameters"]
    return table([*heads, "trained or by hand", "trained on"], rows)


def anchor(title: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return "".join(c for c in title.lower() if c.isalnum() or c in "_- ").replace(" ", "-")


def _described(entry: BoardEntry) -> str:
    """Describe an entry; files of the project become links relative to the page."""

    def link(target: str) -> str:
        return f"<{target}>" if re.match("https?://", target) else f"[`{target}`](../{target})"

    def indented(text: str) -> list[str]:
        return [f"      {line}" for line in text.splitlines()]

    card = entry.card
    weights = f"; weights: {link(card.weights)}" if card.weights else ""
    weights += f"; proof: {link(card.proof)}" if card.proof else ""
    lines = [
        f"### {safe(card.name)}\n",
        f"- Given by design: {card.given}",
        f"- Code: {link(card.code)}{weights}",
        f"- Predictions: {link('/'.join(entry.folder.parts[-2:]))}, made with\n",
        *indented(card.made_with),
    ]
    if card.random_weights:
        shares = "; ".join(f"{share} of {suite}" for suite, share in entry.by_chance.items())
        lines += [f"\n- With random weights: {shares}. Made with\n"]
        lines += indented(card.random_weights)
    return "\n".join([*lines, f"\n{card.note}"] if card.note else lines)


_HEAD = f"""\
# The board

What models and programs have answered to the [suites of the benchmark](benchmark.md). This page is
made from the folders in [`board`](../board) by `trm benchmark board`; every figure is counted anew
from the predictions in them.

- **correct**: the share of all problems of the suite whose answer is correct, with its Wilson
  interval. A problem without a prediction counts as incorrect. Entries are ranked by it.
- **verdict**: *proved* correct at every length, *refuted* by a problem of the suite, the shortest
  with an incorrect answer, or *tested* on the problems of the suite.
- **longest at ≥ {100 * ENOUGH:.0f} %**: the largest n such that {100 * ENOUGH:.0f} % at least of \
the problems of n x n digits are correct,
  and of all smaller n that the suite asks; of structured problems those of all families together
  whose longer number has n digits, of sums those of two numbers.
- **trained or by hand**: a trained entry is taken only if the same network with random weights is
  correct on {100 * CHANCE:.0f} % of {CHECKED} problems at most. A program written by hand has no \
such test, and is marked.

To join: `trm benchmark export --suite multiply-v1 --output multiply-v1`, answer the questions, copy
`predictions-multiply-v1.jsonl.gz`, which `trm benchmark score` writes, to `board/NAME`, write
`board/NAME/card.yaml` like those that are there, and run `trm benchmark board`. It says what is
missing. No file is larger than 1 MiB."""
