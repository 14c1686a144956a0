"""A cell model of mazes: trained on small ones, proved, and refuted when it is damaged."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from canvas.mazes import Maze
from canvas.sampling import sample
from canvas.symbols import MASK, encode
from trm import load_solver, solve
from trm.cells.computing import run_wavefront
from trm.cells.proof.notes import PROVED, REFUTED
from trm.cells.proof.prove import prove
from trm.models.iterative import Loop

MODEL = Path(__file__).parents[3] / "docs" / "models" / "maze-seed0.safetensors"
LOOP = "%%%%%/%S--%/%-%-%/%--G%/%%%%%"


@pytest.fixture(scope="module")
def solver():
    return load_solver(MODEL)


@pytest.fixture
def damaged(solver, monkeypatch):
    """A copy of the model, and its verdict."""
    monkeypatch.setattr("canvas.cells.check.THOROUGH", (100, 20))
    monkeypatch.setattr("trm.cells.proof.compare.THOROUGH", (100, 20))
    one = deepcopy(solver)
    one.predictor.model.requires_grad_(False)
    return one, lambda: prove(one)


def test_the_saved_model_is_proved(damaged):
    _, verdict = damaged
    proof = verdict()
    assert proof.verdict == PROVED
    assert proof.laws.names == (
        *("ends_are_open", "walls_are_closed", "path_is_kept", "dead_end_is_closed"),
    )
    assert (proof.laws.cell_inputs, len(proof.comparison.numbers)) == (405, 405)
    assert proof.shown[0] < 405  # training lacks some


@pytest.mark.parametrize("class_", [0, 1])
def test_a_flipped_decision_is_refuted(damaged, class_):
    """All cells stay open, or all are closed, those of the path among them."""
    solver, verdict = damaged
    head = solver.predictor.model.lm_head
    head.bias[-2 + class_] += 1000
    proof = verdict()
    assert proof.verdict == REFUTED
    shown = proof.counterexample
    assert (shown.canvas != shown.truth).any()
    lost = (shown.truth == encode("o")[0]) & (shown.canvas != shown.truth)
    assert class_ == 0 or lost.any()  # a cell of the path is filled


def test_a_goal_that_is_taken_for_a_wall_is_refuted(damaged):
    solver, verdict = damaged
    weight = solver.predictor.model.embed_tokens.weight
    weight[encode("G")[0]] = weight[encode("%")[0]]
    proof = verdict()
    assert proof.verdict == REFUTED
    assert len(proof.comparison.wrong) == 3**4
    (again,) = solve([proof.counterexample.problem], solver)
    assert not again.correct


@pytest.mark.parametrize("rows", [9, 25])
def test_large_mazes_are_solved(solver, rows):
    task = Maze(length=(rows, rows), anywhere=True)
    problems = task.names(sample(task, 1, "test", 0, np.arange(10)))
    found = solve(problems, solver)
    assert all(one.correct and one.confidence == 1 for one in found)


def test_all_cells_at_once_reach_the_same_end(solver):
    task, model = solver.task, solver.predictor.model
    drawing = task.canvas_layout.draw_worked(sample(task, 0, "test", 0, np.arange(8)), 12, 12, 1, 1)
    tokens = torch.from_numpy(drawing.masked)
    worked = run_wavefront(model, tokens)
    loop, steps = Loop(model, tokens), 0
    before = None
    while before is None or not torch.equal(before.messages, loop.state.messages):
        before, steps = loop.state, steps + 1
        loop.step()
    assert torch.equal(loop.state.symbols, worked.tokens.long())
    assert (worked.tokens.numpy() == drawing.truth).all()
    assert steps <= model.settling_steps(loop.context).max()


def test_a_maze_with_loops_keeps_all_but_dead_ends(solver):
    task = Maze(length=(5, 5), loops=1)
    drawing = task.canvas_layout.draw_worked(task.parsed([LOOP]))
    filled = run_wavefront(solver.predictor.model, torch.from_numpy(drawing.masked)).tokens.numpy()
    assert (filled[drawing.masked == MASK] == encode("o")[0]).all()
    assert (filled != drawing.truth).any()  # it is no shortest path
    with pytest.raises(ValueError, match="exactly one path"):
        solve([LOOP], solver)


def test_the_last_row_is_computed_without_a_question(solver):
    """A goal in the last row, in which no cell is to be filled in, is seen from above."""
    (found,) = solve(["S-%/%-%/%G%"], solver)
    assert found.verdict.startswith("maze S-%/%-%/%G% = So%/%o%/%G% (correct")
    assert found.correct


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_names_rows_of_mazes_not_letters(command, tmp_path):
    words = ("--checkpoint", MODEL, "--length", 5, "--problems", 2, "--accelerator", "cpu")
    command("evaluate", *words, "--output", tmp_path)
    report = (tmp_path / "grid.md").read_text()
    assert "letters" not in report
    assert "| 5 to 9 rows |" in report
    assert "By the rows of a problem." in report
