"""Models: they know tensors, not problems."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trm.models.gpt import GPT
    from trm.models.iterative import IterativeModel
    from trm.models.looped import LoopedTransformer
    from trm.models.recursive import TinyRecursiveModel
    from trm.models.upright import UprightLoopedTransformer, UprightRecursiveModel

__all__ = [
    "GPT",
    "IterativeModel",
    "LoopedTransformer",
    "TinyRecursiveModel",
    "UprightLoopedTransformer",
    "UprightRecursiveModel",
]
_HOMES = {
    "GPT": "gpt",
    "IterativeModel": "iterative",
    "LoopedTransformer": "looped",
    "TinyRecursiveModel": "recursive",
    "UprightLoopedTransformer": "upright",
    "UprightRecursiveModel": "upright",
}


def __getattr__(name: str) -> Any:
    """The networks, imported when they are asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
