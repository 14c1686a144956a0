"""Training of cell models on whole pages, and the cell inputs that come back."""

import numpy as np
import pytest
import torch
from runs import assert_same, charts_without_a_curve, whole_and_resumed
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from canvas.canvas_size import Canvas
from canvas.cells.reachable import reachable_op_inputs
from canvas.multiplication import Multiplication
from trm import load_solver, solve
from trm.cells import CellConfig, CellModel
from trm.cells.configs import IntegerCellConfig, rule_settings
from trm.cells.integer import IntegerCellModel
from trm.cells.module import CellModule
from trm.cells.samples import CellInputSamples
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.mixture import Mixture

TASK = Multiplication(base=2, digits_a=(1, 3), digits_b=(1, 3), smallest=0)
SMALL = (
    "--config", "generalise/lattice", "--data.task.base", 2, "--data.batch_size", 32,
    "--data.task.digits_a", "[1,3]", "--data.task.digits_b", "[1,3]",
    "--data.batches_per_epoch", 100, "--data.validation_problems", 10,
    "--data.training_problems", 0, "--model.schedule.decay", "constant",
    "--model.optimizer.matrix_lr", 0.01, "--trainer.max_epochs", 2,
    "--trainer.check_val_every_n_epoch", 1, "--trainer.logger.name", "small",
    "--model.network.config.hidden_size", 32, "--model.network.config.intermediate_size", 48,
)  # fmt: skip
ONE_EPOCH = ("--trainer.max_epochs", 1, "--data.batches_per_epoch", 170)


def test_samples_are_the_distinct_inputs_of_training_problems():
    samples = CellInputSamples(TASK, Canvas(margin=2), "train", 0, 64, 32)
    batch, rule = samples.__getitems__(list(range(32))), TASK.local_rule()
    numbers = batch["op_inputs"].numpy()
    assert (np.diff(numbers) > 0).all()
    assert (batch["labels"].numpy() == rule.decide(numbers)).all()
    masked = batch["labels"][:, 0].numpy() >= 0
    assert np.isin(numbers[masked], reachable_op_inputs(rule)).all()
    assert 0 < masked.sum() < len(masked)
    again = samples.__getitems__(list(range(32)))
    assert all(torch.equal(batch[name], again[name]) for name in batch)


def test_a_pool_has_each_op_input_of_its_problems_once():
    rule = TASK.local_rule()
    samples = CellInputSamples(TASK, Canvas(margin=2), "train", 0, 64, 32, mixture=Mixture(pool=40))
    drawn = CellInputSamples(TASK, Canvas(margin=2), "train", 0, 40, 40)
    batch = drawn.batch(rule, drawn.draw_batch(range(40))[1])
    pooled = samples.pooled["op_inputs"].numpy()
    assert pooled.tolist() == batch["op_inputs"].tolist()
    assert np.isin(pooled, reachable_op_inputs(rule)).all(), "no row is given"
    assert torch.equal(samples.pooled["labels"], batch["labels"])
    first, other = samples.__getitems__(range(32)), samples.__getitems__(range(64, 96))
    assert first["labels"].shape == (32, 1 + len(rule.signals))
    for part in (first, other):
        ids = part["op_inputs"].numpy()
        assert np.isin(ids, pooled).all()
        assert len(np.unique(ids)) > 8
    assert not torch.equal(first["op_inputs"], other["op_inputs"]), "each epoch draws anew"
    again = samples.__getitems__(range(32))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_short_run_solves_longer_problems_than_it_trained_on(command, tmp_path):
    command("fit", *SMALL, *ONE_EPOCH, folder=tmp_path)
    problems = [(2**9 - 1, 2**9 - 2), (0, 7), (500, 2**7)]
    solutions = solve(problems, load_solver(tmp_path / "runs/small"))
    assert [solution.correct for solution in solutions] == [True] * 3
    assert charts_without_a_curve(tmp_path / "runs") == []


def test_a_run_that_is_resumed_is_the_uninterrupted_one(command, tmp_path):
    words = (*SMALL, "--data.batches_per_epoch", 5, "--trainer.log_every_n_steps", 5)
    whole, resumed = whole_and_resumed(command, tmp_path, *words)
    assert len(whole["counterexamples"][0]) > 0
    assert_same(whole, resumed, "counterexamples")


def test_integers_cannot_be_trained():
    task = Multiplication(base=2, layout="lattice")
    network = IntegerCellModel(IntegerCellConfig(**rule_settings(task.local_rule())))
    module = CellModule(network=network, optimizer=OptimizerConfig(), schedule=ScheduleConfig())
    with pytest.raises(ValueError, match="IntegerCellModel cannot be trained"):
        module.check(None)


def test_averages_of_weights_leave_indices_as_they_are():
    """Lightning's averages include buffers; 0.9 i + 0.1 i can be rounded to i − 1."""
    settings = rule_settings(Multiplication("lattice").local_rule())
    model = CellModel(CellConfig(**settings, hidden_size=8, num_heads=2, intermediate_size=8))
    assert {value.dtype for value in model.buffers()} == {torch.float32}
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    for _ in range(20):
        averaged.update_parameters(model)
    assert torch.equal(averaged.module.reader._units, model.reader._units)
    moved = model.to("meta")
    assert {moved.reader._units.device.type, moved._logits.device.type} == {"meta"}
