"""Classes that people write in files of their own: found by a dotted name, checked, explained.

Knows nothing of canvases: it stands in the lowest package so that all of them can use it.
"""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from canvas.choices import check_choice, did_you_mean

T = TypeVar("T")


class OwnCodeError(ValueError):
    """Something is wrong with a class that is not this project's."""


def resolve(name: str, known: Mapping[str, T], kind: type, what: str) -> T | type:
    """What a name stands for: an entry of a table, or a class of the user's own.

    Args:
        name: a key of the table, or a dotted name like ``mine.Totals``, which is imported.
        known: the table.
        kind: what an own class has to be derived from.
        what: is looked for, for messages, like ``layout``.

    Returns:
        The table's entry, or the class.

    Raises:
        ValueError: there is no such entry, or the class cannot be used; one sentence says why.
    """
    if name in known:
        return known[name]
    if "." not in name:
        check_choice(what, name, known)
    return load_class(name, kind, what)


def load_class(name: str, kind: type, what: str) -> type:
    """The class of a dotted name, its module imported; the working folder is looked through last.

    Raises:
        ValueError: there is no such class, it is of another kind, or lacks a method.
    """
    module_name, _, class_name = name.rpartition(".")
    module = _import(module_name, f"{what} {name}")
    found = getattr(module, class_name, None)
    file = Path(getattr(module, "__file__", None) or module_name).name
    if found is None:
        names = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise OwnCodeError(
            f"{what} {name}: {file} has no {class_name}.{did_you_mean(class_name, names)}"
        )
    if not isinstance(found, type) or not issubclass(found, kind):
        raise OwnCodeError(
            f"{what} {name} ({_where(found, file)}) is not a {kind.__name__}: derive the class "
            f"from {kind.__module__}.{kind.__name__}"
        )
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        declares = next(base for base in found.__mro__ if missing[0] in vars(base))
        raise OwnCodeError(
            f"{what} {name} ({_where(found, file)}) lacks {', '.join(missing)}: see "
            f"{declares.__module__}.{declares.__name__}"
        )
    return found


def class_name(kind: type) -> str:
    """The dotted name by which `load_class` finds a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def import_code(word: str) -> ModuleType:
    """Import what ``--import`` names: a module, or a file that ends in ``.py``.

    A file's module has the file's name without its ending.

    Raises:
        ValueError: there is none, another module has its name, or it cannot be imported.
    """
    if not word.endswith(".py"):
        return _import(word, f"--import {word}")
    file = Path(word).resolve()
    if not file.is_file():
        raise OwnCodeError(f"--import {word}: there is no such file")
    loaded = sys.modules.get(file.stem)
    if loaded is not None:
        if Path(getattr(loaded, "__file__", None) or "").resolve() == file:
            return loaded
        raise OwnCodeError(
            f"--import {word}: another module is already called {file.stem}; rename the file"
        )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[file.stem]
        raise OwnCodeError(f"--import {word}: {_failure(error, str(file))}") from error
    return module


def check_imported(name: str, what: str, packages: tuple[str, ...]) -> None:
    """Refuse a dotted name of code that nobody has asked for: a checkpoint imports nothing.

    Args:
        name: of a class; a short name, of a table, is always fine.
        what: it is, for the message.
        packages: those whose classes may be named.

    Raises:
        ValueError: its module is of none of the packages, and has not been imported.
    """
    module = name.rpartition(".")[0]
    if module and module.partition(".")[0] not in packages and module not in sys.modules:
        raise OwnCodeError(
            f"its {what} is {name}, which is not part of this package: name the module, or the "
            f"file, that it is in, like --import {module}"
        )


def look_here() -> None:
    """Have modules sought in the working folder, too, after all other places."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)


def _import(name: str, what: str) -> ModuleType:
    """A module, sought in the working folder after all other places."""
    look_here()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise OwnCodeError(
                f"{what}: there is no module {name}, neither installed nor in this folder"
            ) from None
        raise OwnCodeError(f"{what}: {_failure(error, name)}") from error
    except Exception as error:
        raise OwnCodeError(f"{what}: {_failure(error, name)}") from error


def _failure(error: Exception, name: str) -> str:
    """Where and why an import failed."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    last = frames[-1] if frames else None
    where = f"{last.filename}, line {last.lineno}" if last and last.filename != __file__ else name
    return f"{where}: {type(error).__name__}: {error}"


def _where(found: object, file: str) -> str:
    """File and line of a class."""
    try:
        return f"{file}, line {inspect.getsourcelines(found)[1]}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return file
