"""Models: they know tensors, not problems."""

from trm.models.configs import GPTConfig, LocalConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel
from trm.models.local import LocalRecursiveModel
from trm.models.recursive import TinyRecursiveModel

__all__ = ["GPT", "GPTConfig", "IterativeModel", "LocalConfig", "LocalRecursiveModel"]
__all__ += ["RecursiveConfig", "TinyRecursiveModel"]
