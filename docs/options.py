"""Write options.md, all options of commands and keys of configs: `python docs/options.py`."""

import argparse
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from docstring_parser import parse

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.choices import CHOICES, class_name
from canvas.division import Division
from canvas.mazes import Maze
from canvas.modular import Modular
from canvas.multiplication import Multiplication
from canvas.rule110 import Rule110
from canvas.single_steps import Alignment, CarrylessSum, Products
from canvas.subtraction import Subtraction
from canvas.task import Task
from canvas.tasks import TASKS
from trm.cells.configs import CellConfig
from trm.cells.latent_module import LatentModule
from trm.cells.module import CellModule
from trm.commands.cli import COMMANDS, parser_of
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.training.canvas_module import CanvasModule
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule
from trm.training.puzzle_data import PuzzleDataModule

PAGE = Path(__file__).with_name("options.md")
HEAD = """\
# Options

All options of commands, and all keys of configs. `python docs/options.py` writes this page from the
parsers and the classes. [Train](train.md), [Solve](solve.md) and [Look inside](look_inside.md) show
them at work.

Every command has `-q`, `--quiet` (print results and errors only), `-v`, `--verbose` (print the log,
and tracebacks of errors) and `-h`, `--help`."""
KEYS = """\
## Config keys

Keys of `trm fit`, `validate`, `test` and `predict`, in a config's file or as options, like
`--model.optimizer.lr 0.001`. Keys of `trainer` are those of
[Lightning's Trainer](https://lightning.ai/docs/pytorch/stable/common/trainer.html), those of
`checkpoint` of its `ModelCheckpoint`. Beside them:

| option | meaning |
|---|---|
| `--config` | name or file of a config |
| `--seed` | sets `seed_everything`, `data.seed` and `model.seed` |
| `--ckpt_path` | `last`, `best`, a file, or the folder of a run: resume or score it |
| `--weights` | weights or a checkpoint that a new run begins with |"""
# Keys before those of a class, and the class.
CLASSES = [
    ("model", CanvasModule),
    ("model", IterativeModule),
    ("model", GPTModule),
    ("model", CellModule),
    ("model", LatentModule),
    ("model.network.config", RecursiveConfig),
    ("model.network.config", GPTConfig),
    ("model.network.config", CellConfig),
    ("data", CanvasDataModule),
    ("data", PuzzleDataModule),
    *(("data.task", task) for task in (Multiplication, Addition, Subtraction, Division, Modular)),
    *(("data.task", task) for task in (Maze, Rule110, Alignment, Products, CarrylessSum)),
    ("data.canvas", Canvas),
]
COMMON = {"--help", "--quiet", "--verbose"}
SHARED = 2  # commands and actions with the same option, from which on it is explained once
ABOUT_SHARED = "Options with one meaning in all commands that list them."
Row = tuple[str, str]  # an option, and its meaning
LEFT_OUT = {"network", "model", "more"}  # parameters that are no keys of their own


def page() -> str:
    """Return the text of options.md."""
    parsers = [(f"trm {name}", parser_of(name)) for name in COMMANDS]
    rows = [row for name, parser in parsers for row in every_row(parser)]
    shared = shared_rows(rows)
    parts = [HEAD, "## Options", "### Several commands", ABOUT_SHARED, table(shared)]
    for name, parser in parsers:
        parts += [f"### {name}", *commands(name, parser, shared)]
    parts.append(KEYS)
    seen: set[tuple[str, type]] = set()
    for prefix, kind in CLASSES:
        parts += classes(prefix, kind, seen)
    return "\n\n".join(parts) + "\n"


def commands(name: str, parser: argparse.ArgumentParser, shared: Sequence[Row]) -> Iterator[str]:
    """Yield what a command does, its options, and the same of each of its actions."""
    about = (parser.description or "").partition("\n")[0]
    about = about.partition(": ")[2] or about
    yield about[:1].upper() + about[1:]
    own = rows_of(parser)
    if some := [option for option, text in own if (option, text) in shared]:
        yield f"{', '.join(some)}: see [several commands](#several-commands)."
    if more := [row for row in own if row not in shared]:
        yield table(more)
    for one, its in actions_of(parser):
        yield f"**{name} {one}**"
        yield from commands(f"{name} {one}", its, shared)


def shared_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the most frequent meaning of each option that several commands have."""
    best: dict[str, Row] = {}
    for row, number in Counter(rows).most_common():
        if number >= SHARED:
            best.setdefault(row[0].strip("`").split()[0], row)
    return [row for row in dict.fromkeys(rows) if row in best.values()]


def table(rows: Sequence[Row]) -> str:
    """Return options and their meanings as a table."""
    lines = (f"| {option} | {text} |" for option, text in rows)
    return "\n".join(["| option | meaning |", "|---|---|", *lines])


def rows_of(parser: argparse.ArgumentParser) -> list[Row]:
    """Return the options of a command, without those of its actions."""
    return [
        (words(action), cell(meaning(parser, action)))
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction)
        and COMMON.isdisjoint(action.option_strings)
    ]


def actions_of(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the actions of a command, like `probe` of `trm analyse`, and their parsers."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def every_row(parser: argparse.ArgumentParser) -> Iterator[Row]:
    """Yield the options of a command and of its actions."""
    yield from rows_of(parser)
    for _, its in actions_of(parser):
        yield from every_row(its)


def words(action: argparse.Action) -> str:
    """Return an option with its value, like `--digits-a LENGTHS`."""
    value = action.metavar or (action.dest if not action.option_strings else "")
    value = " ".join(value) if isinstance(value, tuple) else value
    return f"`{' '.join(filter(None, [*action.option_strings[-1:], value]))}`"


def meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the help of an option, with its choices unless the help names them."""
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    choices = [str(choice) for choice in action.choices or ()]
    known = action.metavar or all(choice in text for choice in choices)
    return text if known else f"{text} ({', '.join(choices)})".strip()


def classes(prefix: str, kind: type, seen: set[tuple[str, type]]) -> Iterator[str]:
    """Yield heading and table of a class, and of the dataclasses in its keys."""
    if (prefix, kind) in seen:
        return
    seen.add((prefix, kind))
    rows, inside = [], []
    for key, type_, default, text in keys(kind):
        rows.append(f"| `{key}` | `{cell(type_)}` | {default} | {cell(text)} |")
    for key, hint in hints(kind).items():
        inside += [(f"{prefix}.{key}", one) for one in dataclasses_in(hint) if one is not Canvas]
    if rows:
        yield f"### {prefix} · {kind.__name__}"
        about = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("``", "`")
        yield f"{about} {named(kind)}" if issubclass(kind, Task) else about
        yield "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])
    for further, one in inside:
        yield from classes(further, one, seen)


def named(task: type[Task]) -> str:
    """Return how options name a task."""
    dotted = f"In configs `{class_name(task)}`"
    short = next((name for name, kind in TASKS.items() if kind is task), "")
    return f"{dotted}; `--task {short}` of commands." if short else f"{dotted}, and as `--task`."


def dataclasses_in(hint: Any) -> Iterator[type]:
    """Yield the dataclasses in a type, like A and B in ``list[A] | B``."""
    if is_dataclass(hint):
        yield hint  # type: ignore[misc]
    for one in get_args(hint):
        yield from dataclasses_in(one)


def hints(kind: type) -> dict[str, Any]:
    """Types of a class's keys: the fields of a dataclass, or the parameters of `__init__`."""
    if is_dataclass(kind):
        known = get_type_hints(kind)
        return {field.name: known[field.name] for field in fields(kind)}
    known = get_type_hints(kind.__init__)  # type: ignore[misc]
    return {name: hint for name, hint in known.items() if name not in LEFT_OUT | {"return"}}


def keys(kind: type) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default and meaning of each key of a class."""
    meanings = documented(kind)
    defaults: dict[str, Any] = {}
    choices: dict[str, tuple[str, ...]] = {}
    if is_dataclass(kind):
        for field in fields(kind):
            made = field.default_factory is not MISSING
            defaults[field.name] = field.default_factory() if made else field.default
            choices[field.name] = field.metadata.get(CHOICES, ())
    else:
        for name, one in inspect.signature(kind).parameters.items():
            defaults[name] = MISSING if one.default is one.empty else one.default
    for name, hint in hints(kind).items():
        text = meanings.get(name, "")
        if choices.get(name):
            text = "; ".join(filter(None, (text, f"one of {', '.join(choices[name])}")))
        default = "" if defaults[name] is MISSING else f"`{shown(defaults[name])}`"
        yield name, re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(hint)), default, text


def shown(value: Any) -> str:
    """Return a default as YAML writes it."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    names = {"None": "null", "True": "true", "False": "false", "": '""'}
    return names.get(str(value), str(value))


def documented(kind: type) -> dict[str, str]:
    """Return meanings of keys: from the docstring, or else a comment at a dataclass's field."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] not in ("trm", "canvas", "augment"):
            continue
        if is_dataclass(base):
            comment = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)
            for name, about in comment.findall(inspect.getsource(base)):
                found[name] = about.replace("None:", "null:")
        for one in parse(base.__doc__ or "").params:
            about = " ".join((one.description or "").replace("``", "`").split())
            if not about.startswith("see `"):
                about = about.replace("None:", "null:").rstrip(".")
                found |= dict.fromkeys(one.arg_name.split(", "), about)
    return found


def cell(text: str) -> str:
    """Return a text as one cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(page())
