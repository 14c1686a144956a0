import numpy as np

from trm.evaluation.statistics import Share
from trm.figures.row_errors import mark, row_errors_figure


def half(a: int, b: int) -> float:
    return 0.5


def all_right(a: int, b: int) -> float:
    return 1.0


def test_a_line_has_the_share_of_wrong_rows_of_two_operands_of_one_length(make_grid):
    grid = make_grid({"half": half}, [1, 2, 4], [2, 4], problems=100)
    (axes,) = row_errors_figure(grid).axes
    line = next(line for line in axes.lines if line.get_label() == "half")
    cells = {(cell["row"], cell["column"]): cell for cell in grid["models"][0]["cells"]}
    expected = []
    for n in (2, 4):
        right = cells[n, n]["rows_teacher_forced"]
        expected.append(1 - right["right"] / right["total"])
    np.testing.assert_allclose(line.get_ydata(), expected)
    np.testing.assert_allclose(line.get_xdata(), [2, 4])


def test_where_no_row_is_wrong_a_hollow_mark_stands_at_the_end_of_the_interval(make_grid):
    grid = make_grid({"all": all_right}, [4], [4], problems=100)
    (axes,) = row_errors_figure(grid).axes
    (mark,) = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    np.testing.assert_allclose(mark.get_ydata(), Share(0, 400).interval[1])


def test_without_two_operands_of_one_length_there_is_nothing_to_draw(make_grid):
    assert row_errors_figure(make_grid({"half": half}, [1, 2], [3, 4])) is None
    sums = make_grid({"half": half}, [2, 3], [2, 3], axes=("digits", "addends"))
    assert row_errors_figure(sums) is None


def test_no_two_marks_are_alike():
    assert len({tuple(mark(i).values()) for i in range(49)}) == 49
    assert len({mark(i)["color"] for i in range(7)}) == 7
