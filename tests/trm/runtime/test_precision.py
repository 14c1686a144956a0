import torch

from trm.runtime.precision import settle


def test_tf32_is_used_unless_float32_is_requested():
    try:
        for accelerator, precision in (("cuda", "32-true"), ("cpu", "bf16-mixed")):
            settle(precision, accelerator)
            assert torch.get_float32_matmul_precision() == "highest"
        settle("bf16-mixed", "cuda")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
