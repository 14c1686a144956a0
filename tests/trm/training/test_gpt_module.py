"""A GPT as it is trained: here on sums, with their carries as rows of their own."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from runs import charts_without_a_curve, events_of, last_of

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.drawing import IGNORE
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm.checkpoints import CHECKPOINT_KEY
from trm.checkpoints.loading import load_solver
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.solving.gpt_predictor import Calibration, GPTPredictor, fit_calibration
from trm.solving.rollout import teacher_forced
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule, sequence_loss
from trm.training.samples import SequenceSamples

TINY = """
    --config=addition/gpt --trainer.accelerator=cpu --trainer.max_epochs=2
    --trainer.check_val_every_n_epoch=1 --trainer.log_every_n_steps=1 --trainer.precision=32-true
    --model.network.config.hidden_size=16 --model.network.config.num_heads=2
    --model.network.config.num_layers=1 --model.schedule.warmup_steps=1
    --model.schedule.decay=constant --data.batch_size=8 --data.batches_per_epoch=4
    --data.validation_problems=9 --data.task.digits=[1,3] --data.task.layout=column_carries
""".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def trained_gpt(command, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    command("fit", *TINY, "--panels.num_samples=1", folder=folder, pictures=True)
    return folder


def test_a_run_has_the_pages_of_a_recursive_one_and_is_scored(trained_gpt, command):
    events = events_of(trained_gpt)
    assert {
        *(f"train/{name}" for name in ("loss", "cell_accuracy")),
        *(f"validation/{name}" for name in ("solved", "loss", "teacher_forced_rows")),
        *(f"validation/{name}" for name in ("teacher_forced_cells", "confidence_accuracy")),
        "speed/samples_per_second",
    } <= set(events.Tags()["scalars"])
    assert set(events.Tags()["images"]) == {"panels/row_1", "panels/wrong_1"}
    assert charts_without_a_curve(trained_gpt) == []
    ran = command("test", *TINY, "--ckpt_path", "best", folder=trained_gpt)
    assert " of 9; 95 % interval" in ran.out
    solver = load_solver(trained_gpt, device="cpu")
    assert solver.task == Addition("column_carries", digits=(1, 3), addends=(2, 3), long_bias=1.0)
    two, three = solver.solve(Problems.from_ints([(87, 604), (9, 0, 999)]))
    assert len(two.rows) == len(three.rows) == 2  # carries and answer
    assert three.operands == (9, 0, 999)


def test_its_calibration_fits_the_validation_rows_and_is_kept(trained_gpt):
    kept = Calibration(**last_of(trained_gpt)[CHECKPOINT_KEY]["calibration"])
    assert kept != Calibration()
    solver = load_solver(next(trained_gpt.rglob("last.ckpt")), device="cpu")
    assert solver.predictor.calibration == kept
    data = CanvasDataModule(solver.task, solver.canvas, validation_problems=9)
    raw = GPTPredictor(solver.predictor.model, np.asarray)
    judged = [teacher_forced(raw, drawing) for _, drawing in data.val_dataloader()[0]]
    scores = np.concatenate([one.filled.confidence for one in judged])
    right = np.concatenate([one.rows_exact for one in judged])
    again = fit_calibration(scores, right)
    assert (again.scale, again.offset) == pytest.approx((kept.scale, kept.offset), rel=1e-3)
    mine = module()  # of two devices, which gather what they have judged
    mine._judged, other = [(scores[:7], right[:7])], [(scores[7:], right[7:])]
    mine.gathered, mine.log = lambda judged: [judged, other], lambda *_, **__: None
    mine.on_validation_epoch_end()
    assert mine.calibration == again


def test_a_gpt_learns_from_shifted_pages_and_votes_over_shifts(command, tmp_path):
    shift = "--data.transforms=[augment.transforms.CanvasShift]"
    short = "--trainer.max_epochs=1", "--data.batches_per_epoch=1"
    command("fit", *TINY, *short, shift, folder=tmp_path)
    last = next(tmp_path.rglob("last.ckpt"))
    assert load_solver(last, device="cpu").trained_symmetries == ("e",)
    ran = command("solve", "--checkpoint", last, "--views", 3, "12+7", folder=tmp_path)
    assert "of 3 views" in ran.out


def module(**model) -> GPTModule:
    torch.manual_seed(0)
    network = GPT(GPTConfig(6, 6, hidden_size=16, num_heads=2, num_layers=1, **model))
    return GPTModule(network, optimizer=OptimizerConfig(), schedule=ScheduleConfig())


def batch(n: int = 8) -> dict:
    data = SequenceSamples(Multiplication("standard"), Canvas(6, 6), "train", 0, n, n)
    return data.__getitems__(range(n))


def test_only_what_comes_after_the_operands_counts_in_the_loss():
    labels, logits = batch()["labels"], torch.zeros(8, 43, 18)
    flat, _ = sequence_loss(logits, labels)
    assert flat == pytest.approx(np.log(18), rel=1e-5)
    ignored = labels == IGNORE
    logits[ignored] = torch.randn(int(ignored.sum()), 18)
    assert sequence_loss(logits, labels)[0] == flat
    known = torch.nn.functional.one_hot(labels.clamp(min=0), 18).float() * 100
    sure, accuracy = sequence_loss(known, labels)
    assert sure == pytest.approx(0, abs=1e-6)
    assert accuracy == 1


def test_random_positions_differ_from_batch_to_batch_and_not_from_run_to_run():
    sequences, losses = batch(), []
    for epoch, index in ((0, 0), (0, 0), (0, 1), (1, 0)):
        torch.manual_seed(0)
        mine = module(position="randomised")
        # One optimiser step may add up the gradients of several batches.
        mine._trainer = SimpleNamespace(global_step=0, current_epoch=epoch, log_every_n_steps=99)
        losses.append(mine.training_step(sequences, index).item())
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3
