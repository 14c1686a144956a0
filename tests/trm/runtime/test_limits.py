"""Errors that say that there was too little memory are told from others."""

import pytest
import torch

from trm.runtime.limits import host_memory, lacks_memory


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"), True),
        (caused(RuntimeError("worker exited"), RuntimeError("killed by signal: Killed.")), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_of_too_little_memory_are_recognised(error, lacks):
    assert lacks_memory(error) == lacks


def test_the_memory_of_a_machine_is_a_number_of_bytes_or_unknown():
    assert (host_memory() or 2**30) > 2**28
