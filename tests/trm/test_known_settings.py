import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import lightning as L
import pytest
from jsonargparse import ArgumentParser

from canvas.choices import CHOICES, OPEN, load_class
from canvas.task import Task
from trm.checkpoints.loading import config_class
from trm.configs import read_config
from trm.known_settings import _names, _settings_of, check_settings
from trm.training.callbacks import BestCheckpoint
from trm.training.data import CanvasDataModule
from trm.training.pictures import Pictures

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = [path for path in sorted(CONFIGS.rglob("*.yaml")) if path.parent.name != "studies"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_settings_of_a_shipped_config_are_known(path):
    check_settings([], [read_config(path)])


def arguments(kind: type, prefix: str) -> set[str]:
    """What jsonargparse takes for a class."""
    parser = ArgumentParser()
    parser.add_class_arguments(kind, prefix)
    return set(parser.get_defaults(skip_validation=True).keys())


@pytest.mark.parametrize(
    "name", ["quickstart", "generalise/all_views", "gpt/looped", "addition/gpt"]
)
def test_text_tells_of_all_that_the_classes_take(name):
    config = read_config(CONFIGS / f"{name}.yaml")
    model, task = config["model"], config["data"]["task"]["class_path"]
    network = model["init_args"]["network"]["class_path"]
    told = _names({"model": model["class_path"], "model.network": network, "data.task": task})
    module, made = (load_class(path, object, "class") for path in (model["class_path"], network))
    taken = arguments(module, "model") | arguments(L.Trainer, "trainer")
    taken |= arguments(CanvasDataModule, "data") | arguments(BestCheckpoint, "checkpoint")
    taken |= arguments(Pictures, "panels")
    assert taken <= set(told)
    for at, kind in (
        ("model.network.config", config_class(made)),
        ("data.task", load_class(task, Task, "task")),
    ):
        below = {key.removeprefix(f"{at}.") for key in told if key.startswith(f"{at}.")}
        assert below == {field.name for field in fields(kind)}


@pytest.mark.parametrize(
    "kind",
    [
        "trm.models.configs.RecursiveConfig",
        "trm.models.configs.GPTConfig",
        "trm.training.configs.OptimizerConfig",
        "trm.training.configs.ScheduleConfig",
        "trm.training.configs.DepthConfig",
        "trm.training.configs.LossConfig",
    ],
)
def test_text_tells_the_names_that_a_value_is_one_of(kind):
    declared = {field.name: field.metadata for field in fields(load_class(kind, object, "class"))}
    told = _settings_of(kind)
    assert any(setting.choices for setting in told.values())
    for name, setting in told.items():
        assert setting.choices == declared[name].get(CHOICES, ())
        assert setting.open == declared[name].get(OPEN, False)


BASE = read_config(CONFIGS / "quickstart.yaml")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--model.nope=3"], None),
        (["--model.optimizer.lrr", "3"], "model.optimizer.lr"),
        (
            ["--model.init_args.network.init_args.config.hiden_size=3"],
            "model.network.config.hidden_size",
        ),
        (["--model.hidden_size=3"], "model.network.config.hidden_size"),
        (["--trainer.max_epoch=3"], "trainer.max_epochs"),
        (["--data.canvas.hight", "9"], "data.canvas.height"),
        (["--data.task.digit_a"], "data.task.digits_a"),
        (["--checkpoint.save_topk=3"], "checkpoint.save_top_k"),
        (["--panels.num_sample=3"], "panels.num_samples"),
    ],
)
def test_a_slip_is_named(words, meant):
    with pytest.raises(ValueError, match="there is no setting") as error:
        check_settings(words, [BASE])
    assert meant is None or str(error.value).endswith(f"Did you mean {meant}?")


@pytest.mark.parametrize(
    "words",
    [
        ["--model.optimizer.lr", "3"],
        ["--model.hints.anything=1"],  # a dictionary
        ["--trainer.callbacks.patience", "3"],  # of a class that text does not tell
        ["--trainer.logger.save_dir", "runs"],
        ["--model.network", "mine.Network", "--model.network.anything", "3"],
        ["--data.task=Addition", "--data.task.digits", "[1, 3]"],
        ["--data.task.class_path=mine.Task", "--data.task.borrow", "3"],
        ["--trainer.callbacks.help=EarlyStopping", "--model.help"],
        ["--nothing.of.ours=3", "--data.transforms+=albumentations.D4"],
    ],
)
def test_what_text_does_not_tell_is_left_to_the_parser(words):
    check_settings(words, [BASE])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model.optimizer.lr=abc"], "model.optimizer.lr: expected float. Got value: abc"),
        (["--data.batch_size", "many"], "data.batch_size: expected int. Got value: many"),
        (["--trainer.max_epochs", "ten"], "trainer.max_epochs: expected int. Got value: ten"),
        (
            ["--trainer.limit_val_batches=x"],
            "trainer.limit_val_batches: expected float or int. Got value: x",
        ),
        (["--data.views.shift=perhaps"], "data.views.shift: expected bool. Got value: perhaps"),
    ],
)
def test_a_word_is_no_number(words, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        check_settings(words, [BASE])
    name, _, value = " ".join(words).removeprefix("--").replace(" ", "=").partition("=")
    held: dict = {}
    inner = held
    *above, last = name.split(".")
    for part in above:
        inner = inner.setdefault(part, {})
    inner[last] = value
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        check_settings([], [BASE, held])


@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [
        ("model.optimizer.name", "moun", "muon"),
        ("model.network.config.position", "relative2d", "relative_2d"),
        ("model.network.config.neighbourhood", "just_befor", "just_before"),
        ("model.loss.name", "sofmax", "softmax"),
    ],
)
def test_a_name_is_one_of_those_that_there_are(setting, value, meant):
    told = f"^{re.escape(setting)} must be one of .*, got '{value}'. Did you mean {meant}?"
    with pytest.raises(ValueError, match=told):
        check_settings([f"--{setting}={value}"], [BASE])


@pytest.mark.parametrize(
    "words",
    [
        ["--model.optimizer.name='muon'"],
        ["--model.optimizer.lr=1e-3"],
        ["--model.optimizer.lr", "-3"],
        ["--data.batch_size=3.5"],
        ["--data.canvas.height=null"],
        ["--data.canvas.square", "True"],
        ["--data.canvas.square"],
        ["--model.compile=true"],
        ["--model.network.config.position=mine.Position"],
        ["--trainer.precision=bf16-mixed"],
        ["--trainer.devices=auto"],
        ["--data.blanks={rows: 1}"],
    ],
)
def test_values_that_text_does_not_settle_are_left_to_the_parser(words):
    check_settings(words, [BASE])


def test_settings_are_those_of_the_class_that_is_named_by_then():
    task = {"class_path": "canvas.addition.Addition", "init_args": {"digits": [1, 3]}}
    check_settings(["--data.task.addends=[2,3]"], [BASE, {"data": {"task": task}}])
    check_settings(
        [], [BASE, {"data": {"task": "Addition"}}, {"data": {"task": {"digits": [1, 3]}}}]
    )
    with pytest.raises(ValueError, match=r"no setting data\.task\.digits_a\."):
        check_settings(["--data.task.digits_a=[2,3]"], [BASE, {"data": {"task": task}}])


def test_a_slip_is_told_before_a_framework_is_imported():
    code = (
        "import sys; from trm.cli import run; "
        "code = run(['fit', '--config', 'debug', '--model.optimizer.lrr=3']); "
        "sys.exit(code if not {'torch', 'lightning', 'jsonargparse'} & set(sys.modules) else 99)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "there is no setting model.optimizer.lrr. Did you mean model.optimizer.lr?" in ran.stderr
