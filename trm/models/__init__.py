"""Models: they know tensors, not problems."""

from importlib import import_module
from typing import Any

_HOMES = {
    "GPT": "gpt",
    "IterativeModel": "iterative",
    "LocalRecursiveModel": "local",
    "TinyRecursiveModel": "recursive",
}


def __getattr__(name: str) -> Any:
    """The networks, imported when they are asked for: configs are read without PyTorch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
