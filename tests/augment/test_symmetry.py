import albumentations as A
import numpy as np
import pytest

from augment import symmetry
from augment.symmetry import SYMMETRIES

ARRAY = np.arange(12, dtype=np.uint8).reshape(3, 4)  # no two cells alike, no side alike


@pytest.mark.parametrize("name", SYMMETRIES)
def test_names_mean_what_albumentations_means(name):
    theirs = A.D4(p=1.0).apply(ARRAY, group_element=name)
    np.testing.assert_array_equal(symmetry.apply(name, ARRAY), theirs)


@pytest.mark.parametrize("name", SYMMETRIES)
def test_inverse_undoes_from_either_side(name):
    for first, second in ((name, symmetry.invert(name)), (symmetry.invert(name), name)):
        np.testing.assert_array_equal(symmetry.apply(second, symmetry.apply(first, ARRAY)), ARRAY)


@pytest.mark.parametrize("name", SYMMETRIES)
def test_leading_dimensions_stay(name):
    batch = np.arange(2 * 12).reshape(2, 3, 4)
    one_by_one = [symmetry.apply(name, one) for one in batch]
    np.testing.assert_array_equal(symmetry.apply(name, batch), one_by_one)
