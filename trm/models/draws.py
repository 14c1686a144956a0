"""Random numbers of a sample's own: functions of its seed and a counter, and of nothing else.

They are the same whichever samples stand beside it in a batch, on any number of devices, and in
whatever order batches come. After SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable
pseudorandom number generators"), in tensors, so that no device is waited for.
"""

import math
from typing import Any

import torch
from torch import Tensor

from canvas.problems import mix

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # int64 of the same bits


def random_bits(seeds: Tensor, counter: Tensor | int = 0) -> Tensor:
    """Random bits of each seed, for a counter from 0 up; int64, broadcast."""
    offset = (counter + 1) * _GOLDEN
    if isinstance(offset, int):
        offset = (offset + 2**63) % 2**64 - 2**63  # as the tensors' arithmetic has it
    return mix(seeds + offset)


def uniform(seeds: Tensor, counter: Tensor | int = 0) -> Tensor:
    """Numbers from 0 up to, and without, 1; float32."""
    return _shifted(random_bits(seeds, counter), 40).float() * 2.0**-24


def normal_pair(seeds: Tensor, counter: Tensor | int = 0) -> tuple[Tensor, Tensor]:
    """Two independent standard normal numbers (Box and Muller 1958); float32."""
    bits = random_bits(seeds, counter)
    radius = (-2 * ((_shifted(bits, 40) + 1).float() * 2.0**-24).log()).sqrt()
    angle = (_shifted(bits, 16) & 0xFFFFFF).float() * (2 * math.pi * 2.0**-24)
    return radius * angle.cos(), radius * angle.sin()


def _shifted(x: Tensor, by: int) -> Tensor:
    """To the right, zeros coming in at the left."""
    return torch.bitwise_right_shift(x, by) & ((1 << (64 - by)) - 1)


def drawn_anew(model: Any, seed: int = 0) -> Any:
    """A network of the same class and config on the same device, with weights drawn anew."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    return fresh.to(next(model.parameters()).device).eval()
