"""What is wrong with a command line or a config, in a sentence, with what may have been meant."""

import difflib
import re

import lightning as L
from jsonargparse import ArgumentParser

from trm.training.data import CanvasDataModule
from trm.training.gpt import GPTModule
from trm.training.recursive import RecursiveModule

_MODULES = (RecursiveModule, GPTModule)
_NOISE = (  # of what jsonargparse says, the lines that help nobody
    r"Does not validate against any",
    r"Subtypes:",
    r"Errors:",
    r"-? ?Expected a <class 'NoneType'>",
    r"Parser key \"model\":$",
    r"-? ?Problem with given class_path '[\w.]*(RecursiveModule|GPTModule)':$",
    r"tip:",
)
_UNKNOWN = re.compile(
    r"unrecognized arguments: --(?P<argument>[\w.]+)"
    r"|Option '(?P<option>[\w.]+)' is not accepted"
    r"|Group '(?P<group>[\w.]+)' does not accept option '(?P<member>[\w.]+)'"
    r"|Subcommand '\w+' does not accept option '(?P<whole>[\w.]+)'"
    r"|Key '(?P<key>[\w.]+)' is not expected"
)


def explained(told: str) -> str:
    """jsonargparse's report of an error as a sentence.

    A setting that there is none of is named together with the nearest one.
    """
    told = told.split("\nGiven value")[0].split("\n  Given value")[0]
    lines = [line.strip() for line in told.splitlines()]
    kept = [line for line in lines if line and not any(re.match(n, line) for n in _NOISE)]
    unknown = _UNKNOWN.search(" ".join(kept))
    if unknown is None:
        sentence = " ".join(line.removeprefix("- ") for line in kept)
        missing = re.search(r"has no attribute '(\w+)'", sentence)
        return sentence + (_near(missing[1], [m.__name__ for m in _MODULES]) if missing else "")
    name = ".".join(filter(None, unknown.groups()))
    inside = any("class_path" in line for line in lines)  # of the model
    name = name.removeprefix("init_args.") if inside else name
    full = f"model.{name}" if inside and not name.startswith("model.") else name
    near = _near(full, settings()) or "; `trm fit --help` lists them all"
    return f"there is no setting {full}{near}"


def settings() -> list[str]:
    """The settings of models, data and trainer, by their names on the command line."""
    names = {"seed_everything", "config", "ckpt_path"}
    models = [("model", module) for module in _MODULES]
    for prefix, kind in (*models, ("data", CanvasDataModule), ("trainer", L.Trainer)):
        parser = ArgumentParser()
        parser.add_class_arguments(kind, prefix)
        names.update(parser.get_defaults(skip_validation=True).keys())
    return sorted(names)


def _near(name: str, names: list[str]) -> str:
    found = difflib.get_close_matches(name, names, n=1)
    return f". Did you mean {found[0]}?" if found and found[0] != name else ""
