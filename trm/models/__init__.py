"""Models: they know tensors, not problems."""

from trm.models.cell import CellModel
from trm.models.configs import (
    CellConfig,
    GPTConfig,
    IntegerCellConfig,
    RecursiveConfig,
    rule_settings,
)
from trm.models.gpt import GPT
from trm.models.integer import IntegerCellModel
from trm.models.iterative import IterativeModel
from trm.models.recursive import TinyRecursiveModel

__all__ = ["GPT", "CellConfig", "CellModel", "GPTConfig", "IterativeModel"]
__all__ += ["IntegerCellConfig", "IntegerCellModel", "RecursiveConfig", "TinyRecursiveModel"]
__all__ += ["rule_settings"]
