import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from PIL import Image

from canvas.multiplication import Multiplication
from canvas.picture import to_terminal
from canvas.problems import Problems
from canvas.render import draw_worked, row_steps

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
def test_the_working_of_a_problem_is_drawn_with_a_cell_around_it(command, written):
    ran = command("render", written, "--layout", "lattice")
    assert (ran.code, ran.err) == (0, "")
    assert lines(ran.out) == lines(LATTICE)


def test_a_step_shows_the_rows_so_far_and_the_next_one_masked(command):
    problems = Problems.from_ints([(321, 654)])
    worked = Multiplication("standard").rules.work(problems)
    steps = row_steps(draw_worked(worked, 8, 8, top=1, left=1))
    for step in (1, 4):
        ran = command("render", "321x654", "--step", step)
        assert lines(ran.out) == lines(to_terminal(steps.inputs[step - 1]).plain)


def test_a_view_turns_the_canvas(command):
    plain = command("render", "321x654", "--height", 9, "--width", 9)
    turned = command("render", "321x654", "--height", 9, "--width", 9, "--view", "r180")
    rows = [line.split() for line in lines(plain.out)]
    assert [line.split() for line in lines(turned.out)] == [row[::-1] for row in rows[::-1]]


def test_drawing_without_a_view_does_not_wait_for_torch():
    program = "import sys; from trm.cli import run; run(['render', '12x34']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, "torch" in ran.stdout.split()) == (0, False)
    assert "rich" in ran.stdout.split()


def test_pictures_and_animations_open_and_can_be_drawn_larger(command, tmp_path):
    sizes = []
    for name, scale in (("small", 1), ("large", 2)):
        files = {kind: tmp_path / f"{name}.{kind}" for kind in ("png", "svg", "gif")}
        options = [f"--{kind}={file}" for kind, file in files.items()]
        ran = command("render", "321x654", *options, "--scale", scale, "--view", "h")
        assert (ran.code, lines(ran.out)) == (0, [f"wrote {file}" for file in files.values()])
        with Image.open(files["png"]) as picture, Image.open(files["gif"]) as animation:
            assert (picture.format, animation.format) == ("PNG", "GIF")
            assert picture.size == animation.size
            assert animation.n_frames > 1
            sizes.append(picture.width)
    assert sizes[1] == 2 * sizes[0]
    width = ElementTree.parse(tmp_path / "large.svg").getroot().get("width")
    assert float(width.removesuffix("pt")) * 100 / 72 == pytest.approx(sizes[1], abs=0.2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"{'9' * 1000}x{'8' * 1000}", "at most 100,000 are drawn"),
        ("1x2 --top 5000 --left 5000", "at most 100,000 are drawn"),
        ("321x654 --scale 2", "no picture is drawn: leave out --scale"),
        ("321x654 --png a.png --scale 0.1", "'0.1' is not a number from 0.5 up"),
        ("321x654 --png a.png --scale 9999", "pixels is too large: draw smaller cells"),
        ("321x654 --height 3", "needs a canvas of at least 6 x 6 (height x width), not 3 x 8"),
        ("321x654 --top 5 --height 8", "at row 5, column 1 needs a canvas of at least 11 x 7"),
        ("321x654 --step 9", "this problem has 4 steps, there is no step 9"),
        ("321x654 --height wide", "not a whole number from 1 to 12,000"),
        ("321x654 --view r45", "a symmetry of the square must be one of"),
        ("321x654 --view r90,1", "write it like r90 or r90,1,-2"),
        ("321x654 --view e,9,0", "pushes the content"),
        ("321x654 --layout tower", "layout must be one of standard, running_sum, interleaved"),
        ("321x654 --base 3", "is not a whole number from 0 up in base 3"),
        ("321", "write it like 123x456"),
        ("1x2x3", "multiplication takes 2 operands, not 3"),
        ("12x34 --png nowhere/a.png", "there is no folder nowhere; make it, or name another"),
        ("12x34 --png a.gif", "argument --png: 'a.gif' does not end in .png"),
        ("12x34 --gif a.gif --step 2", "--gif shows every step: leave out --step"),
        ("12+3 --layout lattice", "layout must be one of column, column_carries"),
        ("12+3 --task multiplication", "'12+3' is no multiplication; write it like 123x456"),
        ("12x3 --task subtraction", "task must be one of multiplication, addition"),
        ("1+1+1 --base 2 --layout column_carries", "at most 2 addends in base 2, not 3"),
        ("12+3 --task nowhere.Mine", "there is no module nowhere"),
        ("", "give a problem like 321x654, or --check and a layout"),
    ],
)
def test_bad_input_gets_a_sentence_and_exit_code_2(command, tmp_path, words, sentence):
    ran = command("render", *words.split(), folder=tmp_path)
    assert ran.code == 2
    assert sentence in " ".join(ran.err.split())
    assert ran.out == ""


@pytest.mark.parametrize("more", [(), ("--task", "addition"), ("--layout", "column")])
def test_a_sign_makes_an_addition(command, more):
    ran = command("render", " 87 + 604 + 9 ", *more)
    assert (ran.code, ran.err) == (0, "")
    rows = [re.sub(r"[ ·]", "", line) for line in lines(ran.out)]
    assert rows == ["", "87", "604", "+9", "700", ""]
