"""Names that users choose from, among them those of classes in files of their own.

Knows nothing of canvases: it stands in the lowest package so that all of them can use it.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

CHOICES, OPEN = "choices", "open"  # of a field's metadata


class OwnCodeError(ValueError):
    """Something is wrong with a class that is not this project's."""


def check_choice(field: str, value: str, choices: Iterable[str]) -> None:
    """Raise a ValueError that names the nearest valid choice unless ``value`` is one."""
    choices = tuple(choices)
    if value not in choices:
        near = did_you_mean(value, choices)
        raise ValueError(f"{field} must be one of {', '.join(choices)}, got {value!r}.{near}")


def did_you_mean(value: object, choices: Iterable[str], alike: float = 0.4) -> str:
    """A question that names the choice nearest to a value; empty if none is so much ``alike``."""
    near = get_close_matches(str(value), list(choices), n=1, cutoff=alike)
    return f" Did you mean {near[0]}?" if near and near[0] != value else ""


def shortened(text: str) -> str:
    """A text in quotes, as much as an error repeats of it."""
    return repr(text if len(text) <= 60 else f"{text[:59]}…")


def one_of(default: str, choices: Iterable[str], open: bool = False) -> Any:
    """A dataclass's field for one of some names; an open one may also name a class."""
    return field(default=default, metadata={CHOICES: tuple(choices), OPEN: open})


def check_choices(settings: Any, prefix: str = "") -> None:
    """Raise a ValueError where a dataclass's field made by `one_of` has another value."""
    for entry in fields(settings):
        if CHOICES in entry.metadata:
            value = getattr(settings, entry.name)
            if not (entry.metadata.get(OPEN) and isinstance(value, str) and "." in value):
                check_choice(prefix + entry.name, value, entry.metadata[CHOICES])


def resolve(name: str, known: Mapping[str, T], kind: type, what: str) -> T | type:
    """Look up a name: an entry of a table, or a class of the user's own, derived from kind.

    A dotted name like ``mine.Totals`` is imported; ``what``, like ``layout``, is for messages.
    ValueError: there is none, or it cannot be used.
    """
    if name in list(known):  # a list: any value can be tested
        return known[name]
    if not isinstance(name, str) or "." not in name:
        check_choice(what, name, known)
    return load_class(name, kind, what)


def load_class(name: str, kind: type, what: str) -> type:
    """The class of a dotted name, see `resolve`; the working folder is looked through last."""
    module_name, _, own = name.rpartition(".")
    module = import_code(module_name, f"{what} {name}")
    found = getattr(module, own, None)
    file = _file_of(module)
    if found is None:
        names = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise OwnCodeError(f"{what} {name}: {file} has no {own}.{did_you_mean(own, names)}")
    if not isinstance(found, type) or not issubclass(found, kind):
        raise OwnCodeError(
            f"{what} {name} ({file}) is not a {kind.__name__}: derive the class from "
            f"{class_name(kind)}"
        )
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        base = class_name(next(base for base in found.__mro__ if missing[0] in vars(base)))
        raise OwnCodeError(f"{what} {name} ({file}) lacks {', '.join(missing)}: see {base}")
    return found


def _file_of(module: ModuleType) -> str:
    """Return the name of a module's file for messages; of a package with its folder."""
    file = Path(getattr(module, "__file__", None) or module.__name__)
    if file.name != "__init__.py":
        return file.name
    hidden = file.parent.with_suffix(".py")
    why = f" (Python prefers it to {hidden.name})" if hidden.is_file() else ""
    return f"{file.parent.name}/{file.name}{why}"


def accept_released(kind: type, now: str, before: str) -> None:
    """Let a class define or call a method by its released name: the nearest definition counts."""
    names = (now, before)
    own = next(vars(base)[name] for base in kind.__mro__ for name in names if name in vars(base))
    for name in names:
        if getattr(kind, name) is not own:
            setattr(kind, name, own)


def refuse_renamed(kind: type, renamed: Mapping[str, str]) -> None:
    """Refuse a class that defines an earlier name, which nothing would call.

    Args:
        kind: the class.
        renamed: earlier name → its name today.

    Raises:
        TypeError: it does; the message has the name of today.
    """
    for name in renamed.keys() & vars(kind).keys():
        raise TypeError(f"{kind.__name__}.{name} is {renamed[name]} now: rename it")


def class_name(kind: type) -> str:
    """The dotted name by which `load_class` finds a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def check_imported(name: str, what: str, packages: tuple[str, ...]) -> None:
    """ValueError if a name is code that was not imported and is of none of the packages."""
    module = name.rpartition(".")[0]
    if module and module.partition(".")[0] not in packages and module not in sys.modules:
        raise OwnCodeError(
            f"its {what} is {name}, which is not part of this package: name the module that it "
            f"is in, like --import {module}"
        )


def look_here() -> None:
    """Have modules sought in the working folder, too, after all other places."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def import_code(name: str, what: str) -> ModuleType:
    """A module of the user's own; OwnCodeError, which begins with ``what``, if it cannot be had."""
    look_here()
    try:
        return importlib.import_module(name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            raise OwnCodeError(
                f"{what}: there is no module {name}, neither installed nor in this folder"
            ) from None
        raise OwnCodeError(f"{what}: {failure(error)}") from error


def failure(error: Exception, file: str = "") -> str:
    """Return where and why code failed: the last line of ``file`` in the traceback, if any."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    frames = [frame for frame in frames if frame.filename == file] or frames
    return f"{frames[-1].filename}, line {frames[-1].lineno}: {type(error).__name__}: {error}"
