"""Effects of activation patching, drawn."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from canvas.symbols import encode
from trm.figures.patching import _DIFFERENT, _SCORED, patching_figure
from trm.probing.patching import Patching

A = np.stack([encode(line) for line in ("_12", "*_3", "_36")])
B = np.stack([encode(line) for line in ("_13", "*_3", "_39")])


THINGS = {
    "heads": tuple(f"head {i + 1}" for i in range(8)),
    "steps": ("z_H", "z_L", "all"),
}


def found(by: str, sites: int, width: int = 3) -> Patching:
    pages = np.pad(np.stack([A, B]), ((0, 0), (0, 0), (width - 3, 0)), constant_values=11)
    scored = np.zeros(pages.shape[1:], dtype=bool)
    scored[2, -1] = True
    shape = (sites, len(THINGS[by])) if by in THINGS else (sites, 3, width)
    effects = np.zeros(shape, dtype=np.float32)
    effects[0, -1] = 0.75
    effects[-1, 0] = -0.001
    if by not in THINGS:
        effects[:, 1, -1] = np.nan
    names = [f"layer {i + 1}" for i in range(sites)]
    return Patching(
        by, names, effects, pages, scored, (-1.0, 1.0), (True, True), THINGS.get(by, ())
    )


def drawn(by: str, sites: int = 3, width: int = 3) -> Figure:
    return patching_figure(found(by, sites, width), ("12 × 3", "13 × 3"), "why")


def maps_of(figure: Figure) -> list:
    """The pages of A and B, and then the maps."""
    return [axes for axes in figure.axes if axes.images]


@pytest.mark.parametrize(
    ("by", "sites", "width"),
    [
        ("cells", 1, 3),
        ("cells", 12, 8),
        ("rows", 5, 3),
        ("columns", 7, 40),
        ("heads", 30, 3),
        ("steps", 12, 3),
    ],
)
def test_every_site_has_its_place_and_none_overlaps_another(by, sites, width):
    figure = drawn(by, sites, width)
    texts = {text.get_text() for text in figure.texts}
    assert {"why", "A: 12 × 3", "B: 13 × 3", *(f"layer {i + 1}" for i in range(sites))} <= texts
    assert len(maps_of(figure)) == 2 + (1 if by in THINGS else sites)
    boxes = [axes.get_window_extent() for axes in figure.axes]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        for other in boxes[:i]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            up = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert across <= 0 or up <= 0


def test_cells_that_differ_are_framed_and_those_of_the_answer_in_black():
    for axes in maps_of(drawn("cells")):
        frames = {
            (round(f.get_y() + f.get_height() / 2), round(f.get_x() + f.get_width() / 2)): f
            for f in axes.patches
        }
        assert set(frames) == {(0, 2), (2, 2)}
        assert to_hex(frames[0, 2].get_edgecolor()) == _DIFFERENT.lower()
        assert to_hex(frames[2, 2].get_edgecolor()) == _SCORED.lower()


def test_a_map_shows_the_effects_under_the_symbols_of_a():
    *_, last = maps_of(drawn("cells"))
    effects = np.ma.filled(last.images[0].get_array(), np.nan)
    assert effects[2].tolist() == [0, 0, 0]
    assert np.isnan(effects[1, 2])
    assert "".join(text.get_text() for text in last.texts) == "12×336"
    assert last.images[0].norm.vmin == -last.images[0].norm.vmax


def test_heads_have_their_figures_and_none_is_minus_nothing():
    *_, heads = maps_of(drawn("heads"))
    written = [text.get_text() for text in heads.texts]
    assert written.count("0.75") == 1
    assert set(written) == {"0.75", "0.00"}
    assert [label.get_text() for label in heads.get_xticklabels()] == [
        f"head {i + 1}" for i in range(8)
    ]
