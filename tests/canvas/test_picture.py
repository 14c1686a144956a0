import numpy as np
import pytest
from PIL import Image

from canvas import picture
from canvas.shapes import Label
from canvas.symbols import BLANK, MASK, encode

RIGHT = np.stack([encode(line) for line in ("_321__", "_6_*__", "_837__")])  # 123 x 6 = 738
GIVEN = np.zeros(RIGHT.shape, dtype=bool)
GIVEN[:2] = True
WRONG = RIGHT.copy()
WRONG[2, 2] = encode("9")[0]
MASKED = RIGHT.copy()
MASKED[2] = MASK
CELL = 24


def inside(image: Image.Image, row: int, column: int) -> np.ndarray:
    """The pixels of a cell, without its grid lines."""
    left, top = CELL // 2 + column * CELL, CELL // 2 + row * CELL
    return np.asarray(image)[top + 1 : top + CELL, left + 1 : left + CELL]


def background(pixels: np.ndarray) -> str:
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    return "#" + bytes(colours[counts.argmax()]).hex().upper()


def test_text_is_the_symbols_line_by_line():
    assert picture.to_text(RIGHT) == "_321__\n_6_*__\n_837__"
    assert picture.to_text(RIGHT, blank="·").splitlines()[0] == "·321··"


def test_frame_encloses_the_text():
    lines = picture.to_text(RIGHT, blank=" ", frame=True).splitlines()
    assert lines[0] == "┌──────┐"
    assert lines[2] == "│ 6 *  │"
    assert {len(line) for line in lines} == {8}


def test_terminal_brackets_wrong_cells_and_says_what_they_should_be():
    lines = picture.to_terminal(WRONG, truth=RIGHT, given=GIVEN).plain.splitlines()
    assert lines[2:] == [
        "   ·  8 [9] 7  ·  · ",
        "   ·  8  3  7  ·  ·   ↑ should be",
    ]
    assert not any("[" in line or "should" in line for line in lines[:2])


def test_what_a_row_should_be_leaves_out_what_was_given():
    given = GIVEN.copy()
    given[2, 1] = True  # a lattice's margin digit, say
    told = picture.to_terminal(WRONG, truth=RIGHT, given=given).plain.splitlines()[3]
    assert told == "   ·     3  7  ·  ·   ↑ should be"


def test_sign_and_mask_are_the_same_in_the_terminal_and_in_pictures():
    terminal = picture.to_terminal(MASKED).plain
    drawn = [shape.text for shape in picture.to_sketch(MASKED).shapes if isinstance(shape, Label)]
    for sign, number in (("×", 1), ("■", RIGHT.shape[1])):
        assert terminal.count(sign) == drawn.count(sign) == number


def test_cells_that_are_read_off_are_dark_and_underlined():
    place = (2, 2)
    image = picture.to_sketch(RIGHT, truth=RIGHT, given=GIVEN, read=[place]).image()
    assert background(inside(image, *place)) == picture.READ
    assert background(inside(image, 2, 1)) == picture.FILLED
    text = picture.to_terminal(RIGHT, given=GIVEN, read=[place])
    assert [text.plain[s.start : s.end] for s in text.spans if "underline" in str(s.style)] == ["3"]


def test_a_wrong_cell_that_is_read_off_stays_framed():
    image = picture.to_sketch(WRONG, truth=RIGHT, given=GIVEN, read=[(2, 2)]).image()
    cell = inside(image, 2, 2)
    assert background(cell) == picture.READ
    assert background(cell[:1]) == picture.WRONG_INK


def test_terminal_points_at_the_row_and_writes_its_confidence():
    text = picture.to_terminal(MASKED, highlight_row=2, confidence=[np.nan, np.nan, 0.875])
    lines = text.plain.splitlines()
    assert lines[2].startswith("► ")
    assert lines[2].endswith("88%")
    assert "%" not in lines[0]


def test_given_filled_wrong_and_masked_cells_differ():
    image = picture.to_image(WRONG, truth=RIGHT, given=GIVEN)
    assert background(inside(image, 0, 1)) == picture.GIVEN
    assert background(inside(image, 2, 1)) == picture.FILLED
    assert background(inside(image, 2, 2)) == picture.WRONG
    assert background(inside(image, 2, 0)) == picture.PAPER
    assert background(inside(picture.to_image(MASKED), 2, 2)) == picture.MASKED


def test_wrong_cells_stand_out_without_colour():
    wrong, right = (
        inside(picture.to_image(x, truth=RIGHT, given=GIVEN).convert("L"), 2, 2)
        for x in (WRONG, RIGHT)
    )
    dark = 128
    assert (wrong < dark).sum() > 2 * (right < dark).sum()


def test_wrongly_blank_cell_is_marked():
    erased = RIGHT.copy()
    erased[2, 3] = BLANK
    cell = inside(picture.to_image(erased, truth=RIGHT), 2, 3)
    assert background(cell) == picture.WRONG


def test_masked_and_given_cells_are_not_judged():
    assert "[" not in picture.to_terminal(MASKED, truth=RIGHT).plain
    everything = np.ones_like(GIVEN)
    assert "[" not in picture.to_terminal(WRONG, truth=RIGHT, given=everything).plain


def test_highlighted_row_is_framed_from_edge_to_edge():
    image = np.asarray(picture.to_image(MASKED, highlight_row=2))
    plain = np.asarray(picture.to_image(MASKED))
    changed = (image != plain).any(axis=2)
    rows = changed.any(axis=1).nonzero()[0]
    assert rows.min() >= CELL // 2 + 2 * CELL - 2
    assert changed[rows.min()].sum() >= RIGHT.shape[1] * CELL


def test_misuse_is_refused_with_what_was_expected():
    with pytest.raises(ValueError, match=r"is uint8 \[H, W\], got uint8 \[6\]"):
        picture.to_text(RIGHT[0])
    with pytest.raises(ValueError, match=r"truth must have the canvas's shape \[3, 6\]"):
        picture.to_image(RIGHT, truth=RIGHT[:2])
    with pytest.raises(ValueError, match="given must be bool"):
        picture.to_image(RIGHT, given=RIGHT)
    with pytest.raises(ValueError, match="row 3 is not on a canvas of 3 rows"):
        picture.to_image(RIGHT, highlight_row=3)
    with pytest.raises(ValueError, match="too small to read"):
        picture.to_image(RIGHT, cell=8)
    with pytest.raises(ValueError, match="symbol ids lie in"):
        picture.to_image(RIGHT + 100)
    with pytest.raises(ValueError, match="2 confidences for 3 rows"):
        picture.to_terminal(RIGHT, confidence=[1.0, 1.0])
