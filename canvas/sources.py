"""Source code of rules, layouts and tasks, as far as a proof depends on it.

A proof is of a rule. Once its code is edited, the proof is of another one. `sources` returns hashes
of the modules that define the classes of a proof, and of modules in their folders that these use.

Modules of this package count as one version, `SOURCES`, so that a proof holds wherever the same
version is installed. `python -m canvas.sources` prints their hash. A change of `SOURCES` that can
change what a rule, a layout or a task computes makes all proofs that were noted before invalid:
raise `VERSION` with it.
"""

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

VERSION = 1
SOURCES = "5a2bf9389e2224a43d3a67ef50198a2f56a26dfbbc45d7ddb27e034adf604ccb"

_PACKAGE = Path(__file__).parent
# Modules of the package on which a proof depends.
_FILES = (
    *("addition.py", "arithmetic.py", "layouts.py", "multiplication.py", "symbols.py", "task.py"),
    *("division.py", "formats.py", "mazes.py", "modular.py", "rule110.py", "single_steps.py"),
    *("boxes.py", "drawing.py", "reading.py", "subtraction.py", "texts.py"),
    *("cells/local_rule.py", "cells/spec.py", "cells/rules/*.py"),
)
_FOREIGN = {"numpy", "torch", *sys.stdlib_module_names}  # top-level packages that are not hashed
_OURS = {"canvas", "trm", "augment"}  # `canvas` has one entry, and no rule depends on the others
_INSTALLED = {"site-packages", "dist-packages"}  # folders of packages below another folder


def sources(kinds: Iterable[type]) -> dict[str, str]:
    """Return the SHA-256 of modules by name: those of these classes and of their bases.

    Modules in the same folders, or below, that these import are among them, also those imported
    within a function. The modules of this package are left out while they are those of `VERSION` 1;
    else there is one entry for all, ``canvas``.

    Args:
        kinds: classes of a rule, a layout and a task.
    """
    found, ours = {}, False
    to_do = [base.__module__ for kind in kinds for base in kind.__mro__]
    folders = {folder for name in to_do if (folder := _folder(name)) is not None}
    while to_do:
        name = to_do.pop()
        top = name.partition(".")[0]
        ours |= top == "canvas"
        if name in found or top in _FOREIGN or top == "canvas":
            continue
        found[name] = _hash(name)
        to_do += [one for one in _used(name) if _is_below(one, folders)]
    if ours and (VERSION > 1 or package_hash() != SOURCES):
        found["canvas"] = f"{VERSION} {package_hash()}"
    return found


def files() -> list[Path]:
    """Return the modules of this package on which a proof depends, sorted."""
    found = {file for pattern in _FILES for file in _PACKAGE.glob(pattern)}
    return sorted(found, key=lambda file: file.relative_to(_PACKAGE).as_posix())


@cache
def package_hash() -> str:
    """Return the SHA-256 of the modules of this package on which a proof depends."""
    found = hashlib.sha256()
    for file in files():
        found.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\n")
        found.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return found.hexdigest()


def _file(name: str) -> Path | None:
    """Return the file of a module, imported or not; None: it has none. Nothing is imported."""
    if file := getattr(sys.modules.get(name), "__file__", None):
        return Path(file).resolve()
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # such as of a notebook
        return None
    places = (spec and spec.submodule_search_locations) or ()
    files = [Path(place, *rest, "__init__.py") for place in places]
    files += [Path(place, *rest).with_suffix(".py") for place in places if rest]
    files += [Path(spec.origin)] if spec and spec.origin and not rest else []
    return next((file.resolve() for file in files if file.is_file()), None)


def _folder(name: str) -> Path | None:
    """Return the folder of a module's file; None for the package's own and foreign modules."""
    if name.partition(".")[0] in {*_FOREIGN, *_OURS}:
        return None
    file = _file(name)
    return file.parent if file else None


def _is_below(name: str, folders: set[Path]) -> bool:
    """Return whether a module is in one of these folders, or below, and not installed there."""
    mine = _folder(name)
    return mine is not None and any(
        mine == folder
        or (folder in mine.parents and not _INSTALLED & {*mine.relative_to(folder.parent).parts})
        for folder in folders
    )


def _used(name: str) -> Iterator[str]:
    """Yield the names of the modules that a module imports, or whose objects are in it."""
    module, file = sys.modules.get(name), _file(name)
    for value in vars(module).values() if module else ():
        of = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        if isinstance(of, str) and of in sys.modules:
            yield of
    if file is None or file.suffix != ".py":
        return
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):  # edited since it was imported, which its hash shows
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            parts = [*(above if node.level else []), *filter(None, [node.module])]
            yield ".".join(parts)
            yield from (".".join([*parts, alias.name]) for alias in node.names)


def _hash(name: str) -> str:
    """Return the SHA-256 of a module's source, or of its classes' compiled code without a file."""
    if file := _file(name):
        with suppress(OSError):  # removed since it was imported, or in an archive
            return hashlib.sha256(file.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
    module = sys.modules.get(name)
    kinds = [one for one in vars(module).values() if inspect.isclass(one)] if module else []
    functions = [f for kind in kinds for f in vars(kind).values() if inspect.isfunction(f)]
    parts = [(f.__qualname__, f.__code__.co_code, repr(f.__code__.co_consts)) for f in functions]
    return hashlib.sha256(repr(sorted(parts)).encode()).hexdigest()


if __name__ == "__main__":
    print(package_hash())
