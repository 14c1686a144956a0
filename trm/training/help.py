"""`trm fit --help`: this project's keys, with what they mean, what they can be, and their defaults.

What a key means stands where it is defined: in a docstring, or in the comment on a dataclass's
field. Lightning's hundreds of keys are listed by `--help all`.
"""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple, get_args, get_type_hints

from docstring_parser import parse
from torch import nn

from canvas import TASKS
from canvas.choices import CHOICES, OPEN, class_name
from trm.checkpoints.loading import config_class
from trm.training.config_errors import NETWORK, NETWORKS, TASK
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule
from trm.training.lightning_cli import SEED_HELP
from trm.training.pictures import Pictures

_OWN = "module.Class of your own"
_LEFT_OUT = (
    "height",
    "width",
    "vocab_size",
    "blank_id",
    "mask_id",
    "hints",
)  # they follow from the data
_RUN = {  # Lightning's own, as far as a run needs them
    "config": "a YAML file of settings; may be given several times, the later ones win",
    "seed": SEED_HELP,
    "seed_everything": "of the first weights (default: 0)",
    "ckpt_path": "best or last, of the newest run of this name, or a checkpoint's file",
    "print_config": "print the settings as one YAML file, and stop",
    "checkpoint.monitor": "the figure by which best.ckpt is chosen (default: validation/solved)",
    "trainer.max_epochs": "the length of a run; an epoch is data.batches_per_epoch steps",
    "trainer.accelerator": "auto, cpu, gpu or mps (default: auto)",
    "trainer.devices": "how many of them",
    "oversubscribe": "without a value: allow more processes than CPU cores",
    "trainer.precision": "32-true, bf16-mixed or 16-mixed",
    "trainer.accumulate_grad_batches": "batches whose gradients an optimiser step adds up",
    "trainer.gradient_clip_val": "largest norm of all gradients together",
    "trainer.check_val_every_n_epoch": "epochs from one validation to the next",
    "trainer.log_every_n_steps": "optimiser steps from one logged figure to the next",
    "trainer.logger.init_args.save_dir": "where runs are kept",
    "trainer.logger.init_args.name": "what runs of this config are called",
}
_HEAD = """\
usage: trm {command} --config FILE [--KEY VALUE ...]

Every key can stand in the YAML file or on the command line, where it wins. FILE can also be the
name of one that comes with the package, such as quickstart: `trm configs` lists them, and
`trm configs quickstart` prints one, in which every line is explained. A config is code: it imports
and calls the classes that it names. `trm {command} --help all` lists Lightning's keys, too.
"""


class Key(NamedTuple):
    """A setting: its name with dots, what it means, what it can be, and its default."""

    name: str
    meaning: str
    choices: tuple[str, ...] = ()
    default: str = ""


def page(command: str) -> str:
    """The help of a training command, as wide as the terminal."""
    families = {kind: list(keys_of(kind, "model")) for kind in NETWORKS}
    shared = [key for key in families[IterativeModule] if key in families[GPTModule]]
    parts = {
        "the run": [Key(name, meaning) for name, meaning in _RUN.items()],
        "data": [
            Key(TASK, "what is worked out, a class", (*map(class_name, TASKS.values()), _OWN)),
            *(key for key in keys_of(CanvasDataModule, "data") if key.name != TASK),
        ],
        **{f"{TASK}, {class_name(kind)}": list(keys_of(kind, TASK)) for kind in TASKS.values()},
        "model": [
            Key(
                "model",
                "what is trained, a class",
                tuple(f"trm.training.{k.__name__}" for k in families),
            ),
            *shared,
        ],
    }
    for kind, keys in families.items():
        parts[f"model, of {kind.__name__} alone"] = [key for key in keys if key not in shared]
        for network in NETWORKS[kind]:
            title = f"model.network, trm.models.{network.__name__}"
            bases = [base for base in NETWORKS[kind] if base in network.__mro__[1:]]
            known = [key for base in bases for key in network_keys(base)]
            title += "".join(f", beside those of {base.__name__}" for base in bases)
            parts[title] = [key for key in network_keys(network) if key not in known]
    parts["pictures on TensorBoard"] = [
        *keys_of(Pictures, "panels"),
    ]
    width = min(100, shutil.get_terminal_size().columns)
    lines = [_HEAD.format(command=command)]
    for title, keys in parts.items():
        lines.append(f"{title}:")
        lines += [line for key in keys for line in _lines(key, width)]
        lines.append("")
    return "\n".join(lines)


def network_keys(kind: type[nn.Module]) -> list[Key]:
    """The settings of a network."""
    return list(keys_of(config_class(kind), NETWORK))


def keys_of(kind: type, prefix: str) -> Iterator[Key]:
    """The settings of a class, those of dataclasses among its parameters with their own."""
    meanings = _meanings(kind)
    hints = get_type_hints(kind if is_dataclass(kind) else vars(kind)["__init__"])
    for name, default, choices in _parameters(kind):
        # Of one that may be left out, `X | None`, too.
        kinds = get_args(hints.get(name)) or (hints.get(name),)
        below = [one for one in kinds if isinstance(one, type) and is_dataclass(one)]
        if below:
            yield from keys_of(below[0], f"{prefix}.{name}")
        elif name not in _LEFT_OUT or prefix != NETWORK:
            yield Key(f"{prefix}.{name}", meanings.get(name, ""), choices, default)


def _parameters(kind: type) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name, default and choices of each."""
    if is_dataclass(kind):
        for field in fields(kind):
            default = "" if field.default is MISSING else _written(field.default)
            open_end = (_OWN,) if field.metadata.get(OPEN) else ()
            yield field.name, default, (*field.metadata.get(CHOICES, ()), *open_end)
        return
    for name, parameter in inspect.signature(kind).parameters.items():
        empty = parameter.default is parameter.empty
        yield name, "" if empty else _written(parameter.default), ()


def _meanings(kind: type) -> dict[str, str]:
    """What a class says of its parameters: in its docstring, else in comments on its fields."""
    told = {
        name: " ".join((entry.description or "").split())
        for entry in parse(kind.__doc__ or "").params
        for name in entry.args[1].split(", ")
    }
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            source = inspect.getsource(base)
            told |= dict(re.findall(r"^    (\w+): [^#\n]*#\s*(.+)$", source, re.M))
    return told


def _written(value: Any) -> str:
    """A value as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _lines(key: Key, width: int) -> Iterator[str]:
    told = key.meaning.rstrip(".")
    if key.choices:
        told += f"; one of {', '.join(key.choices)}"
    if key.default:
        told += f" (default: {key.default})"
    yield f"  --{key.name}"
    yield from textwrap.wrap(told, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
