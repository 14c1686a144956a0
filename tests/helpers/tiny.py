"""Tiny networks with random weights whose answers are far apart."""

from typing import Any

import torch

from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel

SIZES: dict[str, Any] = {"hidden_size": 16, "num_heads": 2, "num_layers": 1}


def tiny_gpt(height: int, width: int) -> GPT:
    torch.manual_seed(1)
    model = GPT(GPTConfig(height, width, **SIZES)).eval()
    with torch.no_grad():
        model.embed_tokens.weight.mul_(30)  # the order of sums decides nothing
    return model


def tiny_trm(**more: Any) -> TinyRecursiveModel:
    torch.manual_seed(3)
    cycles = {"intermediate_size": 16, "H_cycles": 1, "L_cycles": 1}
    model = TinyRecursiveModel(RecursiveConfig(**SIZES | cycles | more)).eval()
    for head in (model.halt_head, model.lm_head):
        torch.nn.init.normal_(head.weight)
    return model
