"""Write gallery.md: `python docs/gallery.py`, after changes of layouts, encodings or weights.

What it shows is read: pages and local rules from the layouts, proofs from the cards of the weights
in `models`, figures from the tables that `ENCODINGS` and `FAMILIES` point at.
"""

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from canvas.cell_inputs import SEES, LocalRule
from canvas.choices import load_class
from canvas.pages import draw_signals
from canvas.picture import to_text
from canvas.task import Task
from canvas.tasks import TASKS
from trm.checkpoints import DATA_KEY, SHIPPED
from trm.checkpoints.loading import unpack
from trm.models.configs import POSITIONS
from trm.models.positions import Position

DOCS = Path(__file__).parent
PAGE = DOCS / "gallery.md"
PROBLEMS = {"multiplication": "321x654", "addition": "604+87"}
CARRIES = ("carry", "sum_carry")  # fields that are drawn beside a page

GPT, RECURSIVE = "a GPT that adds", "a recursive model that sees all, and adds"
STUDY = "log/2026-11-24-study-encodings"
LOOPED, RECURSIVE_STUDY = f"{STUDY}-looped.md", f"{STUDY}-recursive.md"
CANVAS, CONFIGS = f"{STUDY}-canvas.md", "results.md#all-configs"
# Of each encoding: what was trained, what was asked, and the page and column of its best figure.
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
    "relative_2d": ("a recursive model that adds", "", CONFIGS, 3),
}
# Rows that are not called by the encoding.
ROWS = {
    "relative_2d": "addition/quick",
    "rope_2d": "addition/gpt_blanks",
    "sinusoidal": "gpt/small_sinusoidal",
}
# Of each family its file, and the config with the best figure.
FAMILIES = {
    "one cell that works in steps": ("cell", "quickstart"),
    "one cell that reads everything at once": ("cell", "generalise/lattice"),
    "one cell that invents what it hands on": ("cell", "generalise/latent"),
    "the tiny recursive model, whose cells see states": ("recursive", "addition/quick"),
    "the GPT, which writes the page as a sequence": ("gpt", "addition/gpt_blanks"),
}


def gallery() -> str:
    """The page."""
    proofs = list(read_proofs())
    parts = [HEAD, "\n".join(contents())]
    for name, kind in TASKS.items():
        for layout in kind.layouts:
            parts += [f"## {title(name, layout)}", *draw(kind(layout=layout), PROBLEMS[name])]
            parts += proof_table([row for which, row in proofs if which == (name, layout)])
    parts += [ENCODINGS_HEAD, "\n".join(encodings()), FAMILIES_HEAD, "\n".join(families())]
    return "\n\n".join(parts) + "\n"


def title(task: str, layout: str) -> str:
    """What a layout's part of the page is called."""
    return f"{task.capitalize()}, {layout}"


def contents() -> Iterator[str]:
    """A row for each task: its layouts."""
    yield "| task | layouts |\n|---|---|"
    for name, kind in TASKS.items():
        anchors = {one: title(name, one).lower() for one in kind.layouts}
        links = (f"[{one}](#{re.sub(', ', '-', anchor)})" for one, anchor in anchors.items())
        yield f"| {name} | {', '.join(links)} |"


HEAD = """\
# Gallery

Every layout with a worked page, what its cells hand on to each other, and the models that are
[proved](proof.md) right on it; then every [position encoding](#position-encodings) and every
[family of models](#families-of-models), each with the best figure in a table of the results or the
log.

    python docs/gallery.py                               # makes this page
    trm render 321x654 --layout standard                 # draws one of its pages

A page is filled in downwards, each row from the right to the left; `_` is a blank cell. Beside it
stands what each cell carries to the one on its left, in a product (`carry`) and in a sum
(`sum_carry`), and `·` where that is nothing. A model of one cell decides this as it decides what to
write, and [nothing but such decisions](generalisation.md#what-is-given-what-is-learned) passes from
cell to cell.

All that a cell can ever see are its *cell inputs*; of a cell that works in steps, all that one step
can see. The *margin* is by how much the logit of the right class exceeds the next in the worst of
them. A proof holds *in* float32 or float64, in whatever order sums are computed. All of that is
from the cards of [the weights](models/README.md)."""

ENCODINGS_HEAD = """\
## Position encodings

How a transformer learns where on a page its tokens are: `position` in a
[config](commands.md#configs). Figures are shares of held-out pages without any wrong cell; of 200,
seed 0, where nothing else is said. Models that add were trained on up to 7 digits (`relative_2d`:
5), those that multiply on up to 3 x 2; settings and all other figures are behind the links. The
cells of a model of one cell need no encoding: they know their neighbours by name."""

FAMILIES_HEAD = """\
## Families of models

Each with the [config](results.md#all-configs) of it that goes farthest."""

NO_RULE = """\
Without a [local rule](extending.md): a digit of the product depends on all digits, so that no cell
could be told enough by its neighbours."""


def draw(task: Task, problem: str) -> Iterator[str]:
    """What a layout is, a worked page of it, and what its cells hand on."""
    problems = task.problems([task.parse(problem)])
    drawing = task.layout_impl.draw_worked(problems, trim=True)
    rule = task.local_rule() if task.layout_impl.local_rule else None
    columns = {problem: to_text(drawing.truth[0])}
    if rule:
        signals = draw_signals(rule, drawing)
        columns |= {name: digits_of(signals[name][0]) for name in CARRIES if name in signals}
    yield first_sentence(task.layout_impl)
    yield f"```text\n{beside(columns)}\n```"
    yield "\n".join(handed_on(rule)) if rule else NO_RULE


def first_sentence(thing: object) -> str:
    """How a docstring begins."""
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.split(r"(?<!et al)\.(?: |$)|::?$", text)[0].replace("``", "`") + "."


def digits_of(classes: np.ndarray) -> str:
    """Carries as a page has digits: of class 0 there is none, class 1 + n is n."""
    return "\n".join("".join("·" if n == 0 else str(n - 1) for n in row) for row in classes)


def beside(columns: dict[str, str]) -> str:
    """Blocks of text beside each other, each below its name."""
    blocks = [[name, "", *text.splitlines()] for name, text in columns.items()]
    widths = [max(map(len, block)) + 4 for block in blocks]
    return "\n".join(
        "".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*blocks, strict=True)
    )


def handed_on(rule: LocalRule) -> Iterator[str]:
    """The messages of a rule, and the steps in which a cell works."""
    kind = type(rule)
    file = f"../{kind.__module__.replace('.', '/')}.py"
    yield f"| neighbour | what it hands on, by the [`{kind.__name__}`]({file}) |\n|---|---|"
    for direction, names in rule.messages.items():
        if names:
            yield f"| {SEES[direction].replace('_', ' ')} | {listed(names)} |"
    if rule.ops:
        yield f"\n<details><summary>A cell works in {len(rule.ops)} steps</summary>\n"
        yield "| | decides | from |\n|---|---|---|"
        for i, (outputs, inputs) in enumerate(rule.ops, 1):
            yield f"| {i} | {listed(outputs)} | {listed(inputs or ())} |"
        yield "\n</details>"


def listed(names: tuple[str, ...]) -> str:
    """Names one after the other."""
    return ", ".join(f"`{name}`" for name in names)


def read_proofs() -> Iterator[tuple[tuple[str, str], str]]:
    """Of each file of weights whose card has a proof: task and layout, and a row of a table."""
    for file in [SHIPPED, *sorted((DOCS / "models").glob("*.safetensors"))]:
        content = unpack(file)
        task, proof = content[DATA_KEY]["task"], content["card"].get("proof")
        if proof:
            what = f"[`{file.stem}`]({os.path.relpath(file, DOCS)}) | {task['base']}"
            figures = (
                f"{proof['windows']:,} | {proof['smallest_margin']:.1f} | {proof['arithmetic']}"
            )
            yield (task["task"], task["layout"]), f"| {proof['verdict']} | {what} | {figures} |"


def proof_table(rows: list[str]) -> Iterator[str]:
    """The proofs of a layout."""
    if rows:
        head = "| verdict | weights | base | cell inputs | margin | in |\n|---|---|---|---|---|---|"
        yield "\n".join((head, *rows))


def figure(page: str, row: str, column: int) -> str:
    """What stands in the one row of a page's tables that is called so; links left out."""
    lines = (DOCS / page.partition("#")[0]).read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    (found,) = (cells for cells in rows if re.fullmatch(rf"\[?`{row}`(\]\(\S+\))?", cells[0]))
    return re.sub(r" \[\[log\]\[\w+\]\]| \(\[log\]\(\S+\)\)", "", found[column])


def encodings() -> Iterator[str]:
    """A row for each position encoding."""
    yield "| `position` | what it is | best figure | |\n|---|---|---|---|"
    for name, kind in POSITIONS.items():
        model, asked, page, column = ENCODINGS[name]
        found = asked + figure(page, ROWS.get(name, name), column)
        what = first_sentence(load_class(kind, Position, "position"))
        yield f"| `{name}` | {what} | {found} | [{model}]({page}) |"


def families() -> Iterator[str]:
    """A row for each family of models."""
    yield "| | config | parameters | best figure |\n|---|---|---|---|"
    for name, (module, config) in FAMILIES.items():
        shape, measured = (figure(CONFIGS, config, column) for column in (2, 3))
        link = f"[`{config}`](../configs/{config}.yaml)"
        yield f"| [{name}](../trm/models/{module}.py) | {link} | {shape} | {measured} |"


if __name__ == "__main__":
    PAGE.write_text(gallery())
