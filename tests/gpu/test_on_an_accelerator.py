"""Training and solving on an accelerator, beside the same on the CPU.

They are skipped where there is none. With TRM_TEST_ON=cpu they run anywhere, which shows that they
are in order, not that an accelerator is.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from runs import TINY_TRM, assert_same, last_of, whole_and_resumed

import trm
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.sampling import sample
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.iterative import Batch
from trm.models.recursive import TinyRecursiveModel
from trm.solving.voting import Voting
from trm.training.gpt_module import sequence_loss
from trm.training.published_step import carried_step
from trm.training.samples import RowStepSamples, SequenceSamples
from trm.training.step import DepthConfig, fresh_step

ACCELERATOR = os.environ.get("TRM_TEST_ON", "gpu")
DEVICE = "cpu" if ACCELERATOR == "cpu" else "auto"
KIND = torch.device("cpu")
if ACCELERATOR != "cpu" and torch.accelerator.is_available():
    KIND = torch.accelerator.current_accelerator()
pytestmark = pytest.mark.skipif(
    ACCELERATOR != "cpu" and not torch.accelerator.is_available(), reason="needs an accelerator"
)

MODELS = Path(__file__).parents[2] / "docs/models"
TRAINER = ("--trainer.accelerator", ACCELERATOR, "--trainer.devices", "1")
SAME = 1e-3  # weights after some steps; an accelerator adds in any order
RUNS = {  # of each schedule, and of a sequence model
    "carry": (*TINY_TRM, "--trainer.precision=32-true"),
    "fresh": ("--config", "debug", "--model.schedule.decay=constant"),
    "gpt": (
        *("--config", "gpt/small_rope_2d", "--data.batch_size=4", "--data.batches_per_epoch=4"),
        *("--data.validation_problems=4", "--data.training_problems=4"),
        *("--model.network.config.hidden_size=16", "--model.network.config.num_layers=1"),
        *("--model.schedule.decay=constant", "--trainer.precision=32-true"),
        *("--trainer.check_val_every_n_epoch=1", "--trainer.log_every_n_steps=1"),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_resumes_exactly(command, tmp_path, name):
    whole, resumed = whole_and_resumed(command, tmp_path, *RUNS[name], *TRAINER)
    assert resumed["global_step"] == whole["global_step"]
    assert_same(whole, resumed, near=SAME)


@pytest.mark.skipif(ACCELERATOR == "cpu", reason="compiling for a CPU takes minutes")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch", "ignore:The .grad attribute")
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")  # float32 is meant
def test_a_compiled_model_learns_what_an_eager_one_does(command, tmp_path):
    for mode in ("true", "false"):
        (tmp_path / mode).mkdir()
        words = (*RUNS["carry"], *TRAINER, "--trainer.max_epochs=1", f"--model.compile={mode}")
        command("fit", *words, folder=tmp_path / mode)
    assert_same(last_of(tmp_path / "false"), last_of(tmp_path / "true"), near=SAME)


@pytest.mark.skipif(KIND.type != "cpu" and torch.accelerator.device_count() < 2, reason="one alone")
@pytest.mark.parametrize("name", ["carry", "fresh"])
def test_two_devices_learn_what_one_does(command, tmp_path, name):
    words = ("fit", *RUNS[name], "--data.canvas.height=8", "--data.canvas.width=8")
    words += ("--trainer.accelerator", ACCELERATOR, "--trainer.max_epochs=1")
    words += ("--trainer.precision=32-true", "--trainer.enable_progress_bar=false")
    for number in (1, 2):
        (tmp_path / f"{number}").mkdir()
    command(*words, "--trainer.devices=1", folder=tmp_path / "1")
    several = ("--trainer.devices=2", "--trainer.strategy=ddp")
    command(*words, *several, folder=tmp_path / "2")
    one, two = last_of(tmp_path / "1"), last_of(tmp_path / "2")
    assert two["global_step"] == one["global_step"] > 0
    carries = [len(held.get("carry", ())) for held in (one, two)]
    assert carries == ([1, 2] if name == "carry" else [0, 0])
    assert_same(one, two, near=SAME)


SHAPE = {"height": 8, "width": 8, "hidden_size": 64, "num_heads": 4}
Learner = tuple[torch.nn.Module, Callable[[Batch], torch.Tensor]]  # a model, and a batch's loss


def carrying() -> Learner:
    config = RecursiveConfig(**SHAPE, H_cycles=2, L_cycles=2, position="rope_1d")
    model, depth = TinyRecursiveModel(config).to(KIND), DepthConfig("carry", halt_max_steps=4)
    return model, lambda batch: carried_step(model, batch, None, depth, "stablemax")[0]["loss"]


def starting_fresh() -> Learner:
    config = RecursiveConfig(**SHAPE, H_cycles=1, L_cycles=1, position="relative_2d")
    model = TinyRecursiveModel(config).to(KIND)
    return model, lambda batch: fresh_step(model, batch, 2, 2)["loss"]


def reading_sequences() -> Learner:
    model = GPT(GPTConfig(**SHAPE, num_layers=2)).to(KIND)

    def loss(batch: Batch) -> torch.Tensor:
        x = model.activations(batch["ids"], batch["height"], batch["width"])
        return sequence_loss(model.head(x), batch["labels"])[0]

    return model, loss


@pytest.mark.parametrize("make", [carrying, starting_fresh, reading_sequences])
def test_half_precision_has_the_loss_and_the_gradient_of_float32(make):
    task = Multiplication(digits_a=(1, 3), digits_b=(1, 2))
    kind = SequenceSamples if make is reading_sequences else RowStepSamples
    batch = kind(task, Canvas(8, 8), "train", 0, 640, 16).__getitems__(range(16))
    batch = {key: part.to(KIND) if hasattr(part, "to") else part for key, part in batch.items()}
    losses, gradients = [], []
    for half in (False, True):
        torch.manual_seed(0)
        model, loss = make()
        with torch.autocast(KIND.type, torch.bfloat16, enabled=half):
            losses.append(loss(batch))
        losses[-1].backward()
        found = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        gradients.append(torch.cat(found))
    # Eight bits of a number: less than 0.1 % of the loss and 2.5 % of the gradient on a CPU.
    assert losses[0] != losses[1]
    torch.testing.assert_close(losses[1], losses[0], rtol=0.01, atol=0)
    assert (gradients[1] - gradients[0]).norm() < 0.1 * gradients[0].norm()


def test_noise_is_that_of_the_cpu():
    voting = Voting(rollouts=3, noise=0.1, per="solution")
    there, here = (
        trm.load_solver("decimal-seed0", device=device, voting=voting) for device in (DEVICE, "cpu")
    )
    asked = sample(here.task, 0, "test", 0, np.arange(12))
    for one, other in zip(there.solve(asked), here.solve(asked), strict=True):
        assert (one.answer, one.agreement) == (other.answer, other.agreement)
        assert one.confidence == pytest.approx(other.confidence, abs=0.02)


@pytest.mark.parametrize("name", [None, "decimal-seed0", "trm-quick-seed0", "addition-gpt-seed0"])
@pytest.mark.parametrize("voting", [None, Voting(views=4)])
def test_answers_and_confidence_are_those_of_the_cpu(name, voting):
    path = None if name is None else MODELS / f"{name}.safetensors"
    there = trm.load_solver(path, device=DEVICE, voting=voting)
    here = trm.load_solver(path, device="cpu", voting=voting)
    asked = sample(replace(here.task, long_bias=0.0), 0, "test", 0, np.arange(12))
    for one, other in zip(there.solve(asked), here.solve(asked), strict=True):
        assert one.answer == other.answer
        assert one.confidence == pytest.approx(other.confidence, abs=0.02)
