import numpy as np
import torch

from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import RowSteps, draw_worked, row_steps
from canvas.symbols import MASK
from trm.models.configs import RecursiveConfig
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iteration import StepTrace
from trm.solving.iterative_predictor import IterativePredictor


def some_rows() -> RowSteps:
    problems = Problems.from_ints([(12, 34), (567, 89), (4, 5)])
    return row_steps(draw_worked(Multiplication().rules.work(problems), 4, 7))


def tiny_model() -> TinyRecursiveModel:
    """All weights at random, those of the halting head, too, and two symbols to choose between."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "intermediate_size": 16}
    model = TinyRecursiveModel(RecursiveConfig(**sizes, H_cycles=1, L_cycles=1, halt_pool="mask"))
    torch.nn.init.normal_(model.halt_head.weight)
    with torch.no_grad():  # so that rows settle
        one = model.lm_head.weight[1].clone()
        model.lm_head.weight.zero_()
        model.lm_head.weight[1], model.lm_head.weight[2] = one, -one
    return model.eval()


def test_trace_goes_on_where_the_solver_stops_and_agrees_with_it_there():
    inputs, model = some_rows().inputs, tiny_model()
    seen = IterativePredictor(model, 6).trace(inputs)
    same = ((seen.canvases[1:] == seen.canvases[:-1]) | ~seen.masked).all(axis=(2, 3))
    trust = np.where(same[1:] & same[:-1], seen.halt_logits[2:], -np.inf).max(axis=0)
    with torch.no_grad():  # so that some samples halt and some do not
        model.halt_head.bias -= float(np.median(trust)) + 1e-3
    seen = IterativePredictor(model, 6).trace(inputs)
    assert 0 < (seen.halts_at > 0).sum() < len(inputs)
    filled = IterativePredictor(model, max_steps=6)(inputs)
    assert seen.canvases.shape == (6, *inputs.shape)
    assert seen.canvases.dtype == np.uint8
    np.testing.assert_array_equal(seen.answers, filled.canvases)
    np.testing.assert_array_equal(np.where(seen.halts_at, seen.halts_at, 6), filled.steps)
    stopped = seen.confidence[filled.steps - 1, np.arange(len(inputs))]
    np.testing.assert_allclose(stopped, filled.confidence, rtol=1e-4)


def test_sample_halts_at_the_first_step_that_trusts_its_row_after_two_that_left_it_as_it_was():
    rows = [[7, 7, 7, 7, 7], [4, 5, 5, 5, 5], [4, 5, 5, 6, 6], [3, 3, 3, 3, 3], [1, 1, 2, 2, 2]]
    trust = [[-1, -1, -1, 2, 2], [1] * 5, [3] * 5, [-1, -1, -1, -1, 0], [1, 1, 1, 1, -1]]
    canvases = np.array(rows, dtype=np.uint8).T.reshape(5, 5, 1, 1)  # 5 steps of 5 samples
    halt_logits = np.array(trust, dtype=np.float32).T
    seen = StepTrace(canvases, halt_logits, np.ones((5, 1, 1), dtype=bool))
    np.testing.assert_array_equal(seen.halts_at, [4, 4, 0, 0, 0])
    assert seen.answers.ravel().tolist() == [7, 5, 6, 3, 2]


def test_sample_settles_whatever_is_said_outside_its_masked_cells():
    canvases = np.array([[[[1, 5]]], [[[2, 5]]], [[[3, 5]]]], dtype=np.uint8)
    trust = np.ones((3, 1), dtype=np.float32)
    masked = np.array([[[False, True]]])
    assert StepTrace(canvases, trust, masked).halts_at.tolist() == [3]
    assert StepTrace(canvases, trust, ~masked).halts_at.tolist() == [0]


def test_row_is_right_from_the_step_at_which_all_its_masked_cells_are():
    steps = some_rows()
    almost = steps.labels.copy()
    for canvas, answer in zip(almost, steps.answer, strict=True):
        row, column = np.argwhere(answer)[0]
        canvas[row, column] = MASK
    outside_wrong = np.where(steps.answer, steps.labels, np.uint8(MASK))
    canvases = np.stack([steps.inputs, almost, outside_wrong, steps.labels])
    seen = StepTrace(canvases, np.zeros(canvases.shape[:2], dtype=np.float32), steps.answer)
    right = seen.rows_exact(steps.labels)
    assert not right[:2].any()
    assert right[2:].all()


def test_confidence_of_a_very_sure_model_is_one_without_overflow():
    halt_logits = np.array([[1e6, -1e6]], dtype=np.float32)
    cells = np.zeros((1, 2, 1, 1), dtype=np.uint8)
    seen = StepTrace(cells, halt_logits, np.ones((2, 1, 1), dtype=bool))
    np.testing.assert_allclose(seen.confidence, [[1, 0]], atol=1e-6)
