"""Released dotted names of classes that have moved: in configs, checkpoints and imports."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from canvas.choices import class_name
from trm.cells.model import CellModel
from trm.checkpoints import CHECKPOINT_KEY, SHIPPED
from trm.checkpoints.content import load_checkpoint
from trm.checkpoints.loading import load_solver
from trm.families import RELEASED, load, released, today
from trm.training.cli import train

ROOT = Path(__file__).parents[2]
EXPORTED = [name for name in RELEASED if name.count(".") == 2]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_package_exports_a_class_under_its_released_name(name):
    package, _, own = name.rpartition(".")
    assert getattr(importlib.import_module(package), own) is load(today(name))


def test_another_name_is_missing_as_in_any_module():
    with pytest.raises(AttributeError, match="has no attribute 'CellModul'"):
        importlib.import_module("trm.training").CellModul  # noqa: B018


@pytest.mark.parametrize("config", ["quickstart", "generalise/latent"])
def test_a_config_with_released_names_builds_the_same(config, tmp_path, monkeypatch):
    text = (ROOT / f"configs/{config}.yaml").read_text()
    old, changed = re.subn(
        r"class_path: (trm\.cells\.\w+)", lambda found: f"class_path: {released(found[1])}", text
    )
    assert changed == 2
    assert "class_path: trm.training." in old
    (tmp_path / "old.yaml").write_text(old)
    monkeypatch.setattr("sys.argv", ["trm"])
    words = ["--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.logger=false"]
    with torch.device("meta"):  # weights have shapes without memory
        models = [
            train([f"--config={file}", *words], run=False).model
            for file in (tmp_path / "old.yaml", ROOT / f"configs/{config}.yaml")
        ]
    assert type(models[0]) is type(models[1])
    assert models[0].model.config == models[1].model.config


def test_a_checkpoint_stores_the_released_name():
    content = load_checkpoint(SHIPPED)
    model = load_solver(SHIPPED).predictor.model
    assert type(model) is CellModel
    assert content[CHECKPOINT_KEY]["network"] == released(class_name(CellModel))
