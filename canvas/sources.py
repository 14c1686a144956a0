"""Source code of rules, layouts and tasks, as far as a proof depends on it.

A proof is of a rule. Once its code is edited, the proof is of another one. `sources` returns hashes
of the modules that define the classes of a proof, and of modules beside them that these use.

Modules of this package count as one version, `SOURCES`, so that a proof holds wherever the same
version is installed. `python -m canvas.sources` prints their hash. A change of `SOURCES` that can
change what a rule, a layout or a task computes makes all proofs that were noted before invalid:
raise `VERSION` with it.
"""

import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

VERSION = 1
SOURCES = "950e0e9c6ff748ecdfef7704fac48ca045329a94130fd8d1f5a6803e184fa1e6"

_PACKAGE = Path(__file__).parent
# Modules of the package on which a proof depends.
_FILES = (
    *("addition.py", "arithmetic.py", "layouts.py", "multiplication.py", "symbols.py", "task.py"),
    *("division.py", "formats.py", "mazes.py", "modular.py", "rule110.py", "single_steps.py"),
    *("subtraction.py", "texts.py"),
    *("cells/local_rule.py", "cells/spec.py", "cells/rules/*.py"),
)
_FOREIGN = {"numpy", "torch", *sys.stdlib_module_names}  # top-level packages that are not hashed


def sources(kinds: Iterable[type]) -> dict[str, str]:
    """Return the SHA-256 of modules by name: those of these classes and of their bases.

    Modules in the same folders that these import are among them. The modules of this package are
    left out while they are those of `VERSION` 1; else there is one entry for all, ``canvas``.

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
        module = sys.modules.get(name)
        found[name] = _hash(module)
        to_do += [one for one in _used(module) if _folder(one) in folders]
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


def _folder(name: str) -> Path | None:
    """Return the folder of a module's file; None for the package's own and foreign modules."""
    if name.partition(".")[0] in {*_FOREIGN, "canvas"}:
        return None
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file).resolve().parent if file else None


def _used(module: ModuleType | None) -> Iterator[str]:
    """Yield the names of the modules whose objects are in a module."""
    for value in vars(module).values() if module else ():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
        if isinstance(name, str) and name in sys.modules:
            yield name


def _hash(module: ModuleType | None) -> str:
    """Return the SHA-256 of a module's source, or of its classes' compiled code without a file."""
    try:
        text = Path(module.__file__).read_bytes().replace(b"\r\n", b"\n")  # type: ignore[union-attr,arg-type]
    except (AttributeError, TypeError, OSError):
        kinds = [one for one in vars(module).values() if inspect.isclass(one)] if module else []
        functions = [f for kind in kinds for f in vars(kind).values() if inspect.isfunction(f)]
        parts = [
            (f.__qualname__, f.__code__.co_code, repr(f.__code__.co_consts)) for f in functions
        ]
        text = repr(sorted(parts)).encode()
    return hashlib.sha256(text).hexdigest()


if __name__ == "__main__":
    print(package_hash())
