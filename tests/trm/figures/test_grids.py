import numpy as np
import pytest
from looking import assert_apart
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from shares import right, short_only

from trm.evaluation.statistics import Share, reliability, risk_coverage
from trm.figures.confidence import trust_figure
from trm.figures.grids import (
    errors_figure,
    grid_figure,
    lengths_figure,
    steps_figure,
    write_files,
)


def half(a: int, b: int) -> float:
    return right(a, b) / 2


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_xlabel()]


def texts(axes: Axes, column: float, row: float) -> list[str]:
    """The lines written in a cell, from top to bottom."""
    said = [(t.get_position(), t.get_text()) for t in axes.texts]
    here = [(y, word) for (x, y), word in said if (x, round(y)) == (column, row)]
    return [word for _, word in sorted(here)]


def image(axes: Axes) -> np.ndarray:
    """The values that colour the cells."""
    return np.ma.filled(axes.images[0].get_array().astype(float), np.nan)


def boxes(axes: Axes, hatched: bool) -> set[tuple[float, ...]]:
    """Left, top, width and height of hatched cells, or of the outline."""
    found = [p for p in axes.patches if isinstance(p, Rectangle) and bool(p.get_hatch()) == hatched]
    return {(*box.get_xy(), box.get_width(), box.get_height()) for box in found}


def words(figure: Figure) -> str:
    """Everything but what stands in the cells."""
    said = [figure.get_suptitle(), figure.legends[0].get_title().get_text()]
    for axes in figure.axes:
        said += [axes.get_title(loc="left"), *(t.get_text() for t in axes.texts)]
    return " ".join(" ".join(said + [t.get_text() for t in figure.legends[0].get_texts()]).split())


def test_grid_cells_show_shares_and_outline_the_training_range(make_grid):
    figure = grid_figure(make_grid({"small $run_1$": right}, seed=7))
    (axes,) = panels(figure)
    assert image(axes).shape == (5, 4)  # digits of a down, digits of b across
    assert image(axes)[4, 1] == 50
    assert texts(axes, 1, 4) == ["50", "41–59"]
    assert texts(axes, 0, 0) == ["100", "68–100"]  # of eight problems
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("digits of b", "digits of a")
    for said in (
        "small $run_1$",
        "recursive, lattice",
        "188,322 parameters",
        "128 problems a cell (as few as 8 where lengths have no more), test split, seed 7",
        "Wilson, 95",
    ):
        assert said in words(figure)
    axes = ("digits", "addends")
    (panel,) = panels(grid_figure(make_grid({"one": right}, 5, 4, ((2, 3), (1, 2)), axes=axes)))
    assert boxes(panel, hatched=False) == {(-0.5, 0.5, 2, 2)}
    assert (panel.get_ylabel(), panel.get_xlabel()) == axes


def test_steps_are_drawn_by_length_beside_the_longest_chain(make_grid):
    grid = make_grid({"cells": right, "rows": half}, 3, 3)
    assert not grid.shows_steps
    for cell in grid.models[0]["cells"]:
        a, b = cell["row"], cell["column"]
        cell |= {"steps": 2.0 * a + b, "longest_chain": 3.0 * a + 2 * b}
    assert grid.shows_steps
    (axes,) = steps_figure(grid).axes
    found = {(line.get_linestyle(), *line.get_ydata()) for line in axes.lines}
    assert found == {("-", 3, 6, 9), ("--", 5, 10, 15), ("-", 6.5, 6.5, 6.5)}
    assert axes.get_ylabel() == "supervision steps of a row"  # of the second model


def test_steps_from_random_states_are_drawn(make_grid):
    grid = make_grid({"rows": half}, 3, 3)
    grid["settings"]["start"] = "noise"
    assert grid.shows_steps
    assert grid.settings_in_words(grid.models[0]) == "from random states"


def test_cells_that_are_not_applicable_are_hatched_and_labelled(make_grid):
    figure = grid_figure(make_grid({"one": short_only, "two": right}))
    first, second = panels(figure)
    assert boxes(first, hatched=True) == {(x, y - 0.5, 1, 1) for x in (1.5, 2.5) for y in range(5)}
    assert texts(first, 3, 2) == ["n/a"]
    assert np.isnan(image(first)[:, 2:]).all()
    assert boxes(second, hatched=True) == set()
    assert "n/a: not applicable" in words(figure)
    figure = grid_figure(make_grid({"one": right}, 1, 1, problems=0))
    assert np.isnan(image(*panels(figure))).all()


@pytest.mark.parametrize(("models", "digits_a", "digits_b"), [(1, 1, 1), (1, 12, 12), (5, 10, 3)])
def test_nothing_is_cut_off_nothing_overlaps_and_numbers_fit(make_grid, models, digits_a, digits_b):
    names = [f"a-long-name-of-a-run/version_{i}/checkpoint" for i in range(models)]
    shares = {name: (right, half)[i % 2] for i, name in enumerate(names)}
    figure = grid_figure(make_grid(shares, digits_a, digits_b))
    assert_apart(figure)
    renderer = figure.canvas.get_renderer()
    for axes in panels(figure):
        cell = axes.get_window_extent(renderer).width / digits_b
        inside = [t for t in axes.texts if t.get_transform() == axes.transData]
        assert max(t.get_window_extent(renderer).width for t in inside) < cell
    assert len(panels(figure)) == models


@pytest.mark.parametrize(("columns", "across"), [(5, 3), (10, 2), (30, 1)])
def test_a_line_of_heat_maps_is_legible_across_a_page(make_grid, columns, across):
    figure = grid_figure(make_grid(dict.fromkeys("abcde", right), 2, columns))
    assert {axes.get_gridspec().ncols for axes in panels(figure)} == {across}
    bars = [axes for axes in figure.axes if axes.get_title(loc="left") == "%"]
    assert len(bars) == 5 // across  # one for each line without an unused place
    numbers = [text for text in panels(figure)[0].texts if text.get_text() == "100"]
    page = 6.5 / figure.get_figwidth()  # a page of text is 6.5 inches wide
    assert page * min(text.get_fontsize() for text in numbers) > 4.5  # points


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


def test_each_setting_has_a_line_in_a_band_of_seeds_or_interval(make_grid):
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
    ("rows", "columns", "axes", "right"),
    [
        ([4], [1, 8], ("digits_a", "digits_b"), {4: 0.25, 8: 0.125}),
        ([2, 4], [2, 3], ("digits", "addends"), {2: (0.5 + 1 / 3) / 2, 4: 0.25}),
    ],
)
def test_sizes_are_pooled_by_the_longest(make_grid, rows, columns, axes, right):
    figure = lengths_figure(make_grid({"b": falling}, rows, columns, problems=900, axes=axes))
    lengths, shares = line(figure, "b")
    expected = {n: 100 * share for n, share in right.items()}
    assert dict(zip(lengths, shares, strict=True)) == pytest.approx(expected, abs=0.1)
    assert [one.get_xdata()[0] for one in figure.axes[0].lines if one.get_linestyle() == ":"] == [3]


def test_risk_curves_differ_without_colour():
    curve = risk_coverage(np.array([0.2, 0.9]), np.array([False, True]))
    bins = reliability(np.array([0.2, 0.9]), np.array([False, True]))
    figure = trust_figure({"a": curve, "b": curve}, {"b": bins})
    left, right, _ = figure.axes
    assert len({line.get_linestyle() for line in left.lines}) == 2
    assert len({to_hex(line.get_color()) for line in left.lines}) == 2
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["a: mean risk 25.00 %", "b: mean risk 25.00 %, calibration error 15.0 %"]
    assert right.lines[1].get_color() == left.lines[1].get_color()
    figure.canvas.draw()
    assert figure.legends[0].get_window_extent().y1 < left.get_tightbbox().y0  # hides nothing
    score = np.repeat([0.95, 0.85, 0.15], [100, 100, 3])
    right = np.arange(203) < 200
    curves, bins = {"rows": risk_coverage(score, right)}, {"rows": reliability(score, right)}
    _, axes, counts = trust_figure(curves, bins).axes
    _, line = axes.lines
    np.testing.assert_allclose(line.get_xydata(), [[15, 0], [85, 100], [95, 100]])
    low, high = axes.collections[0].get_segments()[0][:, 1]
    assert high - low > 40
    assert [bar.get_height() for bar in counts.patches] == [3, 100, 100]


def test_risk_curves_show_their_numbers_of_problems():
    def drawn(*numbers):
        found = [(np.linspace(0.1, 0.9, n), np.arange(n) % 3 > 0) for n in numbers]
        curves = {f"{i}, confidence": risk_coverage(*both) for i, both in enumerate(found)}
        bins = {f"{i}, confidence": reliability(*both) for i, both in enumerate(found)}
        figure = trust_figure(curves, bins)
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        return figure.axes[0].get_title(), texts

    title, labels = drawn(3, 120, 57)
    assert title == "If only the surest are answered"
    assert [label.partition(" problems, ")[0] for label in labels] == [
        "0, confidence: 3", "1, confidence: 120", "2, confidence: 57"
    ]  # fmt: skip
    title, labels = drawn(57, 57)
    assert title == "If only the surest are answered (57 problems)"
    assert not any("problems" in label for label in labels)


@pytest.mark.usefixtures("undrawn")
def test_kinds_of_errors_are_stacked_in_a_bar_per_cell(make_grid, tmp_path):
    grid = make_grid({"a-long-name-of-a-run/version_1": right, "two": right, "three": right}, 4, 2)
    counts = {"carry": 6, "ends": 0, "mine": 1, "other": 3}
    found = {kind: Share(n, 10).data() | {"chance": 0.1} for kind, n in counts.items()}
    assert errors_figure(grid) is None
    for model in grid["models"][:2]:
        for cell in model["cells"][-3:]:
            cell["errors"] = found
    figure = errors_figure(grid)
    assert_apart(figure)
    first, second = panels(figure)
    assert [label.get_text() for label in first.get_yticklabels()] == ["3 x 2", "4 x 1", "4 x 2"]
    bars = [(patch.get_x(), patch.get_width()) for patch in first.patches[:3]]
    assert np.allclose(bars, [(0, 60), (60, 10), (70, 30)])
    looks = {(to_hex(p.get_facecolor()), p.get_hatch()) for p in second.patches}
    assert len({colour for colour, _ in looks}) == len({hatch for _, hatch in looks}) == 3
    assert "10 of 128" in [text.get_text() for text in first.texts]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said[0].startswith("carry: a carry is dropped")
    assert said[2:] == ["mine", "other"]
    write_files(grid, tmp_path)
    assert (tmp_path / "errors.png").exists()
    write_files(make_grid({"one": right}, 2, 2), tmp_path)
    assert not (tmp_path / "errors.png").exists()
