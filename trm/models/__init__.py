"""Models: they know tensors, not problems."""

from typing import TYPE_CHECKING, Any

from trm.families import load, moved

if TYPE_CHECKING:
    from trm.models.configs import GPTConfig as GPTConfig
    from trm.models.configs import RecursiveConfig as RecursiveConfig
    from trm.models.gpt import GPT as GPT
    from trm.models.iterative import IterativeModel as IterativeModel
    from trm.models.recursive import TinyRecursiveModel as TinyRecursiveModel

# Name → its module, imported at the first use: settings and hashes need no PyTorch.
_MODULES = {
    "GPT": "gpt",
    "GPTConfig": "configs",
    "IterativeModel": "iterative",
    "RecursiveConfig": "configs",
    "TinyRecursiveModel": "recursive",
}
__all__ = ["GPT", "GPTConfig", "IterativeModel", "RecursiveConfig", "TinyRecursiveModel"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return load(f"{__name__}.{_MODULES[name]}.{name}")
    return moved(__name__, name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
