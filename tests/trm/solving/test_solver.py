import json

import numpy as np
import pytest

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.symbols import DIGIT_ZERO, MASK
from trm.solving.rollout import Prediction, Predictor
from trm.solving.solver import Solver

PAIRS = [(321, 654), (7, 8), (12, 30), (99, 9), (10, 10)]
OUTSIDE = "outside the lengths trained on (2 to 3 x 1 to 3 digits)"


class Scribe(Predictor):
    """Writes the finished working of the one problem it was told; ``fault`` may spoil it."""

    device = "cpu"
    most_cells = 100
    unsettled = -1  # the canvas row that does not settle

    def __init__(self, fault=lambda canvas: None, confidence: float = 0.9) -> None:
        self.fault, self.confidence = fault, confidence

    def accepts(self, height: int, width: int) -> bool:
        return height * width <= self.most_cells

    def told(self, solver: Solver, problem: Problems) -> None:
        self.canvas = solver.draw_worked(problem).truth[0]

    def __call__(self, inputs: np.ndarray, *_: object) -> Prediction:
        (shown,) = inputs
        filled = self.canvas.copy()
        row = np.flatnonzero((shown == MASK).any(axis=1))[0]
        self.fault(filled[row])
        sure, settled = np.array([self.confidence], np.float32), np.array([row != self.unsettled])
        return Prediction(filled[None], sure, np.array([2]), settled=settled)


def solve(pair: tuple[int, int], layout: str, scribe: Scribe | None = None, **canvas):
    scribe = scribe or Scribe()
    task = Multiplication(layout, digits_a=(2, 3), digits_b=(1, 3))
    solver = Solver(scribe, task, Canvas(**canvas))
    problem = Problems.from_ints([pair])
    scribe.told(solver, problem)
    (solution,) = solver.solve(problem, with_truth=True)
    return solution


def put(column: int, symbol: int):
    def fault(row: np.ndarray) -> None:
        row[column] = symbol

    return fault


@pytest.mark.parametrize("layout", Multiplication.layouts)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_right_working_has_the_right_product(layout, pair):
    solution = solve(pair, layout)
    assert solution.operands == pair
    assert solution.problem == f"{pair[0]} x {pair[1]}"
    assert solution.answer == solution.right_answer == pair[0] * pair[1]
    assert solution.correct
    assert solution.exact
    assert (solution.canvas == solution.truth).all()


def test_confidence_is_the_product_of_the_rows():
    solution = solve((321, 654), "lattice", Scribe(confidence=0.9))
    assert solution.row_steps == [2, 2, 2]
    assert solution.confidence == pytest.approx(0.9**3)


@pytest.mark.parametrize(
    ("pair", "unsettled", "doubt"),
    [
        ((321, 654), -1, ""),
        ((321, 654), 3, "row 3 did not settle within the supervision steps"),
        ((4321, 6), -1, OUTSIDE),
        ((4, 6), -1, OUTSIDE),
        ((4321, 6543), 3, f"{OUTSIDE}; row 3 did not settle"),
    ],
)
def test_a_confidence_that_is_not_calibrated_says_why(pair, unsettled, doubt):
    scribe = Scribe()
    scribe.unsettled = unsettled
    solution = solve(pair, "lattice", scribe)
    assert solution.uncalibrated_reason.startswith(doubt)
    assert bool(solution.uncalibrated_reason) == bool(doubt)
    assert solution.in_range == (OUTSIDE not in doubt)
    record = solution.record()
    assert record.calibrated == (not doubt)
    assert record.uncalibrated_reason == (solution.uncalibrated_reason or None)
    assert record.in_range == solution.in_range


def test_a_confidence_that_is_no_number_is_none_at_all():
    solution = solve((321, 654), "lattice", Scribe(confidence=float("nan")))
    assert solution.confidence == 0
    json.dumps(solution.record().data(), allow_nan=False)


def test_a_wrong_digit_makes_a_wrong_product():
    solution = solve((12, 3), "standard", Scribe(put(-1, DIGIT_ZERO + 9)), margin=0)
    assert solution.answer is not None
    assert not solution.correct
    assert not solution.exact


def test_a_canvas_that_cannot_be_read_has_no_product():
    solution = solve((12, 3), "standard", Scribe(put(-1, MASK)))
    assert solution.answer is None
    assert solution.answer_text is None
    assert not solution.correct


def test_a_right_product_below_a_wrong_row_is_correct_and_not_exact():
    scribe = Scribe()
    solver = Solver(scribe, Multiplication("standard"))
    problem = Problems.from_ints([(12, 34)])
    scribe.told(solver, problem)
    first = int(solver.draw_worked(problem).row_of_step(0)[0])
    scribe.canvas[first, -2] = DIGIT_ZERO  # a partial product, not the product
    truth = Scribe()
    truth.told(solver, problem)
    (solution,) = solver.solve(problem, with_truth=True)
    assert solution.correct
    assert not solution.exact


def test_a_cut_canvas_has_the_middle_of_the_margin_to_spare():
    problem = Problems.from_ints([(321, 654)])
    for margin, spare in ((0, 0), (1, 1), (2, 1), (5, 3)):
        drawing = Solver(Scribe(), Multiplication("lattice"), Canvas(margin=margin)).draw(problem)
        assert drawing.canvases.shape[1:] == (4 + spare, 6 + spare)
    square = Solver(Scribe(), Multiplication("lattice"), Canvas(margin=0, square=True)).draw(
        problem
    )
    assert square.canvases.shape[1:] == (6, 6)


@pytest.mark.parametrize("layout", Multiplication.layouts)
def test_the_place_of_the_operands_does_not_tell_how_long_the_product_is(layout):
    short_and_long = Problems.from_ints([(10, 10), (99, 99)])
    drawing = Solver(Scribe(), Multiplication(layout), Canvas(10, 10)).draw(short_and_long)
    first, second = (
        np.argwhere(given & (canvas != canvas[0, 0]))
        for given, canvas in zip(drawing.given, drawing.canvases, strict=True)
    )
    assert (first == second).all()


def test_a_problem_too_large_for_the_canvas_is_told_which_one_would_do():
    solver = Solver(Scribe(), Multiplication("lattice"), Canvas(6, 8))
    with pytest.raises(ValueError, match="12345678901 x 99999 needs") as error:
        solver.solve(Problems.from_ints([(1, 2), (12345678901, 99999)]))
    assert "at least 6 x 14 (height x width), and this one has 6 x 8" in str(error.value)
    assert "Re-run with --height 6 --width 14, or train on a larger canvas" in str(error.value)


def test_a_model_that_tells_places_apart_gets_at_least_the_room_of_training():
    task = Multiplication("lattice", digits_a=(1, 5), digits_b=(1, 4))
    short, long = Problems.from_ints([(7, 8)]), Problems.from_ints([(7654321, 12345)])
    heights = {}
    for translation_invariant in (True, False):
        scribe = Scribe()
        scribe.translation_invariant = translation_invariant
        solver = Solver(scribe, task, Canvas(margin=0))
        heights[translation_invariant] = [
            solver.draw(one).canvases.shape[1:] for one in (short, long)
        ]
    cut, longest, longer = heights[True][0], task.extent(), heights[True][1]
    assert cut < longest < longer
    assert heights[False] == [longest, longer]


def test_the_canvas_that_a_refusal_names_is_large_enough():
    problem = Problems.from_ints([(123456, 789)])
    for layout in Multiplication.layouts:
        with pytest.raises(ValueError, match="Re-run") as error:
            Solver(Scribe(), Multiplication(layout), Canvas(3, 3)).draw(problem)
        words = str(error.value).replace(",", "").split()
        height, width = (int(words[words.index(f"--{side}") + 1]) for side in ("height", "width"))
        Solver(Scribe(), Multiplication(layout), Canvas(height, width)).draw(problem)


def test_numbers_of_another_base_are_refused():
    with pytest.raises(ValueError, match="base 10, not 3"):
        Solver(Scribe(), Multiplication("lattice")).solve(Problems.from_ints([(2, 2)], base=3))


def test_numbers_are_written_in_the_models_base():
    scribe = Scribe()
    solver = Solver(scribe, Multiplication("lattice", base=3))
    problem = Problems.from_ints([(11, 2)], base=3)
    scribe.told(solver, problem)
    (solution,) = solver.solve(problem)
    assert solution.write(11) == "102"
    assert solution.problem == "102 x 2"
    assert (solution.answer, solution.answer_text) == (22, "211")


def test_longer_operands_get_a_larger_canvas_where_the_model_can_work_on_one():
    solver = Solver(Scribe(), Multiplication("standard"), Canvas(6, 8))
    assert solver.for_lengths((3, 3)).canvas == Canvas(6, 8)
    assert solver.for_lengths((5, 5)).canvas == Canvas(8, 10)
    assert solver.for_lengths((6, 6)) is None


def test_a_cut_canvas_is_cut_for_any_operands_that_the_model_can_work_on():
    solver = Solver(Scribe(), Multiplication("standard"), Canvas(margin=0))
    assert solver.for_lengths((5, 5)) is solver
    assert solver.for_lengths((7, 7)) is None
