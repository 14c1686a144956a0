import pytest

from trm.evaluation.statistics import Share
from trm.figures.studies import Found, Gathered, study_figure, study_lines, study_maps

LAYERS = "num_layers"


def setting(name: str, *rights: int, labels=None, columns=("4 x 4 digits",)) -> Gathered:
    """Each seed's right solutions of 100, of each size."""
    shares = [dict.fromkeys(columns, Share(right, 100)) for right in rights]
    seeds = [Found(some) for some in shares]
    return Gathered(name, labels or {}, 10, tuple(seeds))


def test_the_picture_has_a_mark_for_every_seed():
    held = [setting("a", 100, 50), setting("c", 25)]
    [by_setting] = study_figure({"near": held, "far": []}).axes
    assert [text.get_text() for text in by_setting.get_yticklabels()] == ["a", "c"]
    marks = [line for line in by_setting.lines if line.get_linestyle() == "None"]
    assert sorted(x for line in marks for x in line.get_xdata()) == [0.25, 0.5, 1]
    assert study_figure({"near": []}) is None


def test_two_axes_are_maps_with_the_spread_of_the_seeds():
    held = [
        setting("s2", 50, 100, labels={"size": "small", "base": "2"}, columns=("4", "8")),
        setting("l10", 25, labels={"size": "large", "base": "10"}, columns=("4", "8")),
    ]
    first, second = study_maps({"near": held, "far": []}).axes
    assert [first.get_title(), second.get_title()] == ["4", "8"]
    assert [text.get_text() for text in first.get_yticklabels()] == ["small", "large"]
    assert [text.get_text() for text in first.get_xticklabels()] == ["2", "10"]
    told = {text.get_text(): text.get_position() for text in first.texts}
    assert told == {"75.0\n50–100": (0, 0), "25.0": (1, 1)}
    assert first.images[0].get_array().filled(-1).tolist() == [[75, -1], [-1, 25]]
    assert study_maps({"near": []}) is None


def by_depth(width: str, **rights: tuple[int, ...]) -> list[Gathered]:
    return [
        setting(f"{width}, {n}", *some, labels={"width": width, LAYERS: n})
        for n, some in rights.items()
    ]


def test_depths_have_a_line_for_each_width_through_the_means_of_the_seeds():
    held = by_depth("48 channels", **{"4": (20, 40), "1": (20, 40), "8": (20, 40)})
    held += by_depth("96 channels", **{"1": (90,)})
    values = {one.name: float(one.labels[LAYERS]) for one in held}
    figure = study_lines({"near": held, "far": []}, LAYERS, values)
    [axes] = figure.axes
    first, *_ = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert list(first.get_ydata()) == pytest.approx([0.3] * 3)
    assert list(first.get_xdata()) == pytest.approx([0, 1, 2], abs=0.1)  # in order, a little apart
    marks = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert sorted(y for line in marks for y in line.get_ydata()) == [0.2] * 3 + [0.4] * 3 + [0.9]
    intervals = [bar.get_segments()[0][:, 1].tolist() for bar in axes.collections]
    assert list(Share(90, 100).interval) in intervals
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "4", "8"]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["48 channels", "96 channels"]
    assert study_lines({"near": []}, LAYERS, values) is None


def test_numbers_stand_in_order_and_sizes_in_rows_of_panels():
    sizes = tuple(f"{n} x 2 digits" for n in range(1, 7))
    held = [setting(n, 50, labels={LAYERS: n}, columns=sizes) for n in ("3", "1", "2", "5")]
    figure = study_lines({"near": held}, LAYERS, {one.name: float(one.name) for one in held})
    first = figure.axes[0]
    assert [text.get_text() for text in first.get_xticklabels()] == ["1", "2", "3", "5"]
    assert [axes.get_title("left") for axes in figure.axes] == list(sizes)
    assert first.get_gridspec().get_geometry() == (2, 3)
    assert not figure.legends  # a single line
