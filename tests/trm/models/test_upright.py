import pytest
import torch

from augment.symmetry import SYMMETRIES, apply
from canvas.hints import ORIENTATION
from canvas.layouts import Layout
from canvas.multiplication import Multiplication
from canvas.render import draw_worked, row_steps
from trm.models.configs import UprightLoopedConfig, UprightRecursiveConfig
from trm.models.iterative import Loop
from trm.models.recursive import TinyRecursiveModel
from trm.models.upright import UprightLoopedTransformer, UprightRecursiveModel

SMALL = {
    "hidden_size": 32,
    "num_heads": 4,
    "num_layers": 1,
    "intermediate_size": 32,
    "crop": True,
    "position": "relative_2d",
    "neighbourhood": "local_lines",
    "radius": 1,
    "halt_pool": "mask",
    "hints": {"carry": 11, ORIENTATION: 8},
    "classifier_size": 8,
}


def pages(height: int = 9, width: int = 9) -> torch.Tensor:
    task = Multiplication(layout="standard")
    assert isinstance(task.rules, Layout)
    worked = task.rules.work(task.problems([(123, 45), (7, 68)]))
    return torch.from_numpy(row_steps(draw_worked(worked, height, width, 1, 1)).inputs)


def model(kind: str = "recursive") -> UprightRecursiveModel | UprightLoopedTransformer:
    torch.manual_seed(0)
    if kind == "recursive":
        return UprightRecursiveModel(
            UprightRecursiveConfig(**SMALL, H_cycles=1, L_cycles=1)  # type: ignore[arg-type]
        ).eval()
    return UprightLoopedTransformer(UprightLoopedConfig(**SMALL)).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["recursive", "looped"])
@pytest.mark.parametrize("symmetry", SYMMETRIES)
@torch.no_grad()
def test_a_turned_page_gets_the_turned_answer_whatever_the_weights(kind, symmetry):
    mine, upright = model(kind), pages()
    turned = apply(symmetry, upright).contiguous()
    for steps in (1, 3):
        logits, halting = mine(upright, steps=steps)
        again, halting_again = mine(turned, steps=steps)
        expected = apply(symmetry, logits, (1, 2))
        torch.testing.assert_close(again, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(halting_again, halting, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_hints_are_turned_with_the_page_and_the_orientation_is_every_cells():
    mine, upright = model(), pages()
    loop, again = Loop(mine, upright), Loop(mine, apply("r90", upright).contiguous())
    for one in (loop, again):
        one.step()
    hints, turned = loop.read_hints(), again.read_hints()
    assert list(hints) == ["carry", ORIENTATION]
    torch.testing.assert_close(
        turned["carry"], apply("r90", hints["carry"], (1, 2)), rtol=1e-4, atol=1e-4
    )
    everywhere = turned[ORIENTATION]
    assert everywhere.shape == (len(upright), 9, 9, 8)
    assert (everywhere == everywhere[:, :1, :1]).all()


@torch.no_grad()
def test_a_page_that_is_not_square_is_as_good_as_one_with_blank_cells_around_it():
    mine = model()
    logits, halting = mine(pages(7, 9), steps=2)
    assert logits.shape[1:3] == (7, 9)
    more, halting_again = mine(pages(9, 9), steps=2)
    # A masked row is as long as the canvas is wide: both are 9 wide, and begin at the same place.
    torch.testing.assert_close(more[:, :7], logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(halting_again, halting, rtol=1e-4, atol=1e-4)


def test_where_the_classifier_is_right_the_network_sees_the_page_upright():
    mine, upright = model(), pages()
    order = list(SYMMETRIES)

    class Knows(torch.nn.Module):
        def forward(self, tokens):
            return torch.nn.functional.one_hot(torch.tensor(order.index("hvt")), 8).repeat(
                len(tokens), 1
            )

    mine.classifier = Knows()  # type: ignore[assignment]
    context = mine.encode(apply("hvt", upright).contiguous())
    expected, *_ = TinyRecursiveModel.embed(mine, upright)  # of a page that is upright
    torch.testing.assert_close(context.inputs, expected.inputs)


def test_the_classifier_has_a_gradient_from_the_orientation_alone():
    mine = model().train()
    loop = Loop(mine, pages())
    loop.step()
    loop.read()[0].sum().backward()
    assert all(p.grad is None for p in mine.classifier.parameters())
    logits = Loop(mine, pages())
    logits.step()
    labels = torch.zeros(len(logits.state[0]), 9, 9, dtype=torch.long)
    scores = logits.read_hints()[ORIENTATION].permute(0, 3, 1, 2)
    torch.nn.functional.cross_entropy(scores, labels).backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in mine.classifier.parameters())


def test_an_upright_model_crops_and_learns_how_pages_lie():
    with pytest.raises(ValueError, match="crop: true"):
        UprightRecursiveModel(UprightRecursiveConfig(**SMALL | {"crop": False}))  # type: ignore
    with pytest.raises(ValueError, match="an upright model learns how canvases lie"):
        UprightRecursiveModel(UprightRecursiveConfig(**SMALL | {"hints": {"carry": 11}}))  # type: ignore
