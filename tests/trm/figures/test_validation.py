"""What the figures of a validation write."""

import numpy as np

from trm.evaluation.statistics import Share
from trm.figures.validation import kind_figure, size_figure, steps_figure


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


def test_each_kind_of_row_has_its_bar():
    [axes] = kind_figure({"running sum": Share(9, 10), "answer": Share(1, 5)}).axes
    assert [text.get_text() for text in axes.texts] == ["90.0 % of 10", "20.0 % of 5"]
    assert [bar.get_width() for bar in axes.patches] == [90, 20]


def test_rows_are_followed_beyond_trainings_steps():
    right = np.array([[False, False], [True, False], [True, True], [True, False]])
    [axes] = steps_figure(right, trained=2).axes
    curve, trained = axes.lines
    assert curve.get_xdata().tolist() == [1, 2, 3, 4]
    assert curve.get_ydata().tolist() == [0, 50, 100, 50]
    assert set(trained.get_xdata()) == {2}
