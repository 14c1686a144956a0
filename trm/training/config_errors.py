"""What is wrong with a command line or a config, in a sentence, with what may have been meant."""

import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import lightning as L
from jsonargparse import ArgumentParser

from augment.random_views import RandomViews
from canvas import TASKS
from canvas.canvas_size import Blanks
from canvas.choices import did_you_mean
from canvas.task import Task
from trm.checkpoints.loading import config_class
from trm.known_settings import no_setting
from trm.models.gpt import GPT
from trm.models.looped import LoopedTransformer
from trm.models.recursive import TinyRecursiveModel
from trm.models.upright import UprightLoopedTransformer, UprightRecursiveModel
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule

NETWORK = "model.network.config"  # where a network's settings stand
TASK = "data.task"  # where a task's settings stand
WRITTEN = {  # how settings that are neither a word nor a number are written
    "data.blanks": "{rows: 1, columns: 2}",
    "data.views": "{symmetries: [e, r90, r180, r270], shift: true}",
    "data.curriculum": "[{until: 4, task: {digits_a: [1, 2]}}]",
}
NETWORKS: dict[type, tuple[Any, ...]] = {  # what each module trains, of this project
    IterativeModule: (
        TinyRecursiveModel,
        LoopedTransformer,
        UprightRecursiveModel,
        UprightLoopedTransformer,
    ),
    GPTModule: (GPT,),
}
_LIBRARIES = ("lightning.pytorch.callbacks", "lightning.pytorch.loggers", "albumentations")
_ALIKE = 0.6  # of a name and what may have been meant by it
_NOISE = (  # of what jsonargparse says, the lines that help nobody
    r"-? ?Does not validate against any",
    r"Subtypes:",
    r"Errors:",
    r"-? ?Expected a path but",
    r"-? ?Expected a <class 'NoneType'>",
    r"Parser key \"(model|network|config\.\w+)\":$",
    r"-? ?Problem with given class_path '[\w.]*':$",
    r"Given value type:",
    r"tip:",
)
_UNKNOWN = re.compile(
    r"unrecognized arguments: --(?P<argument>[\w.]+)"
    r"|Option '(?P<option>[\w.]+)' is not accepted"
    r"|Group '(?P<group>[\w.]+)' does not accept option '(?P<member>[\w.]+)'"
    r"|Subcommand '\w+' does not accept option '(?P<whole>[\w.]+)'"
    r"|Key '(?P<key>[\w.]+)' is not expected"
)
_NO_CLASS = re.compile(
    r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'"
    r"|Expected a dot import path string: (?P<bare>\w+)"
)
_KEY = re.compile(r'Parser key "([\w.]+)": ')
_GIVEN = re.compile(
    r"\s*Given value: (?:NestedArg\(key='[\w.]*', val=)?(?P<value>.*?)\)?(?: Given value: .*)?$"
)


def explained(told: str) -> str:
    """jsonargparse's report of an error as a sentence.

    Settings and classes that there are none of are named together with the nearest one.
    """
    lines = [line.strip() for line in told.splitlines()]
    kept = [line for line in lines if line and not any(re.match(n, line) for n in _NOISE)]
    sentence = " ".join(line.removeprefix("- ") for line in kept)
    place = ".".join(re.findall(r'Parser key "([\w.]+)":$', told, re.M))
    if unknown := _UNKNOWN.search(sentence):
        name = ".".join(filter(None, unknown.groups()))
        inside = any("class_path" in line for line in lines)  # of the model, or of its network
        name = name.removeprefix("init_args.") if inside else name
        full = f"{place}.{name}" if inside and not name.startswith("model.") else name
        return no_setting(full, settings(_tasks(told)))
    given = re.search(r"Given value: (.*)", told)
    if place in WRITTEN and given and not re.search("[{[]", given[1]):
        return f"{place} is written like {WRITTEN[place]}, not {given[1].strip()}"
    if no_class := _NO_CLASS.search(sentence):
        name = no_class["bare"] or f"{no_class['module']}.{no_class['name']}"
        near = did_you_mean(name, classes(no_class["module"]), _ALIKE)
        return f"{place or 'a setting'}: there is no class {name}.{near}"
    told_already = "Expected" not in sentence or "Got value" in sentence
    sentence = _GIVEN.sub("" if told_already else r" Got value: \g<value>", sentence)
    if re.search(r"required: \w+\.model", sentence):
        return "the configs name no model: give one more, such as quickstart"
    sentence = re.sub(r"Expected a <class 'tuple'>\.?", "expected two values, as [1, 3].", sentence)
    sentence = re.sub(r"Expected a <class '([\w.]+)'>\.?", r"expected \1.", sentence)
    sentence = re.sub(r"Expected a typing\.Literal\[(.*?)\]\.?", r"expected one of \1.", sentence)
    if place.startswith(("model.", TASK)):
        return f"{place}: {_KEY.sub('', sentence)}"
    return _KEY.sub(rf"{place}.\1: " if place == "model" else r"\1: ", sentence)


def _tasks(told: str) -> Iterable[type]:
    """The task that an error is about, also one of the user's own; else all of this project's."""
    for module, name in re.findall(r"class_path '([\w.]+)\.(\w+)'", told):
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and issubclass(kind, Task) and is_dataclass(kind):
            return [kind]
    return TASKS.values()


def settings(tasks: Iterable[type]) -> list[str]:
    """The settings of models, data and trainer, by their names on the command line.

    Args:
        tasks: whose settings stand under data.
    """
    names = {"seed_everything", "config", "ckpt_path"}
    models = [("model", module) for module in NETWORKS]
    for prefix, kind in (*models, ("data", CanvasDataModule), ("trainer", L.Trainer)):
        parser = ArgumentParser()
        parser.add_class_arguments(kind, prefix)
        names.update(parser.get_defaults(skip_validation=True).keys())
    for networks in NETWORKS.values():
        for network in networks:
            names.update(f"{NETWORK}.{field.name}" for field in fields(config_class(network)))
    for part, kind in (("blanks", Blanks), ("views", RandomViews)):
        names.update(f"data.{part}.{field.name}" for field in fields(kind))
    for task in tasks:
        names.update(f"{TASK}.{field.name}" for field in fields(task))
    return sorted(names)


def classes(module: str | None) -> list[str]:
    """What a config can name as a class: in a module, with its path; else wherever one may look."""
    if module is not None:
        home = importlib.import_module(module)
        found = ((name, getattr(home, name)) for name in getattr(home, "__all__", vars(home)))
        return [f"{module}.{name}" for name, held in found if inspect.isclass(held)]
    names = [f"trm.training.{kind.__name__}" for kind in NETWORKS]
    names += [f"trm.models.{kind.__name__}" for kinds in NETWORKS.values() for kind in kinds]
    names += [kind.__name__ for kind in TASKS.values()]
    for library in _LIBRARIES:
        names += [name.rpartition(".")[2] for name in classes(library)]
    return names
