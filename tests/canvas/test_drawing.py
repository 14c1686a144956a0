import json
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from drawings import LAYOUTS, drawn

from canvas import drawing as drawings
from canvas import symbols
from canvas.addition import Addition
from canvas.drawing import Drawing, WorkedDrawing, row_steps
from canvas.layouts import Layout
from canvas.multiplication import Multiplication
from canvas.problems import Problems, keys, random_below, random_words
from canvas.sampling import sample

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "canvases.json").read_text())
GPT = REFERENCE["gpt_ids"]


@cache
def scattered(layout: Layout) -> tuple[Problems, WorkedDrawing]:
    """Random problems of mixed lengths, each anywhere on a canvas with room to spare."""
    if layout.name in Addition.layouts:
        task = Addition(layout.name, digits=(1, 7), addends=(2, 6))
    else:
        task = Multiplication(layout.name, digits_a=(1, 7), digits_b=(1, 5))
    index = np.arange(60)
    problems = sample(task, 3, "train", 0, index)
    heights, widths = layout.sizes(problems)
    height, width = (cells + 4 for cells in task.extent())
    room = np.stack([height - heights, width - widths], axis=1) + 1
    top, left = random_below(random_words(keys(3, "train", 1, index), 2), room).T
    return problems, layout.draw_worked(problems, height, width, top, left)


@pytest.fixture
def drawing(layout: Layout) -> WorkedDrawing:
    """Those, in every layout; not to be changed."""
    return scattered(layout)[1]


def reference_text(ids: list[int]) -> str:
    """A reference sequence as our characters, ``?`` where no loss counts."""
    characters = {GPT["*"]: "*", GPT["_"]: "_", GPT["#"]: "#", GPT["start"]: "^", GPT["end"]: "$"}
    characters |= {digit: str(digit) for digit in range(10)} | {GPT["ignore"]: "?"}
    return "".join(characters[i] for i in ids)


def our_text(ids: np.ndarray) -> str:
    return "".join("?" if i == drawings.IGNORE else symbols.CHARACTERS[i] for i in ids)


def test_ids_are_the_same_in_every_release():
    ids = dict(zip(symbols.CHARACTERS, range(len(symbols.CHARACTERS)), strict=True))
    digits = {str(digit): digit + 1 for digit in range(10)}
    others = {"~": 0, "_": 11, "*": 12, ".": 13, "#": 14, "^": 15, "$": 16, "+": 17}
    assert ids == digits | others | dict(zip("ABCDEF", range(18, 24), strict=True))
    assert symbols.MARKERS.tolist() == [*range(24, 50), *range(58, 78)]
    assert symbols.decode(symbols.MARKERS) == "abcdefghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"
    assert symbols.decode(symbols.DIGIT_IDS) == symbols.DIGIT_CHARACTERS
    assert (symbols.DIGIT_OF[symbols.DIGIT_IDS] == np.arange(16)).all()
    assert symbols.DIGIT_OF[symbols.BLANK] == -1
    assert (symbols.vocab_size(10), symbols.vocab_size(16)) == (18, 24)
    assert symbols.vocab_size(10, index_hints=True) == 78
    named = (symbols.PAD, symbols.BLANK, symbols.TIMES, symbols.MASK, symbols.ROW_END)
    assert (*named, symbols.START, symbols.END, symbols.PLUS) == tuple(others.values())


def test_a_solution_lies_at_its_offset_and_the_rest_is_blank(layout):
    problems, drawing = scattered(layout)
    worked = layout.draw_worked(problems)
    for i in range(len(drawing)):
        height, width = drawing.heights[i], drawing.widths[i]
        top, left = drawing.top[i], drawing.left[i]
        for there, part, empty in (
            (drawing.canvases, worked.canvases, symbols.BLANK),
            (drawing.truth, worked.truth, symbols.BLANK),
            (drawing.given, worked.given, False),
        ):
            expected = np.full(there.shape[1:], empty)
            expected[top : top + height, left : left + width] = part[i, :height, :width]
            assert np.array_equal(there[i], expected)
    assert len(set(zip(drawing.top.tolist(), drawing.left.tolist(), strict=True))) > 5
    prompt = layout.draw(problems, *drawing.canvases.shape[1:], top=drawing.top, left=drawing.left)
    assert type(prompt) is Drawing
    for field in fields(Drawing):
        assert np.array_equal(getattr(prompt, field.name), getattr(drawing, field.name))
    assert np.array_equal(drawings.tokens_to_write(prompt), drawings.tokens_to_write(drawing))


def test_row_steps_are_the_reference_ones():
    for case in REFERENCE["row_steps"]:
        size = case["height"], case["width"]
        pair = case["a"], case["b"]
        # The reference counts from the first symbol; we from the space that any answer may need.
        alone = LAYOUTS["standard"], Problems.from_ints([pair])
        whole, cut = (alone[0].draw_worked(alone[1], trim=trim) for trim in (False, True))
        spare = int(whole.widths[0] - cut.widths[0])
        wide = case["height"], case["width"] + spare
        steps = row_steps(drawn("standard", [pair], *wide, top=case["top"], left=case["left"]))
        for name in ("inputs", "labels"):
            expected = np.reshape(case[name], (-1, *size))
            assert np.array_equal(getattr(steps, name)[:, :, spare:], expected)


def test_a_step_shows_the_rows_so_far_and_masks_the_next(drawing):
    steps = row_steps(drawing)
    expected = [(i, k) for i, n in enumerate(drawing.num_rows) for k in range(n)]
    assert list(zip(steps.problem.tolist(), steps.row.tolist(), strict=True)) == expected
    for k, (i, step) in enumerate(zip(steps.problem, steps.row, strict=True)):
        finished, given = drawing.truth[i], drawing.given[i]
        row = drawing.top[i] + drawing.given_rows[i] + step
        only_givens = drawing.canvases[i]
        assert np.array_equal(only_givens, np.where(given, finished, symbols.BLANK))
        for canvas in (steps.inputs[k], steps.labels[k]):
            assert np.array_equal(canvas[:row], finished[:row])
            assert np.array_equal(canvas[row + 1 :], only_givens[row + 1 :])
        assert np.array_equal(steps.labels[k, row], finished[row])
        masked = np.where(given[row], finished[row], symbols.MASK)
        assert np.array_equal(steps.inputs[k, row], masked)
        assert np.array_equal(steps.answer[k], steps.inputs[k] == symbols.MASK)
    chosen = np.arange(len(drawing)) % drawing.num_rows
    one, every = row_steps(drawing, chosen), row_steps(drawing)
    where = np.cumsum(drawing.num_rows) - drawing.num_rows + chosen
    for name in ("inputs", "labels", "answer", "problem", "step"):
        assert np.array_equal(getattr(one, name), getattr(every, name)[where])
    assert (one.inputs.dtype, one.labels.dtype, one.answer.dtype) == (np.uint8, np.uint8, bool)


def test_a_row_is_correct_if_every_cell_of_it_is(drawing):
    steps = np.arange(drawing.num_rows.max()) < drawing.num_rows[:, None]
    assert np.array_equal(drawing.correct_rows(drawing.truth), steps)
    assert not drawing.correct_rows(np.full_like(drawing.truth, symbols.MASK)).any()
    one = np.arange(len(drawing))
    step, column = one % drawing.num_rows, one % drawing.truth.shape[2]
    flawed = drawing.truth.copy()
    flawed[one, drawing.canvas_row(step), column] = symbols.MASK
    steps[one, step] = False
    assert np.array_equal(drawing.correct_rows(flawed), steps)


@pytest.mark.parametrize("case", REFERENCE["gpt_sequences"], ids=lambda c: f"{c['a']}x{c['b']}")
def test_sequences_are_the_reference_ones(case):
    layout = "running_sum" if case["with_add"] else "standard"
    size, pair = (case["height"], case["width"]), (case["a"], case["b"])
    # The reference counts columns on the reversed canvas, where the lowest digit is at the left.
    left = case["width"] - case["left"] - drawn(layout, [pair], *size).widths[0]
    ids, labels = drawings.sequences(drawn(layout, [pair], *size, top=case["top"], left=left))
    assert our_text(ids[0]) == reference_text(case["train_inputs"])
    assert our_text(labels[0]) == reference_text(case["train_labels"])


def test_labels_of_a_sequence_are_its_next_ids(drawing):
    ids, labels = drawings.sequences(drawing)
    _, height, width = drawing.canvases.shape
    assert ids.shape == labels.shape == (len(drawing), height * (width + 1) + 1)
    assert ids.dtype == labels.dtype == np.int64
    counted = labels != drawings.IGNORE
    assert np.array_equal(ids[:, 1:][counted[:, :-1]], labels[:, :-1][counted[:, :-1]])
    assert (labels[:, -1] == symbols.END).all()
    expected = np.ones((len(drawing), height, width + 1), dtype=bool)
    for i, row in enumerate(drawing.top + drawing.given_rows):
        expected[i, :row] = False
        expected[i, row:, :width] = ~drawing.given[i, row:, ::-1]
    assert np.array_equal(counted[:, :-1], expected.reshape(len(drawing), -1))
    assert np.array_equal(drawings.tokens_to_write(drawing)[:, 1:], counted)
    assert not drawings.tokens_to_write(drawing)[:, 0].any(), "the start symbol is given"


def test_sequences_lead_back_to_their_canvases(drawing):
    _, height, width = drawing.canvases.shape
    ids, _ = drawings.sequences(drawing)
    assert np.array_equal(drawings.from_sequences(ids, height, width), drawing.truth)
    with_end = np.concatenate([ids, np.full((len(ids), 1), symbols.END)], axis=1)
    assert np.array_equal(drawings.from_sequences(with_end, height, width), drawing.truth)
    with_end[:, 3:5] = symbols.END
    assert (drawings.from_sequences(with_end, height, width)[:, 1:] == symbols.BLANK).all()
    first_rows = drawings.from_sequences(ids[:, : 1 + 3 * (width + 1)], height, width)
    assert np.array_equal(first_rows[:, :3], drawing.truth[:, :3])
    assert (first_rows[:, 3:] == symbols.BLANK).all()
    prompts = drawings.to_sequences(drawing.canvases)
    assert np.array_equal(drawings.from_sequences(prompts, height, width), drawing.canvases)


def test_the_smallest_canvas_is_as_large_as_the_solution(layout):
    height, width = layout.room((3, 2), 10)
    problem = Problems.from_ints([(999, 99)])
    for draw in (layout.draw, layout.draw_worked):
        assert draw(problem, height, width).canvases.shape == (1, height, width)
        for size in ((height - 1, width), (height, width - 1)):
            needed = f"at least {height} x {width} .height x width., not {size[0]} x {size[1]}"
            with pytest.raises(ValueError, match=needed):
                draw(problem, *size)
