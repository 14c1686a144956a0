"""Training: data, losses, optimisers, Lightning modules, and charts for TensorBoard."""

from trm.released import moved
from trm.training.canvas_module import CanvasModule
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule
from trm.training.puzzle_data import PuzzleDataModule
from trm.training.puzzle_module import PuzzleModule
from trm.training.step import DepthConfig

__all__ = ["CanvasDataModule", "CanvasModule", "GPTModule", "IterativeModule"]
__all__ += ["DepthConfig", "OptimizerConfig", "PuzzleDataModule", "PuzzleModule", "ScheduleConfig"]


__getattr__ = moved(__name__)
