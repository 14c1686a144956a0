"""What those who watch a solver see; the models are trained ones, or know the answer."""

import numpy as np
import pytest

from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import MASK
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Prediction, Predictor
from trm.solving.solver import Moment, Solver, solve_watched
from trm.solving.voting import Voting

PROBLEM = Problems.from_ints([(2539, 839)])


@pytest.fixture(scope="module")
def solver(stepping: Solver) -> Solver:
    return stepping


@pytest.fixture(scope="module")
def writer() -> Solver:
    """The shipped model, which works in the order of writing."""
    return load_solver(SHIPPED, device="cpu")


class AtOnce(Predictor):
    """Fills in the right row of one problem without supervision steps, as a GPT does."""

    device = "cpu"

    def __init__(self, task: Multiplication) -> None:
        self.canvas = Solver(self, task).draw_worked(PROBLEM).truth[0]

    def accepts(self, height: int, width: int) -> bool:
        return True

    def __call__(self, inputs: np.ndarray, *_: object) -> Prediction:
        return Prediction(self.canvas[None], np.array([0.5], np.float32), np.array([0]))


def moments_of(solver: Solver) -> tuple[list[Moment], list[tuple[int, int]]]:
    """The moments, and the row and supervision step of each."""
    shown: list[Moment] = []
    solve_watched(solver, PROBLEM, shown.append)
    return shown, [(moment.number, moment.step) for moment in shown]


def test_each_row_is_shown_masked_and_after_each_of_its_supervision_steps(solver):
    (solution,) = solver.solve(PROBLEM)
    _, seen = moments_of(solver)
    expected = [(i + 1, n) for i, last in enumerate(solution.row_steps) for n in range(last + 1)]
    assert seen == expected


def test_a_model_that_works_in_order_is_shown_cell_by_cell_from_the_right(writer):
    shown, seen = moments_of(writer)
    width = int((shown[0].canvas[shown[0].row] == MASK).sum())
    assert seen == [(row, cell) for row in (1, 2, 3) for cell in range(width + 1)]
    for moment in shown:
        assert moment.unit == "cell"
        assert moment.masked == (moment.step == 0)
        left = np.flatnonzero(moment.canvas[moment.row] == MASK)
        assert len(left) == width - moment.step
        assert left.tolist() == list(range(len(left)))
        assert (moment.confidence is None) == (len(left) > 0)


@pytest.mark.parametrize("model", ["solver", "writer"])
def test_watching_changes_nothing(model, request):
    solver = request.getfixturevalue(model)
    (alone,) = solver.solve(PROBLEM, with_truth=True)
    watched = solve_watched(solver, PROBLEM, lambda moment: None)
    assert watched.record() == alone.record()


def test_what_is_shown_is_what_the_model_holds_after_each_step(solver):
    shown, _ = moments_of(solver)
    masked = [moment for moment in shown if moment.masked]
    assert [moment.confidence for moment in masked] == [None] * 3
    rows = np.stack([moment.canvas for moment in masked])
    seen = IterativePredictor(solver.predictor.model, 3).trace(rows)
    for moment in shown:
        if 0 < moment.step <= 3:
            row, i = moment.row, moment.number - 1
            held = np.where(
                masked[i].canvas == MASK, seen.canvases[moment.step - 1, i], masked[i].canvas
            )
            np.testing.assert_array_equal(moment.canvas, held)
            assert not moment.masked
            sure = seen.confidence[moment.step - 1, i]
            assert moment.confidence == pytest.approx(sure, abs=0.02), (row, moment.step)


def test_a_model_without_steps_and_views_that_vote_are_shown_row_by_row(solver):
    two_frames_a_row = [(row, 0) for row in (1, 2, 3) for _ in range(2)]
    gpt = Solver(AtOnce(solver.task), solver.task)
    for other in (gpt, solver.with_voting(Voting(views=2, symmetries=("e",)))):
        shown, seen = moments_of(other)
        assert seen == two_frames_a_row
        assert [moment.masked for moment in shown] == [True, False] * 3
