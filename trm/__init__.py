"""Tiny recursive transformers that fill canvases, and what trains and drives them.

The packages `canvas` and `augment` beside this one are imported with it, from where it is itself:
a user's own `canvas.py` in the working folder is not taken for one of them.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec
from pathlib import Path


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
