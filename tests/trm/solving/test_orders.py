"""A problem in both orders of its operands, and what the two answers come to."""

import csv

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import DIGIT_ZERO, MASK
from trm.solving.rollout import Prediction, Predictor
from trm.solving.solver import Solver
from trm.solving.voting import posterior
from trm.solving.voting_settings import Voting

RIGHT, WRONG = 12 * 345, 12 * 345 + 1


class Clerk(Predictor):
    """Knows workings by what is given; spoils the last digit of some, and is as sure as it is told.

    Args:
        solver: whose problems, by their operands.
        known: confidence in each, and whether it is spoilt.
    """

    device = "cpu"

    def __init__(self, task, known: dict[tuple[int, ...], tuple[float, bool]]) -> None:
        self.known = {}
        solver = Solver(self, task)
        for operands, found in known.items():
            drawing = solver.draw_worked(Problems.from_ints([operands]))
            self.known[drawing.canvases[0].tobytes()] = drawing, *found

    def accepts(self, height: int, width: int) -> bool:
        return True

    def __call__(self, inputs: np.ndarray, *_: object) -> Prediction:
        filled, sure = [], []
        for shown in inputs:
            for drawing, confidence, spoilt in self.known.values():
                truth, given = drawing.truth[0], drawing.given[0]
                if truth.shape == shown.shape and (truth == shown)[given].all():
                    found = truth.copy()
                    row = np.flatnonzero((shown == MASK).any(axis=1))[0]
                    if spoilt and row == drawing.row_of_step(int(drawing.steps[0]) - 1)[0]:
                        digits = np.isin(found[row], DIGIT_ZERO + np.arange(10))
                        last = np.flatnonzero(digits & ~given[row])[-1]
                        found[row, last] = DIGIT_ZERO + (found[row, last] - DIGIT_ZERO + 1) % 10
                    filled.append(found)
                    sure.append(confidence)
        return Prediction(np.stack(filled), np.array(sure, np.float32), np.ones(len(inputs), int))


def solve(first: tuple[float, bool], second: tuple[float, bool], vote: str = "majority"):
    task = Multiplication("standard", digits_a=(1, 3), digits_b=(1, 3))
    clerk = Clerk(task, {(12, 345): first, (345, 12): second})
    solver = Solver(clerk, task).with_voting(Voting(orders=2, vote=vote))
    (solution,) = solver.solve(Problems.from_ints([(12, 345)]), with_truth=True)
    assert (solution.problem, solution.operands) == ("12 x 345", (12, 345))
    return solution


def test_where_both_orders_agree_the_working_is_that_of_the_problem_as_it_was_asked():
    solution = solve((0.9, False), (0.8, False))
    assert solution.answer == RIGHT
    assert (solution.agreement, solution.views, solution.uncalibrated_reason) == (1.0, 2, "")
    assert [vote.answer for vote in solution.votes[0]] == [str(RIGHT)]
    assert solution.exact
    assert len(solution.rows) == 4 == solution.rows_right
    first, second = 0.9**4, 0.8**3  # of the rows of either working
    assert solution.confidence == pytest.approx(posterior(first, second, True))
    assert len(set(solution.row_confidence)) == 1


@pytest.mark.parametrize("vote", ["majority", "weighted", "max_confidence"])
def test_where_they_differ_the_surer_one_wins_and_that_is_told(vote):
    solution = solve((0.9, True), (0.95, False), vote)
    assert solution.answer == RIGHT
    assert solution.correct
    assert solution.agreement == 0.5
    assert solution.uncalibrated_reason == "the two orders give different answers"
    assert {(v.answer, v.views) for v in solution.votes[0]} == {(str(RIGHT), 1), (str(WRONG), 1)}
    assert len(solution.rows) == 3  # of 345 x 12, whose working it is
    assert solution.confidence == pytest.approx(posterior(0.95**3, 0.9**4, False))
    record = solution.record()
    assert (record.problem, record.calibrated, record.views) == ("12 x 345", False, 2)
    assert solve((0.99, True), (0.9, False), vote).answer == WRONG


@pytest.mark.parametrize(("one", "other"), [(0.2, 0.3), (0.5, 0.4), (0.9, 0.8), (0.0, 0.3)])
def test_the_confidence_of_two_orders_is_how_often_they_are_right(one, other):
    draw = np.random.default_rng(0)
    right, other_right = (draw.random(400_000) < p for p in (one, other))
    same_error = draw.random(right.shape) < 0.01
    agree = (right & other_right) | (~right & ~other_right & same_error)
    for agreed in (True, False):
        same = agree == agreed
        share = right[same].mean()
        if not agreed:  # that one of them is right is at most an even chance
            share /= max(1, 2 * (right | other_right)[same].mean())
        assert posterior(one, other, agreed) == pytest.approx(share, abs=0.02)


def test_of_two_that_differ_none_is_held_more_likely_than_not():
    assert posterior(0.999, 0.01, False) == pytest.approx(0.5, abs=0.001)
    sure = [posterior(0.99, other, False) for other in (0.1, 0.9, 0.99)]
    assert 0.5 > sure[0] > sure[1] > sure[2] == pytest.approx(0.25)


def test_what_is_certain_stays_so_and_a_contradiction_is_worth_nothing():
    assert posterior(1.0, 1.0, True) == 1.0
    assert posterior(1.0, 1.0, False) == 0.0
    assert posterior(0.0, 0.0, True) == 0.0


def test_addends_are_taken_from_the_last_to_the_first():
    task = Addition(digits=(1, 2), addends=(2, 3))
    clerk = Clerk(task, {(1, 22, 3): (0.5, True), (3, 22, 1): (0.9, False)})
    solver = Solver(clerk, task).with_voting(Voting(orders=2))
    (solution,) = solver.solve(Problems.from_ints([(1, 22, 3)]))
    assert (solution.problem, solution.answer, solution.exact) == ("1 + 22 + 3", 26, None)


def test_orders_are_one_or_two_and_have_no_product_of_cells():
    with pytest.raises(ValueError, match="1 or 2 orders of its operands, not 3"):
        Voting(orders=3)
    with pytest.raises(ValueError, match="take another vote, such as majority"):
        Voting(orders=2, vote="product")


def test_orders_of_a_file_and_of_a_grid(command, checkpoint, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n12,3\n7,8\n")
    words = ("--checkpoint", checkpoint, "--orders", 2, "--accelerator", "cpu")
    output = ("--input", tmp_path / "in.csv", "--output", tmp_path / "out.csv")
    ran = command("solve", *words, *output)
    assert ran.code == 0, ran.err
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [record["views"] for record in csv.DictReader(file)] == ["2", "2"]
    ran = command(
        *("evaluate", *words, "--digits-a", 2, "--digits-b", "1", "--problems", 3),
        *("--output", tmp_path / "grid"),
    )
    assert ran.code == 0, ran.err
    ran = command("solve", *words, "--views", 2, "--watch", "12x3")
    assert "of 4 different samples" in ran.out.replace("\n", " "), ran.err
