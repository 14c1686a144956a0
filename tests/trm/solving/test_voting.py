"""Votes on hand-made answers, and models that see some views better than others."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from oracle import Oracle, Page
from tiny import tiny_gpt, tiny_trm

from augment.symmetry import SYMMETRIES
from augment.views import View, apply_views, distinct_views
from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.cells.reachable import reachable_cell_inputs
from canvas.choices import OwnCodeError
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import BLANK, DIGIT_ZERO, MASK, VOCAB_SIZE, encode
from trm.cells.predictor import CellPredictor
from trm.models.iterative import IterativeModel
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.noise import NoisyLoop
from trm.solving.predictor import Options
from trm.solving.rows import in_views
from trm.solving.solver import Solver
from trm.solving.voting import PER, VOTES, Voting, decide

NEIGHBOUR_NAMES = {"position": "relative_2d", "skip_blank": True}
PAIRS = [(12, 34), (7, 5), (987, 65), (43, 210)]


def solver_on(*size: int) -> Solver:
    """Of a tiny model, on canvases of a size; of no size: cut to the problems."""
    predictor = IterativePredictor(tiny_trm(**NEIGHBOUR_NAMES), 4)
    return Solver(predictor, Multiplication(digits_b=(1, 3)), Canvas(*size))


def test_each_vote_follows_its_rule_and_ties_are_broken():
    confidence = np.array([0.2, 0.2, 0.2, 0.9])
    said = {vote: decide(vote, ["11", "11", "11", "33"], confidence) for vote in VOTES}
    assert said["majority"].behind == [0, 1, 2]
    for vote in ("max_confidence", "weighted", "product"):  # 0.9 of all, or above the sum 0.6
        assert said[vote].behind == [3]
    shares = {vote: (d.confidence, d.agreement) for vote, d in said.items()}
    assert shares["majority"] == pytest.approx((0.2, 0.75))
    assert shares["max_confidence"] == pytest.approx((0.9, 0.25))
    confidence = np.array([0.6, 0.5, 0.9])
    said = {vote: decide(vote, ["11", "11", "33"], confidence) for vote in VOTES}
    assert said["weighted"].behind == [0, 1]  # 1.1 and 0.9
    assert said["weighted"].confidence == pytest.approx(0.55)
    # Probabilities: 11 gets 0.6 · 0.5 · 0.05 = 0.015, and 33 gets 0.2 · 0.25 · 0.9 = 0.045.
    assert said["product"].behind == [2]
    assert said["product"].confidence == pytest.approx(0.9)
    scores = VOTES["product"].score(np.array([[1, 1, 0], [0, 0, 1]], bool), confidence)
    assert np.exp(scores) == pytest.approx([0.015, 0.045])
    assert decide("majority", "1212", np.array([0.5, 0.6, 0.5, 0.6])).behind == [1, 3]
    for vote in VOTES:
        assert decide(vote, "1212", np.full(4, 0.5)).behind == [0, 2]


def test_views_with_confidence_0_do_not_vote_unless_all_have_it():
    for vote in VOTES:
        found = decide(vote, "1112", np.array([0.0, 0.0, 0.0, 0.3]))
        assert (found.behind, found.confidence, found.agreement) == ([3], 0.3, 0.25)
        assert [vote[:2] for vote in found.votes] == [("1", 3), ("2", 1)]
    assert decide("majority", "2111", np.zeros(4)).behind == [1, 2, 3]


def blunder(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
    """Gets the first digit of a row wrong."""
    first = tuple(np.argwhere((shown == MASK) & (filled != BLANK))[0])
    filled[first] = DIGIT_ZERO + (filled[first] - DIGIT_ZERO + 1) % 10


def seen_in_all_views(page: Page, blunders: tuple[str, ...]) -> Iterator[Page]:
    """A page in every view, wrong in some of them."""
    for view in distinct_views(page.truth != BLANK, tuple(SYMMETRIES), 10_000, seed=0):
        truth, given = apply_views([view, view], np.stack([page.truth, page.given]))
        wrong, name = view.symmetry in blunders, view.symmetry
        yield Page(truth, given > 0, page.first, 0.6 if wrong else 0.8, faulty=wrong, view=name)


@pytest.mark.parametrize("restless", ["r90", "h"])
@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("vote", VOTES)
def test_correct_views_outvote_incorrect_ones(per, vote, restless):
    """A row has settled if the views behind it say so."""
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


def test_votes_do_not_depend_on_other_problems_of_the_batch():
    solver = solver_on(7, 7)
    problems = Problems.from_ints(PAIRS)
    how: dict = {"symmetries": tuple(SYMMETRIES), "seed": 5}
    voting = [solver.with_voting(Voting(6, per=per, **how)) for per in PER]
    how |= {"vote": "weighted", "noise": 0.5, "rollouts": 3}
    noisy = [solver.with_voting(Voting(2, per=per, **how)) for per in PER]
    for asked in (solver, *voting, *noisy):
        together = asked.solve(problems)
        for i, solution in enumerate(together):
            (alone,) = asked.solve(problems[i : i + 1])
            np.testing.assert_array_equal(alone.canvas, solution.canvas)
            assert [v[0].views for v in alone.votes] == [v[0].views for v in solution.votes]
            assert alone.row_steps == solution.row_steps
            assert alone.row_confidence == pytest.approx(solution.row_confidence, abs=1e-5)


class Counting(IterativePredictor):
    """Keeps the number of inputs of each call."""

    def __init__(self):
        super().__init__(tiny_trm(**NEIGHBOUR_NAMES), 2)
        self.asked: list[int] = []

    def __call__(self, inputs, *more):
        self.asked.append(len(inputs))
        return super().__call__(inputs, *more)


def test_equal_views_are_solved_once():
    canvas = np.full((1, 3, 3), BLANK, np.uint8)
    canvas[0, 1] = [1, MASK, 1]  # turned by a half and mirrored it stays what it is
    views = [View(name) for name in SYMMETRIES]
    counting = Counting()
    canvases = np.repeat(canvas, 8, axis=0)
    filled = in_views(counting, canvases, views, problem_of=np.zeros(8, np.int64))
    assert counting.asked == [2]
    assert (filled.steps > 0).sum() == 2
    assert (in_views(counting, canvases, views).steps > 0).all()  # of eight problems
    assert len(np.unique(filled.confidence)) <= 2


@pytest.mark.parametrize("per", PER)
def test_each_of_sixteen_views_is_another_input_and_votes_once(per):
    """Also of a model that does not see where a canvas lies: shifts across rows are left out."""
    predictor = Counting()
    solver = Solver(predictor, Multiplication(digits_b=(1, 3)), Canvas(12, 12))
    for pair in PAIRS:
        solver = solver.with_voting(Voting(16, tuple(SYMMETRIES), per=per))
        predictor.asked.clear()
        (found,) = solver.solve(solver.task.problems([pair]))
        assert found.views == sum(vote.views for vote in found.votes[0]) == 16
        batches = -(-16 // predictor.at_once(12, 12))
        assert sum(predictor.asked[:batches]) == 16


def test_quarter_turns_need_a_square_canvas_or_a_cut_one():
    solver = solver_on(6, 8)
    with pytest.raises(ValueError, match="--symmetries e,r180,v,h"):
        solver.with_voting(Voting(views=4, symmetries=tuple(SYMMETRIES)))
    cut = solver_on().with_voting(Voting(views=4, symmetries=("t",)))
    (solution,) = cut.solve(Problems.from_ints([(987, 6)]))
    assert solution.canvas.shape[0] == solution.canvas.shape[1]


@pytest.mark.parametrize("layout", Addition.layouts)
@pytest.mark.parametrize("family", ["gpt", "recursive"])
def test_predictors_never_see_the_true_canvas(family, layout):
    """Sums drawn from their prompts alone, and with workings: right ones, and some of noise."""
    gpt = GPTPredictor(tiny_gpt(8, 7), Calibration())
    predictor = gpt if family == "gpt" else IterativePredictor(tiny_trm(**NEIGHBOUR_NAMES), 3)
    solver = Solver(predictor, Addition(layout, addends=(2, 4)), Canvas(8, 7))
    sums = [(87, 604, 9), (0, 0), (999, 1), (5, 0, 12, 700), (7, 8), (0, 999, 0)]
    problems = solver.task.problems(sums)
    prompt, worked = solver.draw(problems), solver.draw_worked(problems)
    noise = np.random.default_rng(0).integers(0, DIGIT_ZERO + 10, worked.truth.shape)
    views = [View("e", 0, -1)] * len(prompt)
    votings = [Voting(views=3, per=per) for per in PER] if layout == "column_carries" else []

    def written(drawing):
        rollouts = predictor.free_running(drawing), predictor.free_running(drawing, views)
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


@pytest.mark.parametrize(
    ("model", "vote"), [*(("binary", vote) for vote in VOTES), ("written", "majority")]
)
def test_a_proved_model_trusts_the_upright_view_alone(model, vote, request):
    trained = request.getfixturevalue(model)
    upright = Solver(CellPredictor(trained.model, proved=True), trained.task)
    eight = Voting(8, tuple(SYMMETRIES), vote=vote, per="solution")
    solver = upright.with_voting(eight)
    problems = Problems.from_ints([(0, 8), (3, 0), (8, 3)], upright.task.base)
    for solution in solver.solve(problems):
        assert (solution.correct, solution.confidence) == (True, 1)
        assert not solution.uncalibrated_reason
        assert [vote.confidence > 0 for vote in solution.votes[0]].count(True) == 1


def test_rows_of_turned_views_of_a_proved_model_cannot_vote(binary):
    solver = Solver(CellPredictor(binary.model), binary.task)
    for vote in VOTES:
        with pytest.raises(ValueError, match="let solutions vote, --vote-per solution"):
            solver.with_voting(Voting(8, tuple(SYMMETRIES), vote))


def canvases(*rows: str) -> np.ndarray:
    return np.stack([encode(row)[None] for row in rows])


def test_noise_is_gaussian_on_z_H_alone_and_rollout_0_has_none():
    model = tiny_trm(**NEIGHBOUR_NAMES)
    inputs = canvases("12_.", "12_.", "12_.")
    loop = NoisyLoop(model, inputs, Options(noise=0.25), np.array([0, 1, 2]))
    before = loop.state
    loop.add_noise()
    assert torch.equal(loop.state.z_L, before.z_L)
    added = loop.state.z_H - before.z_H
    assert not added[0].any()
    assert not torch.equal(added[1], added[2])
    for _ in range(200):
        loop.add_noise()
    total = (loop.state.z_H - before.z_H)[1:]
    assert float(total.std()) == pytest.approx(0.25 * 201**0.5, rel=0.15)
    assert float(total.mean()) == pytest.approx(0, abs=1.5)


def test_noise_is_a_function_of_seed_canvas_and_rollout():
    """Beside a canvas with more tokens, too, for whose sake it is padded."""
    model = tiny_trm(**NEIGHBOUR_NAMES)

    def added(inputs, rollouts, seed=0):
        options = Options(noise=1.0, seed=seed)
        loop = NoisyLoop(model, inputs, options, np.array(rollouts))
        before = loop.state.z_H
        loop.add_noise()
        return loop.state.z_H - before

    (alone,) = added(canvases("_12_."), [1])
    long, short = added(canvases("1234.", "_12_."), [1, 1])
    assert len(short) == len(long) == 5 > len(alone) == 3
    assert torch.allclose(short[:3], alone, atol=1e-6)
    for other in (added(canvases("_12_."), [2]), added(canvases("_12_."), [1], seed=1)):
        assert not torch.allclose(other[0], alone)


def test_rollouts_agree_at_little_noise_and_differ_at_much():
    solver, problems = solver_on(7, 7), Problems.from_ints(PAIRS)
    plain = solver.solve(problems)
    agreements = []
    for noise in (1e-9, 3.0):
        voting = Voting(rollouts=4, noise=noise, per="solution")
        found = solver.with_voting(voting).solve(problems)
        assert {(s.views, s.views_asked, s.rollouts) for s in found} == {(1, 1, 4)}
        assert all(sum(vote.views for vote in s.votes[0]) == 4 for s in found)
        agreements.append([s.agreement for s in found])
        if noise < 1:
            for one, other in zip(plain, found, strict=True):
                np.testing.assert_array_equal(one.canvas, other.canvas)
                assert [4 * n for n in one.row_steps] == other.row_steps
    assert agreements[0] == [1.0] * 4
    assert max(agreements[1]) < 1


class Plain(IterativeModel):
    """Its state is one tensor."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def encode(self, tokens):
        return torch.nn.functional.one_hot(tokens.long(), VOCAB_SIZE).float()

    def initial_state(self, context):
        return context

    def iterate(self, context, state):
        return state

    def read(self, state, context):
        return state, state.sum(dim=(1, 2, 3))


def test_noise_is_refused_by_models_without_z_H(binary):
    problems = Problems.from_ints([(12, 3)])
    gpt = GPTPredictor(tiny_gpt(8, 8), Calibration())
    for predictor in (gpt, CellPredictor(binary.model)):
        with pytest.raises(ValueError, match="this model has none: leave out --rollouts"):
            Solver(predictor, binary.task).with_voting(Voting(rollouts=2, noise=0.1))
    solver = Solver(IterativePredictor(Plain(), 2), Multiplication(digits_b=(1, 3)), Canvas(7, 7))
    with pytest.raises(ValueError, match="the state of Plain has state: leave out --rollouts"):
        solver.with_voting(Voting(rollouts=2, noise=0.1)).solve(problems)


def test_a_solution_without_a_number_loses_every_vote():
    def blank(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
        filled[shown == MASK] = BLANK

    predictor = Oracle(fault=blank)
    task = Multiplication("lattice", digits_a=(1, 3), digits_b=(1, 3))
    solver = Solver(predictor, task, Canvas(7, 7), trained_symmetries=tuple(SYMMETRIES))
    solver = solver.with_voting(Voting(views=4, vote="max_confidence", per="solution"))
    problems = Problems.from_ints([(321, 45)])
    (page,) = Oracle(solver.draw_worked(problems)).pages
    predictor.pages = [
        replace(one, confidence=0.999 if one.faulty else 0.7)
        for one in seen_in_all_views(page, ("e",))
    ]
    (solution,) = solver.solve(problems)
    assert solution.correct
    assert solution.confidence == pytest.approx(0.7**2)
    nothing = next(vote for vote in solution.votes[0] if vote.answer is None)
    assert nothing.confidence == 0


def test_too_small_a_reachable_set_checks_no_canvas(binary, monkeypatch):
    """Else a page that lies as it should would be taken for a turned one."""
    few = reachable_cell_inputs(binary.rule)[::2]
    monkeypatch.setattr("trm.cells.confidence.reachable_cell_inputs", lambda rule: few)
    eight = Voting(8, tuple(SYMMETRIES), vote="max_confidence", per="solution")
    solver = Solver(CellPredictor(binary.model), binary.task).with_voting(eight)
    with pytest.raises(OwnCodeError, match="LatticeRule are too few: the cell in row"):
        solver.solve(binary.task.problems([(3, 5)]))
