"""Floating-point operations, counted by PyTorch while they are done."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)


@contextmanager
def counted_flops() -> Iterator[FlopCounterMode]:
    """Count the floating-point operations within, a multiplication and an addition as two.

    Of matrix products and attention, as PyTorch counts them; what works on single elements is not
    counted. Compiled code runs uncompiled meanwhile, as its kernels could not be looked into.
    """
    counter = FlopCounterMode(display=False, custom_mapping=_ATTENTION_ON_CPU)
    with ExitStack() as stack:
        if _compiles():
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield stack.enter_context(counter)


def _compiles() -> bool:
    """Whether anything may have been compiled; asking must not import the compiler."""

    return "torch._dynamo" in sys.modules


def _attention(query: Any, key: Any, value: Any, *args: Any, **more: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attention_backward(
    grad: Any, query: Any, key: Any, value: Any, *args: Any, **more: Any
) -> int:
    return int(sdpa_backward_flop_count(grad, query, key, value))


# PyTorch counts those of accelerators alone.
_ATTENTION_ON_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
