"""Number of floating-point operations, counted by PyTorch while they run, and peaks of devices."""

import re
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

# bfloat16 without sparsity, in TFLOP a second, from data sheets; the first matching name counts.
PEAKS = {
    r"H100 PCIe": 756,
    r"H100|H200|GH200": 989,
    r"B200": 2250,
    r"A100": 312,
    r"L40S": 362,
    r"L4": 121,
    r"A10G": 70,
    r"RTX 4090$": 165,
}


def known_peak(name: str) -> float | None:
    """Return the peak of a device in bfloat16, in TFLOP a second, if it is among `PEAKS`.

    Example: "NVIDIA A100-SXM4-80GB" → 312.
    """
    fits = (peak for words, peak in PEAKS.items() if re.search(rf"\b(?:{words})\b", name))
    return next(fits, None)


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
