"""What the figures of a validation write."""

import numpy as np

from trm.figures.validation import size_figure, steps_figure


def test_each_size_shows_its_share_and_the_others_nothing():
    right = np.array([True, False, True, True, False])
    rows, columns = np.array([1, 1, 3, 3, 3]), np.array([2, 2, 1, 1, 1])
    [axes] = size_figure(rows, columns, right, ("digits", "addends")).axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("digits", "addends")
    written = {(text.get_position(), text.get_text()) for text in axes.texts}
    assert written == {((1, 0), "50"), ((0, 2), "67")}
    [image] = axes.images
    assert np.ma.masked_invalid(image.get_array()).count() == 2
    sizes = np.arange(1, 14)  # many are coloured and not written
    [axes] = size_figure(sizes, sizes, sizes > 5, ("digits of a", "digits of b")).axes
    assert not axes.texts


def test_rows_are_followed_beyond_trainings_steps():
    right = np.array([[False, False], [True, False], [True, True], [True, False]])
    [axes] = steps_figure(right, trained=2).axes
    curve, trained = axes.lines
    assert curve.get_xdata().tolist() == [1, 2, 3, 4]
    assert curve.get_ydata().tolist() == [0, 50, 100, 50]
    assert set(trained.get_xdata()) == {2}
