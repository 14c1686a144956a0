import sys

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from canvas.picture import pixels
from trm.figures.heatmaps import comparison_figure, grid_figure, save_grid


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


def hatched(axes: Axes) -> set[tuple[float, float]]:
    """Hatched cells as (column, row)."""
    boxes = [p for p in axes.patches if isinstance(p, Rectangle) and p.get_hatch()]
    return {(box.get_x() + 0.5, box.get_y() + 0.5) for box in boxes}


def outline(axes: Axes) -> set[frozenset[tuple[float, float]]]:
    """Line segments of the outline, each as its two ends."""
    (line,) = [line for line in axes.lines if len(line.get_xdata()) > 2]
    x, y = (np.array(data).reshape(-1, 3)[:, :2] for data in line.get_data())
    return {frozenset(zip(*ends, strict=True)) for ends in zip(x, y, strict=True)}


def dots(axes: Axes) -> set[tuple[int, int]]:
    """Cells that bear a dot, as (column, row)."""
    return {
        (round(line.get_xdata()[0]), round(line.get_ydata()[0]))
        for line in axes.lines
        if line.get_marker() == "o"
    }


def words(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


def test_a_cell_is_coloured_by_its_share_and_says_it_with_its_interval(make_grid):
    (axes,) = panels(grid_figure(make_grid({"one": right})))
    assert image(axes).shape == (5, 4)  # digits of a down, digits of b across
    assert image(axes)[4, 1] == pytest.approx(100 * round(128 * 0.8 / 3) / 128)
    assert texts(axes, 1, 4) == ["27", "20–35"]
    assert texts(axes, 0, 0) == ["100", "68–100"]  # of eight problems
    assert axes.get_xlabel() == "digits of b"
    assert axes.get_ylabel() == "digits of a"


def test_a_grid_of_addition_is_labelled_by_its_own_measures(make_grid):
    grid = make_grid({"one": right}, trained=((1, 3), (2, 3)), axes=("digits", "addends"))
    figure = grid_figure(grid)
    (axes,) = panels(figure)
    assert axes.get_ylabel() == "digits"
    assert axes.get_xlabel() == "addends"
    assert "recursive, column, 188,322 parameters" in words(figure)
    assert len(outline(axes)) == 2 * (3 + 2)  # three lengths by two numbers of addends


def test_hundred_and_nought_are_kept_for_all_and_none(make_grid):
    almost = make_grid({"one": lambda a, b: {1: 0.999, 2: 0.001, 3: 0.0}[a]}, 3, [2], problems=1000)
    (axes,) = panels(grid_figure(almost))
    assert [texts(axes, 0, row)[0] for row in range(3)] == [">99", "<1", "0"]


def test_lengths_trained_on_are_outlined_as_one_region(make_grid):
    (axes,) = panels(grid_figure(make_grid({"one": right}, 5, 4, ((2, 3), (1, 2)))))
    around = {frozenset({(x, y), (x + 1, y)}) for x in (-0.5, 0.5) for y in (0.5, 2.5)}
    around |= {frozenset({(x, y), (x, y + 1)}) for x in (-0.5, 1.5) for y in (0.5, 1.5)}
    assert outline(axes) == around


def test_cells_that_are_not_applicable_are_hatched_and_say_so(make_grid):
    figure = grid_figure(make_grid({"one": short_only, "two": right}))
    first, second = panels(figure)
    assert hatched(first) == {(3, row) for row in range(5)}
    assert texts(first, 3, 2) == ["n/a"]
    assert np.isnan(image(first)[:, 3]).all()
    assert hatched(second) == set()
    assert "n/a: not applicable" in [t.get_text() for t in figure.legends[0].get_texts()]


def test_a_cell_without_problems_is_blank(make_grid):
    (axes,) = panels(grid_figure(make_grid({"one": right}, 1, 1, problems=0)))
    assert np.isnan(image(axes)).all()
    assert list(axes.texts) == []


def test_all_panels_share_one_scale_and_one_colour_bar(make_grid):
    figure = grid_figure(make_grid({"strong": right, "weak": lambda a, b: 0.01}))
    assert [axes.images[0].get_clim() for axes in panels(figure)] == [(0, 100)] * 2
    assert len(figure.axes) == 3


def test_any_other_share_can_be_drawn(make_grid):
    grid = make_grid({"one": right})
    (axes,) = panels(grid_figure(grid, "rows_teacher_forced"))
    counts = grid["models"][0]["cells"][-1]["rows_teacher_forced"]
    assert image(axes)[4, 3] == pytest.approx(100 * counts["right"] / counts["total"])


def test_figure_says_who_and_which_problems(make_grid):
    grid = make_grid({"small $run_1$": right}, seed=7)
    said = words(grid_figure(grid))
    assert "small $run_1$\nrecursive, lattice, 188,322 parameters" in said
    said = said.replace("\n", " ")
    assert "128 problems a cell (as few as 8 where lengths have no more), test split" in said
    assert "seed 7" in said
    assert "Wilson, 95" in said


def luminance(colour) -> float:
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_numbers_stand_out_from_every_colour_and_colours_stay_in_order_when_grey(make_grid):
    shares = [n / 20 for n in range(21)]
    grid = make_grid({"one": lambda a, b: shares[a - 1]}, 21, [2], problems=200)
    (axes,) = panels(grid_figure(grid))
    colours = axes.images[0].to_rgba(image(axes)[:, 0])[:, :3]
    for row, colour in enumerate(colours):
        (text,) = [t for t in axes.texts if round(t.get_position()[1]) == row]
        dark, light = sorted(luminance(c) + 0.05 for c in (text.get_color(), colour))
        assert light / dark > 3, (row, light / dark)
    assert (np.diff([luminance(colour) for colour in colours]) > 0).all()


@pytest.mark.parametrize(
    ("models", "digits_a", "digits_b"),
    [(1, 1, 1), (1, 5, 4), (1, 20, 20), (2, 2, 12), (4, 10, 3), (5, 5, 4), (9, 1, 1)],
)
def test_nothing_is_cut_off_and_no_panel_overlaps_another(make_grid, models, digits_a, digits_b):
    names = [f"a-long-name-of-a-run/version_{i}/checkpoint" for i in range(models)]
    figure = grid_figure(make_grid(dict.fromkeys(names, right), digits_a, digits_b))
    renderer = FigureCanvasAgg(figure).get_renderer()
    edge = figure.bbox
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    boxes += [text.get_window_extent(renderer) for text in figure.texts]
    boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
    for i, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= edge.x1
        assert box.y1 <= edge.y1
        for other in boxes[:i]:
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            up = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert across <= 1 or up <= 1, (box, other)
    assert len(panels(figure)) == models


def test_numbers_stay_within_their_cells(make_grid):
    for size, models in ((10, 1), (20, 1), (8, 4), (10, 4), (20, 4)):
        shares = {f"m{i}": (right, half)[i % 2] for i in range(models)}
        grid = make_grid(shares, [1, size], range(1, size + 1))
        figure = comparison_figure(grid) if models > 1 else grid_figure(grid)
        renderer = FigureCanvasAgg(figure).get_renderer()
        for axes in panels(figure)[:3:2]:  # shares, and differences in bold
            cell = axes.get_window_extent(renderer).width / size
            assert max(t.get_window_extent(renderer).width for t in axes.texts) < cell


def test_a_single_panel_of_ten_by_ten_is_as_wide_as_a_column_of_text(make_grid, tmp_path):
    save_grid(tmp_path / "grid.png", make_grid({"one": right}, 10, 10))
    with Image.open(tmp_path / "grid.png") as saved:
        assert 700 <= saved.width <= 900
        assert saved.format == "PNG"


def test_figure_is_an_image_for_tensorboard_and_pyplot_stays_out(make_grid):
    before = "matplotlib.pyplot" in sys.modules
    drawn = pixels(grid_figure(make_grid({"one": right})))
    assert drawn.dtype == np.uint8
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_differences_stand_below_their_model_and_are_signed(make_grid):
    figure = comparison_figure(make_grid({"strong": right, "weak": half}))
    _, weak, difference = panels(figure)
    assert texts(difference, 0, 1) == ["−50", "−59 to −41"]
    assert image(difference)[1, 0] == pytest.approx(-50)
    assert difference.get_position().x0 == pytest.approx(weak.get_position().x0)
    assert difference.get_position().y1 < weak.get_position().y0
    low, high = difference.images[0].get_clim()
    assert low == -high
    assert high >= 50
    assert "weak\nminus strong" in words(figure)


def test_the_place_below_the_reference_tells_how_to_read_differences_and_sums_them_up(make_grid):
    figure = comparison_figure(make_grid({"strong": right, "weak": half}))
    assert "The reference" in words(figure)
    (chart,) = [axes for axes in figure.axes if axes.get_title(loc="left")]
    regions = [label.get_text() for label in chart.get_yticklabels()]
    assert regions == ["in range", "first beyond", "second beyond", "both beyond"]
    (points,) = [line for line in chart.lines if line.get_marker() == "o"]
    assert points.get_xdata()[0] == pytest.approx(-50, abs=1)
    (bars,) = chart.collections
    for (start, end), value in zip(bars.get_segments(), points.get_xdata(), strict=True):
        assert start[0] < value < end[0]


@pytest.mark.parametrize(("models", "size"), [(2, 1), (2, 6), (4, 6), (9, 6), (3, 12)])
def test_what_stands_below_the_reference_is_cut_nowhere(make_grid, models, size):
    figure = comparison_figure(make_grid({f"m{i}": right for i in range(models)}, size, size))
    renderer = FigureCanvasAgg(figure).get_renderer()
    charts = [axes for axes in figure.axes if axes.get_title(loc="left")]
    boxes = [axes.get_tightbbox(renderer) for axes in charts]
    others = [axes.get_tightbbox(renderer) for axes in panels(figure)]
    others += [text.get_window_extent(renderer) for text in figure.texts]
    others += [legend.get_window_extent(renderer) for legend in figure.legends]
    assert not any(box.overlaps(other) for box in boxes for other in others)
    assert len(boxes) == (size > 1 and models < 9)  # where there is room


def test_any_model_can_be_the_reference(make_grid):
    figure = comparison_figure(make_grid({"strong": right, "weak": half}), "weak")
    assert texts(panels(figure)[1], 0, 1)[0] == "+50"
    assert "minus weak" in words(figure)


def test_cells_whose_intervals_do_not_overlap_are_bold_and_bear_a_dot(make_grid):
    close = make_grid({"one": lambda a, b: 0.5, "two": lambda a, b: 0.9 if a == 3 else 0.55})
    *_, difference = panels(comparison_figure(close))
    assert dots(difference) == {(column, 2) for column in range(4)}
    bold = {round(t.get_position()[1]) for t in difference.texts if t.get_weight() == "bold"}
    assert bold == {2}


def test_a_difference_is_not_applicable_where_either_model_is_not(make_grid):
    for models in ({"a": right, "b": short_only}, {"a": short_only, "b": right}):
        *_, difference = panels(comparison_figure(make_grid(models)))
        assert hatched(difference) == {(3, row) for row in range(5)}
        assert np.isnan(image(difference)[:, 3]).all()


def test_misuse_is_refused(make_grid):
    grid = make_grid({"one": right})
    with pytest.raises(ValueError, match=r"figure_of must be one of solutions.*'solution'"):
        grid_figure(grid, "solution")
    with pytest.raises(ValueError, match="at least two models"):
        comparison_figure(grid)
    with pytest.raises(ValueError, match="without models"):
        grid_figure(grid | {"models": []})
