"""Tiny networks with random weights whose answers are far apart."""

from typing import Any

import torch

from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.training.configs import DepthConfig, OptimizerConfig, ScheduleConfig
from trm.training.iterative_module import IterativeModule

SIZES: dict[str, Any] = {"hidden_size": 16, "num_heads": 2, "num_layers": 1}
CYCLES: dict[str, Any] = {"intermediate_size": 16, "H_cycles": 1, "L_cycles": 1}


def tiny_gpt(height: int, width: int, **more: Any) -> GPT:
    torch.manual_seed(1)
    model = GPT(GPTConfig(height, width, **SIZES | more)).eval()
    with torch.no_grad():
        model.embed_tokens.weight.mul_(30)  # the order of sums decides nothing
    return model


def tiny_trm(**more: Any) -> TinyRecursiveModel:
    torch.manual_seed(3)
    model = TinyRecursiveModel(RecursiveConfig(**SIZES | CYCLES | more)).eval()
    for head in (model.halt_head, model.lm_head):
        torch.nn.init.normal_(head.weight)
    return model


def tiny_module(network: dict[str, Any] | None = None, **more: Any) -> IterativeModule:
    """Return a training module with a new network."""
    torch.manual_seed(0)
    parts = {"optimizer": OptimizerConfig(lr=0.01), "schedule": ScheduleConfig(), "solve_steps": 3}
    parts |= {"depth": DepthConfig(no_grad_steps=(0, 0), supervised_steps=1)}
    config = RecursiveConfig(**SIZES | CYCLES | (network or {}))
    return IterativeModule(TinyRecursiveModel(config), **parts | more)
