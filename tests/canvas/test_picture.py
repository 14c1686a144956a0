import numpy as np
import pytest
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
    assert "[9]" in lines[2]
    assert lines[2].endswith("should be _837__")
    assert not any("[" in line or "should" in line for line in lines[:2])


def test_terminal_points_at_the_row_and_writes_its_confidence():
    text = picture.to_terminal(MASKED, highlight_row=2, confidence=[np.nan, np.nan, 0.875])
    lines = text.plain.splitlines()
    assert lines[2].startswith("▶ ")
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


def test_png_holds_the_drawing(tmp_path):
    picture.save_png(tmp_path / "canvas.png", WRONG, truth=RIGHT, given=GIVEN)
    with Image.open(tmp_path / "canvas.png") as stored:
        drawn = picture.to_image(WRONG, truth=RIGHT, given=GIVEN)
        np.testing.assert_array_equal(np.asarray(stored), np.asarray(drawn))


def test_gif_loops_for_ever_and_holds_its_last_frame(tmp_path):
    path = tmp_path / "rollout.gif"
    picture.save_gif(
        path,
        [MASKED, WRONG, RIGHT],
        truths=[RIGHT] * 3,
        given=GIVEN,
        highlight_rows=[2, 2, None],
        seconds_per_frame=0.5,
        hold_last=1.5,
    )
    with Image.open(path) as animation:
        assert animation.n_frames == 3
        assert animation.info["loop"] == 0
        durations = []
        for frame in range(3):
            animation.seek(frame)
            durations.append(animation.info["duration"])
    assert durations == [500, 500, 1500]


def test_gif_does_not_judge_rows_that_are_yet_to_come(tmp_path):
    begun = RIGHT.copy()
    begun[2] = BLANK
    frames = {"judged": None, "to come": 1}
    for name, row in frames.items():
        picture.save_gif(
            tmp_path / f"{name}.gif", [begun], truths=[RIGHT], given=GIVEN, highlight_rows=[row]
        )
    plain = background(inside(picture.to_image(begun, given=GIVEN), 2, 2))
    for name, same in (("judged", False), ("to come", True)):
        with Image.open(tmp_path / f"{name}.gif") as animation:
            assert (background(inside(animation.convert("RGB"), 2, 2)) == plain) is same


def test_misuse_is_refused_with_what_was_expected(tmp_path):
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
    with pytest.raises(ValueError, match="at least one frame"):
        picture.save_gif(tmp_path / "a.gif", [])
    with pytest.raises(ValueError, match="1 truths for 2 frames"):
        picture.save_gif(tmp_path / "a.gif", [RIGHT, RIGHT], truths=[RIGHT])
    with pytest.raises(ValueError, match="same height and width"):
        picture.save_gif(tmp_path / "a.gif", [RIGHT, RIGHT[:2]])
