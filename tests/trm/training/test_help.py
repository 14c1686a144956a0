"""The page of keys says what every key of the shipped configs means."""

import re
from pathlib import Path

import pytest
import yaml

from trm.models.coordinates import NEIGHBOURHOODS
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.help import keys_of, page
from trm.training.iterative_module import IterativeModule

CONFIGS = sorted((Path(__file__).parents[3] / "configs").rglob("*.yaml"))


def leaves(name: str, value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, below in value.items() for leaf in leaves(f"{name}.{key}", below)]
    return [name]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_key_of_a_config_is_on_the_page(path):
    config = yaml.safe_load(path.read_text())
    names = leaves("model", config["model"]["init_args"])
    names += leaves("data", config["data"])
    listed = set(re.findall(r"^  --(\S+)$", page("fit"), re.M))
    assert not set(names) - listed


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [(IterativeModule, "model"), (GPTModule, "model"), (CanvasDataModule, "data")],
)
def test_every_key_has_a_meaning(kind, prefix):
    keys = list(keys_of(kind, prefix))
    assert len(keys) > 10
    assert [key.name for key in keys if not key.meaning] == []


def test_choices_and_defaults_are_shown():
    keys = {key.name: key for key in keys_of(IterativeModule, "model")}
    assert keys["model.model.neighbourhood"].choices == NEIGHBOURHOODS
    assert keys["model.depth.schedule"].choices == ("carry", "fresh")
    assert keys["model.optimizer.betas"].default == "[0.9, 0.95]"
    assert keys["model.compile"].default == "false"
    assert "; one of all, rays, horizon, near (default: all)" in " ".join(page("fit").split())


def test_the_page_is_short_and_the_rest_is_a_word_away(command):
    short, whole = command("fit", "--help"), command("fit", "--help", "all")
    assert (short.code, whole.code) == (0, 0)
    assert "--trainer.max_epochs" in short.out
    assert "--trainer.barebones" not in short.out
    assert "--trainer.barebones" in whole.out
    assert "A config is code" in " ".join(short.out.split())
