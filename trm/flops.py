"""Number of floating-point operations, counted by PyTorch while they run."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

# PyTorch itself counts the attention of accelerators only.
_ATTENTION_ON_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: int(sdpa_flop_count(q, k, v))
    ),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: int(sdpa_backward_flop_count(grad, q, k, v))
    ),
}


@contextmanager
def counted_flops() -> Iterator[FlopCounterMode]:
    """Count the floating-point operations in a context, a multiplication and an addition as two.

    PyTorch counts those of matrix products and attention, not elementwise ones. Compiled code runs
    uncompiled in the context, as operations in compiled kernels cannot be counted.
    """
    counter = FlopCounterMode(display=False, custom_mapping=_ATTENTION_ON_CPU)
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # the check must not import the compiler
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield stack.enter_context(counter)
