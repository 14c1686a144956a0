from types import SimpleNamespace

import lightning as L
import pytest
import torch
from runs import events_of
from tiny import tiny_module

from trm.training.callbacks import BestCheckpoint, Cost, Gradients


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


def test_a_gradient_that_is_not_finite_stops_training_before_a_weight_is_lost(fit, tmp_path):
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


def test_neither_validation_nor_the_first_batch_slow_training_down(fit, tmp_path, monkeypatch):
    cost = Cost(every=100)
    fit(tmp_path, Clock(monkeypatch), cost, accumulate_grad_batches=2, max_steps=3)
    assert cost.seconds == 15
    assert cost.samples == 6 * 8
    logged = events_of(tmp_path).Scalars("speed/samples_per_second")
    assert [(event.step, event.value) for event in logged] == [(1, 8)]


def test_of_equally_good_checkpoints_the_latest_is_kept():
    trainer = SimpleNamespace(strategy=SimpleNamespace(reduce_boolean_decision=bool))
    keeper, kept = BestCheckpoint(monitor="solved", mode="max"), []
    for step, solved in enumerate((0.5, 0.7, 0.6, 0.7, 0.69, 0.7)):
        if keeper.check_monitor_top_k(trainer, torch.tensor(solved)):
            kept.append(step)
            keeper.best_k_models = {str(step): torch.tensor(solved)}
            keeper.kth_best_model_path = str(step)
    assert kept == [0, 1, 3, 5]
