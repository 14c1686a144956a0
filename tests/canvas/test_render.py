import json
from pathlib import Path

import numpy as np
import pytest

from canvas import symbols
from canvas.layouts import LAYOUTS, get_layout
from canvas.problems import Problems, Task, keys, random_below, random_words, sample
from canvas.render import IGNORE, Drawing, draw, from_sequences, row_step, row_steps, sequences

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "canvases.json").read_text())
GPT = REFERENCE["gpt_ids"]

every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_reference_sequence = pytest.mark.parametrize(
    "case",
    REFERENCE["gpt_sequences"],
    ids=[f"{case['a']}x{case['b']}" for case in REFERENCE["gpt_sequences"]],
)


def drawn(
    name: str, a: int, b: int, height: int, width: int, top: int = 0, left: int = 0
) -> Drawing:
    problem = Problems.from_ints([(a, b)])
    return draw(get_layout(name).work(problem.a, problem.b), height, width, top, left)


def scattered(name: str, base: int = 10, count: int = 60) -> Drawing:
    """Random problems of mixed lengths, each anywhere on a canvas with room to spare."""
    task = Task(name, base, digits_a=(1, 7), digits_b=(1, 5))
    index = np.arange(count)
    problems = sample(task, 3, "train", 0, index)
    worked = task.rules.work(problems.a, problems.b)
    height, width = (cells + 4 for cells in task.extent())
    room = np.stack([height - worked.heights, width - worked.widths], axis=1) + 1
    offset = random_below(random_words(keys(3, "train", 1, index), 2), room)
    return draw(worked, height, width, top=offset[:, 0], left=offset[:, 1])


def reference_text(ids: list[int]) -> str:
    """A reference sequence as our characters, ``?`` where no loss counts."""
    characters = {GPT["*"]: "*", GPT["_"]: "_", GPT["#"]: "#", GPT["start"]: "^", GPT["end"]: "$"}
    characters |= {digit: str(digit) for digit in range(10)} | {GPT["ignore"]: "?"}
    return "".join(characters[i] for i in ids)


def our_text(ids: np.ndarray) -> str:
    return "".join("?" if i == IGNORE else symbols.CHARACTERS[i] for i in ids)


@every_layout
def test_a_working_lies_at_its_offset_and_the_rest_is_blank(layout):
    drawing = scattered(layout)
    task = Task(layout, digits_a=(1, 7), digits_b=(1, 5))
    problems = sample(task, 3, "train", 0, np.arange(len(drawing)))
    worked = task.rules.work(problems.a, problems.b)
    for i in range(len(drawing)):
        height, width = drawing.heights[i], drawing.widths[i]
        canvas = np.full(drawing.canvases.shape[1:], symbols.BLANK)
        given = np.zeros(canvas.shape, dtype=bool)
        top, left = drawing.top[i], drawing.left[i]
        place = np.s_[top : top + height, left : left + width]
        canvas[place] = worked.symbols[i, :height, :width]
        given[place] = worked.given[i, :height, :width]
        assert np.array_equal(drawing.canvases[i], canvas)
        assert np.array_equal(drawing.given[i], given)
    assert len(set(zip(drawing.top.tolist(), drawing.left.tolist(), strict=True))) > 5


def test_row_steps_are_the_reference_ones():
    for case in REFERENCE["row_steps"]:
        size = case["height"], case["width"]
        drawing = drawn("standard", case["a"], case["b"], *size, case["top"], case["left"])
        steps = row_steps(drawing)
        assert np.array_equal(steps.inputs, np.reshape(case["inputs"], (-1, *size)))
        assert np.array_equal(steps.labels, np.reshape(case["labels"], (-1, *size)))


@every_layout
def test_a_step_shows_the_rows_so_far_masks_the_next_and_hides_the_rest(layout):
    drawing = scattered(layout)
    steps = row_steps(drawing)
    assert len(steps.step) == drawing.steps.sum()
    for k, (i, step) in enumerate(zip(steps.problem, steps.step, strict=True)):
        finished, given = drawing.canvases[i], drawing.given[i]
        row = drawing.top[i] + drawing.first_step + step
        only_givens = np.where(given, finished, symbols.BLANK)
        for canvas in (steps.inputs[k], steps.labels[k]):
            assert np.array_equal(canvas[:row], finished[:row])
            assert np.array_equal(canvas[row + 1 :], only_givens[row + 1 :])
        assert np.array_equal(steps.labels[k, row], finished[row])
        masked = np.where(given[row], finished[row], symbols.MASK)
        assert np.array_equal(steps.inputs[k, row], masked)
        assert np.array_equal(steps.answer[k], steps.inputs[k] == symbols.MASK)
        assert steps.answer[k].sum() == drawing.canvases.shape[2] - given[row].sum()


def test_only_the_margin_digit_of_a_lattice_row_stays_in_sight():
    drawing = drawn("lattice", 321, 654, 6, 10, top=1, left=2)
    steps = row_steps(drawing)
    assert [symbols.decode(row) for row in steps.inputs[1]] == [
        "__________",
        "___321_*__",
        "__1284_4__",
        ".......5..",
        "_______6__",
        "__________",
    ]


@every_layout
def test_steps_run_through_every_problem_in_order(layout):
    drawing = scattered(layout)
    steps = row_steps(drawing)
    expected = [(i, k) for i, n in enumerate(drawing.steps) for k in range(n)]
    assert list(zip(steps.problem.tolist(), steps.step.tolist(), strict=True)) == expected


@every_layout
def test_one_step_of_each_problem_is_among_all_its_steps(layout):
    drawing = scattered(layout)
    chosen = np.arange(len(drawing)) % drawing.steps
    one, every = row_step(drawing, chosen), row_steps(drawing)
    where = np.cumsum(drawing.steps) - drawing.steps + chosen
    for name in ("inputs", "labels", "answer", "problem", "step"):
        assert np.array_equal(getattr(one, name), getattr(every, name)[where])
    assert one.inputs.dtype == one.labels.dtype == np.uint8
    assert one.answer.dtype == bool


@every_layout
def test_more_steps_than_are_drawn_at_once_are_drawn_alike(layout, monkeypatch):
    drawing = scattered(layout)
    at_once = row_steps(drawing)
    monkeypatch.setattr("canvas.render._BLOCK", 7 * drawing.canvases[0].size)
    in_blocks = row_steps(drawing)
    for name in ("inputs", "labels", "answer"):
        assert np.array_equal(getattr(at_once, name), getattr(in_blocks, name))


@every_layout
def test_answers_written_step_by_step_onto_the_unsolved_canvas_finish_it(layout):
    drawing = scattered(layout)
    canvases = drawing.unsolved()
    assert np.array_equal(canvases[drawing.given], drawing.canvases[drawing.given])
    assert (canvases[~drawing.given] == symbols.BLANK).all()
    for step in range(int(drawing.steps.max())):
        active = drawing.steps > step
        cells = drawing.answer_cells(step) & active[:, None, None]
        shown = row_step(drawing, np.minimum(step, drawing.steps - 1))
        assert np.array_equal(cells[active], shown.answer[active])
        canvases[cells] = drawing.canvases[cells]
    assert np.array_equal(canvases, drawing.canvases)


@every_reference_sequence
def test_sequences_are_the_reference_ones(case):
    layout = "running_sum" if case["with_add"] else "standard"
    size = case["height"], case["width"]
    width_drawn = drawn(layout, case["a"], case["b"], *size).widths[0]
    # The reference counts columns on the reversed canvas, where the lowest digit is at the left.
    left = case["width"] - case["left"] - width_drawn
    drawing = drawn(layout, case["a"], case["b"], *size, case["top"], left)
    ids, labels = sequences(drawing)
    assert our_text(ids[0]) == reference_text(case["train_inputs"])
    assert our_text(labels[0]) == reference_text(case["train_labels"])


@every_reference_sequence
def test_the_reference_prompt_is_a_drawing_at_the_top_cut_after_the_operands(case):
    layout = "running_sum" if case["with_add"] else "standard"
    size = case["height"], case["width"]
    whole, prompt = reference_text(case["prompt_labels"]), reference_text(case["prompt"])
    width_drawn = drawn(layout, case["a"], case["b"], *size).widths[0]
    lowest = len(whole) - len(whole.lstrip("_"))
    drawing = drawn(layout, case["a"], case["b"], *size, 0, case["width"] - lowest - width_drawn)
    ids, labels = sequences(drawing)
    cut = 1 + drawing.first_step * (case["width"] + 1)
    assert our_text(ids[0, :cut]) == prompt
    assert our_text(ids[0, 1:]) + "$" == whole
    assert our_text(labels[0, cut - 1 :]) == whole[cut - 1 :]


@every_layout
def test_labels_of_a_sequence_are_its_ids_one_place_on_after_the_operands(layout):
    drawing = scattered(layout)
    ids, labels = sequences(drawing)
    _, height, width = drawing.canvases.shape
    assert ids.shape == labels.shape == (len(drawing), height * (width + 1) + 1)
    assert ids.dtype == labels.dtype == np.int64
    counted = labels != IGNORE
    assert np.array_equal(ids[:, 1:][counted[:, :-1]], labels[:, :-1][counted[:, :-1]])
    assert (labels[:, -1] == symbols.END).all()
    expected = np.ones((len(drawing), height, width + 1), dtype=bool)
    for i, row in enumerate(drawing.top + drawing.first_step):
        expected[i, :row] = False
        expected[i, row:, :width] = ~drawing.given[i, row:, ::-1]
    assert np.array_equal(counted[:, :-1], expected.reshape(len(drawing), -1))


def test_no_loss_counts_the_margin_digits_that_a_lattice_sequence_cannot_know():
    _, labels = sequences(drawn("lattice", 321, 654, 5, 7))
    assert our_text(labels[0]) == "????????" + "_?_4821#_?_3371#_?_9902#_______#$"


@every_layout
def test_sequences_lead_back_to_their_canvases(layout):
    drawing = scattered(layout)
    _, height, width = drawing.canvases.shape
    ids, _ = sequences(drawing)
    assert np.array_equal(from_sequences(ids, height, width), drawing.canvases)
    with_end = np.concatenate([ids, np.full((len(ids), 1), symbols.END)], axis=1)
    assert np.array_equal(from_sequences(with_end, height, width), drawing.canvases)
    with_end[:, 3:5] = symbols.END
    assert (from_sequences(with_end, height, width)[:, 1:] == symbols.BLANK).all()


def test_what_is_missing_at_the_end_of_a_sequence_is_blank():
    drawing = drawn("standard", 12, 34, 7, 8)
    ids, _ = sequences(drawing)
    rows = 3
    canvas = from_sequences(ids[:, : 1 + rows * 9], 7, 8)[0]
    assert np.array_equal(canvas[:rows], drawing.canvases[0, :rows])
    assert (canvas[rows:] == symbols.BLANK).all()


@every_layout
def test_a_canvas_of_the_working_s_size_is_enough_and_one_cell_less_is_not(layout):
    height, width = get_layout(layout).extent(3, 2)
    assert drawn(layout, 999, 99, height, width).canvases.shape == (1, height, width)
    for size in ((height - 1, width), (height, width - 1)):
        needed = f"at least {height} x {width} .height x width., not {size[0]} x {size[1]}"
        with pytest.raises(ValueError, match=needed):
            drawn(layout, 999, 99, *size)


def test_a_working_pushed_over_the_edge_is_refused_with_the_size_it_needs():
    with pytest.raises(ValueError, match="at row 2, column 3 needs a canvas of at least 8 x 9"):
        drawn("standard", 321, 654, 7, 20, top=2, left=3)
    with pytest.raises(ValueError, match="use offsets from 0"):
        drawn("standard", 321, 654, 20, 20, left=-1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_shifted_drawing_is_one_drawn_elsewhere(layout):
    problems = Problems.from_ints([(321, 654), (7, 8)])
    worked = Task(layout).rules.work(problems.a, problems.b)
    here, there = draw(worked, 12, 12, top=1, left=2), draw(worked, 12, 12, [3, 0], [2, 5])
    moved = here.shifted(np.array([2, -1]), np.array([0, 3]))
    for name in ("canvases", "given", "top", "left"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(there, name))


def test_some_problems_of_a_drawing_in_any_order_and_number():
    problems = Problems.from_ints([(321, 654), (7, 8), (12, 9)])
    worked = Task("lattice").rules.work(problems.a, problems.b)
    drawing = draw(worked, 6, 8)
    some = drawing[np.array([2, 0, 2])]
    assert len(some) == 3
    np.testing.assert_array_equal(some.canvases, drawing.canvases[[2, 0, 2]])
    np.testing.assert_array_equal(some.steps, drawing.steps[[2, 0, 2]])
