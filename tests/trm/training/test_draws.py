"""Draws that belong to a sample: which they are, and how they are spread."""

import numpy as np
import pytest
import torch

from canvas.problems import keys, random_words
from trm.training.step import normal_pair, random_bits, uniform

SEEDS = keys(3, "train", 0, np.arange(5))


def test_the_bits_are_those_that_problems_are_drawn_from():
    mine = torch.stack(
        [random_bits(torch.from_numpy(SEEDS.view(np.int64)), k) for k in range(7)], dim=1
    )
    assert (mine.numpy().view(np.uint64) == random_words(SEEDS, 7)).all()


def test_counters_are_numbers_or_tensors():
    seeds = torch.from_numpy(SEEDS.view(np.int64))
    counters = torch.tensor([0, 1, 2**40])
    table = random_bits(seeds[:, None], counters)
    for column, counter in enumerate(counters.tolist()):
        assert torch.equal(table[:, column], random_bits(seeds, counter))


def test_uniform_numbers_fill_their_range_evenly():
    drawn = uniform(torch.arange(200_000))
    assert drawn.dtype == torch.float32
    assert 0 <= drawn.min() < 1e-4
    assert 1 - 1e-4 < drawn.max() < 1
    counts = torch.histc(drawn, 20, 0, 1)
    assert ((counts - 10_000).abs() < 500).all()  # five standard deviations


@pytest.mark.parametrize("axis", ["seeds", "counters"])
def test_pairs_are_normal_and_independent(axis):
    n = torch.arange(200_000)
    first, second = normal_pair(n, 4) if axis == "seeds" else normal_pair(torch.tensor([7]), n)
    drawn = torch.stack([first, second])
    assert drawn.isfinite().all()
    assert (drawn.mean(dim=1).abs() < 0.012).all()
    assert (drawn.std(dim=1) - 1).abs().max() < 0.01
    assert ((drawn**4).mean(dim=1) - 3).abs().max() < 0.15
    assert torch.corrcoef(drawn)[0, 1].abs() < 0.012
    assert torch.corrcoef(torch.stack([first[1:], first[:-1]]))[0, 1].abs() < 0.012
