"""Runs that learn hints: what they log, keep, refuse, and go on with."""

import re
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from canvas.multiplication import Multiplication
from trm.checkpoints import CHECKPOINT_KEY
from trm.checkpoints.loading import load_solver
from trm.training.tensorboard import meaning_of

NAMES = Multiplication("standard").rules.hints
STANDARD = ("--data.task.layout", "standard", "--data.task.base", "3")
HINTS = (*STANDARD, "--model.hints", "{all: 1.0, carry: 0.0}")
GPT = """
    --trainer.accelerator=cpu --trainer.max_epochs=1 --trainer.check_val_every_n_epoch=1
    --trainer.log_every_n_steps=1 --trainer.precision=32-true
    --model.network.config.hidden_size=16 --model.network.config.num_heads=2
    --model.network.config.num_layers=1 --model.schedule.warmup_steps=1
    --model.optimizer.name=adamw --data.batch_size=8 --data.batches_per_epoch=2
    --data.validation_problems=4 --data.training_problems=0 --data.beyond_problems=2
    --data.task.digits_a=[1,2] --data.task.digits_b=[1,1] --data.canvas.height=null
    --data.canvas.width=null
""".split()  # noqa: SIM905


def version(folder: Path, run: str = "gpt-small-rope-2d") -> Path:
    return folder / f"runs/{run}/version_0"


def load(folder: Path, name: str = "last") -> dict:
    return torch.load(version(folder) / f"checkpoints/{name}.ckpt", weights_only=True)


@pytest.fixture(scope="module")
def hinted(command, repository, tmp_path_factory) -> Path:
    """A run that learns hints, and is validated beyond its range."""
    folder = tmp_path_factory.mktemp("hinted")
    config = ("--config", repository / "configs/gpt/small_rope_2d.yaml")
    ran = command("fit", *config, *GPT, *HINTS, folder=folder)
    assert ran.code == 0, ran.err
    return folder


@pytest.fixture(scope="module")
def events(hinted) -> EventAccumulator:
    return EventAccumulator(str(version(hinted))).Reload()


def test_every_hint_with_a_weight_has_a_head_and_a_curve_in_range_and_beyond(hinted, events):
    learned = [name for name in NAMES if name != "carry"]
    about = load(hinted)[CHECKPOINT_KEY]["model"]
    few = {"row_kind": 6, "diagonal": 2, "adding": 3}
    assert about["hints"] == {name: few.get(name, 4) for name in learned}
    scalars = events.Tags()["scalars"]
    for group in ("train", "validation", "beyond"):
        logged = {name for name in scalars if name.startswith(f"{group}/hint_")}
        assert logged == {f"{group}/hint_{name}" for name in learned}
        for name in logged:
            assert all(0 <= event.value <= 1 for event in events.Scalars(name))
    beyond = {name for name in scalars if name.startswith("beyond/") and "hint" not in name}
    assert beyond == {"beyond/solved", "beyond/teacher_forced_rows"}
    assert [event.step for event in events.Scalars("beyond/solved")] == [1]


def test_curves_of_hints_say_what_they_mean_and_have_charts(events):
    scalars = events.Tags()["scalars"]
    for name in scalars:
        assert events.SummaryMetadata(name).summary_description.endswith("."), name
    assert "the hint sum_carry is right" in meaning_of("beyond/hint_sum_carry")
    assert meaning_of("mine/hint_sum") is None
    [config] = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(config.tensor_proto.string_val[0])
    charts = {category.title: list(category.chart) for category in layout.category}
    assert len(charts["Hints"]) == 2 * (len(NAMES) - 1)
    for tag in (tag for of in charts.values() for chart in of for tag in chart.multiline.tag):
        assert len([known for known in scalars if re.match(tag, known)]) == 1, tag


def test_a_checkpoint_with_hints_is_exported_loaded_solved_scored_and_inspected(
    hinted, command, repository, tmp_path
):
    file = tmp_path / "hinted.safetensors"
    assert command("inspect", "--checkpoint", hinted, "--export", file).code == 0
    solvers = [load_solver(path, device="cpu") for path in (hinted, file)]
    best = load(hinted, "best")
    for solver in solvers:
        model = solver.predictor.model
        assert list(model.config.hints) == [name for name in NAMES if name != "carry"]
        for name, value in model.state_dict().items():
            assert torch.equal(value, best["state_dict"][f"model.{name}"])
    assert command("solve", "--checkpoint", file, "12x2").code == 0
    grid = ("--digits-a", 2, "--digits-b", 1, "--problems", 2, "--output", tmp_path / "grid")
    assert command("evaluate", "--checkpoint", file, *grid).code == 0
    config = ("--config", repository / "configs/gpt/small_rope_2d.yaml")
    ran = command("test", *config, *GPT, *HINTS, "--ckpt_path", "best", folder=hinted)
    assert ran.code == 0, ran.err
    assert re.search(r"test/hint_sum +\d+\.\d\d %", ran.out)
    ran = command("inspect", "--checkpoint", file, "12x2", "--output", tmp_path / "seen")
    assert ran.code == 0, ran.err
    assert (tmp_path / "seen/hints.png").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--model.hints", "{cary: 1.0}"), "Did you mean carry?"),
        (("--model.hints", "{carry: .nan}"), "the weight of carry is 0 or more, not nan"),
        (("--model.hints", "{carry: much}"), "hints: expected float. Got value: much"),
        (
            ("--model.hints", "{all: 1.0}", "--data.task.layout", "mine.Plain"),
            "model.hints: the layout mine.Plain has no hints to learn",
        ),
        (
            ("--checkpoint.monitor", "beyond/solved", "--data.beyond_problems", "2"),
            "beyond/solved is of problems longer than those of training",
        ),
    ],
)
def test_what_cannot_be_learned_is_said_in_a_sentence(command, repository, mine, words, told):
    folder, config = mine("mine", MINE), repository / "configs/gpt/small_rope_2d.yaml"
    ran = command("fit", "--config", config, *GPT, *STANDARD, *words, folder=folder)
    assert ran.code == 2
    assert told in ran.err
    assert "Traceback" not in ran.err


MINE = """
from canvas.multiplication import Standard


class Plain(Standard):
    name = "plain"
    hints = ()
"""
