import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import Problems, keys, random_below, random_words
from canvas.render import (
    IGNORE,
    Drawing,
    WorkedDrawing,
    draw,
    draw_worked,
    from_sequences,
    row_step,
    row_steps,
    sequences,
    to_sequences,
    tokens_to_write,
)
from canvas.sampling import sample
from canvas.task import Task

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "canvases.json").read_text())
GPT = REFERENCE["gpt_ids"]

LAYOUTS = Multiplication.layouts | Addition.layouts

every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_reference_sequence = pytest.mark.parametrize(
    "case",
    REFERENCE["gpt_sequences"],
    ids=[f"{case['a']}x{case['b']}" for case in REFERENCE["gpt_sequences"]],
)


def drawn(
    name: str, operands: tuple[int, ...], height: int, width: int, top: int = 0, left: int = 0
) -> WorkedDrawing:
    worked = LAYOUTS[name].work(Problems.from_ints([operands]))
    return draw_worked(worked, height, width, top, left)


def width_used(name: str, operands: tuple[int, ...]) -> int:
    """Columns of a solution from its first symbol to its last."""
    truth = LAYOUTS[name].work(Problems.from_ints([operands])).truth[0]
    columns = np.flatnonzero((truth != symbols.BLANK).any(axis=0))
    return columns[-1] - columns[0] + 1


def task_of(name: str, base: int = 10) -> Task:
    """A task of mixed lengths, and of mixed numbers of operands, in that layout."""
    if name in Addition.layouts:
        return Addition(name, base, digits=(1, 7), addends=(2, 6))
    return Multiplication(name, base, digits_a=(1, 7), digits_b=(1, 5))


def scattered(name: str, base: int = 10, count: int = 60) -> WorkedDrawing:
    """Random problems of mixed lengths, each anywhere on a canvas with room to spare."""
    task = task_of(name, base)
    index = np.arange(count)
    worked = task.rules.work(sample(task, 3, "train", 0, index))
    height, width = (cells + 4 for cells in task.extent())
    room = np.stack([height - worked.heights, width - worked.widths], axis=1) + 1
    offset = random_below(random_words(keys(3, "train", 1, index), 2), room)
    return draw_worked(worked, height, width, top=offset[:, 0], left=offset[:, 1])


def reference_text(ids: list[int]) -> str:
    """A reference sequence as our characters, ``?`` where no loss counts."""
    characters = {GPT["*"]: "*", GPT["_"]: "_", GPT["#"]: "#", GPT["start"]: "^", GPT["end"]: "$"}
    characters |= {digit: str(digit) for digit in range(10)} | {GPT["ignore"]: "?"}
    return "".join(characters[i] for i in ids)


def our_text(ids: np.ndarray) -> str:
    return "".join("?" if i == IGNORE else symbols.CHARACTERS[i] for i in ids)


@every_layout
def test_a_solution_lies_at_its_offset_and_the_rest_is_blank(layout):
    drawing = scattered(layout)
    task = task_of(layout)
    worked = task.rules.work(sample(task, 3, "train", 0, np.arange(len(drawing))))
    for i in range(len(drawing)):
        height, width = drawing.heights[i], drawing.widths[i]
        top, left = drawing.top[i], drawing.left[i]
        place = np.s_[top : top + height, left : left + width]
        for there, part, empty in (
            (drawing.canvases, worked.symbols, symbols.BLANK),
            (drawing.truth, worked.truth, symbols.BLANK),
            (drawing.given, worked.given, False),
        ):
            expected = np.full(there.shape[1:], empty)
            expected[place] = part[i, :height, :width]
            assert np.array_equal(there[i], expected)
    assert len(set(zip(drawing.top.tolist(), drawing.left.tolist(), strict=True))) > 5


@every_layout
def test_a_drawn_prompt_is_a_drawn_solution_without_its_truth(layout):
    task = task_of(layout)
    problems = sample(task, 3, "train", 0, np.arange(40))
    size = [cells + 1 for cells in task.extent()]
    prompt = draw(task.rules.prompt(problems), *size, top=1, left=1)
    worked = draw_worked(task.rules.work(problems), *size, top=1, left=1)
    assert type(prompt) is Drawing
    for field in fields(Drawing):
        assert np.array_equal(getattr(prompt, field.name), getattr(worked, field.name))
    assert np.array_equal(tokens_to_write(prompt), tokens_to_write(worked))


def test_row_steps_are_the_reference_ones():
    for case in REFERENCE["row_steps"]:
        size = case["height"], case["width"]
        pair = case["a"], case["b"]
        # The reference counts from the first symbol; we from the space that any answer may need.
        spare = LAYOUTS["standard"].work(Problems.from_ints([pair])).widths[0]
        spare -= width_used("standard", pair)
        wide = case["height"], case["width"] + spare
        steps = row_steps(drawn("standard", pair, *wide, case["top"], case["left"]))
        expected = np.reshape(case["inputs"], (-1, *size))
        assert np.array_equal(steps.inputs[:, :, spare:], expected)
        expected = np.reshape(case["labels"], (-1, *size))
        assert np.array_equal(steps.labels[:, :, spare:], expected)


@every_layout
def test_a_step_shows_the_rows_so_far_masks_the_next_and_hides_the_rest(layout):
    drawing = scattered(layout)
    steps = row_steps(drawing)
    expected = [(i, k) for i, n in enumerate(drawing.steps) for k in range(n)]
    assert list(zip(steps.problem.tolist(), steps.step.tolist(), strict=True)) == expected
    for k, (i, step) in enumerate(zip(steps.problem, steps.step, strict=True)):
        finished, given = drawing.truth[i], drawing.given[i]
        row = drawing.top[i] + drawing.first_step[i] + step
        only_givens = drawing.canvases[i]
        assert np.array_equal(only_givens, np.where(given, finished, symbols.BLANK))
        for canvas in (steps.inputs[k], steps.labels[k]):
            assert np.array_equal(canvas[:row], finished[:row])
            assert np.array_equal(canvas[row + 1 :], only_givens[row + 1 :])
        assert np.array_equal(steps.labels[k, row], finished[row])
        masked = np.where(given[row], finished[row], symbols.MASK)
        assert np.array_equal(steps.inputs[k, row], masked)
        assert np.array_equal(steps.answer[k], steps.inputs[k] == symbols.MASK)
        assert steps.answer[k].sum() == drawing.canvases.shape[2] - given[row].sum()


@every_layout
def test_one_step_of_each_problem_is_among_all_its_steps_drawn_at_once_or_in_blocks(
    layout, monkeypatch
):
    drawing = scattered(layout)
    chosen = np.arange(len(drawing)) % drawing.steps
    one, every = row_step(drawing, chosen), row_steps(drawing)
    monkeypatch.setattr("canvas.render._BLOCK", 7 * drawing.canvases[0].size)
    in_blocks = row_steps(drawing)
    where = np.cumsum(drawing.steps) - drawing.steps + chosen
    for name in ("inputs", "labels", "answer", "problem", "step"):
        assert np.array_equal(getattr(one, name), getattr(every, name)[where])
        assert np.array_equal(getattr(every, name), getattr(in_blocks, name))
    assert one.inputs.dtype == one.labels.dtype == np.uint8
    assert one.answer.dtype == bool


@every_layout
def test_answers_written_step_by_step_onto_the_unsolved_canvas_finish_it(layout):
    drawing = scattered(layout)
    canvases = drawing.canvases.copy()
    assert np.array_equal(canvases[drawing.given], drawing.truth[drawing.given])
    assert (canvases[~drawing.given] == symbols.BLANK).all()
    for step in range(int(drawing.steps.max())):
        active = drawing.steps > step
        cells = drawing.answer_cells(step) & active[:, None, None]
        shown = row_step(drawing, np.minimum(step, drawing.steps - 1))
        assert np.array_equal(cells[active], shown.answer[active])
        canvases[cells] = drawing.truth[cells]
    assert np.array_equal(canvases, drawing.truth)


@every_layout
def test_a_row_is_right_when_every_cell_of_it_is(layout):
    drawing = scattered(layout)
    steps = np.arange(drawing.steps.max()) < drawing.steps[:, None]
    assert np.array_equal(drawing.rows_right(drawing.truth), steps)
    assert not drawing.rows_right(np.full_like(drawing.truth, symbols.MASK)).any()
    one = np.arange(len(drawing))
    step, column = one % drawing.steps, one % drawing.truth.shape[2]
    flawed = drawing.truth.copy()
    flawed[one, drawing.row_of_step(step), column] = symbols.MASK
    steps[one, step] = False
    assert np.array_equal(drawing.rows_right(flawed), steps)


@every_reference_sequence
def test_sequences_are_the_reference_ones(case):
    layout = "running_sum" if case["with_add"] else "standard"
    size = case["height"], case["width"]
    pair = case["a"], case["b"]
    width_drawn = drawn(layout, pair, *size).widths[0]
    # The reference counts columns on the reversed canvas, where the lowest digit is at the left.
    left = case["width"] - case["left"] - width_drawn
    drawing = drawn(layout, pair, *size, case["top"], left)
    ids, labels = sequences(drawing)
    assert our_text(ids[0]) == reference_text(case["train_inputs"])
    assert our_text(labels[0]) == reference_text(case["train_labels"])


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
    assert np.array_equal(tokens_to_write(drawing)[:, 1:], counted)
    assert not tokens_to_write(drawing)[:, 0].any(), "the start symbol is given"


def test_no_loss_counts_the_margin_digits_that_a_lattice_sequence_cannot_know():
    _, labels = sequences(drawn("lattice", (321, 654), 5, 7))
    assert our_text(labels[0]) == "????????" + "_?_4821#_?_3371#_?_9902#_______#$"


def test_a_sum_as_a_sequence_is_its_addends_from_the_right_then_carries_and_sum():
    drawing = drawn("column_carries", (87, 604, 9), 6, 5, left=1)
    ids, labels = sequences(drawing)
    assert our_text(ids[0]) == "^78___#406__#9_+__#_21__#007__#_____#"
    assert our_text(labels[0]) == "?" * 18 + "_21__#007__#_____#$"


@every_layout
def test_sequences_lead_back_to_their_canvases(layout):
    drawing = scattered(layout)
    _, height, width = drawing.canvases.shape
    ids, _ = sequences(drawing)
    assert np.array_equal(from_sequences(ids, height, width), drawing.truth)
    with_end = np.concatenate([ids, np.full((len(ids), 1), symbols.END)], axis=1)
    assert np.array_equal(from_sequences(with_end, height, width), drawing.truth)
    with_end[:, 3:5] = symbols.END
    assert (from_sequences(with_end, height, width)[:, 1:] == symbols.BLANK).all()
    first_rows = from_sequences(ids[:, : 1 + 3 * (width + 1)], height, width)
    assert np.array_equal(first_rows[:, :3], drawing.truth[:, :3])
    assert (first_rows[:, 3:] == symbols.BLANK).all()
    prompts = to_sequences(drawing.canvases)
    assert np.array_equal(from_sequences(prompts, height, width), drawing.canvases)


@every_layout
def test_a_canvas_of_the_solution_s_size_is_enough_and_one_cell_less_is_not(layout):
    height, width = LAYOUTS[layout].room((3, 2), 10)
    problem = Problems.from_ints([(999, 99)])
    for drawer, part in ((draw, LAYOUTS[layout].prompt), (draw_worked, LAYOUTS[layout].work)):
        assert drawer(part(problem), height, width).canvases.shape == (1, height, width)
        for size in ((height - 1, width), (height, width - 1)):
            needed = f"at least {height} x {width} .height x width., not {size[0]} x {size[1]}"
            with pytest.raises(ValueError, match=needed):
                drawer(part(problem), *size)


def test_a_solution_pushed_over_the_edge_is_refused_with_the_size_it_needs():
    with pytest.raises(ValueError, match="at row 2, column 3 needs a canvas of at least 8 x 9"):
        drawn("standard", (321, 654), 7, 20, top=2, left=3)
    with pytest.raises(ValueError, match="use offsets from 0"):
        drawn("standard", (321, 654), 20, 20, left=-1)


@every_layout
def test_some_problems_of_a_drawing_in_any_order_and_number(layout):
    worked = LAYOUTS[layout].work(Problems.from_ints([(321, 654), (7, 8), (12, 9)]))
    chosen = np.array([2, 0, 2])
    for drawing in (draw_worked(worked, 9, 9), draw(worked, 9, 9)):
        some = drawing[chosen]
        assert type(some) is type(drawing)
        assert len(some) == 3
        for field in fields(drawing):
            expected = getattr(drawing, field.name)[chosen]
            np.testing.assert_array_equal(getattr(some, field.name), expected)
        np.testing.assert_array_equal(some.steps, drawing.steps[chosen])
