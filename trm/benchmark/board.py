"""The board: what models and programs have answered to the suites, side by side.

An entry is a folder:

    card.yaml                        who and what, see `Card`
    predictions-SUITE.jsonl.gz       of each of its suites, as `trm score` takes them
    random-SUITE.jsonl.gz            of a trained entry: the same network with random weights, on
                                     some problems of any suite

Every figure of the page is counted from the predictions when the page is made. A trained entry is
refused unless it fails with random weights: what its architecture and its code know beforehand is
then not what it is ranked for.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import takewhile
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from canvas.choices import check_choice, did_you_mean
from trm.benchmark.scoring import Scored, score
from trm.benchmark.suites import SUITES, Item, Suite, items
from trm.configs import read_config
from trm.evaluation.grid_schema import FAMILY, Key
from trm.evaluation.statistics import Share
from trm.markdown import safe, table

CARD, NOTES = "card.yaml", "notes.md"
ENOUGH = 0.99  # of the problems of a size
CHANCE = 0.01  # that random weights may be right on, at most
CHECKED = 200  # problems that random weights have been asked, at least
LARGEST = 2**20  # bytes of a file

Solved = dict[Key, Share]  # by the cell of a suite


@dataclass(frozen=True)
class Card:
    """What is told of an entry.

    Attributes:
        name: by which it is listed.
        suites: names of those that it has predictions for.
        trained: whether its behaviour was learnt from data; else it was written by hand.
        parameters: numbers that were trained; 0 of a program.
        given: what it knows by design, such as the layout of the page.
        code: where that is, a file of this project or an address.
        made_with: the commands that made its predictions.
        trained_on: problems that it was trained on, such as their lengths; None of a program.
        weights: where these are; None: they are not public, or there are none.
        random_weights: the commands that made the predictions with random weights; None of a
            program.
        note: what else to know; None: nothing.
    """

    name: str
    suites: list[str]
    trained: bool
    parameters: int
    given: str
    code: str
    made_with: str
    trained_on: str | None = None
    weights: str | None = None
    random_weights: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Entry:
    """An entry, counted.

    Attributes:
        folder: its name.
        card: what is told of it.
        solved: of each of its suites, by cell.
        by_chance: right with random weights, by suite.
    """

    folder: str
    card: Card
    solved: dict[str, Solved]
    by_chance: dict[str, Share]

    def overall(self, suite: str) -> Share:
        """The share of all problems of a suite."""
        return sum(self.solved[suite].values(), Share(0, 0))


def page(board: Path) -> str:
    """The page of the board as Markdown: it follows from the files alone.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: there is no entry in it, or one is not complete, or is refused.
    """
    entries = read_board(board)
    parts = [_HEAD]
    for suite in SUITES.values():
        listed = ranked([e for e in entries if suite.name in e.solved], suite.name)
        if listed:
            parts += [f"## {suite.name}", f"{suite.what[0].upper()}{suite.what[1:]}."]
            parts += [_table(suite, listed)]
    parts += ["## Entries", *(_described(board, e) for e in entries)]
    notes = board / NOTES
    if notes.is_file():
        parts += ["## Not on the board", notes.read_text(encoding="utf-8").strip()]
    return "\n\n".join(parts) + "\n"


def read_board(board: Path) -> list[Entry]:
    """All entries of a folder, by the names of their folders.

    Raises:
        FileNotFoundError, ValueError: see `page`.
    """
    if not board.is_dir():
        raise FileNotFoundError(f"there is no folder {board}: name the board's by --folder")
    folders = sorted(f for f in board.iterdir() if f.is_dir() and not f.name.startswith((".", "_")))
    if not folders:
        raise ValueError(f"{board} holds no entry: an entry is a folder with {CARD}")
    cards = {folder: read_card(folder) for folder in folders}
    names = [anchor(card.name) for card in cards.values()] + list(SUITES)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two headings of the page would be {twice}: give an entry another name")
    asked: dict[str, list[Item]] = {}
    wanted = {suite for card in cards.values() for suite in card.suites}
    wanted |= {suite for folder in folders for suite in _checked(folder)}
    for name in sorted(wanted):
        asked[name] = list(items(SUITES[name]))
    return [_entry(folder, card, asked) for folder, card in cards.items()]


def read_card(folder: Path) -> Card:
    """The card of an entry.

    Raises:
        ValueError: there is none, or it is not complete; the message names it.
    """
    file = folder / CARD
    if not file.is_file():
        raise ValueError(f"{folder} has no {CARD}: every entry has one")
    data = read_config(file)
    kinds = {field.name: field.type for field in fields(Card)}
    required: tuple[str, ...] = (
        "name",
        "suites",
        "trained",
        "parameters",
        "given",
        "code",
        "made_with",
    )
    if data.get("trained") is True:
        required += ("trained_on", "random_weights")
    for name in data:
        if name not in kinds:
            raise ValueError(f"{file}: there is no field {name}.{did_you_mean(name, kinds)}")
    if missing := [name for name in required if data.get(name) in (None, "", [])]:
        raise ValueError(f"{file}: {missing[0]} is missing")
    for name, value in data.items():
        if not _fits(value, kinds[name]):
            raise ValueError(f"{file}: {name} cannot be {value!r}")
    card = Card(**data)
    if not (card.name.strip() and card.name.isprintable()):
        raise ValueError(f"{file}: name cannot be {card.name!r}: it is the heading of the entry")
    if not re.fullmatch(r"[\w.-]+", folder.name):
        raise ValueError(f"{folder}: name the folder by letters, digits, points, _ and - alone")
    for name in card.suites:
        try:
            check_choice("suites", name, SUITES)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
    if card.parameters < 0 or (card.trained and not card.parameters):
        raise ValueError(f"{file}: parameters cannot be {card.parameters}")
    return card


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value of a card is of the type of its field."""
    if kind == list[str]:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return type(value) in (get_args(kind) or (kind,)) and (kind is not NoneType)


def _entry(folder: Path, card: Card, asked: Mapping[str, Sequence[Item]]) -> Entry:
    """An entry with its predictions counted.

    Raises:
        ValueError: a file is missing or too large, predictions are not of their suite, or random
            weights do as well.
    """
    for file in folder.rglob("*"):
        if file.stat().st_size > LARGEST:
            raise ValueError(
                f"{file} is larger than {LARGEST:,} bytes; of predictions, trm score --compact "
                "leaves out all but the answers"
            )
    solved, checked = {}, {}
    for suite in card.suites:
        file = folder / f"predictions-{suite}.jsonl.gz"
        if not file.is_file():
            raise ValueError(f"{folder} has no {file.name}, and {CARD} names {suite}")
        solved[suite] = _solved(score(file, SUITES[suite], asked[suite], card.name))
    for suite, file in _checked(folder).items() if card.trained else ():
        by_chance = score(file, SUITES[suite], asked[suite], card.name)
        checked[suite] = Share(by_chance.share.right, len(by_chance.read))  # of some alone
    if card.trained and sum(share.total for share in checked.values()) < CHECKED:
        raise ValueError(
            f"{folder} is trained, and needs {CHECKED} predictions of the same network with random "
            f"weights at least: write them to random-{card.suites[0]}.jsonl.gz"
        )
    for suite, share in checked.items():
        if share.value > CHANCE:
            raise ValueError(
                f"{folder} is refused: with random weights it is right on {share} of {suite}, so "
                "that its answers do not come from training"
            )
    return Entry(folder.name, card, solved, checked)


def _checked(folder: Path) -> dict[str, Path]:
    """The predictions with random weights, by the suite that they are of."""
    files = {suite: folder / f"random-{suite}.jsonl.gz" for suite in SUITES}
    return {suite: file for suite, file in files.items() if file.is_file()}


def _solved(scored: Scored) -> Solved:
    """What predictions have right, by cell."""
    figures = {
        (c["row"], c["column"]): c["answers"] or c["solutions"] for c in scored.model["cells"]
    }
    return {cell: Share(f["right"], f["total"]) for cell, f in figures.items() if f}


def longest(suite: Suite, solved: Solved) -> int | None:
    """The largest size with 99 % right at least, all smaller ones, too; None: not even the first.

    Sizes are those of `ladder`.
    """
    cells = {n: [solved[c] for c in cells if c in solved] for n, cells in ladder(suite).items()}
    asked = sorted(n for n, shares in cells.items() if shares)  # the test split may hold none
    held = takewhile(lambda n: sum(cells[n], Share(0, 0)).value >= ENOUGH, asked)
    return max(held, default=None)


def ladder(suite: Suite) -> dict[int, list[Key]]:
    """The cells of each size n: n x n digits, all families of n digits, or two addends."""
    sizes: dict[int, list[Key]] = {}
    for row, column in suite.cells:
        if suite.axes[0] == FAMILY:
            sizes.setdefault(column, []).append((row, column))
        elif isinstance(row, int) and column == (2 if "addends" in suite.axes else row):
            sizes.setdefault(row, []).append((row, column))
    return sizes


def ranked(entries: Iterable[Entry], suite: str) -> list[tuple[int, Entry]]:
    """Entries with their ranks on a suite, equal where as many are right; small ones first."""
    found = sorted(entries, key=lambda e: (-e.overall(suite).right, e.card.parameters, e.folder))
    rights = [entry.overall(suite).right for entry in found]
    return [(1 + rights.index(right), e) for right, e in zip(rights, found, strict=True)]


def _table(suite: Suite, listed: list[tuple[int, Entry]]) -> str:
    rows = []
    for rank, entry in listed:
        card, share = entry.card, entry.overall(suite.name)
        size = longest(suite, entry.solved[suite.name])
        rows.append(
            [
                str(rank),
                f"[{safe(card.name)}](#{anchor(card.name)})",
                f"{_percent(share)} ({share.right:,} of {share.total:,})",
                "none" if size is None else _size(suite, size),
                f"{card.parameters:,}",
                "trained" if card.trained else "by hand",
                safe(card.trained_on or "–"),
            ]
        )
    heads = ["", "entry", "right, 95 % interval", "longest at ≥ 99 %", "parameters"]
    return table([*heads, "how it came about", "trained on"], rows)


def _size(suite: Suite, size: int) -> str:
    return f"{size} x {size}" if suite.axes == ("digits_a", "digits_b") else f"{size} digits"


def _percent(share: Share) -> str:
    """A share in percent with its interval, rounded outwards; 100 only where all are right."""
    low, high = (10_000 * end for end in share.interval)
    hundredths = 10_000 * share.right // share.total, math.floor(low), math.ceil(high)
    value, least, most = (f"{n / 100:.2f}" for n in hundredths)
    return f"{value} % ({least} to {most})".replace("100.00", "100")


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in "_- ")
    return kept.replace(" ", "-")


def _described(board: Path, entry: Entry) -> str:
    card, folder = entry.card, f"{board.name}/{entry.folder}"
    lines = [
        f"- Given by design: {card.given.strip()}",
        f"- Code: {_link(board, card.code)}"
        + (f"; weights: {_link(board, card.weights)}" if card.weights else ""),
        f"- Predictions: [`{folder}`](../{folder}), made with",
        "",
        *(f"      {line}" for line in card.made_with.strip().splitlines()),
    ]
    if card.trained:
        told = "; ".join(f"{share} of {suite}" for suite, share in entry.by_chance.items())
        lines += [
            "",
            f"- With random weights: {told}. Made with",
            "",
            *(f"      {line}" for line in (card.random_weights or "").strip().splitlines()),
        ]
    if card.note:
        lines += ["", card.note.strip()]
    return "\n".join([f"### {safe(card.name)}", "", *lines])


def _link(board: Path, target: str) -> str:
    """An address as it is, a file of the project as seen from the page."""
    if target.startswith(("https://", "http://")):
        return f"<{target}>"
    return f"[`{target}`](../{target})"


_HEAD = f"""\
# The board

What models and programs have answered to the [suites of the benchmark](benchmark.md). This page is
made from the folders in [`board`](../board) by `trm benchmark board`; every figure is counted anew
from the predictions in them.

- **right**: the share of all problems of the suite whose answer is exactly right, with its Wilson
  interval. A problem without a prediction counts as wrong. Entries are ranked by it.
- **longest at ≥ {100 * ENOUGH:.0f} %**: the largest n such that {100 * ENOUGH:.0f} % at least of \
the problems of n x n digits are right,
  and of all smaller n that the suite asks; of structured problems those of all families together
  whose longer number has n digits, of sums those of two numbers.
- **trained or by hand**: a trained entry is taken only if the same network with random weights is
  right on {100 * CHANCE:.0f} % of {CHECKED} problems at most. A program written by hand has no \
such test, and is marked.

To join: `trm benchmark export --suite multiply-v1 --output suite`, answer the questions, write
`board/NAME/predictions-multiply-v1.jsonl.gz` and `board/NAME/card.yaml` like those that are there,
and run `trm benchmark board`. It says what is missing. No file is larger than 1 MiB."""
