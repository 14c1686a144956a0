"""RASP by its paper's examples, and each layout's program against the layout's own arithmetic."""

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import WorkedDrawing, draw_worked, row_steps
from canvas.sampling import sample
from canvas.task import Task
from trm.analysis.rasp import (
    FIRST_WRITTEN,
    NEIGHBOURS,
    Cells,
    Selector,
    aggregate,
    closest,
    select,
    true_of,
)
from trm.analysis.rasp_programs import LOOK_UP, PROGRAMS, run_program, write_row


def tokens(text: str) -> np.ndarray:
    return np.array(list(text))


def everything(values: np.ndarray) -> Selector:
    return true_of(values == values)


def as_text(values: np.ndarray) -> str:
    return "".join(values)


def test_reverse():
    letters = tokens("hello")
    length = everything(letters).width
    flip = select(np.arange(letters.shape[-1]), length - np.arange(letters.shape[-1]) - 1, np.equal)
    assert as_text(aggregate(flip, letters)) == "olleh"


def test_histogram():
    letters = tokens("hello")
    assert select(letters, letters, np.equal).width.tolist() == [1, 1, 2, 2, 1]


def test_sort_of_a_batch_with_equal_values():
    values = np.array([[3, 1, 2, 1], [9, 8, 7, 6]])
    position = np.arange(values.shape[-1])
    smaller = select(values, values, np.less)
    tied = select(values, values, np.equal) & select(position, position, np.less)
    rank = (smaller | tied).width
    ranked = aggregate(select(rank, position, np.equal), values)
    assert ranked.tolist() == [[1, 1, 2, 3], [6, 7, 8, 9]]


def test_the_share_of_a_letter_so_far_is_a_mean():
    letters = tokens("abaa")
    position = np.arange(letters.shape[-1])
    so_far = select(position, position, np.less_equal)
    share = aggregate(so_far, (letters == "a").astype(float))
    np.testing.assert_allclose(share, [1, 1 / 2, 2 / 3, 3 / 4])


def test_what_is_not_selected_does_not_reach_a_mean():
    itself = select(np.arange(2), np.arange(2), np.equal)
    assert aggregate(itself, np.array([1.0, np.inf])).tolist() == [1, np.inf]


def test_the_letter_before_by_the_closest_of_those_before():
    position = np.arange(3)
    before = select(position, position, np.less)
    assert aggregate(closest(before, position, position), tokens("abc"), "-").tolist() == [
        "-", "a", "b"
    ]  # fmt: skip


def test_not_and_and_or():
    position = np.arange(3)
    same, before = (select(position, position, rule) for rule in (np.equal, np.less))
    after = ~(same | before)
    assert after.width.tolist() == [2, 1, 0]
    assert not (after & before).chosen.any()


def test_a_selector_of_one_sequence_serves_a_batch():
    position = np.arange(3)
    shift = select(position, position - 1, np.equal)
    found = aggregate(shift, np.array([[4, 5, 6], [7, 8, 9]]), -1)
    assert found.tolist() == [[-1, 4, 5], [-1, 7, 8]]


def test_categories_that_agree_are_fetched_and_those_that_differ_are_refused():
    letters = tokens("abb")
    last_two = Selector(np.array([[False, True, True]] * 3))
    assert as_text(aggregate(last_two, letters)) == "bbb"
    with pytest.raises(ValueError, match="position 0 selects a and b, and there is no mean of"):
        aggregate(everything(letters), letters)


def test_nothing_selected_takes_the_default_and_without_one_is_refused():
    nothing = Selector(np.zeros((2, 2), dtype=bool))
    assert aggregate(nothing, np.array([5, 6]), -1).tolist() == [-1, -1]
    with pytest.raises(ValueError, match="position 0 selects nothing"):
        aggregate(nothing, np.array([5, 6]))


LAYOUTS = {**Multiplication.layouts, **Addition.layouts}
KNOWN = [layout for layout in PROGRAMS if layout in LAYOUTS]


def task_of(layout: str, base: int = 10, longest: int = 4) -> Task:
    if layout in Addition.layouts:
        most = min(4, base)  # carries are digits
        return Addition(layout=layout, base=base, digits=(1, longest), addends=(2, most))
    longest = (1, longest)
    return Multiplication(layout=layout, base=base, digits_a=longest, digits_b=longest)


def drawn(task: Task, problems: Problems) -> WorkedDrawing:
    """Problems anywhere on canvases with a spare row and two spare columns."""
    worked = task.rules.work(problems)
    height, width = int(worked.heights.max()) + 1, int(worked.widths.max()) + 2
    draw = np.random.default_rng(0)
    top = draw.integers(0, height - worked.heights + 1)
    left = draw.integers(0, width - worked.widths + 1)
    return draw_worked(worked, height, width, top, left)


def test_every_layout_has_a_program():
    assert set(LAYOUTS) <= set(PROGRAMS)


@pytest.mark.parametrize("base", [2, 3, 10])
@pytest.mark.parametrize("layout", KNOWN)
def test_the_program_writes_every_row_as_arithmetic_has_it(layout, base):
    task = task_of(layout, base)
    steps = row_steps(drawn(task, sample(task, 0, "train", 0, np.arange(60))))
    written, _ = write_row(layout, steps.inputs, base)
    wrong = (written != steps.labels).any(axis=(1, 2))
    assert len(wrong) >= 60
    assert np.flatnonzero(wrong).tolist() == []


@pytest.mark.parametrize("layout", KNOWN)
def test_longer_numbers_on_the_programs_own_rows(layout):
    task = task_of(layout, longest=8)
    longest = 2 if layout in Multiplication.layouts else 4
    problems = sample(task, 0, "test", 0, np.arange(4), (8,) * longest)
    drawing = drawn(task, problems)
    ran = run_program(layout, drawing, task.base)
    np.testing.assert_array_equal(ran.canvases, drawing.truth)
    assert len(ran.iterations) == drawing.steps.max()


@pytest.mark.parametrize(
    "operands",
    [(1, 1), (100, 1000), (1010, 100), (999, 999), (9, 9000), (1, 9999), (9999, 1), (5, 20)],
    ids=lambda pair: f"{pair[0]}x{pair[1]}",
)
@pytest.mark.parametrize("layout", [k for k in KNOWN if k in Multiplication.layouts])
def test_zeros_and_carries_all_along(layout, operands):
    drawing = drawn(task_of(layout), Problems.from_ints([operands]))
    ran = run_program(layout, drawing, 10)
    np.testing.assert_array_equal(ran.canvases, drawing.truth)


@pytest.mark.parametrize("layout", Addition.layouts)
def test_sums_of_zeros_and_carries_all_along(layout):
    for operands in [(0, 0), (999, 1), (0, 10), (99, 99, 99, 99)]:
        drawing = drawn(task_of(layout), Problems.from_ints([operands]))
        ran = run_program(layout, drawing, 10)
        np.testing.assert_array_equal(ran.canvases, drawing.truth)


def test_a_wrong_row_above_is_built_on():
    """The program reads the canvas: it does not work the problem out by itself."""
    drawing = drawn(task_of("lattice"), Problems.from_ints([(21, 34)]))
    steps = row_steps(drawing)
    shown = steps.inputs[1:2].copy()
    row = int(drawing.row_of_step(0)[0])
    digits = np.flatnonzero(shown[0, row, :-3] != symbols.BLANK)
    shown[0, row, digits[0]] += 1  # 84 becomes 94
    written, _ = write_row("lattice", shown, 10)
    was, now = (
        int(symbols.decode(canvas[0, row + 1]).strip("_").split("_")[0])
        for canvas in (steps.labels[1:], written)
    )
    assert (was, now) == (71, 72)


def test_the_lattice_needs_no_cell_that_a_model_that_works_in_order_cannot_see():
    drawing = drawn(task_of("lattice"), Problems.from_ints([(123, 45)]))
    used = set(run_program("lattice", drawing, 10).selectors)
    assert used == {"same row", "above", "right", "above left"}


@pytest.mark.parametrize("layout", KNOWN)
def test_programs_select_neighbours_and_rows_alone(layout):
    task = task_of(layout)
    drawing = drawn(task, sample(task, 0, "train", 0, np.arange(4)))
    used = set(run_program(layout, drawing, task.base).selectors) - set(NEIGHBOURS)
    more = {"same column", LOOK_UP} if layout == "running_sum" else set()
    assert used == {"same row"} | more


def test_a_carry_takes_an_iteration_for_each_cell_that_it_moves_on():
    few, many = (
        run_program("column", drawn(task_of("column"), Problems.from_ints([pair])), 10)
        for pair in ((1111, 1111), (9999, 1))
    )
    assert many.iterations[0] > few.iterations[0] + 3


def test_the_first_written_cell_in_each_direction():
    """The framed cell is the masked one in the middle."""
    text = "1_2_3/_____/4_._5/_____/6_7_8"
    canvas = np.stack([symbols.encode(row) for row in text.split("/")])
    found = {
        name: int(Cells(canvas[None], 10).at(name, Cells(canvas[None], 10).digit)[0, 12])
        for name in FIRST_WRITTEN
    }
    assert found == {
        "first written above left": 1,
        "first written above": 2,
        "first written above right": 3,
        "first written left": 4,
        "first written right": 5,
        "first written below left": 6,
        "first written below": 7,
        "first written below right": 8,
    }


def test_far_is_the_first_written_cell_that_is_no_neighbour():
    cells = Cells(symbols.encode(".12_3")[None, None], 10)
    assert cells.at("first written right", cells.digit)[0].tolist() == [1, 2, 3, 3, -1]
    assert cells.at("far right", cells.digit)[0].tolist() == [2, 3, 3, -1, -1]


def test_for_a_decoder_is_written_what_comes_before_a_cell_in_its_sequence():
    text = "1_2/345/_6_"
    canvas = np.stack([symbols.encode(row) for row in text.split("/")])
    order = np.array([2, 1, 0, 5, 4, 3, 8, 7, 6])  # row by row, each from the right
    cells = Cells(canvas[None], 10, order)
    for name, of_middle in {"right": 5, "left": -1, "below": -1, "above right": 2}.items():
        assert cells.at(f"first written {name}", cells.digit)[0, 4] == of_middle, name


def test_a_selector_or_a_layout_that_there_is_not_is_named():
    cells = Cells(symbols.encode("1.")[None, None], 10)
    with pytest.raises(ValueError, match="Did you mean above left"):
        cells.selector("above leftt")
    with pytest.raises(ValueError, match="no program of the layout Totals, only of standard"):
        write_row("Totals", symbols.encode("1.")[None, None], 10)


def test_a_rule_in_which_a_cell_depends_on_itself_is_refused():
    cells = Cells(symbols.encode("1.")[None, None], 10)
    with pytest.raises(ValueError, match="does not settle"):
        cells.settle(lambda values: values + 1, 0)
