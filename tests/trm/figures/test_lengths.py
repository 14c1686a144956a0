"""Accuracy against length."""

import pytest
from matplotlib.figure import Figure

from trm.evaluation.statistics import Share
from trm.figures.lengths import lengths_figure


def line(figure: Figure, label: str) -> tuple[list[float], list[float]]:
    (found,) = (one for one in figure.axes[0].lines if one.get_label() == label)
    return list(found.get_xdata()), list(found.get_ydata())


def band(figure: Figure, i: int = 0) -> dict[float, tuple[float, float]]:
    """Lowest and highest value of a band at each length."""
    found: dict[float, list[float]] = {}
    for x, y in figure.axes[0].collections[i].get_paths()[0].vertices:
        found.setdefault(float(x), []).append(float(y))
    return {x: (min(y), max(y)) for x, y in found.items()}


def falling(a: int, b: int) -> float:
    return 1 / max(a, b)


def test_a_line_for_each_setting_in_a_band_over_its_seeds_or_of_its_interval(make_grid):
    shares = {f"a, seed {i}": lambda a, b, i=i: (1.0, 0.5)[i] for i in (0, 1)}
    figure = lengths_figure(make_grid(shares | {"b": falling}, 4, 4, problems=100))
    assert line(figure, "a, mean of 2 seeds") == ([1, 2, 3, 4], [75] * 4)
    assert band(figure) == dict.fromkeys((1, 2, 3, 4), (50, 100))
    assert line(figure, "b")[1] == [100, 50, 33, 25]  # of problems with operands of one length
    low, high = Share(25, 100).interval
    assert band(figure, 1)[4] == pytest.approx((100 * low, 100 * high))
    trained = [one for one in figure.axes[0].lines if one.get_linestyle() == ":"]
    assert [one.get_xdata()[0] for one in trained] == [2, 2]  # of 3 x 2 digits
    assert "100 problems a cell" in figure.get_supxlabel()


@pytest.mark.parametrize(
    ("rows", "columns", "axes", "right", "trained"),
    [
        ([4], [1, 8], ("digits_a", "digits_b"), {4: 0.25, 8: 0.125}, 3),
        ([2, 4], [2, 3], ("digits", "addends"), {2: (0.5 + 1 / 3) / 2, 4: 0.25}, 3),
    ],
)
def test_other_sizes_are_pooled_by_the_longest_operand(
    make_grid, rows, columns, axes, right, trained
):
    figure = lengths_figure(make_grid({"b": falling}, rows, columns, problems=900, axes=axes))
    lengths, shares = line(figure, "b")
    assert dict(zip(lengths, shares, strict=True)) == pytest.approx(
        {n: 100 * share for n, share in right.items()}, abs=0.1
    )
    assert [one.get_xdata()[0] for one in figure.axes[0].lines if one.get_linestyle() == ":"] == [3]
