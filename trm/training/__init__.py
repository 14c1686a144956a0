"""Training: data, losses, optimisers, Lightning modules, and charts for TensorBoard."""

from trm.training.canvas_module import CanvasModule
from trm.training.cell_module import CellModule
from trm.training.configs import DepthConfig, OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule
from trm.training.latent_module import LatentModule

__all__ = ["CanvasDataModule", "CanvasModule", "CellModule", "GPTModule", "IterativeModule"]
__all__ += ["DepthConfig", "LatentModule", "OptimizerConfig", "ScheduleConfig"]
