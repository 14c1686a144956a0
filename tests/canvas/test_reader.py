import numpy as np
import pytest
from drawings import LAYOUTS, drawn

from canvas import symbols
from canvas.addition import Addition
from canvas.drawing import WorkedDrawing, row_steps
from canvas.multiplication import Multiplication
from canvas.reading import read


def last_row(drawing: WorkedDrawing) -> tuple[int, np.ndarray]:
    """The last row of the first problem, and the columns of its digits that were worked out."""
    row = drawing.canvas_row(int(drawing.num_rows[0]) - 1)[0]
    ids = drawing.truth[0, row]
    digits = (ids >= symbols.DIGIT_ZERO) & (ids < symbols.DIGIT_ZERO + 10)
    return row, np.flatnonzero(digits & ~drawing.given[0, row])


def canvas_of(text: str) -> np.ndarray:
    return np.stack([symbols.encode(line) for line in text.split()])


@pytest.mark.parametrize("base", [2, 3, 10, 16])
def test_a_drawn_problem_is_read_back(layout, base, problems_of):
    problems = problems_of(layout, base)
    kind = Addition if layout.name in Addition.layouts else Multiplication
    drawing = drawn(layout, problems, top=1, left=1, base=base)
    for canvas, operands in zip(drawing.truth, problems, strict=True):
        found = read(canvas, layout, base)
        assert found.operands == operands
        assert found.answer == kind(layout.name).answer(operands)
        digits = [int(symbols.DIGIT_OF[canvas[place]]) for place in found.answer_cells]
        assert sum(digit * base**i for i, digit in enumerate(digits)) == found.answer


def test_an_incorrect_answer_is_read_as_it_stands(layout):
    drawing = drawn(layout, [(321, 654)], top=1, left=1)
    canvas = drawing.truth[0]
    row, columns = last_row(drawing)
    canvas[row, columns[-1]] = symbols.DIGIT_ZERO  # where 209934 ends; in the lattice, its 2099
    found = read(canvas, layout)
    assert found.operands == (321, 654)
    wrong = 209034 if layout.name == "lattice" else 209930
    assert found.answer == (970 if layout.name in Addition.layouts else wrong)


def test_a_blank_masked_or_unfinished_canvas_is_refused(layout):
    with pytest.raises(ValueError, match="the canvas is blank"):
        read(np.full((4, 5), symbols.BLANK), layout)
    drawing = drawn(layout, [(321, 654)], top=1, left=1)
    steps = row_steps(drawing)
    for canvas in steps.inputs:
        with pytest.raises(ValueError, match="a row is still masked"):
            read(canvas, layout)
    short = drawn(layout, [(7, 8)], top=1, left=1)
    for canvas in (*steps.labels[:-1], *drawing.canvases, *short.canvases):
        with pytest.raises(ValueError, match=r"not solved|answer .* is not a number"):
            read(canvas, layout)


def test_a_sign_that_is_missing_doubled_or_elsewhere_is_refused(layout):
    canvas = drawn(layout, [(321, 654)], top=1, left=1).truth[0]
    without = np.where(canvas == layout.sign, symbols.BLANK, canvas)
    twice, moved = canvas.copy(), without.copy()
    twice[-2, 1] = layout.sign
    moved[1 if layout.name in Addition.layouts else 3, 1] = layout.sign
    elsewhere = r"not solved|sign is not where|is not a number"
    for flawed, message in ((without, "this one has 0"), (twice, "has 2"), (moved, elsewhere)):
        with pytest.raises(ValueError, match=message):
            read(flawed, layout)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("+_9 __9", "column", "the sign is not where the column layout puts it"),
        ("+_9 ___ __9", "column_carries", "the sign is not where"),
        ("_12 _*_ _24 _24", "standard", "the multiplier is blank"),
        ("1_2 *_2 _24 _24", "standard", "the multiplicand '1_2' is not a number"),
        ("_12 ___ +_5 _17", "column", "the addend 2 is blank"),
        ("_12 3_4 +_5 _17", "column", "the addend 2 '3_4' is not a number"),
        ("_321_* 128__4 1733_5 2099_6", "lattice", r"the answer '.*_.*' is not a number"),
        ("_321_* 1284_4 1733_5 209__6", "lattice", "is not a number"),
        ("_321_* 1284_4 1733_5 2099_6", "standard", "the sign is not where the standard layout"),
        ("_87 604 +_9 700", "column_carries", "take 5 rows in the column_carries layout, this"),
        ("_87 604 +_9 12_ 700", "column", "take 4 rows in the column layout, this canvas has 5"),
    ],
)
def test_flawed_canvases_and_other_layouts_are_refused(text, name, message):
    with pytest.raises(ValueError, match=message):
        read(canvas_of(text), LAYOUTS[name])


@pytest.mark.parametrize("flaw", ["_", "#", "~"])
def test_an_answer_with_a_gap_or_another_symbol_is_refused(layout, flaw):
    drawing = drawn(layout, [(321, 654)], top=1, left=1)
    row, columns = last_row(drawing)
    drawing.truth[0, row, columns[1]] = symbols.encode(flaw)[0]
    with pytest.raises(ValueError, match=r"the answer '.*' is not a number in base 10"):
        read(drawing.truth[0], layout)


def test_digits_that_the_base_does_not_have_are_refused():
    canvas = drawn("standard", [(19, 2)], top=1, left=1).truth[0]
    with pytest.raises(ValueError, match="the multiplicand '19' is not a number in base 8"):
        read(canvas, LAYOUTS["standard"], base=8)
    with pytest.raises(ValueError, match="at most 2 addends in base 2, not 3"):
        read(canvas_of("___1 ___1 _+_1 _11_ __11"), LAYOUTS["column_carries"], base=2)
