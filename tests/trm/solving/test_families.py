"""Families of models."""

import pytest
from torch import nn

from canvas.choices import load_class
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.models.cell import CellModel
from trm.solving.families import CELL_STATES, FAMILIES, PROOF, family_of
from trm.training.canvas_module import CanvasModule
from trm.training.samples import TrainingSamples


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_modules_of_a_family_train_its_networks_on_samples_of_their_own(family):
    for name in family.modules:
        module = load_class(name, CanvasModule, "module")
        assert issubclass(module.samples, TrainingSamples)


def test_a_network_belongs_to_the_first_family_that_fits():
    family = family_of(load_solver(SHIPPED).predictor.model)
    assert (family.name, family.network) == ("cell", CellModel)
    assert PROOF not in family.lacks
    with pytest.raises(ValueError, match="not their states"):
        family.require(CELL_STATES)


def test_other_networks_are_refused_by_name():
    with pytest.raises(ValueError, match="Linear belongs to no family: derive it from one"):
        family_of(nn.Linear(1, 1))
