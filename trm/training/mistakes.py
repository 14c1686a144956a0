"""Mistakes in a command line or a config, as plain sentences with the nearest name."""

import importlib
import re
from contextlib import suppress
from difflib import get_close_matches

import lightning as L
import yaml
from jsonargparse import ArgumentParser

from canvas.choices import class_name, did_you_mean, load_class
from trm.io.config_files import LOADER, shipped_configs
from trm.training.callbacks import BestCheckpoint
from trm.training.data import CanvasDataModule
from trm.training.tensorboard import flattened

_NOISE = re.compile(  # lines of jsonargparse's messages that do not help
    r"Does not validate against|Subtypes:|Errors:|Expected a (path but|<class|typing)|Parser key"
    r"|Problem with given class_path|Given value|tip:|Subclass types expect|a class path|a dict "
)
_UNKNOWN = re.compile(
    r"(?:Group '([\w.]+)' does not accept )?(?:arguments: --|[Oo]ption '|Key ')([\w.]+)"
)
_NO_CLASS = re.compile(
    r"module '([\w.]+)' has no attribute '(\w+)'|Expected a dot import path string: (\w+)"
)
_EXPECTED = re.compile(r"Expected a <class '([\w.]+)'>|Expected a typing\.Literal\[(.*?)\]")
_GIVEN = re.compile(r"(?:Got|Given) value: (?:NestedArg\(key='[\w.]*', val=)?(.*?)\)?$", re.M)
_HOMES = ("lightning.pytorch.callbacks", "lightning.pytorch.loggers", "canvas.tasks")
_PACKAGES = ("trm", "canvas", "augment", "lightning")  # `trm fit --help` explains their keys
_ALIKE = 0.6  # least similarity of a suggested name
_TYPING_ERROR = 0.85  # of one that differs by a typing error


def explained(message: str, data: type = CanvasDataModule) -> str:
    """Rewrite an error message of jsonargparse or Lightning as a sentence, with the nearest name.

    Example: a message about an unknown key ``--model.optimizer.rl`` becomes ``there is no setting
    model.optimizer.rl. Did you mean model.optimizer.lr?``
    """
    lines = [line.strip().removeprefix("- ") for line in message.splitlines()]
    keys = re.findall(r'Parser key "([\w.]+)":', message)
    place = ".".join(keys).replace("init_args.", "")
    if unknown := _UNKNOWN.search(message):
        name = ".".join(filter(None, unknown.groups())).replace("init_args.", "")
        inside = "class_path '" in message and not name.startswith("model.")
        return _no_setting(f"{place}.{name}" if inside else name, _classes_in(message), data)
    if no_class := _NO_CLASS.search(message):
        module, own, bare = no_class.groups()
        homes = [importlib.import_module(home) for home in ([module] if module else _HOMES)]
        kinds = [kind for home in homes for kind in getattr(home, "__all__", dir(home))]
        name, start = (f"{module}.{own}", f"{module}.") if module else (bare, "")
        near = did_you_mean(name, [f"{start}{kind}" for kind in kinds if kind[0].isupper()], _ALIKE)
        return f"{place or 'a setting'}: there is no class {name}.{near}"
    if re.search(r"required: \w+\.model", message):
        return "the configs name no model: give one more, such as quickstart"
    if wrong := re.search(r"='(\w+)'`\. Available names are: (.*)\.", message):
        return message + did_you_mean(wrong[1], wrong[2].split(", "))
    value = _GIVEN.search(message)
    given = f". Got value: {value[1]}" if value else ""
    if (no_settings := re.search(r"Not a valid subclass of (\w+)", message)) and (
        cause := _cause_in_list(lines)
    ):
        return f"{place or no_settings[1]}: {cause}"
    if no_settings:
        return f"{place}: expected the settings of {no_settings[1]}, see --{place}.help{given}"
    sentence = " ".join(line for line in lines if line and not _NOISE.match(line))
    expected = [kind or names for kind, names in _EXPECTED.findall(message) if kind != "NoneType"]
    if expected and not sentence:
        kinds = ["two values, as [1, 3]" if kind == "tuple" else kind for kind in expected]
        near = did_you_mean(value[1] if value else "", re.findall(r"'([^']+)'", str(kinds)))
        return f"{place}: expected {' or '.join(dict.fromkeys(kinds))}{given}.{near}".rstrip(".")
    return f"{place}: {sentence}{given}" if keys else sentence


def _cause_in_list(lines: list[str]) -> str:
    """Return the error of a class's own code in a list of classes, such as loggers; or nothing.

    A single class is refused by its own message. For a list all kinds of value are tried, and the
    error of the class is one line among those of the other kinds.
    """
    if "Given value type: <class 'list'>" not in lines or "Errors:" not in lines:
        return ""
    errors = lines[lines.index("Errors:") + 1 : lines.index("Given value type: <class 'list'>")]
    generic = ("Not a valid subclass", "Expected a ", "Subclass types", "a class path", "a dict ")
    return " ".join(line for line in errors if line and not line.startswith(generic))


_CLASS_OF = re.compile(r"Parser key \"([\w.]+)\":|Problem with given class_path '([\w.]+)'")
_NETWORK = re.compile(r"'network': \{'class_path': '([\w.]+)'")


def _classes_in(message: str) -> dict[str, type]:
    """Return the classes named in an error message, by the place of their settings in a config."""
    found, place = {}, ""
    for key, name in _CLASS_OF.findall(message):
        if key:
            place = f"{place}.{key}".lstrip(".").replace(".init_args", "")
        else:
            found[place] = name
    if (network := _NETWORK.search(message)) and "model" in found:
        found.setdefault("model.network", network[1])
    classes = {}
    for place, name in found.items():
        with suppress(ValueError):
            classes[place] = load_class(name, object, place)
    return classes


def _settings_of(kind: type) -> set[str]:
    """Return the names of a class's settings, with those in dataclasses: ``config.channels``."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, fail_untyped=False)
    return {name for name, _ in flattened(parser.get_defaults().as_dict())}


def _no_setting(name: str, classes: dict[str, type], data: type) -> str:
    """Return a message about an unknown setting, with the nearest existing one.

    A setting beside it with nearly the same name is nearest, then one with the same last part,
    wherever it is in a config. Below a place of
    ``classes`` only settings of that class are suggested.
    """
    if re.fullmatch(r"model\.auxiliary(_until|\.\w+)?", name):  # others lack it
        return (
            f"there is no setting {name} here: auxiliary losses are for recursive transformers and "
            "GPTs; other models learn these signals from hints already. Leave it out"
        )
    files = [file for name, file in shipped_configs().items() if "studies/" not in name]
    configs = (yaml.load(file.read_bytes(), LOADER) for file in files)
    known = {key for config in configs for key, _ in flattened(config)}
    classes = {"data": data, "trainer": L.Trainer, "checkpoint": BestCheckpoint} | classes
    for place, kind in classes.items():
        outer = {key for key in known if not key.startswith(f"{place}.")}
        mine = {f"{place}.{key}" for key in _settings_of(kind)}
        inner = {key for key in known for own in mine if key.startswith(f"{own}.")}
        known = outer | mine | inner
    others = sorted(key for key in known if not f"{name}.".startswith(f"{key}."))
    moved = [key for key in others if key.rpartition(".")[2] == name.rpartition(".")[2]]
    home, _, last = name.rpartition(".")
    siblings = [key for key in others if key.rpartition(".")[0] == home]
    typed = get_close_matches(last, [key.rpartition(".")[2] for key in siblings], 1, _TYPING_ERROR)
    near = f" Did you mean {home}.{typed[0]}?" if typed else ""
    near = near or did_you_mean(name, moved, 0) or did_you_mean(name, others, _ALIKE)
    place = max((place for place in classes if name.startswith(f"{place}.")), key=len, default="")
    if place and class_name(classes[place]).partition(".")[0] not in _PACKAGES:
        own = {key.rpartition(".")[2]: key for key in _settings_of(classes[place])}
        like = did_you_mean(name.rpartition(".")[2], own, _ALIKE)  # compares last parts alone
        if near not in {f" Did you mean {place}.{key}?" for key in own.values()} or not like:
            near = like
        has = ", ".join(sorted(own.values()))
        return f"there is no setting {name}.{near} {classes[place].__name__} has {has or 'none'}."
    return f"there is no setting {name}.{near or ' `trm fit --help` lists them all.'}"
