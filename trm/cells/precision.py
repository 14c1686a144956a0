"""Arithmetic in which a network computes now; a proof in float32 holds in no other."""

from typing import Any

import torch
from torch import Tensor

from trm.models.attention import compute_dtype


def computes_float32(tensor: Tensor) -> bool:
    """Return whether a network with this weight computes in float32, matrix products included.

    It does not under autocast, with weights of another dtype, or if PyTorch may replace float32 by
    TF32 or bfloat16 in matrix products.
    """
    if compute_dtype(tensor) is not torch.float32:
        return False
    # `torch.get_float32_matmul_precision` raises an error if these were set one by one.
    backends: Any = torch.backends
    backend = backends.mkldnn if tensor.device.type == "cpu" else backends.cuda
    precision = getattr(backend.matmul, "fp32_precision", "ieee")  # older releases have none
    if precision == "none":
        precision = getattr(backends, "fp32_precision", "ieee")
    return precision in ("none", "ieee")
