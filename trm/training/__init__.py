"""Training: data, losses, optimisers, Lightning modules, and charts for TensorBoard."""

from typing import Any

from trm.families import moved
from trm.training.canvas_module import CanvasModule
from trm.training.configs import DepthConfig, OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule

__all__ = ["CanvasDataModule", "CanvasModule", "GPTModule", "IterativeModule"]
__all__ += ["DepthConfig", "OptimizerConfig", "ScheduleConfig"]


def __getattr__(name: str) -> Any:
    return moved(__name__, name)
