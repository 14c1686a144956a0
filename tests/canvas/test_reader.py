import random

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.arithmetic import BASES
from canvas.layouts import Layout
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.reader import Reading, read
from canvas.render import WorkedDrawing, draw_worked, row_steps

TASKS = {name: task for task in (Multiplication, Addition) for name in task.layouts}

every_layout = pytest.mark.parametrize("name", TASKS)
every_product = pytest.mark.parametrize("name", Multiplication.layouts)
every_sum = pytest.mark.parametrize("name", Addition.layouts)

STANDARD, LATTICE = (Multiplication.layouts[name] for name in ("standard", "lattice"))
COLUMN, CARRIES = (Addition.layouts[name] for name in ("column", "column_carries"))


def layout_of(name: str) -> Layout:
    return TASKS[name].layouts[name]


def drawn(name: str, problems: list[tuple[int, ...]], base: int = 10) -> WorkedDrawing:
    """Problems in the middle of a canvas with a blank cell all around."""
    worked = layout_of(name).work(Problems.from_ints(problems, base))
    height, width = worked.heights.max() + 2, worked.widths.max() + 2
    return draw_worked(worked, height, width, top=1, left=1)


def some_problems(name: str, base: int) -> list[tuple[int, ...]]:
    choose = random.Random(base)
    if name in Multiplication.layouts:
        lengths = [(n, m) for n in range(1, 8) for m in range(1, 6)] + [(40, 30)]
        return [tuple(choose.randrange(base ** (k - 1), base**k) for k in both) for both in lengths]
    counts = range(2, 7 if name == "column" else min(6, base) + 1)
    return [(0,) * count for count in counts] + [
        tuple(choose.randrange(base ** choose.randint(0, 9)) for _ in range(count))
        for count in counts
        for _ in range(15)
    ]


def is_digit(ids: np.ndarray) -> np.ndarray:
    return (ids >= symbols.DIGIT_ZERO) & (ids < symbols.DIGIT_ZERO + 10)


def last_row(drawing: WorkedDrawing) -> tuple[int, np.ndarray]:
    """The last row of the first problem, and the columns of its digits that were worked out."""
    row = drawing.row_of_step(int(drawing.steps[0]) - 1)[0]
    return row, np.flatnonzero(is_digit(drawing.truth[0, row]) & ~drawing.given[0, row])


def canvas_of(text: str) -> np.ndarray:
    return np.stack([symbols.encode(line) for line in text.split()])


@every_layout
@pytest.mark.parametrize("base", BASES)
def test_a_drawn_problem_is_read_back(name, base):
    problems = some_problems(name, base)
    task = TASKS[name](name, base)
    for canvas, operands in zip(drawn(name, problems, base).truth, problems, strict=True):
        said = read(canvas, layout_of(name), base)
        assert said.operands == operands
        assert said.answer == task.answer(operands)
        digits = [int(canvas[place]) - symbols.DIGIT_ZERO for place in said.answer_cells]
        assert sum(digit * base**i for i, digit in enumerate(digits)) == task.answer(operands)


@every_layout
def test_a_wrong_answer_is_read_as_it_stands(name):
    drawing = drawn(name, [(321, 654)])
    canvas = drawing.truth[0]
    row, columns = last_row(drawing)
    canvas[row, columns[-1]] = symbols.DIGIT_ZERO  # where 209934 ends; in the lattice, its 2099
    said = read(canvas, layout_of(name))
    assert said.operands == (321, 654)
    wrong = 970 if name in Addition.layouts else 209034 if name == "lattice" else 209930
    assert said.answer == wrong


def test_wrong_carries_do_not_change_what_is_read():
    drawing = drawn("column_carries", [(87, 604, 9)])
    canvas = drawing.truth[0]
    before = read(canvas, CARRIES)
    row = drawing.row_of_step(0)[0]
    canvas[row, is_digit(canvas[row])] = symbols.encode("7")[0]
    assert read(canvas, CARRIES) == before


def test_a_canvas_need_not_be_aligned_with_its_borders():
    text = """
        _______
        ____12_
        __*_34_
        ____48_
        ___36__
        ___408_
        _______
    """
    places = ((5, 5), (5, 4), (5, 3))
    assert read(canvas_of(text), STANDARD) == Reading((12, 34), 408, places)
    text = """
        ________
        ___87___
        __604___
        __+_0___
        __12____
        __691___
    """
    places = ((5, 4), (5, 3), (5, 2))
    assert read(canvas_of(text), CARRIES) == Reading((87, 604, 0), 691, places)


@every_layout
def test_a_blank_canvas_is_refused(name):
    with pytest.raises(ValueError, match="the canvas is blank"):
        read(np.full((4, 5), symbols.BLANK), layout_of(name))


@every_layout
def test_a_canvas_with_a_masked_row_is_refused(name):
    for canvas in row_steps(drawn(name, [(321, 654)])).inputs:
        with pytest.raises(ValueError, match="a row is still masked"):
            read(canvas, layout_of(name))


@every_layout
def test_a_canvas_that_was_left_off_half_way_is_refused(name):
    steps = row_steps(drawn(name, [(321, 654), (78, 5), (9, 12)]))
    _, first = np.unique(steps.problem, return_index=True)
    last = [*(first[1:] - 1), len(steps.problem) - 1]
    for k, canvas in enumerate(steps.labels):
        if k not in last:
            with pytest.raises(ValueError, match=r"not worked out|answer .* is not a number"):
                read(canvas, layout_of(name))


@every_layout
@pytest.mark.parametrize("pair", [(321, 654), (7, 8)])
def test_operands_alone_are_refused(name, pair):
    with pytest.raises(ValueError, match=r"not worked out|answer .* is not a number"):
        read(drawn(name, [pair]).canvases[0], layout_of(name))


@every_sum
@pytest.mark.parametrize("addends", [(7, 8), (87, 604, 9), (0, 10), (1, 2, 3, 4)])
def test_a_sum_that_lacks_a_row_or_has_one_too_many_is_refused(name, addends):
    canvas = drawn(name, [addends]).truth[0]
    assert read(canvas, layout_of(name)).operands == addends
    digits = " and ".join(str(len(str(value))) for value in addends)
    rows = len(addends) + (2 if name == "column_carries" else 1)
    message = f"operands of {digits} digits take {rows} rows in the {name} layout, this canvas has "
    wrong = ((canvas[:-2], rows - 1), (np.vstack([canvas[:-1], canvas[-2:-1]]), rows + 1))
    for other, has in wrong:
        with pytest.raises(ValueError, match=f"{message}{has}: it is not worked out"):
            read(other, layout_of(name))


@every_layout
def test_a_canvas_without_a_sign_or_with_two_is_refused(name):
    canvas = drawn(name, [(321, 654)]).truth[0]
    sign = layout_of(name).sign
    without = np.where(canvas == sign, symbols.BLANK, canvas)
    written = symbols.CHARACTERS[sign].replace("*", r"\*").replace("+", r"\+")
    with pytest.raises(ValueError, match=f"has one sign '{written}', this one has 0"):
        read(without, layout_of(name))
    canvas[-2, 1] = sign
    with pytest.raises(ValueError, match=f"has one sign '{written}', this one has 2"):
        read(canvas, layout_of(name))


@every_product
def test_a_sign_in_another_row_is_refused(name):
    canvas = drawn(name, [(321, 654)]).truth[0]
    canvas[canvas == symbols.TIMES] = symbols.BLANK
    canvas[3, 1] = symbols.TIMES
    with pytest.raises(ValueError, match=f"the sign is not where the {name} layout puts it"):
        read(canvas, layout_of(name))


@every_sum
def test_a_sign_beside_another_addend_or_none_is_refused(name):
    drawing = drawn(name, [(87, 604, 9)])
    top = drawing.top[0]
    for row in {*range(top, top + drawing.heights[0])} - {top + 2}:
        canvas = drawing.truth[0].copy()
        canvas[canvas == symbols.PLUS] = symbols.BLANK
        canvas[row, 1] = symbols.PLUS
        with pytest.raises(ValueError, match=r"not worked out|sign is not where|is not a number"):
            read(canvas, layout_of(name))


@pytest.mark.parametrize(("layout", "text"), [(COLUMN, "+_9 __9"), (CARRIES, "+_9 ___ __9")])
def test_one_addend_alone_is_no_sum(layout, text):
    with pytest.raises(ValueError, match=f"the sign is not where the {layout.name} layout puts it"):
        read(canvas_of(text), layout)


@pytest.mark.parametrize(
    ("drawn_as", "read_as"), [("standard", "lattice"), ("lattice", "standard")]
)
def test_a_canvas_in_another_layout_is_refused(drawn_as, read_as):
    canvas = drawn(drawn_as, [(321, 654)]).truth[0]
    with pytest.raises(ValueError, match=f"the sign is not where the {read_as} layout puts it"):
        read(canvas, layout_of(read_as))


@every_product
@pytest.mark.parametrize("other", Addition.layouts)
def test_a_sum_is_no_product_and_a_product_no_sum(name, other):
    for drawn_as, read_as in ((name, other), (other, name)):
        canvas = drawn(drawn_as, [(321, 654)]).truth[0]
        with pytest.raises(ValueError, match=r"a canvas has one sign '.', this one has 0"):
            read(canvas, layout_of(read_as))


def test_a_sum_with_carries_is_none_without_and_the_other_way_round():
    for drawn_as, read_as in (("column", "column_carries"), ("column_carries", "column")):
        with pytest.raises(ValueError, match="not worked out"):
            read(drawn(drawn_as, [(87, 604, 9)]).truth[0], layout_of(read_as))


@every_layout
@pytest.mark.parametrize("flaw", ["_", "#", "~"])
def test_an_answer_with_a_gap_or_a_symbol_that_is_no_digit_is_refused(name, flaw):
    drawing = drawn(name, [(321, 654)])
    canvas = drawing.truth[0]
    row, columns = last_row(drawing)
    canvas[row, columns[1]] = symbols.encode(flaw)[0]
    with pytest.raises(ValueError, match=r"the answer '.*' is not a number in base 10"):
        read(canvas, layout_of(name))


@pytest.mark.parametrize("row", [1, 2, 3])
def test_a_lattice_that_lacks_a_digit_of_the_product_is_refused(row):
    canvas = canvas_of("_321_* 1284_4 1733_5 2099_6")
    canvas[row, 3] = symbols.BLANK
    with pytest.raises(ValueError, match=r"the answer '.*_.*' is not a number"):
        read(canvas, LATTICE)


def test_a_lattice_whose_last_row_is_blank_is_not_read_as_the_rows_above_it():
    canvas = canvas_of("_321_* 1284_4 1733_5 ______")
    canvas[3, 5] = symbols.encode("6")[0]
    with pytest.raises(ValueError, match="is not a number"):
        read(canvas, LATTICE)


def test_digits_that_the_base_does_not_have_are_refused():
    canvas = drawn("standard", [(19, 2)]).truth[0]
    with pytest.raises(ValueError, match="the multiplicand '19' is not a number in base 8"):
        read(canvas, STANDARD, base=8)
    canvas = drawn("column", [(7, 19, 2)]).truth[0]
    with pytest.raises(ValueError, match="the addend 2 '19' is not a number in base 8"):
        read(canvas, COLUMN, base=8)


def test_operands_that_are_no_numbers_are_refused():
    no_multiplier = canvas_of("_12 _*_ _24 _24")
    with pytest.raises(ValueError, match="the multiplier is blank"):
        read(no_multiplier, STANDARD)
    torn = canvas_of("1_2 *_2 _24 _24")
    with pytest.raises(ValueError, match="the multiplicand '1_2' is not a number"):
        read(torn, STANDARD)
    no_addend = canvas_of("_12 ___ +_5 _17")
    with pytest.raises(ValueError, match="the addend 2 is blank"):
        read(no_addend, COLUMN)
    torn = canvas_of("_12 3_4 +_5 _17")
    with pytest.raises(ValueError, match="the addend 2 '3_4' is not a number"):
        read(torn, COLUMN)


def test_more_addends_than_carries_allow_are_refused():
    text = "___1 ___1 _+_1 _11_ __11"
    with pytest.raises(ValueError, match="at most 2 addends in base 2, not 3"):
        read(canvas_of(text), CARRIES, base=2)
