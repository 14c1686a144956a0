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

from canvas.choices import meant

_PACKAGES = ("trm", "canvas", "augment", "lightning")  # whose text is read
_ROOTS = {  # sections of a config, and the class of each; None: the config names it
    "model": None,
    "data": "trm.training.data.CanvasDataModule",
    "trainer": "lightning.pytorch.trainer.trainer.Trainer",
}
_OF_CLASSES = ("class_path", "init_args", "dict_kwargs")  # what a class has beside its settings
_OPTION = re.compile(r"--((?:model|data|trainer)(?:\.\w+)*)(?:=(.*))?", re.S)
_SIMPLE = {"int", "float", "bool"}  # types of which text is no value, but for these words
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "none", "~", ""}
_ALIKE = 0.6  # of a name and what may have been meant by it


class Setting(NamedTuple):
    """What text tells of a setting.

    Attributes:
        holds: the class whose settings stand below it, if it is one that text tells of.
        declared: how its type is written.
    """

    holds: str | None
    declared: str


def check_settings(words: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> None:
    """Look at the settings on a command line and in configs.

    Args:
        words: of a training command.
        configs: what its configs hold; later ones count more.

    Raises:
        ValueError: there is no such setting; the nearest one is named. Or its value is no number.
    """
    given = {}
    for word, following in zip_longest(words, words[1:]):
        if match := _OPTION.fullmatch(word):
            given[match[1]] = following if match[2] is None else match[2]
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


def _check(given: Mapping[str, Any], named: Mapping[str, str], open_ones: Collection[str]) -> None:
    """Raise a ValueError where something given is no setting; see `check_settings`."""
    for key, value in given.items():
        root, *parts = _plain(key).split(".")
        if root not in _ROOTS or parts[-1:] == ["help"]:
            continue
        at, settings = root, _settings_at(root, _ROOTS[root], named)
        for part in parts:
            if settings is None or at in open_ones:
                break
            name = ".".join([root, *parts])
            if part not in settings:
                raise ValueError(no_setting(name, _names(named)))
            at = f"{at}.{part}"
            if at == name and (expected := _misses(value, settings[part].declared)):
                raise ValueError(f"{name}: expected {expected}. Got value: {value}")
            settings = _settings_at(at, settings[part].holds, named)


def _misses(value: Any, declared: str) -> str | None:
    """The number that a setting has to be, where it is given text that is none."""
    kinds = set(re.findall(r"[\w.]+", declared)) - {"None", "Optional"}
    if not isinstance(value, str) or len(kinds) != 1 or not kinds <= _SIMPLE:
        return None
    try:
        float(value)
    except ValueError:
        return None if value.strip().lower() in _WORDS else kinds.pop()
    return None


def no_setting(name: str, known: Iterable[str]) -> str:
    """A sentence that there is no such setting, and which one may have been meant.

    One of the same last part, which stands elsewhere, rather than one that looks alike.
    """
    known = list(known)
    last = name.rpartition(".")[2]
    moved = [one for one in known if one.rpartition(".")[2] == last]
    near = meant(name, moved, 0) or meant(name, known, _ALIKE)
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

    for root, declared in _ROOTS.items():
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
    whole = found is not None and (_is_dataclass(found[1]) or at in _ROOTS)
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
            settings[line.target.id] = _setting(module, line.annotation)
    return settings


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
    for line in ast.walk(text) if text else ():
        if isinstance(line, ast.ImportFrom) and line.module and not line.level:
            for one in line.names:
                if (one.asname or one.name) == name:
                    return _find(f"{line.module}.{one.name}")
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
