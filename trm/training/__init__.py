"""Training: data, losses, optimisers, Lightning modules and what TensorBoard shows."""

from trm.training.canvas_module import CanvasModule
from trm.training.configs import DepthConfig, OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule
from trm.training.local_module import LocalModule
from trm.training.untold_module import UntoldModule

__all__ = ["CanvasDataModule", "CanvasModule", "GPTModule", "IterativeModule", "LocalModule"]
__all__ += ["DepthConfig", "OptimizerConfig", "ScheduleConfig", "UntoldModule"]
