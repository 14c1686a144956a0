import numpy as np
import pytest
import torch

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.picture import to_text
from canvas.symbols import BLANK, ROW_END, START
from trm.extras.analysis.figures import induction_figure
from trm.extras.analysis.induction import induction_scores, repeated, scores
from trm.extras.analysis.record import SequenceRecorder
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.solver import Solver

TASK = Addition(digits=(1, 3))
SIZES = {"height": 4, "width": 5, "hidden_size": 16, "num_heads": 2, "num_layers": 2}


def solver(**more) -> Solver:
    torch.manual_seed(0)
    model = GPT(GPTConfig(**SIZES, position="rope_2d", **more)).eval()
    return Solver(GPTPredictor(model, Calibration()), TASK, Canvas(4, 5))


def by_content(recorder: SequenceRecorder) -> dict[str, torch.Tensor]:
    """Attention of two blocks with two heads, of which the last one is an induction head.

    The first head attends to the token one row above, the others to themselves.
    """
    ids = recorder.ids
    batch, length = ids.shape
    weights = torch.eye(length).expand(2, batch, 2, -1, -1).clone()
    token = torch.arange(length)
    weights[0, :, 0] = 0
    weights[0, :, 0, token, (token - 6).clamp(min=0) + 1] = 1
    for sample in range(batch):
        for t, symbol in enumerate(ids[sample].tolist()):
            seen = (ids[sample, :t] == symbol).nonzero()
            if len(seen) and symbol not in (BLANK, ROW_END, START):
                weights[1, sample, 1, t] = 0
                weights[1, sample, 1, t, seen[-1] + 1] = 1
    return {"tokens": weights}


def test_a_head_of_content_scores_and_one_of_places_does_not(monkeypatch):
    monkeypatch.setattr(SequenceRecorder, "attention", by_content)
    found = induction_scores(solver(), sequences=40)
    assert [(one.block, one.head) for one in found] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    above, itself, _, induction = found
    assert (induction.score, induction.control) == (1, 0)
    assert (induction.low, induction.high, induction.gain) == (1, 1, 1)
    assert 0 < above.score == above.control < 1  # where the rows are neighbours
    assert (above.low, above.high, itself.score) == (0, 0, 0)
    assert induction_figure(found, "title").axes


def test_the_sequence_is_repeated_in_a_later_row():
    order = np.array([[3, 1, 2]])
    canvas = repeated(order, order, np.array([[0, 2]]), 3, 4)
    assert to_text(canvas[0]).split("\n") == ["_213", "____", "_213"]
    attention = np.zeros((1, 1, 1, 16, 16))
    attention[0, 0, 0, 11, 2] = 1.0  # from the second 3 to the first 1
    attention[0, 0, 0, 12, 3] = 0.5  # from the second 1 to the first 2
    assert scores(attention, np.array([[0, 2]]), 4, 3).tolist() == [[[0.75]]]


def test_a_looped_gpt_has_scores_for_each_loop_at_any_memory(monkeypatch):
    looped = solver(loops=2)
    found = induction_scores(looped, sequences=6, seed=1)
    assert [one.update for one in found] == ["loop 1"] * 4 + ["loop 2"] * 4
    monkeypatch.setattr("trm.extras.analysis.induction._ATTENTION", 1)
    alone = induction_scores(looped, sequences=6, seed=1)
    assert [one.score for one in alone] == pytest.approx([one.score for one in found], abs=1e-6)


def test_only_a_gpt_has_induction_heads():
    model = TinyRecursiveModel(RecursiveConfig(**SIZES, intermediate_size=16))
    recursive = Solver(IterativePredictor(model.eval(), 2), TASK, Canvas(4, 5))
    with pytest.raises(ValueError, match="a GPT, which reads a sequence"):
        induction_scores(recursive)
