import numpy as np
import pytest

from augment.symmetry import SYMMETRIES, apply
from trm.solving.rollout import Prediction, Predictor
from trm.solving.voting import TurnedPredictor


class Echo(Predictor):
    """Remembers what it was shown, and gives it back."""

    model = None

    def __call__(self, inputs, keys=None, log_probs=False):
        self.shown = inputs
        cells = np.arange(inputs.size, dtype=np.float32).reshape(*inputs.shape, 1)
        some = np.zeros(len(inputs))
        return Prediction(inputs, some, some, cells if log_probs else None)

    def accepts(self, height, width):
        return (height, width) == (2, 3)

    def trace(self, inputs, steps=None):
        self.shown = inputs
        return self


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_the_model_sees_the_view_and_what_it_writes_is_turned_back(symmetry):
    canvases = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    echo = Echo()
    turned = TurnedPredictor(echo, symmetry)
    seen = turned(canvases, log_probs=True)
    assert (echo.shown == apply(symmetry, canvases)).all()
    assert (seen.canvases == canvases).all()
    assert seen.canvases.flags.c_contiguous
    written = np.arange(12).reshape(*echo.shown.shape, 1)
    assert (apply(symmetry, seen.log_probs, (1, 2)) == written).all()
    turned.trace(canvases)
    assert (echo.shown == apply(symmetry, canvases)).all()


def test_a_quarter_turn_exchanges_the_sizes_that_the_model_accepts():
    assert TurnedPredictor(Echo(), "r90").accepts(3, 2)
    assert not TurnedPredictor(Echo(), "r180").accepts(3, 2)


def test_a_model_that_writes_in_one_direction_is_not_turned():
    echo = Echo()
    echo.turns = False
    TurnedPredictor(echo, "e")
    with pytest.raises(ValueError, match="in one direction"):
        TurnedPredictor(echo, "h")
