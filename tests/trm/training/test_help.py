"""The page of keys says what every key of the shipped configs means."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from canvas import TASKS
from canvas.choices import class_name
from trm.models.configs import NEIGHBOURHOODS
from trm.models.gpt import GPT
from trm.models.looped import LoopedTransformer
from trm.models.recursive import TinyRecursiveModel
from trm.models.upright import UprightLoopedTransformer
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.help import keys_of, network_keys, page
from trm.training.iterative_module import IterativeModule

FILES = sorted((Path(__file__).parents[3] / "configs").rglob("*.yaml"))
CONFIGS = [path for path in FILES if path.parent.name != "studies"]


def leaves(name: str, value: object) -> list[str]:
    if isinstance(value, dict) and name != "model.hints":  # whose keys are names of hints
        return [leaf for key, below in value.items() for leaf in leaves(f"{name}.{key}", below)]
    return [name]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_key_of_a_config_is_on_the_page(path):
    config = yaml.safe_load(path.read_text())
    settings = config["model"]["init_args"]
    network = settings.pop("network")["init_args"]
    task = config["data"].pop("task")
    names = leaves("model", settings) + leaves("model.network", network)
    names += leaves("data", config["data"]) + leaves("data.task", task["init_args"])
    text = page("fit")
    listed = set(re.findall(r"^  --(\S+)$", text, re.M))
    assert not set(names) - listed
    _, told = text.split(f"\ndata.task, {task['class_path']}:\n")
    of_task = re.findall(r"^  --(\S+)$", told.split("\n\n")[0], re.M)
    assert not set(leaves("data.task", task["init_args"])) - set(of_task)


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [(IterativeModule, "model"), (GPTModule, "model"), (CanvasDataModule, "data")],
)
def test_every_key_has_a_meaning(kind, prefix):
    keys = list(keys_of(kind, prefix))
    assert len(keys) > 8
    assert [key.name for key in keys if not key.meaning] == []


@pytest.mark.parametrize("task", TASKS.values())
def test_every_key_of_a_task_has_a_meaning(task):
    keys = {key.name: key for key in keys_of(task, "data.task")}
    assert keys.keys() == {f"data.task.{field.name}" for field in fields(task)}
    assert [name for name, key in keys.items() if not key.meaning] == []
    assert keys["data.task.layout"].choices == (*task.layouts, "module.Class of your own")
    assert keys["data.task.base"].default == "10"


def test_the_tasks_are_named_and_have_a_list_of_keys_each():
    text = page("fit")
    (told,) = re.findall(r"^  --data\.task\n((?:      .*\n)+)", text, re.M)
    for task in TASKS.values():
        assert class_name(task) in told
        assert f"\ndata.task, {class_name(task)}:\n  --data.task.layout\n" in text
    assert "module.Class of your own" in " ".join(told.split())
    assert text.count("\n  --data.task.layout\n") == len(TASKS)
    assert text.count("\n  --data.task.addends\n") == 1


@pytest.mark.parametrize(
    "network", [TinyRecursiveModel, LoopedTransformer, UprightLoopedTransformer, GPT]
)
def test_every_key_of_a_network_has_a_meaning(network):
    keys = network_keys(network)
    assert len(keys) > 10
    assert [key.name for key in keys if not key.meaning] == []


def test_choices_and_defaults_are_shown():
    keys = {key.name: key for key in keys_of(IterativeModule, "model")}
    keys |= {key.name: key for key in network_keys(TinyRecursiveModel)}
    assert keys["model.network.config.neighbourhood"].choices == NEIGHBOURHOODS
    assert keys["model.depth.schedule"].choices == ("carry", "fresh")
    assert keys["model.optimizer.betas"].default == "[0.9, 0.95]"
    assert keys["model.compile"].default == "false"
    assert f"; one of {', '.join(NEIGHBOURHOODS)} (default: all)" in " ".join(page("fit").split())


def test_the_page_is_short_and_the_rest_is_a_word_away(command):
    short, whole = command("fit", "--help"), command("fit", "--help", "all")
    assert (short.code, whole.code) == (0, 0)
    assert "--trainer.max_epochs" in short.out
    assert "--trainer.barebones" not in short.out
    assert "--trainer.barebones" in whole.out
    assert "A config is code" in " ".join(short.out.split())
