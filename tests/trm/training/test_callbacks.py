from dataclasses import dataclass
from types import SimpleNamespace

import lightning as L
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas.problems import Task, split_of
from canvas.symbols import MASK
from trm.models.recursive import RecursiveConfig
from trm.solving import recursive
from trm.training import callbacks
from trm.training.callbacks import (
    BestCheckpoint,
    Gradients,
    SamplePanels,
    Throughput,
    example_steps,
    titles,
)
from trm.training.data import Canvas, CanvasDataModule
from trm.training.depth import DepthConfig
from trm.training.optimisers import OptimizerConfig
from trm.training.recursive import LossConfig, RecursiveModule
from trm.training.schedules import ScheduleConfig

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:You have overridden `transfer_batch_to_device`"),
    pytest.mark.filterwarnings("ignore:Precision bf16-mixed is not supported by the model summary"),
]


def tiny_module() -> RecursiveModule:
    torch.manual_seed(0)
    network = RecursiveConfig(
        hidden_size=16, num_heads=2, num_layers=1, intermediate_size=16, H_cycles=1, L_cycles=1
    )
    return RecursiveModule(
        network,
        OptimizerConfig(lr=0.01),
        ScheduleConfig(),
        DepthConfig(free_steps=(0, 0), supervised_steps=1),
        LossConfig(),
        solve_steps=3,
    )


def little_data() -> CanvasDataModule:
    return CanvasDataModule(
        Task(), Canvas(), batch_size=8, batches_per_epoch=6, validation_problems=16
    )


def fit(
    tmp_path, *added: L.Callback, module: RecursiveModule | None = None, **settings
) -> RecursiveModule:
    module = module or tiny_module()
    trainer = L.Trainer(
        callbacks=list(added),
        accelerator="cpu",
        max_steps=6,
        val_check_interval=2,
        log_every_n_steps=2,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **{"logger": TensorBoardLogger(tmp_path), "precision": "bf16-mixed", **settings},
    )
    trainer.fit(module, little_data())
    return module


@dataclass
class Look:
    """What the panels' trace was run on."""

    inputs: np.ndarray
    steps: int
    training: bool
    autocast: bool
    weights: torch.Tensor


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run with averaged weights: its looks, module and TensorBoard events."""
    looks, trace = [], recursive.trace

    def watched(model, inputs, steps):
        weights = model.lm_head.weight.detach().clone()
        autocast = torch.is_autocast_enabled("cpu")
        looks.append(Look(inputs, steps, model.training, autocast, weights))
        return trace(model, inputs, steps)

    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recursive, "trace", watched)
        module = fit(
            folder, EMAWeightAveraging(decay=0.5), SamplePanels(num_samples=3), Throughput()
        )
    [path] = folder.rglob("events*")
    events = EventAccumulator(str(path), size_guidance={"images": 0}).Reload()
    return SimpleNamespace(looks=looks, module=module, events=events)


def test_panels_are_drawn_at_each_validation_but_not_at_the_sanity_check(run):
    assert len(run.looks) == 3
    assert [image.step for image in run.events.Images("panels/validation")] == [2, 4, 6]


def test_panels_show_the_same_rows_every_time(run):
    for look in run.looks:
        np.testing.assert_array_equal(look.inputs, run.looks[0].inputs)
        assert look.steps == run.module.solve_steps


def test_panels_run_in_evaluation_mode_and_under_the_trainers_precision(run):
    assert not any(look.training for look in run.looks)
    assert all(look.autocast for look in run.looks)
    assert run.module.training


def test_panels_show_the_averaged_weights_as_validation_does(run):
    final = run.module.model.lm_head.weight  # the average, once training has ended
    torch.testing.assert_close(run.looks[-1].weights, final.detach())


def test_speed_is_logged_at_the_steps_of_the_other_figures(run):
    for tag in ("speed/samples_per_second", "speed/seconds_per_step", "speed/memory_gib"):
        speeds = run.events.Scalars(tag)
        losses = run.events.Scalars("train/loss")
        assert [speed.step for speed in speeds] == [loss.step for loss in losses]
        assert all(speed.value > 0 for speed in speeds)


def test_the_gradients_norm_is_logged_as_it_is_before_clipping(tmp_path):
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


def test_a_gradient_that_is_not_finite_stops_training_before_it_reaches_the_weights(tmp_path):
    module = tiny_module()
    told = r"optimiser step 4 is not finite \(loss [0-9.]+; epoch 0, data.seed 0: .*learning rates"
    with pytest.raises(FloatingPointError, match=told):
        fit(tmp_path, Poison(3), Gradients(), module=module)
    assert all(parameter.isfinite().all() for parameter in module.parameters())


def test_float16_leaves_single_steps_out_and_gives_up_after_some_in_succession():
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


def test_no_checkpoint_is_written_of_lost_weights():
    watch, module = Gradients(), tiny_module()
    trainer = SimpleNamespace(precision_plugin=None, current_epoch=2)
    watch.on_save_checkpoint(trainer, module, {})
    watch._lost = torch.tensor([1, 7])  # as an accelerator leaves it between two logging steps
    with pytest.raises(FloatingPointError, match="optimiser step 8"):
        watch.on_save_checkpoint(trainer, module, {})


def test_every_other_validation_and_more_steps_than_in_solving(tmp_path, monkeypatch):
    looks, trace = [], recursive.trace

    def watched(model, inputs, steps):
        looks.append(steps)
        return trace(model, inputs, steps)

    monkeypatch.setattr(recursive, "trace", watched)
    fit(tmp_path, SamplePanels(num_samples=1, steps=5, every_n_validations=2))
    assert looks == [5, 5]  # the first and the third of three


def test_without_tensorboard_nothing_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(recursive, "trace", None)  # would fail if called
    fit(tmp_path, SamplePanels(), logger=CSVLogger(tmp_path))


def test_another_module_has_no_panels(tmp_path, monkeypatch):
    monkeypatch.setattr(recursive, "trace", None)
    log = TensorBoardLogger(tmp_path)
    trainer = SimpleNamespace(
        sanity_checking=False, is_global_zero=True, loggers=[log], datamodule=little_data()
    )
    SamplePanels().on_validation_batch_end(trainer, L.LightningModule(), None, None, 0)


@pytest.mark.parametrize("name", ["num_samples", "steps", "every_n_validations"])
def test_numbers_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} of SamplePanels is 1 or more, not 0"):
        SamplePanels(**{name: 0})


def lengths_of(problems) -> list[tuple[int, int]]:
    return list(zip(problems.a.lengths.tolist(), problems.b.lengths.tolist(), strict=True))


def test_samples_differ_in_length_and_in_row_and_belong_to_validation():
    task = Task(layout="standard", digits_a=(1, 4), digits_b=(1, 4))
    problems, drawing, steps = example_steps(task, Canvas(8, 9), 0, 256, 6)
    assert len(set(lengths_of(problems))) == 6
    assert lengths_of(problems)[0] == (1, 1)
    assert lengths_of(problems)[-1] == (4, 4)
    assert len(set(steps.step.tolist())) > 2
    assert (steps.step < drawing.steps).all()
    assert (split_of(problems.a, problems.b) == 1).all()
    assert ((steps.inputs == MASK) == steps.answer).all()
    assert steps.inputs.shape == (6, 8, 9)


def test_few_pairs_of_lengths_give_several_problems_each():
    task = Task(digits_a=(2, 2), digits_b=(1, 2))
    problems, _, _ = example_steps(task, Canvas(), 0, 64, 5)
    assert len(set(problems.names())) == 5
    assert set(lengths_of(problems)) == {(2, 1), (2, 2)}


def test_few_validation_problems_give_fewer_samples():
    problems, _, _ = example_steps(Task(), Canvas(), 0, 2, 6)
    assert len(problems) == 2


def test_title_names_the_problem_the_row_and_its_kind():
    task = Task(layout="standard", digits_a=(2, 2), digits_b=(1, 1))
    problems, drawing, steps = example_steps(task, Canvas(), 0, 8, 2)
    a, b = problems.a.to_ints()[0], problems.b.to_ints()[0]
    assert titles(problems, drawing, steps)[0] == f"{a} × {b}   row 1 of 2: partial product"


def test_title_of_a_very_long_problem_gives_its_digits():
    task = Task(digits_a=(40, 40), digits_b=(30, 30))
    first = titles(*example_steps(task, Canvas(), 0, 1, 1))[0]
    assert first.startswith("40 × 30 digits   row 1 of 30")


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
