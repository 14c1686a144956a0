"""Families of models."""

import pytest
from tiny import tiny_gpt, tiny_trm

from canvas.choices import class_name
from trm.cells.model import CellModel
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.registry import FAMILIES
from trm.solving.calibration import Calibration
from trm.solving.families import CELL_STATES, family_named, family_of


@pytest.mark.parametrize("name", FAMILIES)
def test_a_record_is_of_the_family_that_names_it(name):
    family = family_named(name)
    assert (family.name, class_name(family.network)) == (name, FAMILIES[name].network)


def test_a_network_belongs_to_the_family_of_its_nearest_base():
    family = family_of(load_solver(SHIPPED).predictor.model)
    assert (family.name, family.network) == ("cell", CellModel)
    with pytest.raises(ValueError, match="not their states"):
        family.require(CELL_STATES)
    assert family_of(tiny_trm()).name == "iterative"
    assert family_of(tiny_gpt(2, 3)).name == "gpt"


def test_a_gpt_solved_with_more_loops_keeps_its_config():
    model = tiny_gpt(2, 3, loops=2)
    predictor = family_of(model).predictor(model, {"calibration": Calibration()}, 3)
    assert (model.config.loops, predictor.model.config.loops) == (2, 3)
