"""Solvers of products and sums whose model knows the answer, also in both orders."""

import json
import math

import numpy as np
import pytest
from drawings import LAYOUTS
from oracle import Oracle, Page

from canvas.addition import Addition
from canvas.arithmetic import Numbers
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import DIGIT_ZERO, MASK
from trm import load_solver
from trm.runtime.progress import listening
from trm.solving.operand_swap import posterior
from trm.solving.solver import Solver
from trm.solving.voting import Voting

TIMES = Multiplication, [(321, 654), (7, 8), (12, 30), (99, 9), (10, 10)], "x"
SUMS = [(87, 604, 9), (0, 0), (999, 1), (5, 0, 12, 700), (7, 8), (0, 999, 0)]
OUTSIDE = "outside the lengths trained on (2 to 3 x 1 to 3 digits)"


def solve(pair: tuple[int, int], layout: str, oracle: Oracle | None = None, sure=0.9, **canvas):
    oracle, problem = oracle or Oracle(), Problems.from_ints([pair])
    task = Multiplication(layout, digits_a=(2, 3), digits_b=(1, 3))
    solver = Solver(oracle, task, Canvas(**canvas))
    oracle.learn(solver.draw_worked(problem), confidence=sure)
    (solution,) = solver.solve(problem, with_truth=True)
    return solution


def writing(symbol: int) -> Oracle:
    """One that has a symbol in the last column of every row."""

    def fault(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
        filled[(shown == MASK).any(axis=1), -1] = symbol

    return Oracle(fault=fault)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_correct_solutions_of_a_batch_have_correct_answers(layout):
    kind, listed, sign = (Addition, SUMS, "+") if layout in Addition.layouts else TIMES
    task = kind(layout, addends=(2, 4)) if kind is Addition else kind(layout)
    problems = task.problems(listed)
    drawing = Solver(Oracle(), task).draw_worked(problems)
    solutions = Solver(Oracle(drawing), task).solve_drawing(problems, drawing)
    for solution, operands in zip(solutions, listed, strict=True):
        right = sum(operands) if kind is Addition else math.prod(operands)
        assert solution.operands == operands
        assert solution.problem == f" {sign} ".join(map(str, operands))
        assert solution.answer == solution.true_answer == right
        assert solution.correct
        assert solution.exact
        assert len(solution.rows) == len(solution.row_steps) == len(solution.row_confidence)
        ids = [solution.canvas[at] for at in solution.answer_cells]
        assert Numbers.from_digits(np.array([ids]) - DIGIT_ZERO).to_ints() == [right]


def test_confidence_is_the_product_over_rows_and_0_for_nan():
    solution = solve((321, 654), "lattice", sure=0.9)
    assert solution.row_steps == [2, 2, 2]
    assert solution.confidence == pytest.approx(0.9**3)
    solution = solve((321, 654), "lattice", sure=float("nan"))
    assert solution.confidence == 0
    json.dumps(solution.record(), allow_nan=False)


@pytest.mark.parametrize(
    ("pair", "unsettled", "doubt"),
    [
        ((321, 654), None, ""),
        ((321, 654), 3, "row 3 did not settle within the supervision steps"),
        ((4321, 6), None, OUTSIDE),
        ((4, 6), None, OUTSIDE),
        ((4321, 6543), 3, f"{OUTSIDE}; row 3 did not settle"),
    ],
)
def test_a_confidence_that_is_not_calibrated_has_a_reason(pair, unsettled, doubt):
    settles = {"settles": lambda page, shown: not (shown[unsettled] == MASK).any()}
    solution = solve(pair, "lattice", Oracle(**settles if unsettled else {}))
    assert solution.uncalibrated_reason.startswith(doubt)
    assert bool(solution.uncalibrated_reason) == bool(doubt)
    assert solution.in_range == (OUTSIDE not in doubt)
    record = solution.record()
    assert record["calibrated"] == (not doubt)
    assert record["uncalibrated_reason"] == (solution.uncalibrated_reason or None)
    assert record["in_range"] == solution.in_range


def test_incorrect_answers_and_incorrect_rows_are_distinguished():
    solution = solve((12, 3), "standard", writing(DIGIT_ZERO + 9), margin=0)
    assert solution.answer is not None
    assert not solution.correct
    assert not solution.exact
    solution = solve((12, 3), "standard", writing(MASK))
    assert solution.answer is None
    assert solution.answer_text is None
    assert not solution.correct
    oracle, problem = Oracle(), Problems.from_ints([(12, 34)])
    solver = Solver(oracle, Multiplication("standard"))
    (page,) = oracle.learn(solver.draw_worked(problem))
    page.truth[page.first, -2] = DIGIT_ZERO  # a partial product, not the product
    (solution,) = solver.solve(problem, with_truth=True)
    assert solution.correct
    assert not solution.exact


def test_a_canvas_has_half_its_margin_or_the_size_of_training():
    problem, task = Problems.from_ints([(321, 654)]), Multiplication("lattice")
    for margin, spare in ((0, 0), (1, 1), (2, 1), (5, 3)):
        drawing = Solver(Oracle(), task, Canvas(margin=margin)).draw(problem)
        assert drawing.canvases.shape[1:] == (4 + spare, 6 + spare)
    square = Solver(Oracle(), task, Canvas(margin=0, square=True)).draw(problem)
    assert square.canvases.shape[1:] == (6, 6)
    task = Multiplication("lattice", digits_a=(1, 5), digits_b=(1, 4))
    short, long = Problems.from_ints([(7, 8)]), Problems.from_ints([(7654321, 12345)])
    sizes = {}
    for anywhere in (True, False):
        solver = Solver(Oracle(translation_invariant=anywhere), task, Canvas(margin=0))
        sizes[anywhere] = [solver.draw(one).canvases.shape[1:] for one in (short, long)]
    cut, longest, longer = sizes[True][0], task.extent(), sizes[True][1]
    assert cut < longest < longer
    assert sizes[False] == [longest, longer]


def test_a_canvas_of_the_size_named_by_a_refusal_is_large_enough():
    problem = Problems.from_ints([(123456, 789)])
    for layout in Multiplication.layouts:
        with pytest.raises(ValueError, match=r"123456 x 789 needs .*this one has 3 x 3") as error:
            Solver(Oracle(), Multiplication(layout), Canvas(3, 3)).draw(problem)
        words = str(error.value).partition("Re-run with")[2].replace(",", "").split()
        height, width = (int(words[words.index(f"--{side}") + 1]) for side in ("height", "width"))
        Solver(Oracle(), Multiplication(layout), Canvas(height, width)).draw(problem)


def test_problems_in_another_base_than_the_models_are_refused():
    with pytest.raises(ValueError, match="base 10, not 3"):
        Solver(Oracle(), Multiplication("lattice")).solve(Problems.from_ints([(2, 2)], base=3))
    oracle, problem = Oracle(), Problems.from_ints([(11, 2)], base=3)
    solver = Solver(oracle, Multiplication("lattice", base=3))
    oracle.learn(solver.draw_worked(problem))
    (solution,) = solver.solve(problem)
    assert solution.write(11) == "102"
    assert solution.problem == "102 x 2"
    assert (solution.answer, solution.answer_text) == (22, "211")


def test_longer_operands_get_a_larger_canvas_if_the_model_can():
    solver = Solver(Oracle(most=10), Multiplication("standard"), Canvas(6, 8))
    assert solver.for_lengths((3, 3)).canvas == Canvas(6, 8)
    assert solver.for_lengths((5, 5)).canvas == Canvas(8, 10)
    assert solver.for_lengths((6, 6)) is None
    cut = Solver(Oracle(most=10), Multiplication("standard"), Canvas(margin=0))
    assert cut.for_lengths((5, 5)) is cut
    assert cut.for_lengths((7, 7)) is None


def both_orders(first: tuple[float, bool], second: tuple[float, bool], vote: str = "majority"):
    """12 x 345, of which the model is as sure as it is told, and 345 x 12; some spoilt."""
    oracle = Oracle()
    solver = Solver(oracle, Multiplication("standard", digits_a=(1, 3), digits_b=(1, 3)))
    for pair, (confidence, spoilt) in (((12, 345), first), ((345, 12), second)):
        drawing = solver.draw_worked(Problems.from_ints([pair]))
        (page,) = oracle.learn(drawing, confidence=confidence)
        row = drawing.canvas_row(int(drawing.num_rows[0]) - 1)[0]
        digits = np.isin(page.truth[row], DIGIT_ZERO + np.arange(10)) & ~page.given[row]
        page.truth[row, np.flatnonzero(digits)[-1]] += spoilt  # 0 becomes 1
    solver = solver.with_voting(Voting(orders=2, vote=vote))
    (solution,) = solver.solve(Problems.from_ints([(12, 345)]), with_truth=True)
    assert (solution.problem, solution.operands) == ("12 x 345", (12, 345))
    return solution


def test_agreeing_orders_give_the_solution_of_the_given_one():
    solution = both_orders((0.9, False), (0.8, False))
    assert solution.answer == 4140
    assert (solution.agreement, solution.views, solution.uncalibrated_reason) == (1.0, 2, "")
    assert [vote.answer for vote in solution.votes[0]] == ["4140"]
    assert solution.exact
    assert len(solution.rows) == 4 == solution.correct_rows
    assert (solution.row_steps, solution.other_steps) == ([2] * 4, 6)  # those of 345 x 12
    assert solution.steps_text().endswith(": 2, 2, 2, 2, and 6 of the other order")
    first, second = 0.9**4, 0.8**3  # of the rows of either working
    assert solution.confidence == pytest.approx(posterior(first, second, True))
    assert len(set(solution.row_confidence)) == 1


@pytest.mark.parametrize("vote", ["majority", "max_confidence"])
def test_the_more_confident_of_differing_orders_wins(vote):
    solution = both_orders((0.9, True), (0.95, False), vote)
    assert solution.answer == 4140
    assert solution.agreement == 0.5
    assert solution.uncalibrated_reason == "the two orders give different answers"
    assert {(v.answer, v.views) for v in solution.votes[0]} == {("4140", 1), ("4141", 1)}
    assert len(solution.rows) == 3  # of 345 x 12, whose working it is
    assert solution.confidence == pytest.approx(posterior(0.95**3, 0.9**4, False))
    record = solution.record()
    assert [record[k] for k in ("problem", "calibrated", "views")] == ["12 x 345", False, 2]
    assert both_orders((0.99, True), (0.9, False), vote).answer == 4141


@pytest.mark.parametrize(("one", "other"), [(0.2, 0.3), (0.5, 0.4), (0.9, 0.8), (0.0, 0.3)])
def test_confidence_of_two_orders_is_their_accuracy(one, other):
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


def test_confidence_of_differing_orders_is_at_most_one_half():
    assert posterior(0.999, 0.01, False) == pytest.approx(0.5, abs=0.001)
    sure = [posterior(0.99, other, False) for other in (0.1, 0.9, 0.99)]
    assert 0.5 > sure[0] > sure[1] > sure[2] == pytest.approx(0.25)
    assert posterior(1.0, 1.0, True) == 1.0
    assert posterior(1.0, 1.0, False) == 0.0  # a contradiction is worth nothing
    assert posterior(0.0, 0.0, True) == 0.0


def test_addends_are_taken_from_the_last_to_the_first():
    oracle, problems = Oracle(), Problems.from_ints([(1, 22, 3), (3, 22, 1)])
    solver = Solver(oracle, Addition(digits=(1, 2), addends=(2, 3)))
    pages = oracle.learn(solver.draw_worked(problems))
    pages[1].confidence = 0.9
    (solution,) = solver.with_voting(Voting(orders=2)).solve(problems[:1])
    assert (solution.problem, solution.answer, solution.exact) == ("1 + 22 + 3", 26, None)


@pytest.mark.parametrize(
    ("name", "problem", "what"),
    [
        ("lattice", "123x45", "cells"),  # looked up
        ("untold-neighbours-seed0", "123x45", "cells"),  # not proved: by the network
        ("addition-trm-seed0", "12+34", "rows"),
        ("addition-gpt-seed0", "12+34", "tokens, at most"),
    ],
)
def test_solving_reports_its_progress(name, problem, what):
    solver, said = load_solver(name, device="cpu"), []
    with listening(lambda *state: said.append(state)):
        found = solver.solve(solver.task.parsed([problem]))
    assert found[0].correct
    assert {one for one, *_ in said} == {what}
    done = [count for _, count, _ in said]
    assert done == sorted(done)
    assert all(count <= total for _, count, total in said)
