"""A network of one's own, in a file of one's own, is trained, tested and loaded as ours are."""

import sys
from pathlib import Path

import pytest
import torch
import yaml

from canvas.problems import Problems
from trm.checkpoints import CHECKPOINT_KEY
from trm.checkpoints.loading import load_solver

MINE = """
from dataclasses import dataclass

import torch
from torch import nn

from trm.models import IterativeModel


@dataclass
class MyConfig:
    size: int = 8
    width: int = 3


class MyModel(IterativeModel):
    def __init__(self, config: MyConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(18, config.size)
        self.mix = nn.Conv2d(config.size, config.size, 3, padding=1)
        self.head = nn.Linear(config.size, 18)

    def encode(self, tokens):
        return self.embed(tokens.int()).movedim(-1, 1)

    def initial_state(self, context):
        return torch.zeros_like(context)

    def iterate(self, context, state):
        return torch.tanh(self.mix(state + context))

    def read(self, state, context):
        logits = self.head(state.movedim(1, -1))
        return logits, logits.float().mean((1, 2, 3))
"""
POSITION = """
import torch

from trm.models.positions import Position


class Diagonal(Position):
    absolute = False

    def __init__(self, num_heads: int):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.ones(num_heads))

    def bias(self, cells):
        place = (cells.rows + cells.columns).float()
        far = (place.unsqueeze(-2) - place.unsqueeze(-1)).abs()
        return -self.slope[:, None, None] * far.unsqueeze(-3)
"""


def configured(folder: Path, debug: Path, network: str, **settings: int) -> Path:
    """A config with another network."""
    held = yaml.safe_load(debug.read_text())
    held["model"]["init_args"]["network"] = {
        "class_path": network,
        "init_args": {"config": settings},
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(held))
    return folder / "mine.yaml"


@pytest.mark.parametrize("schedule", ["fresh", "carry"])
def test_a_network_of_ones_own_is_trained_tested_and_loaded(mine, command, debug, schedule):
    folder = mine("my_network", MINE)
    words = ("--config", configured(folder, debug[1], "my_network.MyModel", size=6))
    words += ("--model.depth.schedule", schedule)
    words += ("--data.canvas.height=3", "--data.canvas.width=5", "--model.depth.random_start=0.5")
    ran = command("fit", *words, folder=folder)
    assert ran.code == 0, ran.err
    best = folder / "runs/debug/version_0/checkpoints/best.ckpt"
    about = torch.load(best, weights_only=True)[CHECKPOINT_KEY]
    assert (about["format"], about["family"]) == (2, "iterative")
    assert about["network"] == "my_network.MyModel"
    assert about["model"] == {"size": 6, "width": 5}  # the canvas's
    ran = command("test", *words, "--ckpt_path", "best", folder=folder)
    assert ran.code == 0, ran.err
    assert "test/solved" in ran.out
    again = ("--config", best.parents[1] / "config.yaml", "--ckpt_path", "best")
    assert command("test", *again, folder=folder).code == 0
    solver = load_solver(best, device="cpu")
    assert type(solver.predictor.model) is sys.modules["my_network"].MyModel
    assert len(solver.solve(Problems.from_ints([(12, 3)]))) == 1


def test_a_checkpoint_imports_no_code_of_ones_own(mine, command, debug):
    folder = mine("my_other", MINE)
    config = configured(folder, debug[1], "my_other.MyModel")
    ran = command("fit", "--config", config, folder=folder)
    assert ran.code == 0, ran.err
    del sys.modules["my_other"]
    with pytest.raises(ValueError, match=r"its network is my_other\.MyModel, .* name the module"):
        load_solver(folder, device="cpu")
    assert "my_other" not in sys.modules


def test_a_position_of_ones_own_is_trained_and_loaded(mine, command, debug):
    folder = mine("my_position", POSITION)
    words = ("--model.network.config.position=my_position.Diagonal",)
    words += ("--model.network.config.neighbourhood=local_nearest",)
    words += ("--model.network.config.skip_blank=true",)
    ran = command("fit", *debug, *words, folder=folder)
    assert ran.code == 0, ran.err
    model = load_solver(folder, device="cpu").predictor.model
    assert type(model.position).__name__ == "Diagonal"
    assert model.translation_invariant
    del sys.modules["my_position"]
    wanted = r"its position is my_position\.Diagonal, .* name the module"
    with pytest.raises(ValueError, match=wanted):
        load_solver(folder, device="cpu")


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("nowhere.Model", "class nowhere.Model: there is no module nowhere"),
        ("trm.models.GPT", "does not correspond to a subclass of IterativeModel"),
        ("trm.models.TinyRecursiveModl", "Did you mean trm.models.TinyRecursiveModel?"),
    ],
)
def test_what_is_no_network_is_named(command, debug, tmp_path, named, told):
    ran = command("fit", *debug, f"--model.network={named}", folder=tmp_path)
    assert ran.code == 2
    assert told in ran.err
