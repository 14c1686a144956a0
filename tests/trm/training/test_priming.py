import numpy as np
import torch

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems, split_of
from canvas.sampling import sample
from trm.checkpoints.loading import primed_task
from trm.evaluation.grid_cells import BOTH, FIRST, INSIDE, PRIMED, region_of
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.solver import Solver
from trm.training.data import CanvasDataModule
from trm.training.mixture import Mixture
from trm.training.priming import PrimedProblems, Priming
from trm.training.samples import RowStepSamples, SequenceSamples

TASK = Multiplication("standard", digits_a=(1, 3), digits_b=(1, 2))
LONG = {"digits_a": [6, 7], "digits_b": [2, 2]}


def primed(problems: int = 10, share: float = 0.5) -> PrimedProblems:
    return PrimedProblems(TASK, Priming(LONG, problems, share), seed=3)


def data_of(**more) -> CanvasDataModule:
    return CanvasDataModule(TASK, Canvas(), batch_size=8, batches_per_epoch=4, seed=3, **more)


def test_a_share_of_the_samples_comes_from_a_fixed_training_set():
    known = {*primed().problems.to_ints()}
    assert len(known) == 10
    assert (split_of(primed().problems) == 0).all()
    data = SequenceSamples(TASK, Canvas(), "train", 3, 400, 400, mixture=Mixture(primed=primed()))
    for epoch in (0, 5):
        problems = data.draw_batch(range(400 * epoch, 400 * epoch + 400))[0]
        long = problems.lengths[:, 0] > 3
        assert 160 < long.sum() < 240
        assert {*problems[np.flatnonzero(long)].to_ints()} == known
        plain = sample(TASK, 3, "train", epoch, np.arange(400))
        assert problems[~long].to_ints() == plain[~long].to_ints()


def test_priming_without_a_share_changes_no_sample():
    plain, none = data_of(), data_of(priming=None)
    assert "primed" not in plain.state_dict()
    with_none = PrimedProblems(TASK, Priming(LONG, 10, 0.0), seed=3)
    of = (TASK, Canvas(9, 12), "train", 3, 32, 32)
    batches = [
        RowStepSamples(*of, mixture=Mixture(primed=p)).__getitems__(range(32))
        for p in (None, with_none)
    ]
    assert all(torch.equal(batches[0][name], batches[1][name]) for name in batches[0])
    assert none.train_dataloader().dataset.mixture.primed is None


def test_lengths_that_were_primed_are_a_region_of_their_own():
    data = data_of(priming=Priming(LONG))
    task = primed_task({**data.state_dict(), "primed": data.state_dict()["primed"]})
    assert (task.digits_a, task.digits_b) == ((6, 7), (2, 2))
    network = GPT(GPTConfig(hidden_size=8, num_heads=1, num_layers=1, position="rope_2d"))
    solver = Solver(GPTPredictor(network, Calibration()), TASK, primed=task)
    axes = ("digits_a", "digits_b")
    found = [region_of(solver, axes, size) for size in ((3, 2), (6, 2), (5, 2), (6, 3))]
    assert found == [INSIDE, PRIMED, FIRST, BOTH]
    assert solver.trained_on == "1 to 3 x 1 to 2 digits, primed with 6 to 7 x 2 to 2 digits"


def test_more_addends_than_the_task_has_can_be_primed():
    task = Addition(digits=(1, 2), addends=(2, 2))
    few = PrimedProblems(task, Priming({"addends": [3, 4]}, 5, 0.5), 0)
    data = SequenceSamples(task, Canvas(), "train", 0, 64, 64, mixture=Mixture(primed=few))
    problems, drawing, *_ = data.draw_batch(range(64))
    assert {*problems.counts.tolist()} == {2, 3, 4}
    assert drawing.truth.shape[1] >= 5
    pair = Problems.from_ints([(1, 2), (3, 4)]), Problems.from_ints([(5, 6, 7), (8, 9, 10)])
    assert Problems.where(np.array([True, False]), *pair).to_ints() == [(1, 2), (8, 9, 10)]
