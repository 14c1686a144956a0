"""Tiny recursive transformers that fill canvases, with training, evaluation and commands.

    from trm import Solver, evaluate, load_solver, render, run_with_cache, solve

See `trm.api`. Heavy packages are imported at the first use of one of these functions.
"""

import sys
from typing import TYPE_CHECKING, Any

from trm.released import ReleasedModules as _ReleasedModules
from trm.released import lazy as _lazy

# First, as Python would import a module of a moved package a second time, under its old name.
sys.meta_path.insert(0, _ReleasedModules())

if TYPE_CHECKING:
    __version__: str
    from trm.api import Solver as Solver
    from trm.api import evaluate as evaluate
    from trm.api import load_puzzle_solver as load_puzzle_solver
    from trm.api import load_solver as load_solver
    from trm.api import record as record
    from trm.api import render as render
    from trm.api import run_with_cache as run_with_cache
    from trm.api import run_with_hooks as run_with_hooks
    from trm.api import save_model as save_model
    from trm.api import sites as sites
    from trm.api import solve as solve

_NAMES = (
    *("Solver", "evaluate", "load_puzzle_solver", "load_solver", "record", "render"),
    *("run_with_cache", "run_with_hooks", "save_model", "sites", "solve"),
)
_get, __dir__ = _lazy(__name__, dict.fromkeys(("__version__", *_NAMES), "api"))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("canvas-trm")
        except PackageNotFoundError:  # sources without an installation
            return "0+unknown"
    return _get(name)
