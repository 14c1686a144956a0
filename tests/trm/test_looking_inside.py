"""`trm.run_with_cache` and `trm.run_with_hooks`, with saved models of every family."""

import numpy as np
import pytest
import torch

from canvas.drawing import row_steps
from trm import load_solver, record, run_with_cache, run_with_hooks, sites, solve
from trm.extras.analysis.record import cell_attention
from trm.solving.solver import Solver


@pytest.fixture(scope="module")
def quick() -> Solver:
    return load_solver("trm-quick-seed0", device="cpu")


def inputs(solver: Solver, problem: str) -> np.ndarray:
    return row_steps(solver.draw_worked(solver.task.parsed([problem]))).inputs


def test_the_rows_of_a_problem_are_read_as_in_solving(quick):
    solution = solve("12x34", quick)
    logits, cache = run_with_cache(quick, "12x34", "blocks.*.attention")
    assert list(cache) == ["blocks.0.attention", "blocks.1.attention"]
    canvases, steps = inputs(quick, "12x34"), max(solution.row_steps)
    assert cache.visits("blocks.0.attention")[-1].step == steps
    for k, row in enumerate(solution.rows):
        same = logits[k, row].argmax(dim=-1).numpy() == solution.canvas[row]
        assert same[~solution.given[row]].all()
    model = quick.predictor.model
    of_network, states = run_with_cache(model, torch.from_numpy(canvases), "z_H", steps=steps)
    assert torch.equal(of_network, logits)
    assert torch.equal(model(torch.from_numpy(canvases), steps=steps)[0], logits)
    assert len(states["z_H"]) == steps
    assert len(run_with_cache(model, canvases, "z_H")[1]["z_H"]) == 1
    weights = cell_attention(model, canvases, 2)["z_H"]  # [layers, B, heads, cells, cells]
    of_visit = cache.select("blocks.1.attention", step=2, update="z_H")[-1]
    cells = run_with_cache(model, canvases, "cells")[1]["cells"][0]
    for sample, places in enumerate(cells):
        there = places < canvases[0].size
        on_canvas = weights[1, sample][:, places[there]][:, :, places[there]]
        torch.testing.assert_close(on_canvas, of_visit[sample][:, there][:, :, there])


def test_an_ablated_head_changes_the_answer(quick):
    logits, _ = run_with_cache(quick, (12, 34), ())
    assert torch.equal(run_with_hooks(quick, (12, 34), [("*", lambda *_: None)]), logits)
    ablated = [("blocks.0.heads", lambda value, _: torch.zeros_like(value))]
    changed = run_with_hooks(quick, (12, 34), ablated)
    assert (changed.argmax(dim=-1) != logits.argmax(dim=-1)).any()
    assert not changed.requires_grad
    right = solve("12x34", quick)
    with record(quick.predictor.model, (), hooks=ablated):  # also while problems are solved
        assert solve("12x34", quick).answer != right.answer
    assert solve("12x34", quick).answer == right.answer == 408


@pytest.mark.parametrize(
    ("name", "loops"), [("addition-looped-seed0", 16), ("addition-gpt-seed0", 1)]
)
def test_a_gpt_reads_the_solved_canvas_and_writes_it_again(name, loops):
    solver, problem = load_solver(name, device="cpu"), "12+34"
    logits, cache = run_with_cache(solver, problem, ["norm", "blocks.0.attention"])
    solution = solve(problem, solver)
    row = solution.rows[-1]
    assert (logits[0, row].argmax(dim=-1).numpy() == solution.canvas[row]).all()
    assert [visit.step for visit in cache.visits("norm")] == list(range(1, loops + 1))
    assert torch.equal(run_with_cache(solver, solution.canvas[None], ())[0], logits)
    with record(solver.predictor.model, "blocks.0.input") as written:
        assert solve(problem, solver).answer == 46
    assert {value.shape[1] for _, value in written.each()} > {1}  # token by token
    with pytest.raises(ValueError, match="a GPT takes no supervision steps: leave out steps"):
        run_with_cache(solver, problem, steps=2)


@pytest.mark.parametrize("name", ["lattice-seed0", "written-seed1", "untold-decimal-seed0"])
def test_a_cell_model_takes_as_many_steps_as_its_canvas_needs(name):
    solver = load_solver(name, device="cpu")
    logits, cache = run_with_cache(solver, "12x34", ["symbols", "blocks.0.attention"])
    solution = solve("12x34", solver)
    filled = ~solution.given
    assert (logits[0].argmax(dim=-1).numpy()[filled] == solution.canvas[filled]).all()
    assert torch.equal(cache["symbols"][-1], cache["symbols"][-2]) or len(cache["symbols"]) > 4
    assert {weights.shape[2] for _, weights in cache.each("blocks.0.attention")} <= {3, 4, 5}


def test_calls_that_do_not_fit_are_refused(quick):
    model = quick.predictor.model
    with pytest.raises(ValueError, match=r"a network reads canvases.* give a solver"):
        run_with_cache(model, "12x3")
    with pytest.raises(ValueError, match=r"integers .* not float64 \[4"):
        run_with_cache(model, np.zeros((4, 5)))
    with pytest.raises(ValueError, match="steps: 0 is not a whole number from 1"):
        run_with_cache(quick, "12x3", steps=0)
    with pytest.raises(ValueError, match=r"of a solver, take solver.predictor.model"):
        sites(quick)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("trm-quick-seed0", "12x34"),
        ("multiplication-gpt-seed0", "12x3"),
        ("addition-looped-seed0", "12+34"),
        ("lattice", "12x34"),
        ("column-seed0", "12+34"),
        ("column-int4-seed0", "12+34"),
        ("smallest-adder-seed0", "12+34"),
    ],
)
def test_every_site_has_its_documented_shape_and_dtype(name, problem):
    solver = load_solver(name, device="cpu")
    model, config = solver.predictor.model, solver.predictor.model.config
    logits, cache = run_with_cache(solver, problem)
    B, H, W, V = logits.shape
    heads, signals = config.num_heads, len(getattr(model, "signals", ()))
    sizes = {"B": B, "H": H, "W": W, "V": V, "D": config.hidden_size, "heads": heads}
    sizes |= {
        "D / heads": config.hidden_size // max(heads, 1),
        "T": H * (W + 1) + 1,
        "S": H * W,
        "1": 1,
    }
    sizes |= {"signals": signals, "cells": H * W}
    sizes["sum of C"] = sum(getattr(model, "outputs", {}).values())
    for site, text in sites(model).items():
        dtype, shape = text.split(" ", 1)
        shape = shape[1 : shape.index("]")].split(", ")
        values = [value for _, value in cache.each(site)]
        assert values, site
        for value in values:
            assert str(value.dtype).removeprefix("torch.").startswith(dtype), site
            named = {n: m for n, m in zip(shape, value.shape, strict=True) if n in sizes}
            assert named == {n: sizes[n] for n in named}, site
