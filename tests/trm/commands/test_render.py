import re
import xml.etree.ElementTree as ElementTree

import pytest
from PIL import Image

from canvas.drawing import row_steps
from canvas.multiplication import Multiplication
from canvas.picture import to_terminal
from canvas.problems import Problems

LATTICE = """\
·  ·  ·  ·  ·  ·  ·  ·
·  ·  3  2  1  ·  ×  ·
·  1  2  8  4  ·  4  ·
·  1  7  3  3  ·  5  ·
·  2  0  9  9  ·  6  ·
·  ·  ·  ·  ·  ·  ·  ·"""


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("written", ["321x654", "321*654", "321×654", "321X654", " 321 x 654 "])
def test_the_solution_is_drawn_with_a_margin_of_one_cell(command, written):
    ran = command("render", written, "--layout", "lattice")
    assert ran.err == ""
    assert lines(ran.out) == lines(LATTICE)


def test_steps_and_views_of_a_canvas_are_drawn(command):
    problems = Problems.from_ints([(321, 654)])
    steps = row_steps(
        Multiplication("standard").canvas_layout.draw_worked(problems, 8, 8, top=1, left=1)
    )
    for step in (1, 4):
        ran = command("render", "321x654", "--step", step)
        assert lines(ran.out) == lines(to_terminal(steps.inputs[step - 1]).plain)
    plain = command("render", "321x654", "--height", 9, "--width", 9)
    turned = command("render", "321x654", "--height", 9, "--width", 9, "--view", "r180")
    rows = [line.split() for line in lines(plain.out)]
    assert [line.split() for line in lines(turned.out)] == [row[::-1] for row in rows[::-1]]


def test_a_random_view_turns_and_moves_a_canvas_by_the_seed(command):
    drawn = [command("render", "321x654", "--view", "random", "--seed", n).out for n in range(20)]
    assert len({*drawn}) > 15
    assert drawn[0] == command("render", "321x654", "--view", "random").out
    assert len({"".join(sorted(text.split())) for text in drawn}) == 1  # nothing is cut off
    sides = [(len(lines(text)), len(lines(text)[0].split())) for text in drawn]
    assert {*sides} == {(12, 12)}  # twice the longer side of the solution
    refused = command("render", "321x654", "--seed", 1, code=2)
    assert "leave out --seed" in refused.err


def test_pictures_and_animations_open(command, tmp_path):
    files = {kind: tmp_path / f"canvas.{kind}" for kind in ("png", "svg", "gif")}
    for file in files.values():
        ran = command("render", "321x654", "--output", file, "--view", "h")
        assert ran.out.strip() == f"wrote {file}"
    with Image.open(files["png"]) as picture, Image.open(files["gif"]) as animation:
        assert (picture.format, animation.format) == ("PNG", "GIF")
        assert picture.size == animation.size
        assert animation.n_frames > 1
    width = ElementTree.parse(files["svg"]).getroot().get("width")
    assert float(width.removesuffix("pt")) * 100 / 72 == pytest.approx(picture.width, abs=0.2)


@pytest.mark.parametrize("more", [(), ("--task", "addition"), ("--layout", "column")])
def test_a_sign_makes_an_addition(command, more):
    ran = command("render", " 87 + 604 + 9 ", *more)
    assert ran.err == ""
    rows = [re.sub(r"[ ·]", "", line) for line in lines(ran.out)]
    assert rows == ["", "87", "604", "+9", "700", ""]
