from dataclasses import replace

import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from canvas.picture import READ, WRONG
from canvas.problems import Problems
from canvas.symbols import DIGIT_ZERO
from trm.figures.animation import animate
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.watching import Moment, solve_watched


def work(solver: Solver, a: int = 978, b: int = 65) -> tuple[Solution, list[Moment]]:
    moments: list[Moment] = []
    return solve_watched(solver, Problems.from_ints([(a, b)]), moments.append), moments


def frames(solution: Solution, moments: list[Moment]) -> list[Figure]:
    film = list(animate(solution, moments))
    assert all(0 < seconds < 9 for _, seconds in film)
    return [figure for figure, _ in film]


def spoilt(solution: Solution, symbol: int) -> Solution:
    """The solution with another symbol in the first cell that the answer is read from."""
    canvas = solution.canvas.copy()
    canvas[1, 4] = symbol
    answer = solution.answer - solution.answer % 10 + symbol - DIGIT_ZERO
    if symbol > DIGIT_ZERO:
        return replace(solution, canvas=canvas, answer=answer)
    return replace(solution, canvas=canvas, answer=None, answer_cells=())


def texts(frame: Figure) -> list[str]:
    return [text.get_text() for text in frame.axes[0].texts]


def cells(frame: Figure, colour: str) -> int:
    """Number of cells of that colour."""
    collections = [c for c in frame.axes[0].collections if isinstance(c, PathCollection)]
    return int((collections[0].get_facecolors() == to_rgba(colour)).all(axis=1).sum())


def test_each_step_is_a_frame_and_the_last_ones_read_the_answer(stepping):
    solution, moments = work(stepping)
    film = frames(solution, moments)
    assert len(film) == len(moments) + 5
    assert cells(film[-6], READ) == 0
    for n, frame in enumerate(film[-5:], start=1):
        assert "63570"[-n:] in texts(frame)
        assert cells(frame, READ) == n
    verdict = (
        f"✓ correct, checked by exact arithmetic; confidence {100 * solution.confidence:.1f} %"
    )
    assert {"978 × 65 = ", verdict} <= set(texts(film[-1]))
    assert cells(film[1], WRONG) == 0  # rows that are yet to come are not judged
    for frame, moment in zip(film, moments, strict=False):
        words = texts(frame)
        assert any(f"row {moment.number} of 2" in word for word in words)
        if moment.step:
            assert any(f"supervision step {moment.step}" in word for word in words)
            assert f"{moment.step} step{'s' if moment.step > 1 else ''}" in words
            assert any(word.endswith(" %") for word in words)


def test_a_cell_model_is_a_frame_for_each_step_of_all_its_rows(shipped):
    solution, moments = work(shipped)
    film = frames(solution, moments)
    assert len(film) == solution.steps + 1 + 5
    assert "all rows together: masked, to be filled in" in texts(film[0])
    assert cells(film[1], WRONG) > 0  # from the first step on all rows are compared
    for step, frame in enumerate(film[1:-5], start=1):
        words = texts(frame)
        assert any(word.startswith(f"all rows together, supervision step {step}") for word in words)
    for words in map(texts, film[-5:]):
        assert words.count("100.0 %") == 2
        assert {f"{steps} steps" for steps in solution.row_steps} <= set(words)


def test_an_incorrect_and_a_missing_answer_are_named(stepping):
    solution, moments = work(stepping)
    last = frames(spoilt(solution, DIGIT_ZERO + 9), moments)[-1]
    assert "63579" in texts(last)
    assert any(word.startswith("✗ incorrect: exact arithmetic gives 63570") for word in texts(last))
    words = texts(frames(spoilt(solution, 0), moments)[-1])
    assert {"this canvas contains no answer", "978 × 65 = ", "?"} <= set(words)


@pytest.mark.parametrize("problem", [(7, 8), (10**16 + 7, 12)])
def test_nothing_is_cut_off(stepping, problem):
    solution, moments = work(stepping, *problem)
    film = frames(solution, moments[:1] + moments[-1:])
    for frame in film:
        assert (frame.get_size_inches() == film[0].get_size_inches()).all()
        renderer = frame.canvas.get_renderer()
        for text in frame.axes[0].texts:
            box = text.get_window_extent(renderer)
            assert 0 <= box.x0 <= box.x1 <= frame.bbox.x1, text
            assert 0 <= box.y0 <= box.y1 <= frame.bbox.y1, text
