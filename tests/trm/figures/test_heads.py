"""Effects of heads over many pairs, drawn."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from trm.figures.heads import heads_figure
from trm.probing.heads import HeadEffects


def drawn(kinds: int, layers: int, heads: int) -> Figure:
    mean = np.zeros((layers, heads))
    mean[0, -1], mean[-1, 0] = 0.75, -0.001
    found = [
        HeadEffects(
            f"kind {number}",
            "another digit",
            [f"loop 3, layer {layer}" for layer in range(layers)],
            mean.tolist(),
            (mean - 0.1).tolist(),
            (mean + 0.1).tolist(),
            [("2 x 3", "4 x 3", 1)],
            0,
        )
        for number in range(kinds)
    ]
    return heads_figure(found, "why")


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 2, 8), (2, 12, 12)])
def test_every_kind_has_its_map_and_none_overlaps_another(shape):
    figure = drawn(*shape)
    maps = [axes.get_window_extent() for axes in figure.axes if axes.get_xticklabels()][: shape[0]]
    texts = {text.get_text() for text in figure.texts}
    assert {"why", *(f"kind {n}: another digit (1 pairs)" for n in range(shape[0]))} <= texts
    for i, box in enumerate(maps):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert all(box.y1 < other.y0 for other in maps[:i])


def test_each_head_has_its_effect_with_the_interval_and_none_is_minus_nothing():
    figure = drawn(1, 2, 8)
    written = [text.get_text() for text in figure.axes[0].texts]
    assert written.count("0.75") == written.count("0.65 to 0.85") == 1
    assert "-0.00" not in written
    assert len(written) == 2 * 16
