"""The order of writing."""

import numpy as np

from canvas.cells.order import front_of, in_fronts
from canvas.cells.spec import NEIGHBOURS


def test_every_neighbour_is_in_an_earlier_wavefront():
    row, column = np.indices((5, 7)).reshape(2, -1)  # columns from the left
    fronts = front_of(row, 6 - column)
    for down, right in NEIGHBOURS.values():
        assert (front_of(row + down, 6 - (column + right)) < fronts).all()


def test_wavefronts_contain_each_cell_once_and_none_is_empty():
    fronts = np.array([4, 0, 9, 4, 0])
    assert [front.tolist() for front in in_fronts(fronts)] == [[1, 4], [0, 3], [2]]
    assert in_fronts(np.zeros(0, dtype=np.int64)) == []
