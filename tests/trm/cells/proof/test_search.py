"""Problems that go wrong: the smallest, those that are hunted, and smaller ones than was found."""

import copy
from itertools import islice

import numpy as np
import pytest
import torch

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, MASK
from trm.cells.predictor import CellPredictor
from trm.cells.proof.notes import OPEN, REFUTED
from trm.cells.proof.proof import Proof
from trm.cells.proof.prove import prove, refute
from trm.cells.proof.search import (
    ByOpInputs,
    Counterexample,
    hunt,
    shown_on,
    shrunk,
    small_problems,
    smallest_wrong,
)
from trm.commands.prove import sentence
from trm.solving.solver import Solver


class Fails:
    """A model that fails where a condition on the operands holds."""

    def __init__(self, task, wrong, near=lambda *_: 0.5):
        self.task, self.wrong, self.near = task, wrong, near
        self.solved, self.most_operands = 0, None

    def score(self, problems):
        found = problems.to_ints()
        return np.array([0.0 if self.wrong(*one) else self.near(*one) for one in found])

    def solve(self, problem):
        self.solved += 1
        (operands,) = problem.to_ints()
        blank = np.zeros((1, 1), dtype=np.uint8)
        found = Counterexample(self.task.names(problem)[0], operands, blank, blank, blank)
        return found if self.wrong(*operands) else None


def test_the_search_finds_the_smallest_incorrect_problem():
    first = [one for batch in islice(small_problems(Multiplication()), 6) for one in batch]
    assert first[:4] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(first) == len(set(first))
    assert first.index((9, 9)) < first.index((1, 10)) < first.index((9, 99)) < first.index((10, 10))
    sums = [one for batch in islice(small_problems(Addition(base=2)), 3) for one in batch]
    assert {len(one) for one in sums} == {2, 3}
    scorer = Fails(Multiplication(), lambda a, b: a >= 7 and b >= 38)
    found, looked = smallest_wrong(scorer)
    assert found is not None
    assert (found.operands, found.smallest) == ((7, 38), True)
    assert looked > 81


def test_structured_problems_are_hunted_and_mutations_climb():
    """Long runs of nines: no small problem has one."""
    scorer = Fails(Multiplication(), lambda a, b: "99999" in str(a) and b > 1)
    found = hunt(scorer, 5000)
    assert found is not None
    assert found.operands == (99999, 2)
    # The model is the less sure, the more sevens a has.
    scorer = Fails(
        Multiplication(),
        lambda a, b: str(a).count("7") >= 6,
        near=lambda a, b: 1 / (1 + str(a).count("7")),
    )
    found = hunt(scorer, 30_000)
    assert found is not None
    assert found.operands == (777777, 1)


def test_a_search_without_errors_finds_nothing():
    scorer = Fails(Multiplication(), lambda a, b: False)
    assert hunt(scorer, 1000) is None
    assert scorer.solved == 0
    scorer = Fails(Multiplication(), lambda a, b: a == 101 and b == 11)
    found = Counterexample("101 x 11", (101, 11), *[np.zeros((1, 1), np.uint8)] * 3)
    assert shrunk(scorer, found) is found


def test_incorrect_op_inputs_are_shown_by_problems(binary):
    """A product is never 1."""
    model = copy.deepcopy(binary.model)
    with torch.no_grad():
        start = sum(islice(model.outputs.values(), list(model.outputs).index("product")))
        model.lm_head.bias[start + 2] -= 1000
    spoilt = Solver(CellPredictor(model), binary.task)
    proof = prove(spoilt)
    assert proof.verdict == REFUTED
    assert proof.counterexample is not None
    assert proof.counterexample.smallest
    assert max(proof.counterexample.operands) < 4
    comparison = proof.comparison
    assert comparison.arithmetic is None
    assert len(comparison.wrong) == (comparison.margin <= 0).sum() > 0
    cell_inputs = ByOpInputs(model, binary.rule, binary.task, comparison)
    assert cell_inputs.score(binary.task.problems([(1, 1)])) == 0
    assert refute(spoilt, 100).verdict == REFUTED
    assert refute(Solver(CellPredictor(binary.model), binary.task), 20).verdict == OPEN


class WrongBeside(CellPredictor):
    """Works 0 x 0 out wrongly where the page has a blank column at its left."""

    def _solved(self, canvases):
        cells, sure, worked = super()._solved(canvases)
        blank = (canvases[:, 0, :2] == BLANK).all(axis=1)  # one is the solution's own room
        return np.where(blank[:, None, None] & (canvases == MASK), BLANK, cells), sure, worked


@pytest.mark.parametrize("fixed", [False, True])
def test_a_counterexample_names_its_canvas_and_a_command(fixed, binary):
    canvas = Canvas(2, 4) if fixed else Canvas(margin=0)
    solver = Solver(WrongBeside(binary.model), binary.task, canvas)
    problem = binary.task.problems([(0, 0)])
    assert solver.solve(problem, with_truth=True)[0].exact
    drawing = binary.task.canvas_layout.draw_worked(problem, 2, 5, 0, 1)
    cells = solver.predictor.free_running(drawing).canvases[0]
    found = Counterexample("0 x 0", (0, 0), cells, drawing.truth[0], drawing.given[0], left=1)
    found = shown_on(found, solver)
    assert (found.left, found.right) == (1, 0)
    assert found.size == ((None, 5) if fixed else (2, 5))
    proof = Proof(solver, REFUTED, counterexample=found)
    call = "trm solve --width 5 0x0"
    said = f"refuted: 0 x 0 goes wrong on a canvas with a blank column at the left: {call}"
    assert sentence(proof, call) == said
    both = found._replace(right=1), found._replace(left=2, right=1), found._replace(left=0)
    for one, canvas in zip(
        both,
        ("with a blank column on either side", "with 3 blank columns at the left and right", ""),
        strict=True,
    ):
        assert canvas in sentence(Proof(solver, REFUTED, counterexample=one))
    assert "canvas" not in sentence(Proof(solver, REFUTED, counterexample=both[2]))


def test_the_search_stays_within_the_problems_of_the_task():
    """The task has limits of its own, or the model has two operands."""

    class Ordered(Multiplication):
        def allows(self, problems):
            return np.array([a >= b for a, b in problems.to_ints()])

    scorer = Fails(Ordered("direct"), lambda a, b: a >= 7 and b >= 5)
    found, _ = smallest_wrong(scorer)
    assert found.operands == (7, 5)
    scorer = Fails(Ordered("direct"), lambda a, b: a >= 7777777 and b >= 5)
    found = hunt(scorer, 3000)
    assert found.operands[0] >= found.operands[1]
    sums = [one for batch in islice(small_problems(Addition(), 2), 3) for one in batch]
    assert {len(one) for one in sums} == {2}
