"""Problems watched while they are solved; the supervision steps that those who watch see."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from oracle import Oracle

from augment.symmetry import SYMMETRIES
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import MASK
from trm.extras.analysis.settled import last_changes
from trm.models.iterative import Loop
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.solving.voting import Voting
from trm.solving.watching import Moment, solve_watched

TIMES = Multiplication, [(321, 654), (7, 8), (12, 30), (99, 9), (10, 10)], "x"

WATCHED = Problems.from_ints([(2539, 839)])


def moments_of(solver: Solver) -> tuple[list[Moment], list[tuple[int, int]]]:
    """The moments, and the row and supervision step of each."""
    shown: list[Moment] = []
    solve_watched(solver, WATCHED, shown.append)
    return shown, [(moment.number, moment.step) for moment in shown]


def test_a_cell_model_is_shown_with_all_cells_after_each_step(shipped):
    shown, seen = moments_of(shipped)
    (solution,) = shipped.solve(WATCHED)
    drawing, net = shipped.draw(WATCHED), shipped.predictor.model
    assert seen == [(0, step) for step in range(len(seen))]
    assert [moment.row for moment in shown] == [None] * len(shown)
    assert [moment.masked for moment in shown] == [True] + [False] * (len(shown) - 1)
    np.testing.assert_array_equal(shown[0].canvas, drawing.masked[0])
    loop = Loop(net, torch.from_numpy(drawing.masked))
    for moment in shown[1:]:
        loop.advance(1)
        np.testing.assert_array_equal(moment.canvas, loop.state.symbols[0].numpy())
    np.testing.assert_array_equal(shown[-1].canvas, solution.canvas)
    before = loop.state
    loop.advance(1)
    assert torch.equal(loop.state.messages, before.messages)
    assert not shown[1].confidence  # rows that are not settled have none
    assert set(shown[-1].confidence.values()) <= {1.0}


def test_rows_unsettled_after_limited_steps_have_confidence_0(shipped):
    """The answer of enough steps is that of every cell once; the rows settle from above."""
    (once,) = shipped.solve(WATCHED)
    assert (once.steps, once.longest_chain, once.steps_text()) == (0, None, "")
    columns, found = shipped.draw(WATCHED).canvases.shape[2], {}
    for most in (3, 7, 100):
        predictor = copy(shipped.predictor)
        predictor.max_steps = most
        (found[most],) = replace(shipped, predictor=predictor).solve(WATCHED)
    last = found[100]
    np.testing.assert_array_equal(last.canvas, once.canvas)
    assert last.confidence == once.confidence == 1
    assert last.longest_chain == columns + 2 * len(last.rows)  # and the row of the operand
    assert last.row_steps == sorted(last.row_steps)
    assert last.steps == last.row_steps[-1] <= last.longest_chain
    assert last.record()["steps"] == last.steps
    assert f"(at most {last.longest_chain}, the longest chain of cells)" in last.steps_text()
    assert found[3].confidence == 0
    assert found[3].row_steps == [3, 3, 3]
    assert "rows 1, 2, 3 did not settle within" in found[3].uncalibrated_reason
    settled = [sure == 1 for sure in found[7].row_confidence]
    assert settled == [steps < 7 for steps in last.row_steps]
    for row, known in zip(last.rows, settled, strict=True):
        assert not known or (found[7].canvas[row] == last.canvas[row]).all()


def test_a_cell_model_ends_in_one_solution_from_any_random_state(shipped):
    problems = Problems.from_ints([(2539, 839), (7, 8), (1001, 999)])
    alone = shipped.solve(problems)
    firsts = set()
    for seed in range(4):
        solver = shipped.from_noise(seed)
        found = solver.solve(problems)
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_array_equal(one.canvas, other.canvas)
            assert one.confidence == 1
            assert 3 < one.steps <= one.longest_chain
        moments = []
        watched = solve_watched(solver, problems[:1], moments.append)
        assert watched.record() == found[0].record() | {"exact": True}  # whatever the batch
        first, *others = (moment.where(4) for moment in moments[:3])
        assert first == "all rows together"
        assert others == [f"{first}, random start", f"{first}, supervision step 1"]
        masked, start = (moment.canvas for moment in moments[:2])
        drawn = start[masked == MASK]  # written symbols are random, too
        assert len(np.unique(drawn)) > 5 < (drawn != alone[0].canvas[masked == MASK]).sum()
        np.testing.assert_array_equal(start[masked != MASK], masked[masked != MASK])
        assert ((last_changes(moments) > 0) == (masked == MASK)).all()
        firsts.add(start.tobytes())
    assert len(firsts) == 4
    assert shipped.predictor.options.start_seed is None


def test_noise_of_a_recursive_transformer_depends_on_its_canvas(stepping):
    problems = Problems.from_ints([(2539, 839), (12, 3456)])
    usual, noisy = stepping.solve(problems), stepping.from_noise(3).solve(problems)
    (alone,) = stepping.from_noise(3).solve(problems[1:])
    np.testing.assert_array_equal(alone.canvas, noisy[1].canvas)
    assert alone.row_steps == noisy[1].row_steps
    assert alone.row_confidence == pytest.approx(noisy[1].row_confidence, abs=1e-4)
    assert "started from a random state" in alone.uncalibrated_reason
    assert "random" not in usual[1].uncalibrated_reason
    inputs = stepping.draw(problems[:1]).masked
    steps = {
        seed: IterativePredictor(stepping.predictor.model, 1)
        .with_options(start_seed=seed)(inputs)
        .confidence
        for seed in (0, 1)
    }
    assert steps[0] != steps[1]


def test_views_of_a_cell_model_count_their_steps(base_2):
    predictor = copy(base_2.predictor)
    predictor.max_steps = 100
    voting = Voting(views=8, symmetries=tuple(SYMMETRIES), per="solution")
    solver = replace(base_2, predictor=predictor).with_voting(voting)
    (solution,) = solver.solve(Problems.from_ints([(5, 3)], base=2))
    assert solution.correct
    assert 8 * 4 < solution.steps <= 8 * solution.longest_chain
    assert solution.steps_text() == f"supervision steps, all views together: {solution.steps}"


@pytest.mark.parametrize("model", ["stepping", "shipped"])
def test_watching_changes_nothing(model, request):
    solver = request.getfixturevalue(model)
    (alone,) = solver.solve(WATCHED, with_truth=True)
    watched = solve_watched(solver, WATCHED, lambda moment: None).record()
    steps = dict.fromkeys(("steps", "row_steps")) if model == "shipped" else {}
    assert watched | steps == alone.record() | steps


def test_a_watched_row_is_masked_and_then_shown_after_each_step(stepping):
    (solution,) = stepping.solve(WATCHED)
    shown, seen = moments_of(stepping)
    assert seen == [(i + 1, n) for i, m in enumerate(solution.row_steps) for n in range(m + 1)]
    masked = [moment for moment in shown if moment.masked]
    assert [moment.confidence for moment in masked] == [{}] * 3
    rows = np.stack([moment.canvas for moment in masked])
    free = [IterativePredictor(stepping.predictor.model, n) for n in (1, 2, 3)]
    after = [predictor.with_options(halt=False)(rows) for predictor in free]
    for moment in shown:
        if 0 < moment.step <= 3:
            held, row = after[moment.step - 1], moment.number - 1
            held = np.where(rows[row] == MASK, held.canvases[row], rows[row])
            np.testing.assert_array_equal(moment.canvas, held)
            assert not moment.masked
            confidence = after[moment.step - 1].confidence[row]
            assert moment.confidence == {moment.row: pytest.approx(confidence, abs=0.02)}


def test_models_without_steps_are_shown_row_by_row(stepping):
    masks = Oracle(fault=lambda _, shown, filled: np.copyto(filled, shown))  # writes them itself
    at_once = Solver(masks, stepping.task)
    at_once.predictor.learn(at_once.draw_worked(WATCHED))
    for other in (at_once, stepping.with_voting(Voting(views=2, symmetries=("e",)))):
        shown, seen = moments_of(other)
        assert seen == [(row, 0) for row in (1, 2, 3) for _ in range(2)]
        assert [moment.masked for moment in shown] == [True, False] * 3
