"""What is wrong with a command line or a config, in a sentence, with what may have been meant."""

import importlib
import inspect
import re

import lightning as L
from jsonargparse import ArgumentParser

from canvas.choices import meant
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule

_MODULES = (IterativeModule, GPTModule)
_LIBRARIES = ("lightning.pytorch.callbacks", "lightning.pytorch.loggers", "albumentations")
_ALIKE = 0.6  # of a name and what may have been meant by it
_NOISE = (  # of what jsonargparse says, the lines that help nobody
    r"Does not validate against any",
    r"Subtypes:",
    r"Errors:",
    r"-? ?Expected a path but",
    r"-? ?Expected a <class 'NoneType'>",
    r"Parser key \"model\":$",
    r"-? ?Problem with given class_path '[\w.]*(IterativeModule|GPTModule)':$",
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
_GIVEN = re.compile(r"\s*Given value: (?:NestedArg\(key='[\w.]*', val=)?(?P<value>.*?)\)?$")


def explained(told: str) -> str:
    """jsonargparse's report of an error as a sentence.

    Settings and classes that there are none of are named together with the nearest one.
    """
    lines = [line.strip() for line in told.splitlines()]
    kept = [line for line in lines if line and not any(re.match(n, line) for n in _NOISE)]
    sentence = " ".join(line.removeprefix("- ") for line in kept)
    if unknown := _UNKNOWN.search(sentence):
        name = ".".join(filter(None, unknown.groups()))
        inside = any("class_path" in line for line in lines)  # of the model
        name = name.removeprefix("init_args.") if inside else name
        full = f"model.{name}" if inside and not name.startswith("model.") else name
        near = meant(full, settings(), _ALIKE) or " `trm fit --help` lists them all."
        return f"there is no setting {full}.{near}"
    key = re.search(r'Parser key "([\w.]+)"', told)
    if no_class := _NO_CLASS.search(sentence):
        name = no_class["bare"] or f"{no_class['module']}.{no_class['name']}"
        near = meant(name, classes(no_class["module"]), _ALIKE)
        return f"{key[1] if key else 'a setting'}: there is no class {name}.{near}"
    told_already = "Expected" not in sentence or "Got value" in sentence
    sentence = _GIVEN.sub("" if told_already else r" Got value: \g<value>", sentence)
    if re.search(r"required: \w+\.model", sentence):
        return "the configs name no model: give one more, such as quickstart"
    sentence = re.sub(r"Expected a <class 'tuple'>\.?", "expected two values, as [1, 3].", sentence)
    sentence = re.sub(r"Expected a <class '([\w.]+)'>\.?", r"expected \1.", sentence)
    sentence = re.sub(r"Expected a typing\.Literal\[(.*?)\]\.?", r"expected one of \1.", sentence)
    return re.sub(r'Parser key "([\w.]+)": ', r"\1: ", sentence)


def settings() -> list[str]:
    """The settings of models, data and trainer, by their names on the command line."""
    names = {"seed_everything", "config", "ckpt_path"}
    models = [("model", module) for module in _MODULES]
    for prefix, kind in (*models, ("data", CanvasDataModule), ("trainer", L.Trainer)):
        parser = ArgumentParser()
        parser.add_class_arguments(kind, prefix)
        names.update(parser.get_defaults(skip_validation=True).keys())
    return sorted(names)


def classes(module: str | None) -> list[str]:
    """What a config can name as a class: in a module, with its path; else wherever one may look."""
    if module is not None:
        found = vars(importlib.import_module(module)).items()
        return [f"{module}.{name}" for name, held in found if inspect.isclass(held)]
    names = [kind.__name__ for kind in _MODULES]
    for library in _LIBRARIES:
        names += [name.rpartition(".")[2] for name in classes(library)]
    return names
