from types import SimpleNamespace

import lightning as L
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trm.training import callbacks
from trm.training.callbacks import BestCheckpoint, Gradients, Throughput

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:You have overridden `transfer_batch_to_device`"),
    pytest.mark.filterwarnings("ignore:Precision bf16-mixed is not supported by the model summary"),
]


def test_speed_is_logged_at_the_steps_of_the_other_figures(fit, tmp_path):
    fit(tmp_path, Throughput())
    [path] = tmp_path.rglob("events*")
    events = EventAccumulator(str(path)).Reload()
    for tag in ("speed/samples_per_second", "speed/seconds_per_step", "speed/memory_gib"):
        speeds, losses = events.Scalars(tag), events.Scalars("train/loss")
        assert [speed.step for speed in speeds] == [loss.step for loss in losses]
        assert all(speed.value > 0 for speed in speeds)


def test_the_gradients_norm_is_logged_as_it_is_before_clipping(fit, tmp_path):
    fit(tmp_path, Gradients(), gradient_clip_val=1e-9, precision="32-true")
    [path] = tmp_path.rglob("events*")
    norms = EventAccumulator(str(path)).Reload().Scalars("train/gradient_norm")
    assert [norm.step for norm in norms] == [1, 3, 5]
    assert all(norm.value > 1e-3 for norm in norms)


class Poison(L.Callback):
    """Spoils a gradient at some optimiser steps, as an overflow would."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if trainer.global_step in self.steps:
            pl_module.model.lm_head.weight.grad[0, 0] = float("inf")


def test_a_gradient_that_is_not_finite_stops_training_before_it_reaches_the_weights(
    fit, tiny_module, tmp_path
):
    module = tiny_module()
    told = r"optimiser step 4 is not finite \(loss [0-9.]+; epoch 1, data.seed 0: .*learning rates"
    with pytest.raises(FloatingPointError, match=told):
        fit(tmp_path, Poison(3), Gradients(), module=module)
    assert all(parameter.isfinite().all() for parameter in module.parameters())


def test_float16_leaves_single_steps_out_and_gives_up_after_some_in_succession(tiny_module):
    watch, module = Gradients(patience=3), tiny_module()
    trainer = SimpleNamespace(
        precision_plugin=SimpleNamespace(scaler=object()), log_every_n_steps=100, global_step=0,
        current_epoch=0,
    )  # fmt: skip
    weight = next(module.parameters())

    def step(value: float) -> None:
        weight.grad = torch.full_like(weight, value)
        watch.on_before_optimizer_step(trainer, module, None)
        trainer.global_step += 1

    for value in (1.0, torch.inf, torch.nan, 1.0, torch.nan, torch.nan):
        step(value)
    with pytest.raises(FloatingPointError, match="optimiser step 5 is not finite"):
        step(torch.nan)


def test_no_checkpoint_is_written_of_lost_weights(tiny_module):
    watch, module = Gradients(), tiny_module()
    trainer = SimpleNamespace(precision_plugin=None, current_epoch=2)
    watch.on_save_checkpoint(trainer, module, {})
    watch._lost = torch.tensor([1, 7])  # as an accelerator leaves it between two logging steps
    with pytest.raises(FloatingPointError, match="optimiser step 8"):
        watch.on_save_checkpoint(trainer, module, {})


class Clock:
    """Time that passes when told."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(callbacks.time, "perf_counter", lambda: self.now)


def drive(clock, batches, world_size=1, accumulate=1, every=2):
    """What is logged over training batches of the given seconds; a "validation" takes 1000."""
    logged = []
    trainer = SimpleNamespace(
        global_step=0,
        log_every_n_steps=every,
        world_size=world_size,
        accumulate_grad_batches=accumulate,
    )
    module = SimpleNamespace(
        log=lambda name, value: logged.append((trainer.global_step, name[6:], value)),
        device=torch.device("cpu"),
    )
    speed = Throughput()
    speed.on_train_start(trainer, module)
    done = 0
    for seconds in batches:
        if seconds == "validation":
            speed.on_validation_start(trainer, module)
            clock.now += 1000
            continue
        clock.now += seconds
        done += 1
        trainer.global_step = done // accumulate
        speed.on_train_batch_end(trainer, module, None, {"inputs": torch.zeros(10, 2, 2)}, done)
    return [(step, name, value) for step, name, value in logged if name != "memory_gib"]


def test_speed_is_the_mean_since_it_was_last_logged(monkeypatch):
    logged = drive(Clock(monkeypatch), [99, 2, 1, 3])  # the first step is a warm-up
    assert logged == [
        (2, "samples_per_second", 5.0),
        (2, "seconds_per_step", 2.0),
        (4, "samples_per_second", 5.0),
        (4, "seconds_per_step", 2.0),
    ]


def test_validation_does_not_slow_training_down(monkeypatch):
    logged = drive(Clock(monkeypatch), [1, 1, 1, "validation", 1, 1, 1])
    assert {value for _, name, value in logged if name == "seconds_per_step"} == {1.0}


def test_nothing_is_logged_when_a_validation_precedes_every_step(monkeypatch):
    assert drive(Clock(monkeypatch), [1, "validation", 1, "validation"], every=1) == []


def test_samples_of_all_devices_count(monkeypatch):
    logged = drive(Clock(monkeypatch), [1, 1], world_size=4)
    assert logged[0] == (2, "samples_per_second", 40.0)


def test_a_step_over_several_batches_takes_as_long_as_they_do_and_is_logged_once(monkeypatch):
    logged = drive(Clock(monkeypatch), [1] * 7, accumulate=3)
    assert logged == [(2, "samples_per_second", 10.0), (2, "seconds_per_step", 3.0)]


def test_of_equally_good_checkpoints_the_latest_is_kept():
    trainer = SimpleNamespace(strategy=SimpleNamespace(reduce_boolean_decision=bool))
    keeper, kept = BestCheckpoint(monitor="solved", mode="max"), []
    for step, solved in enumerate((0.5, 0.7, 0.6, 0.7, 0.69, 0.7)):
        if keeper.check_monitor_top_k(trainer, torch.tensor(solved)):
            kept.append(step)
            keeper.best_k_models = {str(step): torch.tensor(solved)}
            keeper.kth_best_model_path = str(step)
    assert kept == [0, 1, 3, 5]
