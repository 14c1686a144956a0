import re
import subprocess
import sys
import warnings
from pathlib import Path

import lightning as L
import pytest
from lightning.pytorch.accelerators import AcceleratorRegistry

from trm.configs import read_config
from trm.known_settings import Filled, filled
from trm.known_trainer import ACCELERATORS, check_trainer
from trm.known_values import check_values

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = [path for path in sorted(CONFIGS.rglob("*.yaml")) if path.parent.name != "studies"]
QUICK = read_config(CONFIGS / "trm/quick.yaml")
GPT = read_config(CONFIGS / "addition/gpt.yaml")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_values_of_a_shipped_config_are_accepted(path):
    check_values([], [read_config(path)])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--model.network.config.hidden_size=7"],
            "hidden_size must be a multiple of num_heads, got 7 and 8.",
        ),
        (
            ["--model.network.init_args.config.num_layers", "0"],
            "num_layers must be 1 or more, got 0",
        ),
        (
            ["--model.network.config={hidden_size: 12}"],
            "hidden_size must be a multiple of num_heads, got 12 and 8.",
        ),
        (["--model.network.config.H_cycles=0"], "H_cycles must be 1 or more, got 0."),
        (["--model.optimizer.lr=-1"], "optimizer.lr is 0 or more, not -1"),
        (["--model.schedule.warmup_steps=-3"], "warmup_steps is at least 0, got -3"),
        (
            ["--model.depth.no_grad_steps=[3, 1]"],
            "depth.no_grad_steps is [fewest, most] from 0 up, not [3, 1]",
        ),
        (["--model.loss.halt_weight=-1"], "loss.halt_weight is 0 or more, not -1"),
        (["--data.workers=-1"], "data.workers is 0 or more, not -1"),
        (["--data.task.base=1"], "the base is 2 to 10, not 1"),
        (
            ["--data.canvas.height=3", "--data.canvas.width=3"],
            "3 x 2 digits in the lattice layout need a canvas of at least 3 x 6 "
            "(height x width), not 3 x 3",
        ),
        (
            ["--data.blanks={rows: -1, columns: 1}"],
            "data.blanks: rows and columns are 0 or more, not -1 and 1",
        ),
    ],
)
def test_a_wrong_value_is_refused_as_in_training(words, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}"):
        check_values(words, [QUICK])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--trainer.max_epochs", "-5"], "max_epochs is 0 or more, or -1 for no limit, not -5"),
        (["--trainer.max_steps=-2"], "max_steps is 0 or more, or -1 for no limit, not -2"),
        (["--trainer.num_nodes=0"], "num_nodes is 1 or more, not 0"),
        (["--trainer.accumulate_grad_batches=0"], "accumulate_grad_batches is 1 or more, not 0"),
        (["--trainer.fast_dev_run=-1"], "fast_dev_run is a number of batches, true or false, "),
        (
            ["--trainer.reload_dataloaders_every_n_epochs=-1"],
            "reload_dataloaders_every_n_epochs is 0 or more, not -1",
        ),
        (
            ["--trainer.limit_train_batches=1.5"],
            "limit_train_batches is a share from 0.0 to 1.0 or a whole number of batches, not 1.5",
        ),
        (["--trainer.limit_val_batches=-1"], "limit_val_batches is a share from 0.0 to 1.0 or"),
        (["--trainer.limit_test_batches=.nan"], "limit_test_batches is a share from 0.0 to 1.0 or"),
        (["--trainer.val_check_interval=2.5"], "val_check_interval is a share from 0.0 to 1.0 or"),
        (["--trainer.val_check_interval=0"], "val_check_interval is a share of an epoch or a numb"),
        (
            ["--trainer.check_val_every_n_epoch=0"],
            "check_val_every_n_epoch is 1 or more, not 0: to train without validation, set "
            "trainer.limit_val_batches to 0",
        ),
        (["--trainer.gradient_clip_algorithm=nrm"], "gradient_clip_algorithm is norm or value, "),
        (
            ["--trainer.precision=bf17"],
            "precision bf17 is not among bf16-mixed, 16-mixed and 32-true: weights stay in "
            "float32. Did you mean bf16-mixed?",
        ),
        (["--trainer.precision=64"], "precision 64 is not among bf16-mixed, 16-mixed and 32-true"),
        (
            ["--trainer.accelerator=gppu"],
            "accelerator gppu is not among auto, cpu, cuda, gpu, mps and tpu. Did you mean gpu?",
        ),
        (["--trainer.accelerator=CUDA"], "accelerator CUDA is not among auto, cpu, cuda, gpu, "),
        (
            ["--trainer.devices=0"],
            "devices is a number from 1 up, a list of GPUs like [0, 1], -1 for all GPUs, or auto, "
            "not 0",
        ),
        (["--trainer.devices='-2'"], "devices is a number from 1 up, a list of GPUs like [0, 1], "),
        (["--trainer.devices=[]"], "devices is a number from 1 up, a list of GPUs like [0, 1], "),
        (["--trainer.devices=all"], "devices is a number from 1 up, a list of GPUs like [0, 1], "),
    ],
)
def test_a_trainer_is_given_no_value_that_lightning_refuses(words, told):
    with pytest.raises(ValueError, match=f"^trainer.{re.escape(told)}"):
        check_values(words, [QUICK])


LEGAL = {
    "max_epochs": [-1, 0, 3, None],
    "max_steps": [-1, 0, 5],
    "min_epochs": [-1],
    "fast_dev_run": [True, False, 0, 3],
    "precision": [32, "32", "32-true", "bf16-mixed", "16-mixed", None],
    "accelerator": ["auto", "cpu"],
    "devices": [1, "1", "auto", " 2"],
    "num_nodes": [1],
    "check_val_every_n_epoch": [None, 1, -1],
    "log_every_n_steps": [0, -1, 7, None],
    "limit_train_batches": [0, 0.0, 0.5, 1, 1.0, 3, 3.0, None],
    "limit_val_batches": [0, 2],
    "overfit_batches": [0.0, 0.1, 4],
    "val_check_interval": [0.25, 10, "00:00:01:00", {"minutes": 3}],
    "gradient_clip_val": [0, -1, 0.5, None],
    "gradient_clip_algorithm": ["norm", "VALUE", None],
    "accumulate_grad_batches": [1, 4],
    "reload_dataloaders_every_n_epochs": [0, 2],
}


@pytest.mark.parametrize(
    "settings",
    [
        *({name: value} for name, values in LEGAL.items() for value in values),
        {"fast_dev_run": True, "limit_train_batches": 1.5},  # which then counts for nothing
        {"fast_dev_run": 2, "check_val_every_n_epoch": 0},
        {"overfit_batches": 3, "limit_val_batches": -1},
        {"limit_val_batches": 0, "check_val_every_n_epoch": 0},
    ],
    ids=str,
)
def test_what_lightning_takes_is_accepted(settings):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    with warnings.catch_warnings():  # of what is on this machine and not asked for
        warnings.simplefilter("ignore")
        L.Trainer(**{"accelerator": "cpu", **quiet, **settings})
    check_trainer(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"devices": "0,1"},
        {"devices": [0, 2]},
        {"devices": -1, "accelerator": "gpu"},
        {"devices": "-1"},
        {"devices": 2, "num_nodes": 4, "accelerator": "tpu"},
        {"accelerator": "hpu", "devices": "whole"},
        {"accelerator": "mine.Accelerator", "devices": 0},
        {"accelerator": {"class_path": "mine.Accelerator"}},
        {"max_epochs": "ten", "devices": 1.5, "limit_train_batches": "half", "precision": 0.5},
    ],
    ids=str,
)
def test_what_other_machines_and_code_take_is_left_to_lightning(settings):
    check_trainer(settings)


def test_accelerators_are_those_that_lightning_has():
    assert set(ACCELERATORS) == {"auto", "gpu", *AcceleratorRegistry.available_accelerators()}


def test_the_last_config_counts():
    wrong = {"model": {"init_args": {"schedule": {"warmup_steps": -1}}}}
    right = {"model": {"init_args": {"schedule": {"warmup_steps": 5}}}}
    check_values([], [QUICK, wrong, right])
    with pytest.raises(ValueError, match="warmup_steps is 0 or more"):
        check_values([], [QUICK, right, wrong])
    check_values(["--model.schedule.warmup_steps=4"], [QUICK, wrong])


def test_positions_that_are_drawn_need_room_for_the_canvas_of_the_data():
    words = ["--model.network.config.position=randomised"]
    check_values(words, [GPT])
    words += ["--data.canvas.height=60", "--data.canvas.width=60"]
    with pytest.raises(ValueError, match="60 x 60 canvas has 3661 tokens"):
        check_values(words, [GPT])


@pytest.mark.parametrize(
    "words",
    [
        ["--trainer=trainer.yaml", "--trainer.max_epochs=-5"],
        ["--model.network.config.hidden_size=many"],
        ["--model.network.config.hidden_size=7.5"],
        ["--model.optimizer.betas=0.9"],
        ["--model.optimizer.lr=1e-3"],
        ["--model.depth.no_grad_steps=3"],
        ["--model.depth=depth.yaml"],
        ["--model.network=mine.Network", "--model.network.config.hidden_size=7"],
        ["--model.network=trm.models.LoopedTransformer", "--model.network.config.hidden_size=7"],
        ["--data.task.layout=mine.Totals", "--data.task.base=1"],
        ["--data.task.base={"],
        ["--data.canvas=null"],
        ["--data.batch_size=null"],
    ],
)
def test_what_is_not_known_without_a_framework_is_left_to_the_parser(words):
    check_values(words, [QUICK])


def test_classes_are_told_with_the_settings_that_they_are_given():
    words = ["--model.schedule.decay", "cosine", "--data.task.base=3"]
    found = {part.name: part for part in filled(words, [QUICK])}
    assert found["model.schedule"] == Filled(
        "model.schedule",
        "trm.training.configs.ScheduleConfig",
        {"warmup_steps": 30, "decay": "cosine"},
    )
    assert found["data.task"].kind == "canvas.multiplication.Multiplication"
    assert found["data.task"].settings["base"] == 3
    assert found["model.network.config"].kind == "trm.models.configs.RecursiveConfig"
    assert found["data"].settings["batch_size"] == 64


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--model.network.config.num_heads=7", "hidden_size must be a multiple of num_heads"),
        ("--trainer.max_epochs=-5", "trainer.max_epochs is 0 or more"),
        ("--trainer.precision=bf17", "trainer.precision bf17 is not among"),
    ],
)
def test_a_wrong_value_is_told_before_a_framework_is_imported(word, told):
    code = (
        "import sys; from trm.cli import run; "
        f"code = run(['fit', '--config', 'debug', {word!r}]); "
        "sys.exit(code if not {'torch', 'lightning', 'jsonargparse'} & set(sys.modules) else 99)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert told in ran.stderr
