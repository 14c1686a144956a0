import random

import numpy as np
import pytest

from canvas import symbols
from canvas.arithmetic import BASES
from canvas.layouts import LAYOUTS, get_layout
from canvas.problems import Problems
from canvas.reader import Multiplication, read
from canvas.render import Drawing, draw, row_steps

every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def drawn(name: str, pairs: list[tuple[int, int]], base: int = 10) -> Drawing:
    """Problems in the middle of a canvas with a blank cell all around."""
    problems = Problems.from_ints(pairs, base)
    worked = get_layout(name).work(problems.a, problems.b)
    height, width = worked.heights.max() + 2, worked.widths.max() + 2
    return draw(worked, height, width, top=1, left=1)


def is_digit(ids: np.ndarray) -> np.ndarray:
    return (ids >= symbols.DIGIT_ZERO) & (ids < symbols.DIGIT_ZERO + 10)


def canvas_of(text: str) -> np.ndarray:
    return np.stack([symbols.encode(line) for line in text.split()])


@every_layout
@pytest.mark.parametrize("base", BASES)
def test_a_drawn_problem_is_read_back(layout, base):
    choose = random.Random(base)
    lengths = [(n, m) for n in range(1, 8) for m in range(1, 6)] + [(40, 30)]
    pairs = [tuple(choose.randrange(base ** (k - 1), base**k) for k in both) for both in lengths]
    for canvas, (a, b) in zip(drawn(layout, pairs, base).canvases, pairs, strict=True):
        said = read(canvas, get_layout(layout), base)
        assert said == Multiplication(a, b, a * b)
        assert said.correct
        digits = [int(canvas[place]) - symbols.DIGIT_ZERO for place in said.places]
        assert sum(digit * base**i for i, digit in enumerate(digits)) == a * b


@every_layout
def test_a_wrong_product_is_read_as_it_stands(layout):
    drawing = drawn(layout, [(321, 654)])
    canvas = drawing.canvases[0]
    row = drawing.row_of_step(int(drawing.steps[0]) - 1)[0]
    last = np.flatnonzero(is_digit(canvas[row]) & ~drawing.given[0, row])[-1]
    canvas[row, last] = symbols.DIGIT_ZERO  # of the 4 that ends 209934, in the lattice of the 9
    said = read(canvas, get_layout(layout))
    assert (said.a, said.b) == (321, 654)
    assert said.product == (209034 if layout == "lattice" else 209930)
    assert not said.correct


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
    assert read(canvas_of(text), get_layout("standard")) == Multiplication(12, 34, 408)


def test_a_blank_canvas_is_refused():
    with pytest.raises(ValueError, match="the canvas is blank"):
        read(np.full((4, 5), symbols.BLANK), get_layout("standard"))


@every_layout
def test_a_canvas_with_a_masked_row_is_refused(layout):
    for canvas in row_steps(drawn(layout, [(321, 654)])).inputs:
        with pytest.raises(ValueError, match="a row is still masked"):
            read(canvas, get_layout(layout))


@every_layout
def test_a_canvas_that_was_left_off_half_way_is_refused(layout):
    steps = row_steps(drawn(layout, [(321, 654), (78, 5), (9, 12)]))
    _, first = np.unique(steps.problem, return_index=True)
    last = [*(first[1:] - 1), len(steps.problem) - 1]
    for k, canvas in enumerate(steps.labels):
        if k not in last:
            with pytest.raises(ValueError, match=r"not worked out|product .* is not a number"):
                read(canvas, get_layout(layout))


@every_layout
@pytest.mark.parametrize("pair", [(321, 654), (7, 8)])
def test_operands_alone_are_refused(layout, pair):
    with pytest.raises(ValueError, match=r"not worked out|product .* is not a number"):
        read(drawn(layout, [pair]).unsolved()[0], get_layout(layout))


@every_layout
def test_a_canvas_without_a_sign_or_with_two_is_refused(layout):
    canvas = drawn(layout, [(321, 654)]).canvases[0]
    without = np.where(canvas == symbols.TIMES, symbols.BLANK, canvas)
    with pytest.raises(ValueError, match=r"has one sign '\*', this canvas has 0"):
        read(without, get_layout(layout))
    canvas[-2, 1] = symbols.TIMES
    with pytest.raises(ValueError, match=r"has one sign '\*', this canvas has 2"):
        read(canvas, get_layout(layout))


@every_layout
def test_a_sign_in_another_row_is_refused(layout):
    canvas = drawn(layout, [(321, 654)]).canvases[0]
    canvas[canvas == symbols.TIMES] = symbols.BLANK
    canvas[3, 1] = symbols.TIMES
    with pytest.raises(ValueError, match=f"the sign is not where the {layout} layout puts it"):
        read(canvas, get_layout(layout))


@pytest.mark.parametrize(
    ("drawn_as", "read_as"), [("standard", "lattice"), ("lattice", "standard")]
)
def test_a_canvas_in_another_layout_is_refused(drawn_as, read_as):
    canvas = drawn(drawn_as, [(321, 654)]).canvases[0]
    with pytest.raises(ValueError, match=f"the sign is not where the {read_as} layout puts it"):
        read(canvas, get_layout(read_as))


@every_layout
@pytest.mark.parametrize("flaw", ["_", "#", "~"])
def test_a_product_with_a_gap_or_a_symbol_that_is_no_digit_is_refused(layout, flaw):
    drawing = drawn(layout, [(321, 654)])
    canvas = drawing.canvases[0]
    row = drawing.row_of_step(int(drawing.steps[0]) - 1)[0]
    inside = np.flatnonzero(is_digit(canvas[row]) & ~drawing.given[0, row])[1]
    canvas[row, inside] = symbols.encode(flaw)[0]
    with pytest.raises(ValueError, match=r"the product '.*' is not a number in base 10"):
        read(canvas, get_layout(layout))


@pytest.mark.parametrize("row", [1, 2, 3])
def test_a_lattice_that_lacks_a_digit_of_the_product_is_refused(row):
    canvas = canvas_of("_321_* 1284_4 1733_5 2099_6")
    canvas[row, 3] = symbols.BLANK
    with pytest.raises(ValueError, match=r"the product '.*_.*' is not a number"):
        read(canvas, get_layout("lattice"))


def test_a_lattice_whose_last_row_is_blank_is_not_read_as_the_rows_above_it():
    canvas = canvas_of("_321_* 1284_4 1733_5 ______")
    canvas[3, 5] = symbols.encode("6")[0]
    with pytest.raises(ValueError, match="is not a number"):
        read(canvas, get_layout("lattice"))


def test_digits_that_the_base_does_not_have_are_refused():
    canvas = drawn("standard", [(19, 2)]).canvases[0]
    with pytest.raises(ValueError, match="the multiplicand '19' is not a number in base 8"):
        read(canvas, get_layout("standard"), base=8)


def test_operands_that_are_no_numbers_are_refused():
    no_multiplier = canvas_of("_12 _*_ _24 _24")
    with pytest.raises(ValueError, match="the multiplier is blank"):
        read(no_multiplier, get_layout("standard"))
    torn = canvas_of("1_2 *_2 _24 _24")
    with pytest.raises(ValueError, match="the multiplicand '1_2' is not a number"):
        read(torn, get_layout("standard"))
