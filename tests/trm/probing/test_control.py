"""Control labels follow from a cell's type, and from nothing else."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canvas.hints import UNDEFINED
from trm.probing.control import cell_types, control_labels
from trm.probing.linear import fit


def types(n: int, kinds: int = 2000, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return cell_types(np.full(n, 3), random.integers(kinds, size=n), np.zeros(n, int))


def test_types_differ_by_symbol_row_and_column():
    grid = cell_types(np.arange(3)[:, None, None], np.arange(-2, 3)[:, None], np.arange(-4, 4))
    assert grid.shape == (3, 5, 8)
    assert len(np.unique(grid)) == grid.size


def test_cells_of_a_type_have_one_label():
    every = types(5000, kinds=50)
    found = control_labels(every, np.zeros(5000, np.uint8), np.array([3, 1, 1]), seed=0, task=0)
    for one in np.unique(every):
        assert len(set(found[every == one])) == 1


def test_classes_are_as_frequent_as_in_the_task():
    frequencies = np.array([600, 300, 0, 100])
    found = control_labels(types(200_000, 10**5), np.zeros(200_000, np.uint8), frequencies, 0, 0)
    shares = np.bincount(found, minlength=4) / len(found)
    np.testing.assert_allclose(shares, frequencies / 1000, atol=0.01)


def test_another_seed_or_task_is_another_function():
    every, none = types(1000), np.zeros(1000, np.uint8)
    found = [
        control_labels(every, none, np.ones(4), seed, task)
        for seed, task in ((0, 0), (0, 0), (1, 0), (0, 1))
    ]
    assert (found[0] == found[1]).all()
    for other in found[2:]:
        assert 0.15 < (found[0] == other).mean() < 0.35


def test_undefined_stays_undefined():
    labels = np.array([UNDEFINED, 0], np.uint8)
    found = control_labels(types(2), labels, np.ones(3), 0, 0)
    assert (found == UNDEFINED).tolist() == [True, False]


@pytest.mark.parametrize("types_seen", [True, False])
def test_a_probe_is_at_chance_unless_features_tell_the_type(types_seen):
    """Of features that hold the sub-task alone, the control task cannot be read."""
    random = np.random.default_rng(0)
    kind = random.integers(40, size=3000)
    every = cell_types(kind, np.zeros(3000, int), np.zeros(3000, int))
    labels = random.integers(4, size=3000).astype(np.uint8)
    control = control_labels(every, labels, np.ones(4), 0, 0)
    held = kind if types_seen else labels
    features = F.one_hot(torch.from_numpy(held).long()).float()
    both = torch.from_numpy(np.stack([labels, control], axis=1))
    said = fit(features, both, [4, 4])(features).numpy()
    right = (said == both.numpy()).mean(axis=0)
    if types_seen:
        assert right[1] == 1
    else:
        assert right[0] == 1
        assert right[1] < 0.45
