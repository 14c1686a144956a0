"""Formats of additions: digit order and index hints, against their definitions."""

from dataclasses import fields

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.check import check_layout
from canvas.drawing import Drawing, row_steps
from canvas.problems import Problems
from canvas.reading import read
from canvas.sequences import to_sequences
from canvas.tasks import task_data

PROBLEMS = [(604, 87), (5, 999), (1, 2), (9999, 1), (0, 0), (31, 4074)]
FORMATS = [
    {"order": order, "index_hints": hints}
    for order in ("reversed", "plain")
    for hints in (False, True)
]
every_format = pytest.mark.parametrize("how", FORMATS, ids=str)
every_layout = pytest.mark.parametrize("layout", ["column", "column_carries"])


def rows_of(drawing: Drawing) -> list[list[str]]:
    """The rows of each problem's sequence, without blanks."""
    texts = [symbols.decode(ids.astype(np.uint8)) for ids in to_sequences(drawing.truth)]
    return [text.strip("^").replace("_", "").strip("#").split("#") for text in texts]


@every_layout
def test_plain_rows_are_the_reversed_ones_backwards(layout):
    problems = Problems.from_ints(PROBLEMS)
    reversed_rows, plain = (
        rows_of(Addition(layout, order=order).canvas_layout.draw_worked(problems, 9, 20, 1, 2))
        for order in ("reversed", "plain")
    )
    assert plain == [[row[::-1] for row in rows] for rows in reversed_rows]
    assert plain[0][:2] == ["604", "+87"]
    assert plain[0][-1] == "691"


@every_layout
@pytest.mark.parametrize("order", ["reversed", "plain"])
def test_each_digit_follows_the_marker_of_its_column(layout, order):
    problems = Problems.from_ints(PROBLEMS)
    plain, hinted = (
        rows_of(
            Addition(layout, order=order, index_hints=hints).canvas_layout.draw_worked(problems)
        )
        for hints in (False, True)
    )
    markers = symbols.MARKER_CHARACTERS
    for rows, marked in zip(plain, hinted, strict=True):
        assert ["".join(c for c in row if c not in markers) for row in marked] == rows
        first = markers.index(min(marked[-1], key=lambda c: markers.find(c) % 99))
        for row, others in zip(marked, rows, strict=True):
            row = row.replace("+", "")
            places = row[::2][:: 1 if order == "reversed" else -1]
            start = first + (layout == "column_carries" and row == marked[-2].replace("+", ""))
            assert places == markers[start : start + len(others.replace("+", ""))]


@every_layout
@every_format
@pytest.mark.parametrize("base", [2, 10, 16])
def test_a_formatted_problem_is_read_back(layout, how, base):
    task = Addition(layout, base=base, digits=(1, 9), **how)
    check_layout(task)
    problems = Problems.from_ints(PROBLEMS, base)
    worked = task.canvas_layout.draw_worked(problems, 9, 44, top=1, left=2)
    for canvas, operands in zip(worked.truth, PROBLEMS, strict=True):
        found = read(canvas, task.canvas_layout, base)
        assert (found.operands, found.answer) == (operands, sum(operands))
        digits = [int(symbols.DIGIT_OF[canvas[cell]]) for cell in found.answer_cells]
        assert sum(digit * base**i for i, digit in enumerate(digits)) == found.answer
    for canvas in row_steps(worked).inputs:
        with pytest.raises(ValueError, match="a row is still masked"):
            read(canvas, task.canvas_layout, base)


@every_layout
@every_format
def test_a_formatted_prompt_has_the_given_cells_of_its_solution(layout, how):
    impl = Addition(layout, **how).canvas_layout
    problems = Problems.from_ints(PROBLEMS)
    place = {"height": 9, "width": 20, "top": 2, "left": np.arange(len(PROBLEMS))}
    prompt, worked = impl.draw(problems, **place), impl.draw_worked(problems, **place)
    for field in fields(Drawing):
        assert np.array_equal(getattr(prompt, field.name), getattr(worked, field.name))
    shown = np.where(worked.given, worked.truth, symbols.BLANK)
    assert np.array_equal(shown, worked.canvases)
    assert not (~worked.space & (worked.truth != symbols.BLANK)).any()
    trimmed = impl.draw_worked(problems, trim=True)
    for i in range(len(PROBLEMS)):
        width = trimmed.widths[i]
        assert (trimmed.truth[i, :, :width] != symbols.BLANK).any(axis=0)[[0, -1]].any()
        assert rows_of(trimmed)[i] == rows_of(worked)[i]


@every_format
def test_a_guess_of_an_upright_canvas_is_its_prompt(how):
    task = Addition("column", **how)
    drawing = task.canvas_layout.draw(Problems.from_ints([(604, 87)]), 7, 16, top=1, left=2)
    rows, columns = (
        np.flatnonzero((drawing.canvases[0] != symbols.BLANK).any(axis=a)) for a in (1, 0)
    )
    content = drawing.canvases[0, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    guess = task.canvas_layout.draw_guess(content, 10, task.arity, lambda r, c: (7, 16, 1, 2))
    for field in fields(Drawing):
        assert np.array_equal(getattr(guess, field.name), getattr(drawing, field.name)), field.name


def test_short_numbers_have_every_marker_and_long_ones_fit():
    task = Addition(index_hints=True, digits=(1, 7))
    problems = Problems.from_ints([(n, n + 1) for n in range(2000)])
    drawn = task.canvas_layout.draw_worked(problems).truth
    # The last one is of a carry out of the longest numbers.
    assert {*np.unique(drawn)} >= {*symbols.MARKERS[:-1]}
    task.canvas_layout.draw(Problems.from_ints([(10**43, 10**43)]))
    with pytest.raises(
        ValueError, match=r"markers for 46 columns, and numbers of 45 and 45 digits"
    ):
        task.problems([(10**44, 10**44)])
    assert task.vocab_size == 78


def test_formats_are_not_in_the_data_of_tasks_without_them():
    assert not {"order", "index_hints"} & task_data(Addition()).keys()
    data = task_data(Addition(order="plain", index_hints=True))
    assert (data["order"], data["index_hints"]) == ("plain", True)
    with pytest.raises(ValueError, match=r"order must be one of reversed, plain, got 'plane'"):
        Addition(order="plane")
    with pytest.raises(ValueError, match="in plain order or with index hints have no local rule"):
        Addition(order="plain").local_rule()
