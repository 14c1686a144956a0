import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from canvas import symbols
from trm.figures.rasp import overlap_figure, rasp_figure
from trm.rasp.overlap import Head, Overlap
from trm.rasp.page import NAMES, Page


def overlap(selector: str, share: float, used: bool) -> Overlap:
    return Overlap(selector, share, share, share, 0.25, 9, 3, used)


def heads(layers: int = 2, number: int = 8) -> list[Head]:
    """All look at the right, or now and then above."""
    told = [("right", 0.9, True), ("above", 0.1, True), ("itself", 0.05, False)]
    told += [(name, 0.2, False) for name in NAMES if name.startswith("far")]
    return [
        Head("state", layer, head, tuple(overlap(*one) for one in told))
        for layer in range(1, layers + 1)
        for head in range(1, number + 1)
    ]


def boxes(figure: Figure) -> list:
    FigureCanvasAgg(figure).draw()
    return [axes.get_window_extent() for axes in figure.axes if axes.images]


def test_each_head_stands_beside_its_selector():
    canvas = np.stack([symbols.encode(row) for row in ("_12_*", "....3")])
    page = Page(canvas[None], 10)
    attention = np.zeros((2, 8, 10, 10))
    attention[:, :, 7, 8] = 0.9  # the framed cell looks at the one on its right
    selectors = {name: page.selector(name) for name in NAMES}
    figure = rasp_figure(canvas, (1, 2), {"state": attention}, selectors, heads(), "why")
    maps = [axes for axes in figure.axes if axes.images]
    assert len(boxes(figure)) == 2 * 2 * 8
    chosen, seen = (axes.images[0].get_array() for axes in maps[:2])
    assert np.argwhere(chosen).tolist() == [[1, 3]] == np.argwhere(seen > 0).tolist()
    words = [text.get_text() for text in figure.texts]
    assert words.count("select right") == 16
    assert "head 8: 0.90 on it" in words


def test_the_table_marks_the_program_and_leaves_out_what_nobody_looks_at():
    figure = overlap_figure(heads(), "why")
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names[:2] == ["above *", "right *"]
    assert "itself" not in names
    assert len(names) == 10
    assert [label.get_text() for label in axes.get_yticklabels()][8] == "layer 2, head 1"
    assert len(axes.patches) == 16  # the best selector of each head
    assert {patch.get_x() for patch in axes.patches} == {0.5}


def test_no_name_of_a_selector_is_cut_off():
    figure = overlap_figure(heads(2, 4), "a longer title\non two lines")
    FigureCanvasAgg(figure).draw()
    labels = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert min(box.x0 for box in labels) >= 0
    assert max(box.x1 for box in labels) <= figure.bbox.width
    assert max(box.y1 for box in labels) <= figure.bbox.height
