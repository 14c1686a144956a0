"""Boxes of cells."""

import numpy as np
import pytest

from canvas.boxes import bounding_box, ends, written_box
from canvas.symbols import BLANK


def test_ends_are_the_first_true_and_the_place_after_the_last():
    first, end = ends(np.array([[0, 1, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]], dtype=bool))
    assert first.tolist() == [1, 4, 0]
    assert end.tolist() == [4, 5, 5], "a line without any ends at its size"


def test_box_is_the_smallest_one_around_all_cells():
    cells = np.zeros((5, 7), dtype=bool)
    assert bounding_box(cells) == (slice(0, 5), slice(0, 7)), "of no cells the whole canvas"
    cells[1, 4] = cells[3, 2] = True
    assert bounding_box(cells) == (slice(1, 4), slice(2, 5))


def test_blank_canvas_has_no_written_box():
    canvas = np.full((3, 4), BLANK, dtype=np.uint8)
    with pytest.raises(ValueError, match="the canvas is blank"):
        written_box(canvas)
    canvas[2, 1] = 0
    assert written_box(canvas) == (slice(2, 3), slice(1, 2))
