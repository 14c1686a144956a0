"""Problems that go wrong: the smallest, those that are hunted, and smaller ones than was found."""

import copy
from itertools import islice

import numpy as np
import torch

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from trm.proof.proof import OPEN, REFUTED, prove, refute
from trm.proof.search import ByWindows, Counterexample, hunt, shrunk, small_problems, smallest_wrong
from trm.solving.local_predictor import LocalPredictor
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


def test_small_problems_come_in_order_and_the_smallest_wrong_one_is_found():
    first = [one for batch in islice(small_problems(Multiplication()), 6) for one in batch]
    assert first[:4] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(first) == len(set(first))
    assert first.index((9, 9)) < first.index((1, 10)) < first.index((9, 99)) < first.index((10, 10))
    sums = [one for batch in islice(small_problems(Addition(base=2)), 3) for one in batch]
    assert {len(one) for one in sums} == {2, 3}
    judge = Fails(Multiplication(), lambda a, b: a >= 7 and b >= 38)
    found, looked = smallest_wrong(judge, print)
    assert found is not None
    assert (found.operands, found.smallest) == ((7, 38), True)
    assert looked > 81


def test_structured_problems_are_hunted_and_mutations_climb():
    """Long runs of nines: no small problem has one."""
    judge = Fails(Multiplication(), lambda a, b: "99999" in str(a) and b > 1)
    found = hunt(judge, 5000, print)
    assert found is not None
    assert found.operands == (99999, 2)
    # The model is the less sure, the more sevens a has.
    judge = Fails(
        Multiplication(),
        lambda a, b: str(a).count("7") >= 6,
        near=lambda a, b: 1 / (1 + str(a).count("7")),
    )
    found = hunt(judge, 30_000, print)
    assert found is not None
    assert found.operands == (777777, 1)


def test_nothing_is_found_where_nothing_is_wrong_and_the_smallest_stays():
    judge = Fails(Multiplication(), lambda a, b: False)
    assert hunt(judge, 1000, print) is None
    assert judge.solved == 0
    judge = Fails(Multiplication(), lambda a, b: a == 101 and b == 11)
    found = Counterexample("101 x 11", (101, 11), *[np.zeros((1, 1), np.uint8)] * 3)
    assert shrunk(judge, found) is found


def test_wrong_windows_are_shown_by_problems(binary):
    """A product is never 1."""
    model = copy.deepcopy(binary.model)
    with torch.no_grad():
        start = sum(islice(model.outputs.values(), list(model.outputs).index("product")))
        model.lm_head.bias[start + 2] -= 1000
    spoilt = Solver(LocalPredictor(model), binary.task)
    proof = prove(spoilt, print)
    assert proof.verdict == REFUTED
    assert proof.counterexample is not None
    assert proof.counterexample.smallest
    assert max(proof.counterexample.operands) < 4
    judged = proof.judged
    assert judged.arithmetic is None
    assert len(judged.wrong) == (judged.margin <= 0).sum() > 0
    windows = ByWindows(model, binary.rule, binary.task, judged)
    assert windows.score(binary.task.problems([(1, 1)])) == 0
    assert refute(spoilt, 100, print).verdict == REFUTED
    assert refute(Solver(LocalPredictor(binary.model), binary.task), 20, print).verdict == OPEN
