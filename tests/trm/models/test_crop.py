"""Canvases of which only the box of what is not blank is read."""

import pytest
import torch

from canvas.symbols import BLANK, MASK
from trm.models.configs import LoopedConfig, RecursiveConfig
from trm.models.iterative import Loop
from trm.models.recursive import LoopedTransformer, TinyRecursiveModel

SMALL = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "intermediate_size": 16}
SMALL |= {"position": "relative_2d", "radius": 1}


def recursive(**more) -> TinyRecursiveModel:
    torch.manual_seed(0)
    config = RecursiveConfig(**{**SMALL, "H_cycles": 1, "L_cycles": 1, **more})
    return TinyRecursiveModel(config).eval()


def looped(**more) -> LoopedTransformer:
    torch.manual_seed(0)
    return LoopedTransformer(LoopedConfig(**{**SMALL, **more})).eval()


def working(height: int, width: int, top: int, left: int) -> torch.Tensor:
    """Some symbols in a box of 3 x 4, its last row masked in part, on a larger canvas."""
    canvas = torch.full((1, height, width), BLANK, dtype=torch.uint8)
    box = torch.tensor([[BLANK, 2, 3, 4], [1, 2, BLANK, BLANK], [MASK] * 4], dtype=torch.uint8)
    canvas[0, top : top + 3, left : left + 4] = box
    return canvas


@pytest.mark.parametrize("make", [recursive, looped])
def test_a_cropped_canvas_has_the_tokens_of_the_box_of_what_is_not_blank(make):
    model = make(crop=True)
    context = model.encode(working(7, 9, 2, 3))
    cells = [row * 9 + column for row in (2, 3, 4) for column in (3, 4, 5, 6)]
    assert context.places.tolist() == [cells]
    assert context.lengths.tolist() == [12]


@pytest.mark.parametrize("make", [recursive, looped])
def test_a_cropped_canvas_is_answered_alike_wherever_the_working_lies(make):
    model = make(crop=True)
    answers = []
    for size, top, left in [((3, 4), 0, 0), ((7, 9), 2, 3), ((12, 5), 8, 1)]:
        loop = Loop(model, working(*size, top, left))
        loop.step()
        loop.step()
        logits, halt = loop.read()
        box = (slice(None), slice(top, top + 3), slice(left, left + 4))
        answers.append([logits[box], halt])
    for other in answers[1:]:
        torch.testing.assert_close(other, answers[0], rtol=1e-5, atol=1e-5)
    assert model.translation_invariant
    assert not make(crop=True, position="sinusoidal").translation_invariant
