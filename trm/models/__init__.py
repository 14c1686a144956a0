"""Models: they know tensors, not problems."""

from typing import TYPE_CHECKING

from trm.released import lazy

if TYPE_CHECKING:
    from trm.models.configs import GPTConfig as GPTConfig
    from trm.models.configs import RecursiveConfig as RecursiveConfig
    from trm.models.gpt import GPT as GPT
    from trm.models.iterative import IterativeModel as IterativeModel
    from trm.models.recursive import TinyRecursiveModel as TinyRecursiveModel

__all__ = ["GPT", "GPTConfig", "IterativeModel", "RecursiveConfig", "TinyRecursiveModel"]

# Settings and hashes need no PyTorch.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "GPT": "gpt",
        "GPTConfig": "configs",
        "IterativeModel": "iterative",
        "RecursiveConfig": "configs",
        "TinyRecursiveModel": "recursive",
    },
)
