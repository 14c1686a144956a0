import re
import subprocess
import sys
from pathlib import Path

import pytest

from trm.configs import read_config
from trm.known_settings import Filled, filled
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
        (["--model.optimizer.momentum", "1.5"], "momentum lies from 0 to below 1, got 1.5"),
        (["--model.schedule.warmup_steps=-3"], "warmup_steps is at least 0, got -3"),
        (
            ["--model.depth.free_steps=[3, 1]"],
            "depth.free_steps is [fewest, most] from 0 up, not [3, 1]",
        ),
        (["--model.loss.halt_weight=-1"], "loss.halt_weight is 0 or more, not -1"),
        (["--model.solve_steps", "0"], "model.solve_steps is 1 or more, not 0"),
        (["--data.batch_size=0"], "data.batch_size is 1 or more, not 0"),
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


def test_the_last_config_counts():
    wrong = {"model": {"init_args": {"optimizer": {"ns_steps": 0}}}}
    right = {"model": {"init_args": {"optimizer": {"ns_steps": 5}}}}
    check_values([], [QUICK, wrong, right])
    with pytest.raises(ValueError, match="ns_steps lies in"):
        check_values([], [QUICK, right, wrong])
    check_values(["--model.optimizer.ns_steps=4"], [QUICK, wrong])


def test_positions_that_are_drawn_need_room_for_the_canvas_of_the_data():
    words = ["--model.network.config.position=randomised"]
    check_values(words, [GPT])
    words += ["--data.canvas.height=60", "--data.canvas.width=60"]
    with pytest.raises(ValueError, match="position_range must be at least 3661"):
        check_values(words, [GPT])


@pytest.mark.parametrize(
    "words",
    [
        ["--model.network.config.hidden_size=many"],
        ["--model.network.config.hidden_size=7.5"],
        ["--model.optimizer.betas=0.9"],
        ["--model.optimizer.lr=1e-3"],
        ["--model.depth.free_steps=3"],
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


def test_a_wrong_value_is_told_before_a_framework_is_imported():
    code = (
        "import sys; from trm.cli import run; "
        "code = run(['fit', '--config', 'debug', '--model.network.config.num_heads=7']); "
        "sys.exit(code if not {'torch', 'lightning', 'jsonargparse'} & set(sys.modules) else 99)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "hidden_size must be a multiple of num_heads" in ran.stderr
