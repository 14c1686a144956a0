import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from canvas.multiplication import Multiplication
from canvas.picture import to_terminal
from canvas.problems import Problems
from canvas.render import draw_worked, row_steps
from trm.figures.introspection import attention_figure, changes_figure


def shown(a: int, b: int) -> np.ndarray:
    """A canvas with its last row masked."""
    problems = Problems.from_ints([(a, b)])
    worked = Multiplication("lattice").rules.work(problems)
    height, width = int(worked.heights[0]) + 2, int(worked.widths[0]) + 2
    return row_steps(draw_worked(worked, height, width, 1, 1)).inputs[-1]


def attention(canvas: np.ndarray, heads: int = 8, layers: int = 2) -> Figure:
    maps = np.zeros((layers, heads, *canvas.shape))
    maps[:, :, 1, 3] = 1
    return attention_figure(canvas, (2, 3), maps, [f"layer {i}" for i in range(layers)], "why")


def maps_of(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.images]


@pytest.mark.parametrize("problem", [(7, 8), (12345678, 87654321), (10**14, 10**14)])
def test_symbols_are_large_enough_to_be_read(problem):
    figure = attention(shown(*problem))
    renderer = FigureCanvasAgg(figure).get_renderer()
    for axes in maps_of(figure)[:2]:
        digits = [text for text in axes.texts if text.get_text().isdigit()]
        assert digits
        assert min(text.get_window_extent(renderer).height for text in digits) >= 8
    assert figure.bbox.width <= 1000


def test_signs_are_those_of_the_terminal():
    canvas = shown(978, 65)
    (first, *_) = maps_of(attention(canvas))
    written = "".join(text.get_text() for text in first.texts)
    terminal = to_terminal(canvas).plain
    assert sorted(written) == sorted(terminal.replace("·", "").replace(" ", "").replace("\n", ""))


@pytest.mark.parametrize("heads", [1, 3, 8, 16])
def test_every_head_of_every_layer_has_a_map_and_none_overlaps_another(heads):
    figure = attention(shown(123, 456), heads)
    boxes = [axes.get_window_extent() for axes in maps_of(figure)]
    assert len(boxes) == 2 * heads
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        for other in boxes[:i]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            up = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert across <= 0 or up <= 0


def test_rows_at_the_edges_that_nobody_looks_at_are_left_out_and_the_frame_stays_in_place():
    canvas = shown(978, 65)
    (first, *_) = maps_of(attention(canvas))
    assert first.images[0].get_array().shape == (len(canvas) - 2, canvas.shape[1])
    (frame,) = first.patches
    assert (frame.get_x(), frame.get_y()) == (2.5, 0.5)  # of the canvas's row 2, column 3
    assert first.images[0].get_array()[0, 3] == 1


@pytest.mark.parametrize("rows", [1, 8, 16, 40])
def test_no_legend_hides_a_curve(rows):
    changes = {name: np.full((6, 3, rows), 0.1) for name in ("z_L", "z_H")}
    figure = changes_figure(changes, [f"row {i + 1}" for i in range(rows)], "why")
    FigureCanvasAgg(figure).draw()
    charts = [axes.get_window_extent() for axes in figure.axes if axes.lines]
    others = [legend.get_window_extent() for legend in figure.legends]
    others += [axes.get_window_extent() for axes in figure.axes if not axes.lines]
    assert (len(charts), len(others)) == (2, 1)
    assert not any(other.overlaps(chart) for other in others for chart in charts)
