"""What models compute in: float32, or bfloat16 where a processor has the units for it.

PyTorch is imported where it is needed: command lines are read before. A precision and an
accelerator are what Lightning's trainer takes for them.
"""

from contextlib import AbstractContextManager
from typing import Any

from canvas.choices import did_you_mean

FLOAT32, BFLOAT16 = PRECISIONS = ("32-true", "bf16-mixed")
NO_UNITS = "This CPU has no bfloat16 units: computing in float32 instead."


def check_precision(precision: Any) -> None:
    """Raise a ValueError for weights in another precision than float32."""
    if precision not in (None, 32, "32", *PRECISIONS):
        raise ValueError(
            f"trainer.precision {precision} is neither {BFLOAT16} nor {FLOAT32}: weights stay in "
            f"float32.{did_you_mean(precision, PRECISIONS)}"
        )


def settle(precision: Any, accelerator: str) -> Any:
    """What is computed in, where that is not simply what is asked for.

    bfloat16 without the units for it is emulated, many times slower than float32: `NO_UNITS`. And
    where bfloat16 is good enough, TF32 is for what stays in float32 on a GPU, such as Muon's
    matrix products; `32-true` stays what it says.
    """
    if on_cpu(accelerator):
        emulated = precision == BFLOAT16 and not cpu_multiplies_bfloat16()
        return FLOAT32 if emulated else precision
    if precision == BFLOAT16:
        import torch

        torch.set_float32_matmul_precision("high")
    return precision


def on_cpu(accelerator: str) -> bool:
    """Whether an accelerator is the CPU here."""
    import torch

    return accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())


def cpu_multiplies_bfloat16() -> bool:
    """Whether this CPU has instructions for products of bfloat16 matrices."""
    import torch

    # Older releases of torch do not tell.
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(unit) for unit in ("avx512_bf16", "amx_bf16", "bf16", "arm_bf16"))


def computing_in(precision: str, device: str) -> AbstractContextManager[Any]:
    """Compute in one of `PRECISIONS` on a kind of device, as Lightning's loops do."""
    import torch

    return torch.autocast(device, torch.bfloat16, enabled=precision == BFLOAT16)
