"""The logit lens, drawn."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from canvas.multiplication import Multiplication
from canvas.picture import HIGHLIGHT
from canvas.problems import Problems
from canvas.render import draw_worked, row_steps
from trm.figures.lens import _WRONG, lens_figure

NAME = "step 100, cycle 12, z_H, layer {}"  # the longest that there is


def drawn(lines: int = 2, operands: tuple[int, int] = (123, 45)) -> tuple[Figure, np.ndarray]:
    """A figure in which the first line has one wrong digit, and the true row."""
    worked = Multiplication("lattice").rules.work(Problems.from_ints([operands]))
    size = int(worked.heights[0]) + 2, int(worked.widths[0]) + 2
    steps = row_steps(draw_worked(worked, *size, 1, 1))
    canvas, truth, answer = steps.inputs[0], steps.labels[0], steps.answer[0]
    row = int(np.argwhere(answer)[0, 0])
    said = np.repeat(truth[row][None], lines, axis=0)
    said[0, 3] += 1
    log_probs = np.where(answer[row], np.log(0.9), np.nan) * np.ones((lines, 1))
    log_probs[0, 3] = np.log(0.2)
    names = [NAME.format(i + 1) for i in range(lines)]
    return lens_figure(canvas, truth[row], row, said, log_probs, names, "why"), truth[row]


def test_wrong_symbols_alone_are_framed():
    figure, _ = drawn()
    axes = figure.axes[0]
    (frame,) = axes.patches
    assert to_hex(frame.get_edgecolor()) == _WRONG.lower()
    assert frame.get_x() < 3 < frame.get_x() + frame.get_width()
    assert frame.get_y() < 0 < frame.get_y() + frame.get_height()


def test_colours_are_probabilities_and_the_true_row_and_givens_have_none():
    figure, truth = drawn()
    shown = np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)
    assert shown.shape == (3, len(truth))
    assert shown[0, 3] == pytest.approx(0.2)
    assert shown[1, 3] == pytest.approx(0.9)
    assert np.isnan(shown[2]).all()
    assert np.isnan(shown[:, -2]).all()  # the multiplier digit beside the row


@pytest.mark.parametrize(("lines", "operands"), [(1, (7, 8)), (72, (123, 45)), (6, (10**40, 3))])
def test_every_line_has_a_name_and_all_is_on_the_page(lines, operands):
    figure, _ = drawn(lines, operands)
    renderer = figure.canvas.get_renderer()
    texts = {text.get_text(): text for text in figure.texts}
    names = [NAME.format(i + 1) for i in range(lines)]
    assert {"why", "true", *names} <= set(texts)
    assert to_hex(texts["true"].get_color()) == HIGHLIGHT.lower()
    boxes = [texts[name].get_window_extent(renderer) for name in names]
    boxes += [axes.get_window_extent() for axes in figure.axes]
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    for above, below in pairwise(boxes[:lines]):
        assert above.y0 >= below.y1 - 1  # no name runs into the next
