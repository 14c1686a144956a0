import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from canvas import picture
from canvas.symbols import BLANK, MASK, encode

RIGHT = np.stack([encode(line) for line in ("_321__", "_6_*__", "_837__")])  # 123 x 6 = 738
GIVEN = np.zeros(RIGHT.shape, dtype=bool)
GIVEN[:2] = True
WRONG = RIGHT.copy()
WRONG[2, 2] = encode("9")[0]
MASKED = RIGHT.copy()
MASKED[2] = MASK
CELL = 24


def inside(figure: Figure, row: int, column: int) -> np.ndarray:
    """The pixels of a cell, without its grid lines."""
    left, top = CELL // 2 + column * CELL, CELL // 2 + row * CELL
    return picture.pixels(figure)[top + 3 : top + CELL - 2, left + 3 : left + CELL - 2]


def background(pixels: np.ndarray) -> str:
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    return "#" + bytes(colours[counts.argmax()]).hex().upper()


def test_the_terminal_brackets_errors_and_marks_the_current_row():
    lines = picture.to_terminal(WRONG, truth=RIGHT, given=GIVEN).plain.splitlines()
    assert lines[2:] == ["   ·  8 [9] 7  ·  · ", "   ·  8  3  7  ·  ·   ↑ should be"]
    assert not any("[" in line or "should" in line for line in lines[:2])
    given = GIVEN.copy()
    given[2, 1] = True  # a lattice's margin digit, say
    corrected = picture.to_terminal(WRONG, truth=RIGHT, given=given).plain.splitlines()[3]
    assert corrected == "   ·     3  7  ·  ·   ↑ should be"
    for canvas, shown in ((MASKED, None), (WRONG, np.ones_like(GIVEN))):  # which are not judged
        assert "[" not in picture.to_terminal(canvas, truth=RIGHT, given=shown).plain
    assert picture.to_text(RIGHT) == "_321__\n_6_*__\n_837__"
    text = picture.to_terminal(MASKED, highlight_row=2, confidence=[np.nan, np.nan, 0.875])
    lines = text.plain.splitlines()
    assert lines[1].count("×") == 1
    assert lines[2].startswith("► ")
    assert lines[2].count("■") == RIGHT.shape[1]
    assert lines[2].endswith("88%")
    assert "%" not in lines[0]


def test_given_filled_incorrect_masked_and_read_cells_differ():
    figure = picture.to_figure(WRONG, truth=RIGHT, given=GIVEN, read=[(2, 3)])
    assert background(inside(figure, 0, 1)) == picture.GIVEN
    assert background(inside(figure, 2, 1)) == picture.FILLED
    assert background(inside(figure, 2, 2)) == picture.WRONG
    assert background(inside(figure, 2, 3)) == picture.READ
    assert background(inside(figure, 2, 0)) == picture.PAPER
    assert background(inside(picture.to_figure(MASKED), 2, 2)) == picture.MASKED
    text = picture.to_terminal(RIGHT, given=GIVEN, read=[(2, 3)])
    assert [text.plain[s.start : s.end] for s in text.spans if "underline" in str(s.style)] == ["7"]


@pytest.mark.parametrize("written", [WRONG[2, 2], BLANK])
def test_incorrect_cells_stand_out_without_colour(written):
    def dark(canvas: np.ndarray) -> int:
        figure = picture.to_figure(canvas, truth=RIGHT, given=GIVEN)
        return (inside(figure, 2, 2).mean(axis=2) < 128).sum()

    canvas = RIGHT.copy()
    canvas[2, 2] = written
    assert dark(canvas) > 1.5 * dark(RIGHT)


def test_the_current_row_is_framed_and_has_an_arrow():
    image = picture.pixels(picture.to_figure(MASKED, highlight_row=2))
    plain = picture.pixels(picture.to_figure(MASKED))
    assert image.shape == (4 * CELL, 7 * CELL, 3)
    rows = (image != plain).any(axis=2).sum(axis=1)
    assert rows.nonzero()[0].min() >= CELL // 2 + 2 * CELL - 2
    assert rows.max() >= RIGHT.shape[1] * CELL


def test_a_picture_is_written_as_svg_and_gif(tmp_path):
    figure = picture.to_figure(WRONG, truth=RIGHT)
    assert picture.to_svg(figure).startswith("<svg")
    assert picture.to_svg(figure) == picture.to_svg(picture.to_figure(WRONG, truth=RIGHT))
    picture.save_gif(tmp_path / "a.gif", [(picture.to_figure(MASKED), 0.5), (figure, 2)])
    with Image.open(tmp_path / "a.gif") as animation:
        assert animation.n_frames == 2
        assert animation.info["duration"] == 500
        animation.seek(1)
        assert animation.info["duration"] == 2000
        last = np.asarray(animation.convert("RGB"))
    assert np.abs(last.astype(int) - picture.pixels(figure)).mean() < 0.5
