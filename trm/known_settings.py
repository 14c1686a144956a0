"""The settings that a config has room for, read from source text.

What they are follows from the classes that a config names: the arguments of their `__init__`, and
the fields of dataclasses among these. Reading these off the text, without importing anything,
answers a mistyped name at once, and a word where a number belongs; importing PyTorch and Lightning
first takes seconds. Where text alone does not tell, as of a class of the user's own, any name and
any value is taken: whoever builds the classes looks again, and `trm.training.config_errors` says
what is wrong.
"""

import ast
import importlib.util
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from canvas.choices import check_choice, did_you_mean, one_of

_PACKAGES = ("trm", "canvas", "augment", "lightning")  # whose text is read
ROOTS = {  # sections of a config, and the class of each; None: the config names it
    "model": None,
    "data": "trm.training.data.CanvasDataModule",
    "trainer": "lightning.pytorch.trainer.trainer.Trainer",
    "checkpoint": "trm.training.callbacks.BestCheckpoint",
    "panels": "trm.training.pictures.Pictures",
}
_OF_CLASSES = ("class_path", "init_args", "dict_kwargs")  # what a class has beside its settings
_OPTION = re.compile(rf"--((?:{'|'.join(ROOTS)})(?:\.\w+)*)(?:=(.*))?", re.S)
_SIMPLE = {"int", "float", "bool"}  # types of which text is no value, but for these words
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none", "~", ""}
_ALIKE = 0.6  # of a name and what may have been meant by it


class Setting(NamedTuple):
    """What text tells of a setting.

    Attributes:
        holds: the class whose settings stand below it, if it is one that text tells of.
        declared: how its type is written.
        choices: the names that its value is one of, if it is made by `one_of`.
        open: whether a name with dots is also one.
    """

    holds: str | None
    declared: str
    choices: tuple[str, ...] = ()
    open: bool = False


def check_settings(words: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> None:
    """Look at the settings on a command line and in configs.

    Args:
        words: of a training command.
        configs: what its configs hold; later ones count more.

    Raises:
        ValueError: there is no such setting; the nearest one is named. Or its value is no number,
            or none of the names that it is one of.
    """
    given = given_settings(words)
    # Of a class that is named without its module, text would have to be found first.
    open_ones = {_plain(key) for key in given}
    named: dict[str, str] = {}
    for config in configs:  # each against the classes that are named by then
        found = dict(_flat(config))
        for key, value in found.items():
            if key.endswith(".class_path"):
                named[_plain(key)] = str(value)
            elif isinstance(value, str):
                open_ones.add(_plain(key))
        _check(found, named, open_ones)
    _check(given, named, open_ones)


class Filled(NamedTuple):
    """A class that configs and a command line give settings to.

    Attributes:
        name: where it stands, like ``model.network.config``.
        kind: its dotted name.
        settings: those that are given, as plain data.
    """

    name: str
    kind: str
    settings: dict[str, Any]


def filled(words: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> Iterator[Filled]:
    """The classes that are given settings, where text tells which class it is.

    Args:
        words: of a training command.
        configs: what its configs hold; later ones count more.

    Raises:
        yaml.YAMLError: a value on the command line is no YAML.
    """
    given = {
        key: yaml.safe_load(value) if value else value
        for key, value in given_settings(words).items()
    }
    values: dict[str, Any] = {}
    classes: dict[str, set[str]] = {}
    for held in (*configs, given):
        for key, value in _flat(held):
            at = _plain(key)
            if isinstance(value, str) and (at in classes or key.endswith(".class_path")):
                classes.setdefault(at, set()).add(value)
            else:
                values[at] = value
    named = {at: next(iter(names)) for at, names in classes.items() if len(names) == 1}

    def visit(at: str, declared: str | None) -> Iterator[Filled]:
        kind = named.get(at, declared)
        if kind is None or at in classes.keys() - named.keys() or isinstance(values.get(at), str):
            return  # of several classes, or in a file of its own
        known = _settings_at(at, declared, named) or {}
        settings = {part: values[f"{at}.{part}"] for part in known if f"{at}.{part}" in values}
        if settings and (found := _find(kind)):
            yield Filled(at, f"{found[0]}.{found[1].name}", settings)
        for part, setting in known.items():
            yield from visit(f"{at}.{part}", setting.holds)

    for root, declared in ROOTS.items():
        yield from visit(root, declared)


def given_settings(words: Sequence[str]) -> dict[str, str | None]:
    """The settings on a command line, by dotted names, and what follows on them."""
    given = {}
    for word, following in zip_longest(words, words[1:]):
        if match := _OPTION.fullmatch(word):
            given[match[1]] = following if match[2] is None else match[2]
    return given


def _check(given: Mapping[str, Any], named: Mapping[str, str], open_ones: Collection[str]) -> None:
    """Raise a ValueError where something given is no setting; see `check_settings`."""
    for key, value in given.items():
        root, *parts = _plain(key).split(".")
        if root not in ROOTS or parts[-1:] == ["help"]:
            continue
        at, settings = root, _settings_at(root, ROOTS[root], named)
        for part in parts:
            if settings is None or at in open_ones:
                break
            name = ".".join([root, *parts])
            if part not in settings:
                raise ValueError(no_setting(name, _names(named)))
            at = f"{at}.{part}"
            if at == name and isinstance(value, str):
                _check_value(name, value, settings[part])
            settings = _settings_at(at, settings[part].holds, named)


def _check_value(name: str, value: str, setting: Setting) -> None:
    """Raise a ValueError where text is given for a number, or a name that is none of a few."""
    kinds = set(re.findall(r"[\w.]+", setting.declared)) - {"None", "Optional", "Union"}
    if kinds and kinds <= _SIMPLE and not _is_number(value):
        raise ValueError(f"{name}: expected {' or '.join(sorted(kinds))}. Got value: {value}")
    if setting.choices and not (setting.open and "." in value):
        check_choice(name, value.strip("'\""), setting.choices)


def _is_number(value: str) -> bool:
    """Whether text is a number, or one of the words that a parser takes for a value."""
    try:
        float(value)
    except ValueError:
        return value.strip().lower() in _WORDS
    return True


def no_setting(name: str, known: Iterable[str]) -> str:
    """A sentence that there is no such setting, and which one may have been meant.

    One of the same last part, which stands elsewhere, rather than one that looks alike.
    """
    known = list(known)
    last = name.rpartition(".")[2]
    moved = [one for one in known if one.rpartition(".")[2] == last]
    near = did_you_mean(name, moved, 0) or did_you_mean(name, known, _ALIKE)
    return f"there is no setting {name}.{near or ' `trm fit --help` lists them all.'}"


def _flat(held: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All that a config sets, by dotted names."""
    for name, value in held.items():
        yield f"{prefix}{name}", value
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")


def _plain(key: str) -> str:
    """A setting's name on the command line."""
    return ".".join(part for part in key.split(".") if part not in _OF_CLASSES)


def _names(named: Mapping[str, str]) -> list[str]:
    """All settings that text tells of, by their names on the command line."""
    found: list[str] = []

    def visit(at: str, declared: str | None) -> None:
        for part, below in (_settings_at(at, declared, named) or {}).items():
            found.append(f"{at}.{part}")
            visit(f"{at}.{part}", below.holds)

    for root, declared in ROOTS.items():
        visit(root, declared)
    return found


def _settings_at(
    at: str, declared: str | None, named: Mapping[str, str]
) -> dict[str, Setting] | None:
    """What there is below a setting, see `_settings_of`; None where text does not tell.

    Args:
        at: its name.
        declared: the class that its value has to be of, if there is one.
        named: the classes that configs name.
    """
    if at in named:
        return _settings_of(named[at])
    found = _find(declared) if declared else None
    whole = found is not None and (_is_dataclass(found[1]) or at in ROOTS)
    return _settings_of(declared) if declared and whole else None


@cache
def _settings_of(path: str) -> dict[str, Setting] | None:
    """The settings of a class, by name; None where the class is not found, or takes any."""
    found = _find(path)
    if found is None:
        return None
    module, node = found
    if not _is_dataclass(node):
        for made in node.body:
            if isinstance(made, ast.FunctionDef) and made.name == "__init__":
                if made.args.kwarg or made.args.vararg:
                    return None
                arguments = [*made.args.args[1:], *made.args.kwonlyargs]
                return {one.arg: _setting(module, one.annotation) for one in arguments}
        first = _class_of(module, node.bases[0]) if node.bases else None
        return _settings_of(first) if first else None
    settings: dict[str, Setting] = {}
    for base in node.bases:
        inherited = _class_of(module, base)
        settings |= (_settings_of(inherited) if inherited else None) or {}
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            setting = _setting(module, line.annotation)
            settings[line.target.id] = setting._replace(**_choices(module, line.value))
    return settings


def _choices(module: str, value: ast.expr | None) -> dict[str, Any]:
    """What `canvas.choices.one_of` says of a field, where it is called to make it."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func) != one_of.__name__:
        return {}
    is_open = any(one.arg == "open" for one in value.keywords)
    return {"choices": tuple(_strings(module, value.args[1])), "open": is_open}


def _strings(module: str, value: ast.expr) -> Iterator[str]:
    """The strings of a tuple or the keys of a dictionary, in full or by a name of a module's."""
    if isinstance(value, ast.Name) and (found := _assigned(module, value.id)):
        yield from _strings(*found)
    for part in value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", []):
        if isinstance(part, ast.Starred):
            yield from _strings(module, part.value)
        elif isinstance(part, ast.Constant):
            yield str(part.value)


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(one) for one in node.decorator_list)


def _setting(module: str, annotation: ast.expr | None) -> Setting:
    """What an annotation in a module says."""
    return Setting(_class_of(module, annotation), ast.unparse(annotation) if annotation else "")


def _class_of(module: str, annotation: ast.expr | None) -> str | None:
    """The class that an annotation in a module names, alone or beside None."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.right, ast.Constant):
        annotation = annotation.left
    if not isinstance(annotation, ast.Name):
        return None
    found = _find(f"{module}.{annotation.id}")
    return f"{found[0]}.{found[1].name}" if found else None


@cache
def _find(path: str) -> tuple[str, ast.ClassDef] | None:
    """The module that a class is written in, and its text, by a name that it can be imported by."""
    module, _, name = path.rpartition(".")
    text = _text(module)
    for node in text.body if text else ():
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
    origin = _origin(module, name)
    return _find(origin) if origin else None


def _assigned(module: str, name: str) -> tuple[str, ast.expr] | None:
    """What a name of a module's stands for, and the module that says so."""
    text = _text(module)
    for line in text.body if text else ():
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        value = getattr(line, "value", None)
        if value and any(isinstance(one, ast.Name) and one.id == name for one in targets):
            return module, value
    origin = _origin(module, name)
    return _assigned(*origin.rsplit(".", 1)) if origin else None


def _origin(module: str, name: str) -> str | None:
    """Where a module imports a name from, as the dotted name that it has there."""
    text = _text(module)
    for line in ast.walk(text) if text else ():
        if isinstance(line, ast.ImportFrom) and line.module and not line.level:
            for one in line.names:
                if (one.asname or one.name) == name:
                    return f"{line.module}.{one.name}"
    return None


@cache
def _text(module: str) -> ast.Module | None:
    """What a module of one of the packages says."""
    top, *parts = module.split(".")
    home = importlib.util.find_spec(top) if top in _PACKAGES else None
    for folder in (home and home.submodule_search_locations) or ():
        stem = Path(folder, *parts)
        for file in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
            if file.is_file():
                return ast.parse(file.read_text(encoding="utf-8"))
    return None
