"""Families of models."""

import pytest
from tiny import tiny_gpt, tiny_trm
from torch import nn

from canvas.choices import class_name, load_class
from trm.cells.model import CellModel
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.families import FAMILIES
from trm.solving.families import CELL_STATES, family_named, family_of
from trm.training.canvas_module import CanvasModule
from trm.training.samples import TrainingSamples


@pytest.mark.parametrize("name", FAMILIES)
def test_modules_of_a_family_have_samples_of_their_own(name):
    family = family_named(name)
    assert (family.name, class_name(family.network)) == (name, FAMILIES[name].network)
    for module_name in family.modules:
        module = load_class(module_name, CanvasModule, "module")
        assert issubclass(module.samples, TrainingSamples)


def test_a_network_belongs_to_the_family_of_its_nearest_base():
    family = family_of(load_solver(SHIPPED).predictor.model)
    assert (family.name, family.network) == ("cell", CellModel)
    with pytest.raises(ValueError, match="not their states"):
        family.require(CELL_STATES)
    assert family_of(tiny_trm()).name == "iterative"
    assert family_of(tiny_gpt(2, 3)).name == "gpt"


def test_other_networks_are_refused_by_name():
    with pytest.raises(ValueError, match="Linear belongs to no family: derive it from one"):
        family_of(nn.Linear(1, 1))
