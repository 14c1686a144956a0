from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from canvas.picture import POINTER, READ, WRONG_INK
from canvas.problems import Problems
from canvas.shapes import Box, Label, Sketch
from canvas.symbols import DIGIT_ZERO
from trm.checkpoints.loading import load_solver
from trm.checkpoints.paths import SHIPPED
from trm.figures.animation import Animation
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.watching import Moment, solve_watched


@pytest.fixture(scope="module")
def solver(stepping: Solver) -> Solver:
    return stepping


@pytest.fixture(scope="module")
def writer() -> Solver:
    """The shipped model, which works in the order of writing."""
    return load_solver(SHIPPED, device="cpu")


def work(solver: Solver, a: int = 978, b: int = 65) -> tuple[Solution, list[Moment]]:
    moments: list[Moment] = []
    return solve_watched(solver, Problems.from_ints([(a, b)]), moments.append), moments


def spoilt(solution: Solution, symbol: int) -> Solution:
    """The solution with another symbol in the first cell that the answer is read from."""
    canvas = solution.canvas.copy()
    canvas[1, 4] = symbol
    answer = solution.answer - solution.answer % 10 + symbol - DIGIT_ZERO
    if symbol > DIGIT_ZERO:
        return replace(solution, canvas=canvas, answer=answer)
    return replace(solution, canvas=canvas, answer=None, answer_cells=())


def told(frame: Sketch) -> list[str]:
    return [shape.text for shape in frame.shapes if isinstance(shape, Label)]


def dark(frame: Sketch, size: float) -> int:
    """Cells of that size that are read off."""
    boxes = [shape for shape in frame.shapes if isinstance(shape, Box)]
    square = [box for box in boxes if box.right - box.left == size == box.bottom - box.top]
    return sum(box.fill == READ for box in square)


def test_an_animation_ends_with_the_answer_read_off_checked_and_its_confidence(solver):
    solution, moments = work(solver)
    last = told(Animation(solution, moments).frames[-1])
    sure = f"{100 * solution.confidence:.1f} %"
    assert last[-1] == f"right, checked by exact arithmetic; confidence {sure}"
    assert {"978 × 65 =", "63570", "✓"} <= set(last)


def test_the_answer_is_read_off_digit_by_digit_from_dark_cells(solver):
    solution, moments = work(solver)
    film = Animation(solution, moments)
    for n, frame in enumerate(film.frames[-5:], start=1):
        assert "63570"[-n:] in told(frame)
        assert dark(frame, film.cell) == n
    assert dark(film.frames[-6], film.cell) == 0


def test_every_supervision_step_is_a_frame_that_says_how_sure_the_model_is(solver):
    solution, moments = work(solver)
    film = Animation(solution, moments)
    assert len(film.frames) == len(moments) + 5
    for frame, moment in zip(film.frames, moments, strict=False):
        words = told(frame)
        assert any(f"row {moment.number} of 2" in word for word in words)
        assert POINTER in words
        if moment.step:
            assert any(f"supervision step {moment.step}" in word for word in words)
            assert f"{moment.step} step{'s' if moment.step > 1 else ''}" in words
            assert any(word.endswith(" %") for word in words)


def test_cells_are_written_one_by_one_where_there_are_no_steps(writer):
    solution, moments = work(writer, 2539, 839)
    film = Animation(solution, moments)
    for frame, moment in zip(film.frames, moments, strict=False):
        (line,) = (word for word in told(frame) if word.startswith("row "))
        where = f"row {moment.number} of 3"
        cell = f", cell {moment.step}" if moment.step else ": masked, to be filled in"
        assert line == where + cell  # and no cell wrong, of those to come either


def test_a_wrong_answer_is_told_by_words_and_a_sign(solver):
    solution, moments = work(solver)
    film = Animation(spoilt(solution, DIGIT_ZERO + 9), moments)
    last = film.frames[-1]
    assert {"63579", "✗"} <= set(told(last))
    assert "wrong: exact arithmetic gives 63570" in told(last)[-1]
    assert any(isinstance(s, Box) and s.border == WRONG_INK for s in last.shapes)


def test_a_canvas_without_an_answer_says_so(solver):
    solution, moments = work(solver)
    film = Animation(spoilt(solution, 0), moments)
    words = told(film.frames[-1])
    assert {"no answer can be read off this canvas", "978 × 65 =", "?"} <= set(words)


def test_rows_that_are_yet_to_come_are_not_judged(solver):
    solution, moments = work(solver)
    first = Animation(solution, moments).frames[1]
    assert not any(isinstance(s, Box) and s.border == WRONG_INK for s in first.shapes)


def test_wrong_cells_on_the_way_are_counted(solver):
    solution, moments = work(solver, 2539, 839)
    film = Animation(solution, moments)
    frame = film.frames[[(moment.number, moment.step) for moment in moments].index((2, 1))]
    assert "row 2 of 3, supervision step 1: 1 cell wrong" in told(frame)


@pytest.mark.parametrize("problem", [(7, 8), (978, 65), (10**20 + 7, 12), (12, 10**12 + 1)])
def test_nothing_is_cut_off(solver, problem):
    solution, moments = work(solver, *problem)
    for frame in Animation(solution, moments[:1] + moments[-1:]).frames:
        for shape in frame.shapes:
            if isinstance(shape, Label):
                before = {"start": 0.0, "middle": 0.5, "end": 1.0}[shape.anchor] * shape.width
                left, right = shape.x - before, shape.x - before + shape.width
            else:
                left, right = shape.left, shape.right
            assert left >= 0
            assert right <= frame.width, shape


def test_the_animation_is_a_gif(solver, tmp_path: Path):
    solution, moments = work(solver)
    film = Animation(solution, moments)
    film.save(tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as animation:
        assert animation.size == (film.frames[0].width, film.frames[0].height)
        animation.seek(animation.n_frames - 1)
        assert animation.info["duration"] > 3000
        last = np.asarray(animation.convert("RGB"))
    drawn = np.asarray(film.frames[-1].image())
    assert np.abs(last.astype(int) - drawn).mean() < 0.5


def test_without_the_truth_rows_cannot_be_judged(solver):
    solution, moments = work(solver)
    with pytest.raises(ValueError, match="with_truth=True"):
        Animation(replace(solution, truth=None), moments)
