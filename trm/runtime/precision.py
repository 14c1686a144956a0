"""Precision of computations: float32, or bfloat16 on processors with units for it.

PyTorch is imported inside functions, as command lines are parsed before. Precisions and
accelerators have the values of Lightning's trainer.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from canvas.choices import did_you_mean

FLOAT32, BFLOAT16 = PRECISIONS = ("32-true", "bf16-mixed")
NO_UNITS = "This CPU has no bfloat16 units: computing in float32 instead."


def check_precision(precision: Any) -> None:
    """Require weights in float32.

    Raises:
        ValueError: the precision is another one than those of `PRECISIONS`.
    """
    if precision not in (None, 32, "32", *PRECISIONS):
        raise ValueError(
            f"trainer.precision {precision} is neither {BFLOAT16} nor {FLOAT32}: weights stay in "
            f"float32.{did_you_mean(precision, PRECISIONS)}"
        )


def settle(precision: Any, accelerator: str) -> Any:
    """Return the precision to compute in, given the requested one.

    A CPU without bfloat16 units emulates bfloat16, many times slower than float32: float32 is
    returned, see `NO_UNITS`. On a GPU, bfloat16 also permits TF32 for products that stay in
    float32, such as those of Muon; `32-true` does not.
    """
    if precision != BFLOAT16:
        return precision
    if on_cpu(accelerator):
        return precision if cpu_multiplies_bfloat16() else FLOAT32
    import torch

    torch.set_float32_matmul_precision("high")
    return precision


def on_cpu(accelerator: str) -> bool:
    """Test if an accelerator is the CPU on this machine."""
    import torch

    return accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())


def cpu_multiplies_bfloat16() -> bool:
    """Test if this CPU has instructions for products of bfloat16 matrices."""
    import torch

    # Older releases of torch do not report it.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(unit) for unit in ("avx512_bf16", "amx_bf16", "bf16", "arm_bf16"))


def computing_in(precision: str, device: str) -> AbstractContextManager[Any]:
    """Return a context that computes in one of `PRECISIONS` on a device type, like Lightning."""
    if precision != BFLOAT16:
        return nullcontext()
    import torch

    return torch.autocast(device, torch.bfloat16)
