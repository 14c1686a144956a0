"""Checks of figures."""

from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def axes_of(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible()]


def assert_apart(figure: Figure) -> None:
    """Require that axes, title, note and legends lie on the figure, and that none overlap."""
    figure.draw_without_rendering()
    renderer, edge = figure.canvas.get_renderer(), figure.bbox
    boxes = [box for axes in axes_of(figure) if (box := axes.get_tightbbox(renderer)) is not None]
    boxes += [text.get_window_extent(renderer) for text in figure.texts if text.get_text()]
    boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
    for box in boxes:
        assert edge.x0 - 1 <= box.x0 < box.x1 <= edge.x1 + 1
        assert edge.y0 - 1 <= box.y0 < box.y1 <= edge.y1 + 1
    for one, other in combinations(boxes, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        up = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert across <= 1 or up <= 1, (one, other)
