from types import SimpleNamespace

import lightning as L
import pytest
import torch
from lightning.pytorch.accelerators import CPUAccelerator, CUDAAccelerator
from lightning.pytorch.callbacks import (
    BatchSizeFinder,
    DeviceStatsMonitor,
    LearningRateFinder,
    StochasticWeightAveraging,
)
from runs import events_of
from tiny import tiny_module

from trm.training.callbacks import BestCheckpoint, Cost, Gradients, check_callbacks


def test_the_gradients_norm_is_logged_as_it_is_before_clipping(fit, tmp_path):
    fit(tmp_path, Gradients(), gradient_clip_val=1e-9, precision="32-true")
    norms = events_of(tmp_path).Scalars("train/gradient_norm")
    assert [norm.step for norm in norms] == [1, 3, 5]
    assert all(norm.value > 1e-3 for norm in norms)


class Poison(L.Callback):
    """Spoils a gradient at some optimiser steps, as an overflow would."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if trainer.global_step in self.steps:
            pl_module.model.lm_head.weight.grad[0, 0] = float("inf")


def test_an_infinite_gradient_stops_training_before_the_update(fit, tmp_path):
    module = tiny_module()
    told = r"optimiser step 4 is not finite \(epoch 1\).*learning rates"
    with pytest.raises(FloatingPointError, match=told):
        fit(tmp_path, Poison(3), Gradients(), module=module)
    assert all(parameter.isfinite().all() for parameter in module.parameters())


def test_no_checkpoint_is_written_of_lost_weights():
    watch, module = Gradients(), tiny_module()
    trainer = SimpleNamespace(current_epoch=2)
    watch.on_save_checkpoint(trainer, module, {})
    watch._lost = torch.tensor(8)  # as an accelerator leaves it between two logging steps
    with pytest.raises(FloatingPointError, match="optimiser step 8"):
        watch.on_save_checkpoint(trainer, module, {})


class Clock(L.Callback):
    """Lets each batch take a second, the first one ten, and each validation a thousand."""

    def __init__(self, monkeypatch) -> None:
        self.now, self.first = 0.0, True
        monkeypatch.setattr("trm.training.callbacks.time.perf_counter", lambda: self.now)

    def on_train_batch_end(self, *args, **more):
        self.now += 10 if self.first else 1
        self.first = False

    def on_validation_end(self, *args, **more):
        self.now += 1000


def test_speed_excludes_validation_and_the_first_batch(fit, tmp_path, monkeypatch):
    cost = Cost(every=100)
    fit(tmp_path, Clock(monkeypatch), cost, accumulate_grad_batches=2, max_steps=3)
    assert cost.seconds == 15
    assert cost.samples == 6 * 8
    logged = events_of(tmp_path).Scalars("speed/samples_per_second")
    assert [(event.step, event.value) for event in logged] == [(1, 8)]


def test_the_latest_of_equally_good_checkpoints_is_kept():
    trainer = SimpleNamespace(strategy=SimpleNamespace(reduce_boolean_decision=bool))
    keeper, kept = BestCheckpoint(monitor="solved", mode="max"), []
    for step, solved in enumerate((0.5, 0.7, 0.6, 0.7, 0.69, 0.7)):
        if keeper.check_monitor_top_k(trainer, torch.tensor(solved)):
            kept.append(step)
            keeper.best_k_models = {str(step): torch.tensor(solved)}
            keeper.kth_best_model_path = str(step)
    assert kept == [0, 1, 3, 5]


def test_a_cpu_is_monitored_only_with_the_package_for_it(monkeypatch):
    kinds = {
        name: SimpleNamespace(accelerator=kind())
        for name, kind in (("cpu", CPUAccelerator), ("gpu", CUDAAccelerator))
    }
    monkeypatch.setattr("trm.training.callbacks.find_spec", lambda name: None)
    for cpu_stats, refused in ((None, ["cpu"]), (True, ["cpu", "gpu"]), (False, [])):
        for name, trainer in kinds.items():
            trainer.callbacks = [DeviceStatsMonitor(cpu_stats)]
            if name in refused:
                with pytest.raises(ValueError, match="install it by `pip install psutil`"):
                    check_callbacks(trainer)
            else:
                check_callbacks(trainer)
    monkeypatch.setattr("trm.training.callbacks.find_spec", lambda name: object())
    kinds["cpu"].callbacks = [DeviceStatsMonitor()]
    check_callbacks(kinds["cpu"])


@pytest.mark.parametrize(
    ("unsuitable", "told"),
    [
        (LearningRateFinder(), "Set model.optimizer.lr, or compare some by"),
        (BatchSizeFinder(), "Set data.batch_size, or data.workers if the"),
        (StochasticWeightAveraging(0.1), "Take WeightAveraging or EMAWeightAveraging, whose"),
    ],
)
def test_callbacks_of_no_use_are_refused_with_what_to_take(unsuitable, told):
    trainer = SimpleNamespace(accelerator=CPUAccelerator(), callbacks=[unsuitable])
    with pytest.raises(ValueError, match=rf"trainer\.callbacks: \w+ .*{told}"):
        check_callbacks(trainer)


@pytest.mark.parametrize(
    ("monitor", "told"),
    [
        ("beyond/solved", "which must not choose a checkpoint"),
        ("nope", r"no validation logs nope\. Take validation/solved"),
        ("validation/solve", r"Did you mean validation/solved\?"),
        ("validation/loss", "set checkpoint.mode: min"),
    ],
)
def test_the_best_checkpoint_is_that_of_a_logged_figure(monitor, told):
    module = tiny_module()
    module._trainer = SimpleNamespace(datamodule=None)
    with pytest.raises(ValueError, match=rf"checkpoint\.monitor: .*{told}"):
        BestCheckpoint(monitor=monitor, mode="max").setup(module._trainer, module, "fit")


FAILING = """
import lightning as L

class Failing(L.Callback):
    def setup(self, *args, **more):
        raise ValueError("it cannot be set up")

class FailingLater(L.Callback):
    def on_train_batch_end(self, *args, **more):
        raise ValueError("a batch failed")
"""


def test_a_run_that_fails_before_its_first_batch_leaves_nothing(command, debug, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    for kind, left in (("Failing", False), ("FailingLater", True)):
        words = ("fit", *debug, "--trainer.callbacks+", f"failing.{kind}")
        command(*words, folder=tmp_path, code=2)
        assert (tmp_path / "runs").exists() == left


def test_a_run_without_a_validation_names_its_last_checkpoint(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr("trm.training.callbacks.rank_zero_info", said.append)
    best, last = BestCheckpoint(), SimpleNamespace(best_model_path="runs/a/last.ckpt")
    best.on_fit_end(SimpleNamespace(checkpoint_callbacks=[best, last]), None)
    assert said == ["No validation has chosen a best checkpoint; the last one is runs/a/last.ckpt"]
