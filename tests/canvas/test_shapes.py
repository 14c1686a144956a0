import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from canvas.shapes import PAPER, Box, Label, Sketch, save_gif

SVG = "{http://www.w3.org/2000/svg}"
BOXES = (Box(2, 2, 11, 7, "#0072B2"), Box(2, 10, 21, 17, None, "#C04F00", 2))
SKETCH = Sketch(60, 20, (*BOXES, Label(40, 10, "7 < 8 × 9", 8)))


def elements(sketch: Sketch, name: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(sketch.svg()).findall(f"{SVG}{name}")


def edges(element: ElementTree.Element) -> list[float]:
    """First and last pixel that a rectangle covers across, then down."""
    x, y, wide, high = (float(element.get(key)) for key in ("x", "y", "width", "height"))
    half = float(element.get("stroke-width", 0)) / 2
    return [x - half, x + wide + half - 1, y - half, y + high + half - 1]


def test_an_svg_has_the_boxes_of_the_image_pixel_for_pixel():
    page, *boxes = elements(SKETCH, "rect")
    assert page.get("fill") == PAPER
    image = np.asarray(Sketch(60, 20, BOXES).image())
    for box, colour in zip(boxes, ((0, 0x72, 0xB2), (0xC0, 0x4F, 0)), strict=True):
        rows, columns = np.nonzero((image == colour).all(axis=2))
        assert edges(box) == [columns.min(), columns.max(), rows.min(), rows.max()]


def test_text_in_an_svg_is_text():
    (label,) = elements(SKETCH, "text")
    assert label.text == "7 < 8 × 9"
    assert label.get("text-anchor") == "middle"


def test_every_sign_that_pictures_use_is_in_the_font():
    missing = Sketch(40, 40, (Label(20, 20, "\uffff", 24),)).image()
    for sign in "×■►✓✗":
        drawn = Sketch(40, 40, (Label(20, 20, sign, 24),)).image()
        assert not np.array_equal(np.asarray(drawn), np.asarray(missing))


def test_moved_shapes_are_the_same_elsewhere():
    moved = Sketch(70, 25, tuple(shape.moved(10, 5) for shape in SKETCH.shapes)).image()
    np.testing.assert_array_equal(np.asarray(moved)[5:, 10:], np.asarray(SKETCH.image()))


def test_the_ending_of_the_name_says_what_is_written(tmp_path):
    SKETCH.save(tmp_path / "a.svg")
    SKETCH.save(tmp_path / "a.png")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == SKETCH.svg()
    with Image.open(tmp_path / "a.png") as stored:
        np.testing.assert_array_equal(np.asarray(stored), np.asarray(SKETCH.image()))


def test_gif_loops_for_ever_and_shows_each_frame_for_its_time(tmp_path):
    frames = [Sketch(60, 20, SKETCH.shapes[:n]) for n in (1, 2, 3)]
    save_gif(tmp_path / "a.gif", frames, [0.5, 0.25, 1.5])
    with Image.open(tmp_path / "a.gif") as animation:
        assert (animation.n_frames, animation.info["loop"]) == (3, 0)
        durations = []
        for frame in range(3):
            animation.seek(frame)
            durations.append(animation.info["duration"])
        last = np.asarray(animation.convert("RGB"))
    assert durations == [500, 250, 1500]
    assert (last[4, 4] == (0, 0x72, 0xB2)).all()


def test_misuse_is_refused_with_what_was_expected(tmp_path):
    with pytest.raises(ValueError, match="1,000,000 x 1,000 pixels is too large: draw smaller"):
        Sketch(1_000_000, 1000, ()).image()
    for frames, seconds in (([], []), ([SKETCH], [1, 1])):
        with pytest.raises(ValueError, match="an animation needs at least one, and a time for"):
            save_gif(tmp_path / "a.gif", frames, seconds)
    with pytest.raises(ValueError, match="same height and width"):
        save_gif(tmp_path / "a.gif", [SKETCH, Sketch(1, 1, ())], [1, 1])
