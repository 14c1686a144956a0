"""Training: data, losses, optimisers, Lightning modules and what TensorBoard shows."""

from trm.training.gpt_module import GPTModule
from trm.training.iterative_module import IterativeModule
from trm.training.local_module import LocalModule
from trm.training.untold_module import UntoldModule

__all__ = ["GPTModule", "IterativeModule", "LocalModule", "UntoldModule"]
