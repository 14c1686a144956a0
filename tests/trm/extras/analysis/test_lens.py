"""The head's reading of a layer, loop or step: the output of a model that ends there."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from canvas.drawing import RowSteps, row_steps
from canvas.problems import Problems
from canvas.sequences import to_sequences
from trm.extras.analysis.lens import Lens, read_layers, some_steps
from trm.extras.analysis.record import token_of_cell
from trm.models.gpt import GPT
from trm.models.iterative import Loop
from trm.solving.solver import Solver

PROBLEM = Problems.from_ints([(5, 7)], base=3)


def rows_of(solver: Solver, problem: Problems = PROBLEM) -> RowSteps:
    return row_steps(solver.draw_worked(problem))


def shorter(model, **config: int):
    """The same model without its later layers, or loops."""
    other = type(model)(replace(model.config, **config)).eval()
    missing, _ = other.load_state_dict(model.state_dict(), strict=False)
    assert not missing
    return other


def assert_reads(lens: Lens, site: str, logits: torch.Tensor) -> None:
    read = torch.from_numpy(lens.log_probs[lens.sites.index(site)])
    expected = logits[lens.row, lens.columns].float().log_softmax(-1)
    torch.testing.assert_close(read, expected, rtol=1e-4, atol=1e-4)


def test_the_lens_after_the_last_layer_reads_the_models_output(make_solver):
    solver = make_solver(crop=True)
    canvas = rows_of(solver).inputs[-1]
    lens = read_layers(solver.predictor, canvas, (1, 3))
    places = ("z_L", "z_H, layer 1", "z_H, layer 2")
    assert lens.sites == [f"step {step}, {place}" for step in (1, 3) for place in places]
    for step in (1, 3):
        logits, _ = solver.predictor.model(torch.from_numpy(canvas[None]), steps=step)
        assert_reads(lens, f"step {step}, z_H, layer 2", logits[0])


def test_the_lens_reads_z_L_through_the_output_head(make_solver):
    """After its last update in a step of two, computed once more from the model's own parts."""
    solver = make_solver("recursive", H_cycles=1, L_cycles=2)
    model = solver.predictor.model
    canvas = rows_of(solver).inputs[-1]
    lens = read_layers(solver.predictor, canvas, (1, 2))
    assert [site for site in lens.sites if "z_L" in site] == ["step 1, z_L", "step 2, z_L"]
    with torch.no_grad():
        context = model.encode(torch.from_numpy(canvas[None]))
        state = z_H, z_L = model.iterate(context, model.initial_state(context))
        for _ in range(2):  # of the second step
            z_L = model.apply_layers(z_L + z_H + context.inputs, context)
        logits, _ = model.read(state._replace(z_H=z_L), context)
    assert_reads(lens, "step 2, z_L", logits[0])


@pytest.mark.parametrize("loops", [1, 2])
def test_the_lens_of_a_block_equals_a_gpt_that_ends_there(make_solver, loops):
    solver = make_solver("gpt", num_layers=3, loops=loops)
    gpt: GPT = solver.predictor.model
    canvas = rows_of(solver).inputs[-1]
    lens = read_layers(solver.predictor, canvas, (1,))
    H, W = canvas.shape
    ids = torch.from_numpy(to_sequences(solver.predictor(canvas[None]).canvases))
    writer = token_of_cell(H, W)
    names = ["block {}"] if loops == 1 else ["loop 1, block {}", "loop 2, block {}"]
    assert lens.sites == [name.format(block) for name in names for block in (1, 2, 3)]
    for block in (1, 2, 3):  # of the first loop
        logits = shorter(gpt, num_layers=block, loops=1)(ids, H, W)
        assert_reads(lens, names[0].format(block), logits[0, writer].view(H, W, -1))
    logits = gpt(ids, H, W)
    assert_reads(lens, lens.sites[-1], logits[0, writer].view(H, W, -1))


def test_the_last_line_is_what_a_gpt_writes_by_itself(gpt):
    steps = rows_of(gpt, Problems.from_ints([(1259, 8673)]))
    canvas, truth = steps.inputs[-1], steps.labels[-1]
    lens = read_layers(gpt.predictor, canvas, some_steps(1))
    cells = (lens.row, lens.columns)
    assert (lens.symbols[-1] == truth[cells]).all()
    assert (lens.symbols[0] != truth[cells]).any()
    own = gpt.predictor.trace(canvas[None], truth[None]).curves[0].confidence[::-1]
    np.testing.assert_allclose(np.exp(lens.of(truth)[-1]), own, atol=1e-4)


def test_the_lens_reads_states_of_models_without_updates(make_solver, monkeypatch):
    solver = make_solver()
    monkeypatch.setattr(type(solver.predictor.model), "updates", ())
    canvas = rows_of(solver).inputs[-1]
    lens = read_layers(solver.predictor, canvas, (1, 2))
    assert lens.sites == ["step 1", "step 2"]
    loop = Loop(solver.predictor.model, torch.from_numpy(canvas[None]))
    loop.advance(2)
    assert_reads(lens, "step 2", loop.read()[0][0])
