"""The surest cells first: the order, and what is said of the whole solution."""

import numpy as np
import pytest
from tiny import tiny_trm

from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rows import Prediction
from trm.solving.surest import SurestFirst, surest_first

UNKNOWN = 9


def counted(inputs, rollouts):
    """Write the number of known cells in each cell, the surer the later the cell."""
    known = (inputs != UNKNOWN).sum(axis=(1, 2))
    canvases = np.broadcast_to(known[:, None, None], inputs.shape).astype(np.uint8)
    certainty = np.linspace(0.1, 0.9, inputs[0].size).reshape(inputs[0].shape)
    found = Prediction(canvases, 1 - known / 20, np.full(len(inputs), 3), known < 5)
    return found, np.broadcast_to(certainty, inputs.shape)


def solved(cells: int) -> Prediction:
    return surest_first(counted, CANVASES, None, CANVASES == UNKNOWN, cells)


CANVASES = np.array([[[9, 0, 9], [9, 9, 0]], [[9, 0, 0], [0, 0, 0]]], np.uint8)


@pytest.mark.parametrize(
    ("cells", "first", "steps"),
    [
        (1, [[5, 0, 4], [3, 2, 0]], [12, 3]),  # from the last cell to the first
        (2, [[4, 0, 4], [2, 2, 0]], [6, 3]),
        (7, [[2, 0, 2], [2, 2, 0]], [3, 3]),
    ],
)
def test_cells_are_written_from_the_surest_on(cells, first, steps):
    found = solved(cells)
    assert found.canvases[0].tolist() == first
    assert found.canvases[1].tolist() == [[5, 0, 0], [0, 0, 0]]
    assert found.steps.tolist() == steps
    assert CANVASES[0, 0, 0] == UNKNOWN  # the input is as it was


def test_a_solution_is_trusted_as_its_passes_are_on_average():
    assert solved(1).confidence.tolist() == pytest.approx([(0.9 + 0.85 + 0.8 + 0.75) / 4, 0.75])
    assert solved(2).confidence.tolist() == pytest.approx([(0.9 + 0.8) / 2, 0.75])
    assert solved(1).settled.tolist() == [False, False]  # the last passes know five cells
    assert solved(2).settled.tolist() == [True, False]


def test_a_puzzle_without_unknown_cells_takes_no_pass():
    found = surest_first(counted, CANVASES, None, CANVASES > UNKNOWN, 1)
    assert (found.canvases == CANVASES).all()
    assert found.confidence.tolist() == [1, 1]
    assert found.steps.tolist() == [0, 0]


def test_all_cells_at_a_time_are_the_one_pass_of_before():
    predictor = IterativePredictor(tiny_trm(), 3)
    inputs = np.random.default_rng(0).integers(0, 12, (4, 5, 5)).astype(np.uint8)
    predictor = predictor.with_options(unknown=lambda cells: cells == 3)
    together, at_once = predictor(inputs), SurestFirst(predictor, 25)(inputs)
    asked = inputs == 3
    assert asked.any(axis=(1, 2)).all()
    assert (together.canvases[asked] == at_once.canvases[asked]).all()
    assert (at_once.canvases[~asked] == inputs[~asked]).all()
    assert np.allclose(together.confidence, at_once.confidence)


def test_weights_far_too_large_end_as_well():
    def damaged(inputs, rollouts):
        found, certainty = counted(inputs, rollouts)
        return found, np.full_like(certainty, np.nan)

    found = surest_first(damaged, CANVASES, None, CANVASES == UNKNOWN, 1)
    assert (found.canvases != UNKNOWN).all()
