"""Votes on hand-made answers, and models that see some views better than others."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from oracle import Oracle, Page
from tiny import tiny_gpt, tiny_trm

from augment.symmetry import SYMMETRIES
from augment.views import View, apply_views, distinct_views
from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.choices import OwnCodeError
from canvas.closure import closed_windows
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import BLANK, DIGIT_ZERO, MASK
from trm.solving.gpt_predictor import Calibration, GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.local_predictor import LocalPredictor
from trm.solving.solver import Solver
from trm.solving.voting import decide
from trm.solving.voting_settings import PER, VOTES, Voting

SEES = {"position": "relative_2d", "skip_blank": True}
PAIRS = [(12, 34), (7, 5), (987, 65), (43, 210)]


def solver_on(*size: int) -> Solver:
    """Of a tiny model, on canvases of a size; of no size: cut to the problems."""
    predictor = IterativePredictor(tiny_trm(**SEES), 4)
    return Solver(predictor, Multiplication(digits_b=(1, 3)), Canvas(*size))


def test_each_vote_follows_its_rule_and_ties_are_broken():
    confidence = np.array([0.2, 0.2, 0.2, 0.9])
    said = {vote: decide(vote, ["11", "11", "11", "33"], confidence) for vote in VOTES}
    assert said["majority"].behind == [0, 1, 2]
    assert said["max_confidence"].behind == [3]
    shares = {vote: (d.confidence, d.agreement) for vote, d in said.items()}
    assert shares["majority"] == pytest.approx((0.2, 0.75))
    assert shares["max_confidence"] == pytest.approx((0.9, 0.25))
    assert decide("majority", "1212", np.array([0.5, 0.6, 0.5, 0.6])).behind == [1, 3]
    for vote in VOTES:
        assert decide(vote, "1212", np.full(4, 0.5)).behind == [0, 2]


def blunder(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
    """Gets the first digit of a row wrong."""
    first = tuple(np.argwhere((shown == MASK) & (filled != BLANK))[0])
    filled[first] = DIGIT_ZERO + (filled[first] - DIGIT_ZERO + 1) % 10


def seen_in_all_views(page: Page, blunders: tuple[str, ...]) -> Iterator[Page]:
    """How a page looks in every view, in some of which it is got wrong."""
    for view in distinct_views(page.truth != BLANK, tuple(SYMMETRIES), 10_000, seed=0):
        truth, given = apply_views([view, view], np.stack([page.truth, page.given]))
        wrong, name = view.symmetry in blunders, view.symmetry
        yield Page(truth, given > 0, page.first, 0.6 if wrong else 0.8, faulty=wrong, view=name)


@pytest.mark.parametrize("restless", ["r90", "h"])
@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("vote", VOTES)
def test_views_that_are_right_outvote_views_that_blunder(per, vote, restless):
    """Whether a row has settled is said by the views behind it."""
    predictor = Oracle(fault=blunder, settles=lambda page, _: page.view != restless)
    problems = Problems.from_ints([(321, 45)])
    task = Multiplication("lattice", digits_a=(1, 3), digits_b=(1, 3))
    solver = Solver(predictor, task, Canvas(7, 7), trained_symmetries=tuple(SYMMETRIES))
    voting = solver.with_voting(Voting(views=24, vote=vote, per=per))
    (page,) = Oracle(voting.draw_worked(problems)).pages
    predictor.pages = [*seen_in_all_views(page, ("e", "r90"))]
    (alone,) = solver.solve(problems)
    (together,) = voting.solve(problems, with_truth=True)
    assert not alone.correct
    assert together.exact
    assert together.correct
    assert together.views == 24
    assert 0.5 < together.agreement < 1
    assert sum(vote.views for vote in together.votes[0]) == 24
    assert together.votes[0][0].answer == ("1605" if per == "row" else "14445")
    assert len(together.votes) == (2 if per == "row" else 1)
    assert bool(together.uncalibrated_reason) == (restless == "h")


def test_what_a_problem_gets_does_not_depend_on_the_problems_beside_it():
    solver = solver_on(7, 7)
    problems, how = Problems.from_ints(PAIRS), {"symmetries": tuple(SYMMETRIES), "seed": 5}
    voting = (solver.with_voting(Voting(6, per=per, **how)) for per in PER)
    for asked in (solver, *voting):
        together = asked.solve(problems)
        for i, solution in enumerate(together):
            (alone,) = asked.solve(problems[i : i + 1])
            np.testing.assert_array_equal(alone.canvas, solution.canvas)
            assert [v[0].views for v in alone.votes] == [v[0].views for v in solution.votes]
            assert alone.row_steps == solution.row_steps
            assert alone.row_confidence == pytest.approx(solution.row_confidence, abs=1e-5)


def test_views_that_look_the_same_are_worked_out_once():
    class Counting(IterativePredictor):
        asked = 0

        def __call__(self, inputs, *more):
            Counting.asked += len(inputs)
            return super().__call__(inputs, *more)

    canvas = np.full((1, 3, 3), BLANK, np.uint8)
    canvas[0, 1] = [1, MASK, 1]  # turned by a half and mirrored it stays what it is
    views = [View(name) for name in SYMMETRIES]
    filled = Counting(tiny_trm(**SEES), 2).in_views(np.repeat(canvas, 8, axis=0), views)
    assert Counting.asked == 2
    assert (filled.steps > 0).sum() == 2
    assert len(np.unique(filled.confidence)) <= 2


def test_quarter_turns_are_refused_on_a_canvas_that_is_not_square_and_a_cut_one_becomes_square():
    solver = solver_on(6, 8)
    with pytest.raises(ValueError, match="--symmetries e,r180,v,h"):
        solver.with_voting(Voting(views=4, symmetries=tuple(SYMMETRIES)))
    cut = solver_on().with_voting(Voting(views=4, symmetries=("t",)))
    (solution,) = cut.solve(Problems.from_ints([(987, 6)]))
    assert solution.canvas.shape[0] == solution.canvas.shape[1]


@pytest.mark.parametrize("layout", Addition.layouts)
@pytest.mark.parametrize("family", ["gpt", "recursive"])
def test_a_model_that_solves_sees_nothing_of_the_truth(family, layout):
    """Sums drawn from their prompts alone, and with workings: right ones, and some of noise."""
    gpt = GPTPredictor(tiny_gpt(8, 7), Calibration())
    predictor = gpt if family == "gpt" else IterativePredictor(tiny_trm(**SEES), 3)
    solver = Solver(predictor, Addition(layout, addends=(2, 4)), Canvas(8, 7))
    sums = [(87, 604, 9), (0, 0), (999, 1), (5, 0, 12, 700), (7, 8), (0, 999, 0)]
    problems = solver.task.problems(sums)
    prompt, worked = solver.draw(problems), solver.draw_worked(problems)
    noise = np.random.default_rng(0).integers(0, DIGIT_ZERO + 10, worked.truth.shape)
    views = [View("e", 0, -1)] * len(prompt)
    votings = [Voting(views=3, per=per) for per in PER] if layout == "column_carries" else []

    def written(drawing):
        rollouts = predictor.free_running(drawing), predictor.free_running_views(drawing, views)
        found = [part for rollout in rollouts for part in rollout]
        asked = (solver.with_voting(voting).solve_drawing(problems, drawing) for voting in votings)
        solutions = [solution for some in asked for solution in some]
        return found, [solution.record() | {"exact": None} for solution in solutions]

    arrays, records = written(prompt)
    for drawing in (worked, replace(worked, truth=noise.astype(np.uint8))):
        others, other_records = written(drawing)
        for one, other in zip(arrays, others, strict=True):
            np.testing.assert_array_equal(one, other)
        assert records == other_records


@pytest.mark.parametrize("model", ["binary", "written"])
def test_of_eight_views_one_alone_is_upright_and_a_model_of_one_cell_knows_it(model, request):
    """Of a proved model, which works out once what there is to see on upright pages."""
    trained = request.getfixturevalue(model)
    upright = Solver(LocalPredictor(trained.model, proved=True), trained.task)
    eight = Voting(8, tuple(SYMMETRIES), vote="max_confidence", per="solution")
    solver = upright.with_voting(eight)
    problems = Problems.from_ints([*itertools.product((0, 3, 8), repeat=2)], upright.task.base)
    for solution in solver.solve(problems):
        assert (solution.correct, solution.confidence) == (True, 1)
        assert not solution.uncalibrated_reason
        assert [vote.confidence > 0 for vote in solution.votes[0]].count(True) == 1


def test_whether_a_page_is_upright_is_not_told_by_a_row(binary):
    solver = Solver(LocalPredictor(binary.model), binary.task)
    for how in ({"vote": "max_confidence"}, {"per": "solution"}):
        with pytest.raises(ValueError, match="--vote max_confidence --vote-per solution"):
            solver.with_voting(Voting(8, tuple(SYMMETRIES), **how))


def test_a_set_of_inputs_that_is_too_small_judges_no_page(binary, monkeypatch):
    """Else a page that lies as it should would be taken for a turned one."""
    few = closed_windows(binary.rule)[::2]
    monkeypatch.setattr("trm.solving.local_predictor.closed_windows", lambda rule: few)
    eight = Voting(8, tuple(SYMMETRIES), vote="max_confidence", per="solution")
    solver = Solver(LocalPredictor(binary.model), binary.task).with_voting(eight)
    with pytest.raises(OwnCodeError, match="LatticeRule are too few: the cell in row"):
        solver.solve(binary.task.problems([(3, 5)]))
