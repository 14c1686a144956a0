"""Hashes of a network's weights, from NumPy arrays: PyTorch is not imported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn


def weights_hash(weights: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of all weights and their names.

    Numbers in float64 that float32 holds exactly count as float32: a model that computes in float64
    with weights from a file in float32 is the one in the file.
    """
    found = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        if weight.dtype == np.float64:
            with np.errstate(over="ignore"):
                rounded = weight.astype(np.float32)
            weight = rounded if np.array_equal(weight, rounded) else weight
        found.update(f"{name} {dtype_name(weight.dtype)} {list(weight.shape)}\n".encode())
        found.update(contiguous_bytes(weight))
    return found.hexdigest()


def model_hash(model: nn.Module) -> str:
    """Return the `weights_hash` of all tensors of a network."""

    import torch

    def array(tensor: Tensor) -> np.ndarray:
        if tensor.dtype == torch.bfloat16:  # which NumPy lacks: its bits
            tensor = tensor.view(torch.int16)
        found: np.ndarray = tensor.detach().cpu().numpy()
        return found

    return weights_hash({name: array(one) for name, one in model.state_dict().items()})


def uncompiled(model: nn.Module) -> nn.Module:
    """Return the network that `torch.compile` has wrapped; another network as it is."""
    found: nn.Module = getattr(model, "_orig_mod", model)
    return found


def dtype_name(dtype: np.dtype) -> str:
    """Return the name of a dtype in PyTorch, like ``torch.float32``."""
    return f"torch.{dtype}"


def contiguous_bytes(weight: np.ndarray) -> memoryview:
    """Return the bytes of an array, row by row."""
    return np.ascontiguousarray(weight).reshape(-1).view(np.uint8).data
