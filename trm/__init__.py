"""Tiny recursive transformers that fill canvases, and what trains and drives them.

    from trm import evaluate, load_solver, render, solve

See `trm.api`; nothing heavy is imported before one of them is asked for.

The packages `canvas` and `augment` beside this one are imported with it, from where it is itself:
a user's own `canvas.py` in the working folder is not taken for one of them.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any


def _import_beside(name: str) -> None:
    """Import the package of this name that lies beside this one.

    Raises:
        ImportError: another module is already known by its name.
    """
    spec = PathFinder.find_spec(name, [str(Path(__file__).parents[1])])
    if spec is None or spec.loader is None or spec.origin is None:
        return  # it has been put elsewhere, where the ordinary search may find it
    if known := sys.modules.get(name):
        file = getattr(known, "__file__", None)
        if file is None or os.path.realpath(file) != os.path.realpath(spec.origin):
            raise ImportError(
                f"trm needs its own package {name}, and another module of that name has been "
                f"imported before: {file or known}. Rename that one"
            )
        return
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)


for _name in ("canvas", "augment"):
    _import_beside(_name)

try:
    __version__ = version("canvas-trm")
except PackageNotFoundError:  # the sources alone, without an installation
    __version__ = "0+unknown"

if TYPE_CHECKING:
    from trm.api import evaluate as evaluate
    from trm.api import load_solver as load_solver
    from trm.api import render as render
    from trm.api import solve as solve

_API = ("evaluate", "load_solver", "render", "solve")


def __getattr__(name: str) -> Any:
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trm import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return [*globals(), *_API]
