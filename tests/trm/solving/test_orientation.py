"""Canvases in an orientation that nobody tells: guesses, which of them wins, and what they show."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from oracle import Oracle, Page
from tiny import tiny_gpt, tiny_trm

from augment.symmetry import SYMMETRIES, apply, compose, invert
from canvas import symbols
from canvas.addition import Addition
from canvas.boxes import written_box
from canvas.canvas_size import Canvas
from canvas.drawing import Drawing
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, MASK
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.operand_swap import agreed
from trm.solving.orientation import _guesses, orientation_of, relative
from trm.solving.solver import Solver
from trm.solving.voting import Voting
from trm.solving.watching import solve_watched

PAIRS = [(12, 34), (7, 5), (987, 65), (43, 210), (12, 1), (0, 10)]
TASKS = [Multiplication(layout, digits_b=(1, 3)) for layout in Multiplication.layouts]
TASKS += [Addition(layout) for layout in Addition.layouts]


def asked(given: str, **more) -> Voting:
    return Voting(orientation=given, vote="max_confidence", per="solution", **more)


def turned(given: str, canvas: Canvas | None = None, layout: str = "lattice", **more):
    """321 x 45, and its solver, whose oracle has no canvas yet."""
    task = Multiplication(layout, digits_b=(1, 3))
    solver = Solver(Oracle(), task, canvas or Canvas(9, 9)).with_voting(asked(given, **more))
    return solver, solver.predictor, task.problems([(321, 45)])


def content(drawing: Drawing) -> tuple[bytes, ...]:
    return tuple(getattr(drawing, field.name).tobytes() for field in fields(Drawing))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.layout)
@pytest.mark.parametrize("canvas", [Canvas(14, 14), Canvas(margin=3)], ids=["fixed", "cut"])
def test_guesses_are_the_same_set_in_every_orientation(task, canvas):
    """So nothing of the true orientation can reach the model."""
    solver = Solver(Oracle(), task, canvas).with_voting(asked("random"))
    for pair in PAIRS:
        upright = solver.draw(task.problems([pair]))
        found = {view: _guesses(solver, upright.canvases[0], view, 0) for view in SYMMETRIES}
        (one, *others) = ({content(g.drawing) for g in some} for some in found.values())
        assert all(other == one for other in others)
        for view, some in found.items():
            (right,) = (guess for guess in some if guess.symmetry == view)
            assert content(right.drawing) == content(upright)


def test_a_guess_ignores_place_and_size_of_the_given_canvas():
    task = TASKS[0]
    solver = Solver(Oracle(), task, Canvas(margin=3)).with_voting(asked("r90"))
    problem = task.problems([(987, 65)])
    found = []
    for size, top, left in ((6, 0, 0), (12, 5, 1)):
        canvas = task.canvas_layout.draw(problem, size, size, top, left).canvases[0]
        found.append([content(guess.drawing) for guess in _guesses(solver, canvas, "r90", 0)])
    assert found[0] == found[1]


@pytest.mark.parametrize("view", ["e", "r90", "h", "t"])  # all others follow from these
def test_a_proved_model_recognises_every_orientation(base_2, view):
    problems = base_2.task.problems([(1, 3), (3, 8), (8, 8)])
    upright = base_2.solve(problems, with_truth=True)
    found = base_2.with_voting(asked(view)).solve(problems, with_truth=True)
    for one, plain in zip(found, upright, strict=True):
        assert (one.view, one.guess, one.readable.guess) == (view, view, view)
        assert (one.exact, one.confidence, one.agreement) == (True, 1, 1)
        np.testing.assert_array_equal(one.canvas, plain.canvas)
        np.testing.assert_array_equal(one.truth, plain.truth)


def seen_by_guesses(solver: Solver, problems, sure: dict[str, float]) -> list[Page]:
    """Canvases of all guesses; an incorrect guess fills its rows with noughts."""
    upright, pages = solver.draw_worked(problems), []
    for i in range(len(problems)):
        view = orientation_of(solver.voting, problems.to_ints()[i])
        for guess in _guesses(solver, upright.canvases[i], view, i):
            drawing = guess.drawing
            rel = compose(view, invert(guess.symmetry))
            truth = np.where(drawing.unknown, np.uint8(1), drawing.canvases)[0]
            truth = upright.truth[i] if rel == "e" else truth
            first = int(drawing.canvas_row(0)[0])
            pages.append(Page(truth, drawing.given[0], first, sure.get(rel, 0.1), view=rel))
    return pages


@pytest.mark.parametrize("wins", ["e", "r90", "hvt"])
@pytest.mark.parametrize("given", ["e", "r270", "t"])
@pytest.mark.parametrize("canvas", [Canvas(9, 9), Canvas()], ids=["fixed", "cut"])
def test_confidence_decides_and_the_reader_only_finds_no_answer(wins, given, canvas):
    solver, predictor, problems = turned(given, canvas)
    predictor.pages = seen_by_guesses(solver, problems, {"e": 0.5, wins: 0.9})
    (found,) = solver.solve(problems, with_truth=True)
    assert relative(found, found.guess) == wins
    assert (found.correct, found.exact) == (wins == "e",) * 2
    assert found.readable.exact
    assert found.readable.guess == given
    assert found.confidence == pytest.approx(0.81 if wins == "e" else 0)
    assert found.views == len(found.votes[0]) == 8
    record = found.record()
    assert (record["view"], record["readable_answer"]) == (given, "14445")
    # The truth lies as the guess reads the canvas: written cells are on each other.
    written = (found.canvas != BLANK) & found.given
    np.testing.assert_array_equal(found.truth[written], found.canvas[written])
    true = apply(relative(found, found.guess), solver.draw_worked(problems).truth[0])
    np.testing.assert_array_equal(found.truth[written_box(found.truth)], true[written_box(true)])
    assert len(found.rows) == len(found.row_confidence)


@pytest.mark.parametrize("given", ["e", "r270", "t"])
@pytest.mark.parametrize("wins", ["e", "r90"])
@pytest.mark.parametrize("swapped", [0.5, 0.99], ids=["less sure", "surer"])
def test_both_orders_of_what_the_best_guess_shows_vote(given, wins, swapped):
    solver, predictor, problems = turned(given, orders=2)
    predictor.pages = seen_by_guesses(solver, problems, {"e": 0.8, wins: 0.9})
    other = solver.draw_worked(solver.task.problems([(45, 321)]))
    (page,) = predictor.learn(other, confidence=swapped)
    four, seven = symbols.encode("47")
    page.truth[~page.given & (page.truth == four)] = seven  # 17775
    (found,) = solver.solve(problems, with_truth=True)
    assert relative(found, found.guess) == wins
    assert (found.problem, found.true_answer) == ("321 x 45", 14445)
    assert found.views == 8
    if wins != "e":  # no operands are read, so none are swapped
        assert (found.answer, len(found.votes)) == (None, 1)
        return
    assert found.correct == found.exact == (swapped == 0.5)
    assert len(found.votes) == 2
    assert {vote.answer for vote in found.votes[1]} == {"14445", "17775"}
    assert found.confidence == pytest.approx(0.5, abs=0.2)  # at most a half, as they differ
    assert found.readable.exact
    assert "all guesses and both orders together" in found.steps_text()


@pytest.mark.parametrize("layout", ["standard", "lattice"])
@pytest.mark.parametrize("given", ["e", "r270", "t"])
def test_the_other_order_answers_where_the_first_cannot_be_read(layout, given):
    solver, predictor, problems = turned(given, layout=layout, orders=2)
    task = solver.task
    predictor.pages = seen_by_guesses(solver, problems, {"e": 0.9})
    for page in predictor.pages:
        if page.view == "e":
            page.truth = np.where(page.given, page.truth, np.uint8(task.canvas_layout.sign))
    predictor.learn(solver.draw_worked(task.problems([(45, 321)])), confidence=0.99)
    (found,) = solver.solve(problems, with_truth=True)
    assert [vote.answer for vote in found.votes[1]] == [None, "14445"]
    assert (found.problem, found.answer, found.correct) == ("321 x 45", 14445, True)
    assert found.confidence == pytest.approx(0.5, abs=0.2)  # at most a half, as they differ


def test_a_misread_problem_swapped_has_no_cell_of_the_true_one(base_2):
    first, other = base_2.solve(base_2.task.problems([(5, 3), (3, 6)]), with_truth=True)
    first = replace(first, view="e", guess="h", row_confidence=[0.1] * len(first.rows))
    found = agreed("max_confidence", first, other)
    assert (found.answer, found.true_answer, found.correct) == (18, 15, False)
    assert (found.exact, found.correct_rows) == (False, 0)
    assert found.operands == (5, 3)


def test_a_guess_does_not_depend_on_other_problems_of_the_batch():
    predictor = IterativePredictor(tiny_trm(position="relative_2d", skip_blank=True), 3)
    solver = Solver(predictor, Multiplication(digits_b=(1, 3)))
    solver = solver.with_voting(asked("random", seed=3))
    problems = solver.task.problems(PAIRS[:3])
    together = solver.solve(problems)
    assert len({one.view for one in together}) > 1
    for i, solution in enumerate(together):
        (alone,) = solver.solve(problems[i : i + 1])
        np.testing.assert_array_equal(alone.canvas, solution.canvas)
        assert (alone.view, alone.guess) == (solution.view, solution.guess)
        assert alone.row_steps == solution.row_steps


def test_rows_of_a_guess_are_masked_over_their_full_width():
    solver, predictor, problems = turned("t")
    predictor.pages = seen_by_guesses(solver, problems, {})
    solver.solve(problems)
    for shown in itertools.chain.from_iterable(predictor.seen):
        (row,) = np.flatnonzero((shown == MASK).any(axis=1))
        alike = [page for page in predictor.pages if (page.truth == shown)[page.given].all()]
        assert any(((shown == MASK)[row] == ~page.given[row]).all() for page in alike)


def test_a_gpt_reads_each_guess_as_upright():
    predictor = GPTPredictor(tiny_gpt(12, 12), Calibration())
    solver = Solver(predictor, Multiplication("standard"), Canvas(12, 12))
    (found,) = solver.with_voting(asked("r90")).solve(solver.task.problems([(12, 3)]))
    assert found.views == 8


def test_settings_that_contradict_a_given_view_are_refused():
    for more in ({"views": 2}, {"rollouts": 2, "noise": 0.1}):
        with pytest.raises(ValueError, match="leave out --views and --rollouts"):
            asked("r90", **more)
    with pytest.raises(ValueError, match="--vote-per solution"):
        Voting(orientation="r90")
    with pytest.raises(ValueError, match=r"view must be one of e, .*random"):
        asked("r45")
    solver = Solver(Oracle(), Multiplication()).with_voting(asked("r90"))
    problems = solver.task.problems([(1, 2)])
    with pytest.raises(ValueError, match="no one canvas to watch"):
        solve_watched(solver, problems, lambda _: None)
    few = replace(solver, canvas=Canvas(2, 6))
    few = few.with_voting(asked("r90", symmetries=("e",)))
    with pytest.raises(ValueError, match="none of the guessed orientations"):
        few.solve(few.task.problems([(123, 4)]))


@pytest.mark.parametrize("biased", [-2.0, 2.0])
def test_guesses_that_cannot_win_are_skipped(biased, monkeypatch):
    model = tiny_trm(position="relative_2d", skip_blank=True, halt_pool="mask")
    model.halt_head.bias.data += biased
    solver = Solver(IterativePredictor(model, 3), Multiplication(digits_b=(1, 3)))
    solver = solver.with_voting(asked("random", seed=3))
    problems = solver.task.problems(PAIRS[:3])
    quick = solver.solve(problems, with_truth=True)

    monkeypatch.setattr("trm.solving.orientation._fill_first_rows", lambda *_: None)
    for one, other in zip(quick, solver.solve(problems, with_truth=True), strict=True):
        assert (one.guess, one.confidence) == (other.guess, other.confidence)
        np.testing.assert_array_equal(one.canvas, other.canvas)
        np.testing.assert_array_equal(one.truth, other.truth)


def test_guesses_rejected_at_their_first_row_are_not_solved():
    solver, predictor, problems = turned("r90")
    predictor.pages = seen_by_guesses(solver, problems, {"e": 0.9})
    (found,) = solver.solve(problems)
    assert found.answer == 14445
    solved = [vote for vote in found.votes[0] if vote.answer is not None]
    assert [vote.confidence for vote in solved] == [pytest.approx(0.9 ** len(found.rows))]
    assert found.votes[0][0].confidence == pytest.approx(0.1)  # of its first row
    assert found.row_steps == [2] * len(found.rows)
    assert found.other_steps == 2 * 8  # of the first rows of all guesses
    assert found.steps == sum(found.row_steps) + found.other_steps
    assert found.steps_text() == f"supervision steps, all guesses together: {found.steps}"
