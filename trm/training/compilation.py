"""What training compiles, and in which mode."""

from collections.abc import Callable
from typing import Any, Literal

import torch

from trm.models.iterative import map_state

Compile = bool | Literal["reduce-overhead"]

GRAPHS: Compile = "reduce-overhead"


def compiled(method: Callable[..., Any], mode: Compile) -> Callable[..., Any]:
    """A model's method, compiled.

    Args:
        method: of tensors and states, see `trm.models.iterative`, to one of these.
        mode: True, for batches of any size; `reduce-overhead`, which on CUDA records a graph for
            each size, and replays it without launching kernels one by one.
    """
    if mode != GRAPHS:
        # Canvases cut to their problems differ in size from batch to batch.
        return torch.compile(method, dynamic=True)
    recorded = torch.compile(method, mode="reduce-overhead", dynamic=False)

    def replayed(*args: Any) -> Any:
        # A replay overwrites what the last one returned, which may be what this one is given, or
        # a carry that the next training step goes on with.
        return map_state(torch.clone, recorded(*args))

    return replayed


def begin_step(mode: Compile) -> None:
    """Tell graphs that nothing of the last training step is read any more."""
    if mode == GRAPHS:
        torch.compiler.cudagraph_mark_step_begin()
