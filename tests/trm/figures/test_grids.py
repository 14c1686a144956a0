import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from trm.figures.grids import comparison_figure, grid_figure


def right(a: int, b: int) -> float:
    """All right up to 3 x 2 digits, then falling."""
    return 1.0 if a <= 3 and b <= 2 else 0.8 / (1 + max(0, a - 3) + 2 * max(0, b - 2))


def half(a: int, b: int) -> float:
    return right(a, b) / 2


def short_only(a: int, b: int) -> float | None:
    return right(a, b) if b <= 3 else None


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_xlabel()]


def texts(axes: Axes, column: float, row: float) -> list[str]:
    """What is written in a cell, from top to bottom."""
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


def test_a_cell_is_coloured_by_its_share_and_says_it_with_its_interval(make_grid):
    figure = grid_figure(make_grid({"small $run_1$": right}, seed=7))
    (axes,) = panels(figure)
    assert image(axes).shape == (5, 4)  # digits of a down, digits of b across
    assert image(axes)[4, 1] == pytest.approx(100 * round(128 * 0.8 / 3) / 128)
    assert texts(axes, 1, 4) == ["27", "20–35"]
    assert texts(axes, 0, 0) == ["100", "68–100"]  # of eight problems
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("digits of b", "digits of a")
    for said in (
        "small $run_1$",
        "recursive, lattice, 188,322 parameters",
        "128 problems a cell (as few as 8 where lengths have no more), test split, seed 7",
        "Wilson, 95",
    ):
        assert said in words(figure)


def test_sizes_trained_on_are_outlined_and_named_by_their_measures(make_grid):
    axes = ("digits", "addends")
    (panel,) = panels(grid_figure(make_grid({"one": right}, 5, 4, ((2, 3), (1, 2)), axes=axes)))
    assert boxes(panel, hatched=False) == {(-0.5, 0.5, 2, 2)}
    assert (panel.get_ylabel(), panel.get_xlabel()) == axes


def test_cells_that_are_not_applicable_are_hatched_and_say_so(make_grid):
    figure = grid_figure(make_grid({"one": short_only, "two": right}))
    first, second = panels(figure)
    assert boxes(first, hatched=True) == {(2.5, row - 0.5, 1, 1) for row in range(5)}
    assert texts(first, 3, 2) == ["n/a"]
    assert np.isnan(image(first)[:, 3]).all()
    assert boxes(second, hatched=True) == set()
    assert "n/a: not applicable" in words(figure)
    figure = grid_figure(make_grid({"one": right}, 1, 1, problems=0))
    assert np.isnan(image(*panels(figure))).all()


@pytest.mark.parametrize(
    ("models", "digits_a", "digits_b", "compared"),
    [
        *((1, 1, 1, False), (1, 12, 12, False), (5, 5, 4, False), (2, 5, 4, True)),
        (4, 10, 3, True),
    ],
)
def test_nothing_is_cut_off_nothing_overlaps_and_numbers_fit(
    make_grid, assert_apart, models, digits_a, digits_b, compared
):
    names = [f"a-long-name-of-a-run/version_{i}/checkpoint" for i in range(models)]
    shares = {name: (right, half)[i % 2] for i, name in enumerate(names)}
    figure = (comparison_figure if compared else grid_figure)(make_grid(shares, digits_a, digits_b))
    assert_apart(figure)
    renderer = figure.canvas.get_renderer()
    for axes in panels(figure):
        cell = axes.get_window_extent(renderer).width / digits_b
        inside = [t for t in axes.texts if t.get_transform() == axes.transData]
        assert max(t.get_window_extent(renderer).width for t in inside) < cell
    assert len(panels(figure)) == models + (models - 1) * compared


def test_differences_stand_below_their_model_and_are_signed(make_grid):
    figure = comparison_figure(make_grid({"strong": right, "weak": half}))
    figure.draw_without_rendering()
    _, weak, difference = panels(figure)
    assert texts(difference, 0, 1) == ["−50", "−59 to −41"]
    assert image(difference)[1, 0] == pytest.approx(-50)
    assert difference.get_position().x0 == pytest.approx(weak.get_position().x0)
    assert difference.get_position().y1 < weak.get_position().y0
    low, high = difference.images[0].get_clim()
    assert -low == high >= 50
    assert "minus strong" in words(figure)
    other = comparison_figure(make_grid({"weak": half, "strong": right}))
    assert texts(panels(other)[-1], 0, 1)[0] == "+50"


def test_cells_whose_intervals_do_not_overlap_are_bold(make_grid):
    close = make_grid({"one": lambda a, b: 0.5, "two": lambda a, b: 0.9 if a == 3 else 0.55})
    *_, difference = panels(comparison_figure(close))
    bold = {round(t.get_position()[1]) for t in difference.texts if t.get_weight() == "bold"}
    assert bold == {2}


def test_a_difference_is_not_applicable_where_either_model_is_not(make_grid):
    for models in ({"a": right, "b": short_only}, {"a": short_only, "b": right}):
        *_, difference = panels(comparison_figure(make_grid(models)))
        assert boxes(difference, hatched=True) == {(2.5, row - 0.5, 1, 1) for row in range(5)}
        assert np.isnan(image(difference)[:, 3]).all()
