from dataclasses import replace

import numpy as np
import pytest
import torch

from canvas.addition import Addition
from canvas.drawing import row_steps
from canvas.symbols import BLANK, MASK
from trm.extras.analysis.inspection_figures import saliency_figure
from trm.extras.analysis.saliency import explain
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor

TASK = Addition(digits=(1, 2))
SIZES = {"height": 4, "width": 5, "hidden_size": 16, "num_heads": 2, "num_layers": 1}


def canvas() -> np.ndarray:
    drawing = TASK.canvas_layout.draw_worked(TASK.problems([(12, 34)]), 4, 5)
    return row_steps(drawing).inputs[0]


def predictor(kind: str, **more):
    torch.manual_seed(0)
    if kind == "gpt":
        config = GPTConfig(**SIZES, position="rope_2d", **more)
        model, found = GPT(config), lambda model: GPTPredictor(model, Calibration())
    else:
        more = {"H_cycles": 2, "L_cycles": 2, "position": "rope_2d", "intermediate_size": 16} | more
        model, found = (
            TinyRecursiveModel(RecursiveConfig(**SIZES, **more)),
            lambda model: IterativePredictor(model, 4),
        )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3 if kind == "gpt" else 0.1)
    return found(model.eval())


CELL = (2, 3)
KINDS = [("trm", {}), ("trm", {"skip_blank": True}), ("gpt", {}), ("gpt", {"loops": 2})]


@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_integrated_gradients_add_up_to_the_difference(kind, more):
    found = explain(predictor(kind, **more), canvas(), CELL, [1, 2], points=200)
    difference = found.scores - found.baselines
    total = np.nansum(found.integrated, axis=(1, 2))
    assert total == pytest.approx(difference, rel=0.05, abs=0.05)
    assert found.names == (["answer"] if kind == "gpt" else ["step 1", "step 2"])


def test_the_gradient_is_that_of_the_score_through_all_steps():
    """Input x gradient is the change of the score when a symbol's embedding grows a little."""
    one = predictor("trm")
    found = explain(one, canvas(), CELL, [3], points=2)
    model, growth = one.model, 1e-3
    tokens = torch.from_numpy(canvas())[None]
    scores = []
    for sign in (-1, 1):

        def grown(module, inputs, output, factor=1 + sign * growth):
            output = output.clone()
            output[:, 1] *= factor  # the second cell of the first row
            return output

        handle = model.embed_tokens.register_forward_hook(grown)
        logits = model(tokens, steps=3)[0][0, CELL[0], CELL[1]].detach()
        scores.append(float(logits[found.symbol] - logits.mean()))
        handle.remove()
    slope = (scores[1] - scores[0]) / (2 * growth)
    assert found.gradient[0, 0, 1] == pytest.approx(slope, rel=0.02, abs=1e-3)
    assert model.config.H_cycles == 2


def test_cells_that_are_not_read_have_no_value():
    """A token after the written one has none in a GPT, and a cell that is no token in none."""
    later = explain(predictor("gpt"), canvas(), CELL, points=4)
    assert (later.canvas[2, :4] == MASK).all()
    assert later.canvas[2, 4] != MASK  # its own symbol, which it reads
    assert saliency_figure(later, "title").axes
    assert (later.gradient[0, 3] == 0).all()
    assert (later.integrated[0][canvas() == BLANK] == 0).all()
    found = explain(predictor("trm", skip_blank=True), canvas(), CELL, [1], points=4)
    assert (np.isnan(found.gradient[0]) == (canvas() == BLANK)).all()
    assert (found.integrated[0][canvas() == MASK] == 0).all()
    assert saliency_figure(found, "title").axes


def test_steps_with_inexact_integrated_gradients_are_named():
    found = explain(predictor("trm"), canvas(), CELL, [1, 2], points=64)
    assert found.sums == pytest.approx(found.scores - found.baselines, rel=0.02, abs=0.02)
    assert found.inexact == []
    assert replace(found, scores=found.scores + np.array([0, 2], "float32")).inexact == ["step 2"]


def test_only_a_cell_that_is_filled_in_is_explained():
    with pytest.raises(ValueError, match="the cell 1,1 is not to be filled in"):
        explain(predictor("gpt"), canvas(), (0, 0))
