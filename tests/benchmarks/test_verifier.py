"""The benchmarks of the confidence: what it rejects, and whether it chooses among rollouts."""

import argparse

import numpy as np
import pytest
from tiny import tiny_trm

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver
from trm.training.negatives import KINDS


@pytest.fixture(scope="module")
def benches(program):
    return [program(name) for name in ("verifier", "breadth")]


@pytest.fixture
def solver() -> Solver:
    model = tiny_trm(position="relative_2d", skip_blank=True, halt_pool="every")
    model.halt_head.bias.data.fill_(4.0)
    task = Multiplication("lattice", digits_a=(1, 2), digits_b=(1, 2))
    return Solver(IterativePredictor(model, 2), task, Canvas(margin=1))


def test_each_kind_of_incorrect_canvas_has_a_line(benches, solver):
    verifier, _ = benches
    found = verifier.confidence_by_kind(solver, 128, seed=0)
    negatives = {*KINDS.values()} - {KINDS["plain"]}
    assert negatives < set(found)
    assert all(((sure >= 0) & (sure <= 1)).all() for sure in found.values())
    assert KINDS["plain"] not in found
    found[verifier.CORRECT] = np.array([0.9, 0.8])
    found[KINDS["turned"]] = np.array([0.1, 0.2, 0.85])
    lines = {line[2]: line for line in verifier.lines_of("name", "2 x 2", found)}
    assert lines[KINDS["turned"]][3].startswith("33.3 % (1 of 3")
    assert lines[KINDS["turned"]][5] == "0.833"  # 5 of 6 pairs
    assert lines[verifier.CORRECT][5] == ""


def test_the_first_rollout_has_no_noise_and_the_others_do(benches, solver):
    _, breadth = benches
    correct, sure = breadth.rollouts_of(solver, [2, 2], 6, rollouts=3, noise=3.0, seed=0)
    assert correct.shape == sure.shape == (6, 3)
    problems = breadth.held_out(solver, 6, 0, [2, 2])
    plain = [one.confidence for one in solver.solve(problems)]
    with_answer = [one.answer is not None for one in solver.solve(problems)]
    np.testing.assert_allclose(sure[with_answer, 0], np.array(plain)[with_answer], rtol=1e-4)
    assert (sure[:, 0] != sure[:, 1]).any()


def test_there_is_no_auroc_where_all_rollouts_are_incorrect(benches, solver):
    _, breadth = benches
    args = argparse.Namespace(digits=[2, 2], problems=4, seed=0)
    lines = breadth.measured(solver, "untrained", [1, 2], [0.5], args)
    assert [line[:3] for line in lines] == [["untrained", "0.5", "1"], ["untrained", "0.5", "2"]]
    for *_, chosen, any_correct, area in lines:
        assert chosen == any_correct
        assert chosen.startswith("0.0 % (0 of 4")
        assert area == "–"
