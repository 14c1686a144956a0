"""Models: they know tensors, not problems."""

from typing import Any

from trm.families import moved
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.iterative import IterativeModel
from trm.models.recursive import TinyRecursiveModel

__all__ = ["GPT", "GPTConfig", "IterativeModel", "RecursiveConfig", "TinyRecursiveModel"]


def __getattr__(name: str) -> Any:
    return moved(__name__, name)
