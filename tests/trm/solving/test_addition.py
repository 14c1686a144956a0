"""Solvers of sums: all that is not multiplication's own goes the same way."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from augment.views import View
from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.problems import Problems
from canvas.render import Drawing, WorkedDrawing
from canvas.sampling import sample
from canvas.symbols import DIGIT_ZERO, MASK
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.solving.gpt_predictor import Calibration, GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Prediction, Predictor
from trm.solving.solution import Solution
from trm.solving.solver import Solver
from trm.solving.voting import Voting

SUMS = [(87, 604, 9), (0, 0), (999, 1), (5, 0, 12, 700), (7, 8), (0, 999, 0)]
HEIGHT, WIDTH = 8, 7


class Oracle(Predictor):
    """Finds each canvas by its givens and writes the right row; ``fault`` may spoil it."""

    device = "cpu"

    def __init__(self, fault=lambda row: None) -> None:
        self.fault = fault

    def accepts(self, height: int, width: int) -> bool:
        return True

    def learn(self, solver: Solver, problems: Problems) -> None:
        self.drawing = solver.draw_worked(problems)

    def __call__(self, inputs: np.ndarray, *_: object) -> Prediction:
        filled = inputs.copy()
        for canvas in filled:
            right = self.truth(canvas).copy()
            row = int(np.flatnonzero((canvas == MASK).any(axis=1))[0])
            self.fault(right[row])
            canvas[row] = right[row]
        return Prediction(filled, np.full(len(inputs), 0.5, np.float32), np.ones(len(inputs), int))

    def truth(self, canvas: np.ndarray) -> np.ndarray:
        parts = zip(self.drawing.canvases, self.drawing.given, self.drawing.truth, strict=True)
        found = {truth.tobytes(): truth for c, given, truth in parts if (canvas == c)[given].all()}
        (truth,) = found.values()  # the givens leave no doubt
        return truth


def solved(
    sums: Problems | list[tuple[int, ...]],
    layout: str,
    oracle: Oracle | None = None,
    **ranges,
) -> list[Solution]:
    oracle = oracle or Oracle()
    task = Addition(layout, **({"addends": (2, 4)} | ranges))
    solver = Solver(oracle, task)
    problems = sums if isinstance(sums, Problems) else task.problems(sums)
    oracle.learn(solver, problems)
    return solver.solve_drawing(problems, oracle.drawing)


@pytest.mark.parametrize("layout", Addition.layouts)
def test_an_oracle_solves_sums_of_any_number_of_addends_in_one_batch(layout):
    solutions = solved(SUMS, layout)
    assert [solution.operands for solution in solutions] == SUMS
    for solution, operands in zip(solutions, SUMS, strict=True):
        assert solution.problem == " + ".join(map(str, operands))
        assert solution.answer == solution.right_answer == sum(operands)
        assert solution.correct
        assert solution.exact
        assert len(solution.rows) == len(solution.row_steps) == len(solution.row_confidence)
        assert len(solution.rows) == {"column": 1, "column_carries": 2}[layout]
        digits = "".join(str(int(solution.canvas[at]) - DIGIT_ZERO) for at in solution.answer_cells)
        assert int(digits[::-1]) == sum(operands)


@pytest.mark.parametrize("layout", Addition.layouts)
@pytest.mark.parametrize("base", [4, 10])
def test_an_oracle_solves_whatever_is_drawn(layout, base):
    task = Addition(layout, base=base, digits=(1, 4), addends=(2, 4))
    problems = sample(task, 0, "test", 0, np.arange(64))
    assert len(set(problems.counts.tolist())) == 3
    solutions = solved(problems, layout, base=base, digits=(1, 4))
    assert all(solution.exact and solution.correct and solution.in_range for solution in solutions)
    assert [solution.answer for solution in solutions] == list(map(sum, problems.to_ints()))


@pytest.mark.parametrize(
    ("operands", "inside"),
    [
        ((1, 999), True),
        ((1, 2, 3), True),
        ((0, 0), True),
        ((1, 1000), False),
        ((1, 2, 3, 4), False),
        ((1000, 2, 3, 4), False),
    ],
)
def test_sums_of_sizes_that_were_not_trained_on_say_so(operands, inside):
    (solution,) = solved([operands], "column", addends=(2, 3), digits=(1, 3))
    assert solution.correct
    assert solution.in_range == inside
    doubt = "outside the lengths trained on (1 to 3 digits, 2 to 3 addends)"
    assert solution.uncalibrated_reason == ("" if inside else doubt)


def tiny_gpt() -> GPT:
    torch.manual_seed(1)
    model = GPT(GPTConfig(HEIGHT, WIDTH, hidden_size=16, num_heads=2, num_layers=1)).eval()
    with torch.no_grad():
        model.embed_tokens.weight.mul_(30)  # logits far apart: the order of sums decides nothing
    return model


def tiny_recursive() -> TinyRecursiveModel:
    torch.manual_seed(3)
    config = RecursiveConfig(
        hidden_size=16, num_heads=2, num_layers=1, intermediate_size=16, H_cycles=1, L_cycles=1,
        position="relative_2d",
    )  # fmt: skip
    model = TinyRecursiveModel(config).eval()
    torch.nn.init.normal_(model.lm_head.weight, std=1.0)
    return model


def predictors() -> dict[str, Predictor]:
    return {
        "gpt": GPTPredictor(tiny_gpt(), Calibration()),
        "recursive": IterativePredictor(tiny_recursive(), 3),
    }


def drawings(layout: str) -> tuple[Solver, Problems, Drawing, list[WorkedDrawing]]:
    """Sums drawn from their prompts alone, and with workings: right ones, and some of noise."""
    task = Addition(layout, addends=(2, 4))
    solver, problems = Solver(Oracle(), task, Canvas(HEIGHT, WIDTH)), task.problems(SUMS)
    prompt, worked = solver.draw(problems), solver.draw_worked(problems)
    noise = np.random.default_rng(0).integers(0, DIGIT_ZERO + 10, worked.truth.shape)
    return solver, problems, prompt, [worked, replace(worked, truth=noise.astype(np.uint8))]


@pytest.mark.parametrize("layout", Addition.layouts)
@pytest.mark.parametrize("family", predictors())
def test_a_model_that_solves_sees_nothing_of_the_truth(family, layout):
    _, _, prompt, others = drawings(layout)
    predictor = predictors()[family]
    views = [View("e", 0, -1)] * len(prompt)
    alone = predictor.free_running(prompt)
    seen = predictor.free_running_views(prompt, views, log_probs=True)
    for drawing in others:
        beside = predictor.free_running(drawing)
        rollout, log_probs = predictor.free_running_views(drawing, views, log_probs=True)
        for one, other in ((alone, beside), (seen[0], rollout)):
            for name, part in vars(one).items():
                np.testing.assert_array_equal(part, getattr(other, name), err_msg=name)
        np.testing.assert_array_equal(seen[1], log_probs)


@pytest.mark.parametrize("per", ["row", "solution"])
@pytest.mark.parametrize("family", predictors())
def test_views_vote_alike_with_and_without_the_truth(family, per):
    solver, problems, prompt, others = drawings("column_carries")
    asked = replace(solver, predictor=predictors()[family]).with_voting(Voting(views=3, per=per))
    alone = asked.solve_drawing(problems, prompt)
    for drawing in others:
        for one, other in zip(alone, asked.solve_drawing(problems, drawing), strict=True):
            np.testing.assert_array_equal(one.canvas, other.canvas)
            assert replace(other.record(), exact=None) == one.record()
