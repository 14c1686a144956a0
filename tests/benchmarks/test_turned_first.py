"""The benchmark of views that are turned before they are masked, on a model that knows nothing."""

import numpy as np
import pytest
from oracle import Oracle, Page

from augment.symmetry import SYMMETRIES
from augment.views import View, apply_views
from canvas.multiplication import Multiplication
from canvas.symbols import MASK


@pytest.fixture(scope="module")
def bench(program):
    return program("turned_first")


@pytest.mark.parametrize("turned_first", [False, True])
def test_turned_first_masks_upright_and_mirrored_rows_alone(bench, turned_first):
    task = Multiplication("standard")
    drawing = task.canvas_layout.draw_worked(task.problems([(321, 45)]), 9, 9, 1, 2)
    views = [View(name) for name in SYMMETRIES]
    predictor = Oracle()
    for view in views:
        truth = apply_views([view], drawing.truth)[0]
        predictor.pages.append(Page(truth, np.zeros_like(truth, bool), 0, view=view.symmetry))
    predictor.page = lambda shown: predictor.pages[0]
    bench.outcomes(predictor, drawing, [views], turned_first)
    for view, shown in zip(views, predictor.seen, strict=True):
        rows = apply_views([view] * 3, np.stack([drawing.cells_of_row(n)[0] for n in range(3)]))
        alike = ((shown == MASK) == rows).all()
        assert alike == (not turned_first or view.symmetry in ("e", "h"))
