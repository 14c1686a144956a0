"""Training: data, losses, optimisers, Lightning modules and what TensorBoard shows."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trm.training.gpt_module import GPTModule
    from trm.training.iterative_module import IterativeModule
    from trm.training.local_module import LocalModule
    from trm.training.untold_module import UntoldModule

__all__ = ["GPTModule", "IterativeModule", "LocalModule", "UntoldModule"]
_HOMES = {
    "GPTModule": "gpt_module",
    "IterativeModule": "iterative_module",
    "LocalModule": "local_module",
    "UntoldModule": "untold_module",
}


def __getattr__(name: str) -> Any:
    """The Lightning modules, imported when they are asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
