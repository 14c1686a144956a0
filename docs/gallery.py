"""Write gallery.md: `python docs/gallery.py`, after changes of layouts, encodings or weights.

Its sources: canvases and local rules from the layouts, proofs from the cards of the weights in
`models`, figures from the tables that `ENCODINGS` and `FAMILIES` point at.
"""

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from canvas.cells.drawn import draw_signals
from canvas.cells.local_rule import LocalRule
from canvas.cells.spec import NEIGHBOUR_NAMES
from canvas.choices import load_class
from canvas.picture import to_text
from canvas.task import Task
from canvas.tasks import TASKS
from trm.cells.proof.notes import with_new_keys
from trm.checkpoints import DATA_KEY, SHIPPED
from trm.checkpoints.content import unpack
from trm.models.configs import POSITIONS
from trm.models.positions import Position

DOCS = Path(__file__).parent
PAGE = DOCS / "gallery.md"
PROBLEMS = {"multiplication": "321x654", "addition": "604+87", "subtraction": "604-87"}
PROBLEMS |= {"division": "1101/10", "modular": "101x1101%111"}
CARRIES = ("carry", "sum_carry", "borrow")  # signals that are drawn beside a canvas
SIGNED = {"waves"}  # layouts whose carries are 0, 1 or -1

GPT, RECURSIVE = "a GPT that adds", "a recursive transformer that adds, with attention to all cells"
STUDY = "log/2026-11.md#2026-11-24-study-encodings"
LOOPED, RECURSIVE_STUDY = f"{STUDY}-looped", f"{STUDY}-recursive"
CANVAS, CONFIGS = f"{STUDY}-canvas", "results.md#all-configs"
# By encoding: the trained model, the problems, and the Markdown file and column of its figure.
ENCODINGS: dict[str, tuple[str, str, str, int]] = {
    "none": (GPT, "8 digits: ", LOOPED, 5),
    "learned": (GPT, "8 digits: ", CANVAS, 2),
    "learned_2d": (GPT, "8 digits: ", CANVAS, 2),
    "rope_1d": (RECURSIVE, "8 digits: ", RECURSIVE_STUDY, 2),
    "rope_2d": (f"{GPT}, with random blanks", "", CONFIGS, 3),
    "sinusoidal": ("a GPT that multiplies", "", CONFIGS, 3),
    "randomised": (GPT, "7 digits: ", LOOPED, 4),
    "abacus": (GPT, "7 digits: ", LOOPED, 4),
    "alibi": (GPT, "8 digits: ", LOOPED, 5),
    "fire": (GPT, "8 digits: ", LOOPED, 5),
    "shaw": (GPT, "8 digits: ", LOOPED, 5),
    "relative_2d": ("a recursive transformer that adds", "", CONFIGS, 3),
}
# Names of rows that differ from the name of the encoding.
ROWS = {
    "relative_2d": "addition/quick",
    "rope_2d": "addition/gpt_blanks",
    "sinusoidal": "gpt/small_sinusoidal",
}
# By family: its file, and the config with its figure.
FAMILIES = {
    "cell model with several ops": ("cells/model", "quickstart"),
    "cell model that reads everything at once": ("cells/model", "generalise/lattice"),
    "cell model without hints, which invents latent codes": ("cells/model", "generalise/latent"),
    "recursive transformer, whose cells read states": ("models/recursive", "addition/quick"),
    "GPT, which writes the canvas as a sequence": ("models/gpt", "addition/gpt_blanks"),
}


def gallery() -> str:
    """Return the text of gallery.md."""
    proofs = list(read_proofs())
    parts = [HEAD, "\n".join(contents())]
    for name, kind in TASKS.items():
        for layout in kind.layouts:
            parts += [f"## {title(name, layout)}", *draw(kind(layout=layout), PROBLEMS[name])]
            parts += proof_table([row for which, row in proofs if which == (name, layout)])
    parts += [ENCODINGS_HEAD, "\n".join(encodings()), FAMILIES_HEAD, "\n".join(families())]
    return "\n\n".join(parts) + "\n"


def title(task: str, layout: str) -> str:
    """Heading of a layout, like "Multiplication, standard"."""
    return f"{task.capitalize()}, {layout}"


def contents() -> Iterator[str]:
    """Yield a table row per task, with its layouts."""
    yield "| task | layouts |\n|---|---|"
    for name, kind in TASKS.items():
        anchors = {one: title(name, one).lower() for one in kind.layouts}
        links = (f"[{one}](#{re.sub(', ', '-', anchor)})" for one, anchor in anchors.items())
        yield f"| {name} | {', '.join(links)} |"


HEAD = """\
# Gallery

Every layout with a solution, the messages of its cells, and the models that are
[proved](proof.md) correct on it; then every [position encoding](#position-encodings) and every
[family of models](#families-of-models), each with a figure from a table of the results or the
log.

    python docs/gallery.py                               # writes gallery.md
    trm render 321x654 --layout standard                 # draws one of its canvases

A canvas is filled in downwards, each row from the right to the left; `_` is a blank cell. Beside it
are the carries of each cell to the cell on its left, in a product (`carry`), in a sum
(`sum_carry`) and in a difference (`borrow`); `·` is no carry, `+` and `-` are 1 and -1. A
cell model decides these signals as it decides its symbol, and
[only such decisions](generalisation.md#what-is-given-what-is-learned) pass from cell to cell.

*Cell inputs* is the number of distinct inputs of a cell; for a cell with several ops, of all its
ops. The *margin* is the smallest difference of the correct logit and the next over all of them. A
proof holds *in* float32 or float64, in any order of summation. These columns are from the cards of
[the weights](models/README.md)."""

ENCODINGS_HEAD = """\
## Position encodings

Information about the places of tokens on a canvas: `position` in a [config](train.md#configs).
Figures are shares of held-out solutions without an incorrect cell; of 200, seed 0, unless noted.
Models that add were trained on up to 7 digits (`relative_2d`: 5), those that multiply on up to 3 x
2; settings and all other figures are behind the links. A cell model needs no encoding: its inputs
name the neighbours."""

FAMILIES_HEAD = """\
## Families of models

Each with its [config](results.md#all-configs) that generalises farthest."""

NO_RULE = """\
Without a [local rule](extending.md): a digit of the product depends on all digits, more than the
messages of its neighbours could contain."""


def draw(task: Task, problem: str) -> Iterator[str]:
    """Yield the description of a layout, a solution in it, and the messages of its cells."""
    problems = task.problems([task.parse(problem)])
    drawing = task.canvas_layout.draw_worked(problems, trim=True)
    rule = task.local_rule() if task.canvas_layout.local_rule else None
    columns = {problem: to_text(drawing.truth[0])}
    if rule:
        signals = draw_signals(rule, drawing)
        drawn = signs_of if task.layout in SIGNED else digits_of
        columns |= {name: drawn(signals[name][0]) for name in CARRIES if name in signals}
    yield first_sentence(task.canvas_layout)
    yield f"```text\n{beside(columns)}\n```"
    yield "\n".join(messages(rule)) if rule else NO_RULE


def first_sentence(thing: object) -> str:
    """First sentence of a docstring."""
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.split(r"(?<!et al)\.(?: |$)|::?$", text)[0].replace("``", "`") + "."


def digits_of(classes: np.ndarray) -> str:
    """Draw classes of a carry as digits: class 0 is `·`, class 1 + n is n."""
    return "\n".join("".join("·" if n == 0 else str(n - 1) for n in row) for row in classes)


def signs_of(classes: np.ndarray) -> str:
    """Draw classes of a signed carry: class 0 is `·`, 1 is `+`, 2, a carry of -1, is `-`."""
    return "\n".join("".join("·+-"[n] for n in row) for row in classes)


def beside(columns: dict[str, str]) -> str:
    """Put blocks of text beside each other, each below its name."""
    blocks = [[name, "", *text.splitlines()] for name, text in columns.items()]
    widths = [max(map(len, block)) + 4 for block in blocks]
    return "\n".join(
        "".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*blocks, strict=True)
    )


def messages(rule: LocalRule) -> Iterator[str]:
    """Yield the messages of a rule, and the ops of a cell."""
    kind = type(rule)
    file = f"../{kind.__module__.replace('.', '/')}.py"
    yield f"| neighbour | signals in its message, by the [`{kind.__name__}`]({file}) |\n|---|---|"
    for direction, names in rule.messages.items():
        if names:
            yield f"| {NEIGHBOUR_NAMES[direction].replace('_', ' ')} | {listed(names)} |"
    if rule.ops:
        yield f"\n<details><summary>A cell has {len(rule.ops)} ops</summary>\n"
        yield "| | outputs | inputs |\n|---|---|---|"
        for i, (outputs, inputs) in enumerate(rule.ops, 1):
            yield f"| {i} | {listed(outputs)} | {listed(inputs or ())} |"
        yield "\n</details>"


def listed(names: tuple[str, ...]) -> str:
    """Join names by commas, as code."""
    return ", ".join(f"`{name}`" for name in names)


def read_proofs() -> Iterator[tuple[tuple[str, str], str]]:
    """Yield task, layout and a table row for each file of weights with a proof in its card."""
    for file in [SHIPPED, *sorted((DOCS / "models").glob("*.safetensors"))]:
        content = unpack(file)
        # Models of puzzles have no task, and mazes are on a page of their own.
        task, proof = content[DATA_KEY].get("task", {}), content["card"].get("proof")
        if proof and "base" in task:
            what = f"[`{file.stem}`]({os.path.relpath(file, DOCS)}) | {task['base']}"
            proof = with_new_keys(proof)
            figures = (
                f"{proof['op_inputs']:,} | {proof['smallest_margin']:.1f} | {proof['arithmetic']}"
            )
            yield (task["task"], task["layout"]), f"| {proof['verdict']} | {what} | {figures} |"


def proof_table(rows: list[str]) -> Iterator[str]:
    """Yield the table of the proofs of a layout, if there are any."""
    if rows:
        head = "| verdict | weights | base | cell inputs | margin | in |\n|---|---|---|---|---|---|"
        yield "\n".join((head, *rows))


def figure(page: str, row: str, column: int) -> str:
    """Return one cell of the tables of a Markdown file, without links, by row name and column."""
    file, _, anchor = page.partition("#")
    text = (DOCS / file).read_text()
    if (mark := f'<a id="{anchor}"></a>') in text:  # one entry of the log
        text = text.partition(mark)[2].partition("<a id=")[0]
    lines = text.splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    (found,) = (cells for cells in rows if re.fullmatch(rf"\[?`{row}`(\]\(\S+\))?", cells[0]))
    return re.sub(r" \[\[log\]\[\w+\]\]| \(\[log\]\(\S+\)\)", "", found[column])


def encodings() -> Iterator[str]:
    """Yield a table row per position encoding."""
    yield "| `position` | what it is | a figure | |\n|---|---|---|---|"
    for name, kind in POSITIONS.items():
        what = first_sentence(load_class(kind, Position, "position"))
        if name not in ENCODINGS:  # in a study that was not run yet
            yield f"| `{name}` | {what} | not measured | [a study](studies.md) |"
            continue
        model, problems, page, column = ENCODINGS[name]
        found = problems + figure(page, ROWS.get(name, name), column)
        yield f"| `{name}` | {what} | {found} | [{model}]({page}) |"


def families() -> Iterator[str]:
    """Yield a table row per family of models."""
    yield "| | config | parameters | a figure |\n|---|---|---|---|"
    for name, (module, config) in FAMILIES.items():
        shape, measured = (figure(CONFIGS, config, column) for column in (2, 3))
        link = f"[`{config}`](../configs/{config}.yaml)"
        yield f"| [{name}](../trm/{module}.py) | {link} | {shape} | {measured} |"


if __name__ == "__main__":
    PAGE.write_text(gallery())
