"""RASP by its paper's examples, and each layout's program against the layout's own arithmetic."""

import numpy as np
import pytest
from drawings import LAYOUTS

from canvas.addition import Addition
from canvas.drawing import WorkedDrawing, row_steps
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.task import Task
from trm.extras.analysis.rasp import NEIGHBOURS, aggregate, select, true_of
from trm.extras.analysis.rasp_programs import LOOK_UP, run_program, write_row


def tokens(text: str) -> np.ndarray:
    return np.array(list(text))


def test_the_examples_of_the_paper():
    letters, position = tokens("hello"), np.arange(5)
    length = true_of(letters == letters).sum(axis=-1)
    flip = select(position, length - position - 1, np.equal)
    assert "".join(aggregate(flip, letters, "")) == "olleh"
    assert select(letters, letters, np.equal).sum(axis=-1).tolist() == [1, 1, 2, 2, 1]  # histogram
    values, position = np.array([[3, 1, 2, 1], [9, 8, 7, 6]]), np.arange(4)
    smaller = select(values, values, np.less)
    tied = select(values, values, np.equal) & select(position, position, np.less)
    ranked = aggregate(select((smaller | tied).sum(axis=-1), position, np.equal), values, 0)
    assert ranked.tolist() == [[1, 1, 2, 3], [6, 7, 8, 9]]  # sorted, equal values among them


def test_selectors_combine_and_a_mean_of_symbols_is_refused():
    position = np.arange(3)
    before, after = (select(position, position, rule) for rule in (np.less, np.greater))
    assert after.sum(axis=-1).tolist() == [2, 1, 0]
    assert not (after & before).any()
    last = select(position, position - 1, np.equal)
    assert aggregate(last, tokens("abc"), "-").tolist() == ["-", "a", "b"]
    found = aggregate(last, np.array([[4, 5, 6], [7, 8, 9]]), -1)
    assert found.tolist() == [[-1, 4, 5], [-1, 7, 8]]
    letters = tokens("abb")
    assert "".join(aggregate(np.array([[False, True, True]] * 3), letters, "")) == "bbb"
    with pytest.raises(ValueError, match="position 0 selects a and b, and there is no mean of"):
        aggregate(true_of(letters == letters), letters, "")
    nothing = np.zeros((2, 2), dtype=bool)
    assert aggregate(nothing, np.array([5, 6]), -1).tolist() == [-1, -1]


HARD = [(1, 1), (100, 1000), (1010, 100), (999, 999), (9, 9000), (1, 9999), (9999, 1), (5, 20)]
SUMS = [(0, 0), (999, 1), (0, 10), (99, 99, 99, 99)]


def task_of(layout: str, base: int = 10, longest: int = 4) -> Task:
    if layout in Addition.layouts:
        most = min(4, base)  # carries are digits
        return Addition(layout=layout, base=base, digits=(1, longest), addends=(2, most))
    ends = (1, longest)
    return Multiplication(layout=layout, base=base, digits_a=ends, digits_b=ends)


def drawn(task: Task, problems: Problems) -> WorkedDrawing:
    """Problems anywhere on canvases with a spare row and two spare columns."""
    heights, widths = task.canvas_layout.sizes(problems)
    height, width = int(heights.max()) + 1, int(widths.max()) + 2
    draw = np.random.default_rng(0)
    top = draw.integers(0, height - heights + 1)
    left = draw.integers(0, width - widths + 1)
    return task.canvas_layout.draw_worked(problems, height, width, top, left)


@pytest.mark.parametrize("base", [2, 3, 10])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_program_writes_every_correct_row(layout, base):
    task = task_of(layout, base)
    steps = row_steps(drawn(task, sample(task, 0, "train", 0, np.arange(20))))
    written, _ = write_row(layout, steps.inputs, base)
    wrong = (written != steps.labels).any(axis=(1, 2))
    assert len(wrong) >= 20
    assert np.flatnonzero(wrong).tolist() == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs_solve_longer_numbers_by_their_own_selectors(layout):
    task, multiplies = task_of(layout, longest=6), layout in Multiplication.layouts
    longer = sample(task, 0, "test", 0, np.arange(3), (6,) * (2 if multiplies else 4))
    for problems in (longer, Problems.from_ints(HARD if multiplies else SUMS)):
        drawing = drawn(task, problems)
        np.testing.assert_array_equal(run_program(layout, drawing, task.base), drawing.truth)
        used = {*write_row(layout, row_steps(drawing).inputs, task.base)[1].selectors}
        used -= set(NEIGHBOURS)
        more = {"same column", LOOK_UP} if layout == "running_sum" else set()
        assert used == {"same row"} | more
