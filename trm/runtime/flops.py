"""Number of floating-point operations, counted by PyTorch while they run, and peaks of devices."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
    shape_wrapper,
)

# PyTorch itself counts the attention of accelerators only.
_ATTENTION_ON_CPU = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: int(sdpa_flop_count(q, k, v))
    ),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: int(sdpa_backward_flop_count(grad, q, k, v))
    ),
}

_COUNTS = flop_registry | {op: shape_wrapper(count) for op, count in _ATTENTION_ON_CPU.items()}

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


class FlopCounter(TorchDispatchMode):
    """Counter of what `torch.utils.flop_counter` has formulas for.

    PyTorch's `FlopCounterMode` also sums by module, and takes about twice as long.
    """

    def __init__(self) -> None:
        super().__init__()
        self._total = 0
        self._whole: set[Any] = set()  # operations that consist of no others

    def get_total_flops(self) -> int:
        """Return the operations counted so far."""
        return self._total

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        count = _COUNTS.get(func.overloadpacket)
        if count is None and func not in self._whole:
            with self:
                found = func.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
            self._whole.add(func)
        found = func(*args, **kwargs)
        if count is not None:
            self._total += count(*args, **kwargs, out_val=found)
        return found


@contextmanager
def counted_flops() -> Iterator[FlopCounter]:
    """Count the floating-point operations in a context, a multiplication and an addition as two.

    PyTorch counts those of matrix products and attention, not elementwise ones. Compiled code runs
    uncompiled in the context, as operations in compiled kernels cannot be counted.
    """
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # the check must not import the compiler
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield stack.enter_context(FlopCounter())
