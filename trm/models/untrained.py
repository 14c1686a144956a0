"""Networks as they are before training, to know what an architecture alone can do."""

from typing import Any

import torch


def drawn_anew(model: Any, seed: int = 0) -> Any:
    """A network of the same class and config on the same device, with weights drawn anew."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    return fresh.to(next(model.parameters()).device).eval()
