"""Random numbers as a function of seeds, the same on all devices."""

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from canvas.problems import Split, keys, mix, random_words
from trm.models.states import State, named, unnamed, where_samples

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # int64 of the same bits


class Purpose(IntEnum):
    """Purpose of random numbers of a sample, see `SampleKeys`. Purpose 0 is its problem."""

    ROW = 1  # the one that is masked
    PLACE = 2  # on the canvas, and those of blank rows and columns
    TRANSFORM = 3
    MARGIN = 4  # of the canvas
    MODEL = 5  # the model's own random numbers
    BLANKS = 6  # numbers of blank rows and columns
    NEGATIVE = 7  # the kind of sample, and what differs in it
    PRIMED = 8
    POOL = 9
    PRACTICE = 10


class SampleKeys(NamedTuple):
    """Random keys of B samples: whatever is random in a sample is a function of its key.

    Keys follow from these four fields alone, the arguments of `canvas.sampling.sample`. They are
    the same in any batch and on any number of devices.
    """

    seed: int  # of the data
    split: Split
    epoch: int
    indices: np.ndarray  # of the samples in their epoch, int64 [B]

    def of(self, purpose: int) -> np.ndarray:
        """Return a key of each sample, uint64 [B]. Keys of different purposes are independent."""
        return keys(*self, purpose)

    def words(self, purpose: int, n: int) -> np.ndarray:
        """Return n random words of each sample, uint64 [B, n]."""
        return random_words(self.of(purpose), n)


def random_bits(seeds: Tensor, counter: Tensor | int = 0) -> Tensor:
    """Return random bits for each seed and counter, int64, broadcast.

    They depend on a sample's seed and the counter alone, not on the batch or the number of devices.
    After SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"),
    in tensors, so that no step waits for the device.

    Args:
        seeds: int64, any shape.
        counter: integers, 0 or more; broadcast with ``seeds``.
    """
    return mix(seeds + (torch.as_tensor(counter) + 1) * _GOLDEN)


def uniform(seeds: Tensor, counter: Tensor | int = 0) -> Tensor:
    """Return uniform random numbers in [0, 1), float32; see `random_bits`."""
    return _shifted(random_bits(seeds, counter), 40).float() * 2.0**-24


def normal_pair(seeds: Tensor, counter: Tensor | int = 0) -> tuple[Tensor, Tensor]:
    """Return two independent standard normal numbers, float32 (Box and Muller 1958)."""
    bits = random_bits(seeds, counter)
    radius = (-2 * ((_shifted(bits, 40) + 1).float() * 2.0**-24).log()).sqrt()
    angle = (_shifted(bits, 16) & 0xFFFFFF).float() * (2 * math.pi * 2.0**-24)
    return radius * angle.cos(), radius * angle.sin()


def random_starts(state: State, share: float, seeds: Tensor) -> State:
    """Replace the initial states of a share of samples by standard normal noise.

    The choice of samples and their noise follow from their ``seeds``, int64 [B].
    """
    parts = named(state)
    noise: dict[str, Tensor] = {}
    names = list(parts)
    for first in range(0, len(names), 2):  # noise comes in pairs
        pair = [(name, math.prod(parts[name].shape[1:])) for name in names[first : first + 2]]
        # Counter 0 chooses the samples; every pair has counters of its own.
        most = max(size for _, size in pair)
        counter = torch.arange(1, most + 1, device=seeds.device) + (first << 40)
        noises = normal_pair(seeds[:, None], counter)
        for (name, size), each in zip(pair, noises, strict=False):
            noise[name] = each[:, :size].reshape(parts[name].shape).to(parts[name].dtype)
    return where_samples(uniform(seeds) < share, unnamed(state, noise), state)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Shift bits to the right and fill with zeros from the left."""
    return torch.bitwise_right_shift(x, by) & ((1 << (64 - by)) - 1)
