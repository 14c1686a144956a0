import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from trm.figures.ranks import ranks_figure
from trm.probing.ranks import Rank


def test_each_matrix_has_a_panel_and_each_model_a_line():
    gpt = [Rank("weights", n, name, 8.0, 16) for n in (1, 2) for name in ("up", "down")]
    gpt += [Rank("states", n, "block" if n else "input", 4.0 + n, 16) for n in (0, 1, 2)]
    trm = [Rank("weights", 1, "up", 4.0, 16)]
    trm += [Rank("states", 1, name, 4.0, 16) for name in ("z_H", "z_L")]
    figure = ranks_figure({"gpt": gpt, "trm": trm})
    FigureCanvasAgg(figure).draw()
    up, down, states = figure.axes
    assert [axis.get_title() for axis in figure.axes] == [
        "feed-forward up", "feed-forward down", "states"
    ]  # fmt: skip
    assert up.lines[0].get_ydata().tolist() == [0.5, 0.5]
    assert states.lines[0].get_xdata().tolist() == [0, 1, 2]
    assert len(down.lines[1].get_xdata()) == 0  # a model without such a matrix
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["gpt", "trm, z_H", "trm, z_L"]


def test_nothing_is_no_picture():
    with pytest.raises(ValueError, match="no model has a feed-forward"):
        ranks_figure({"own": []})
