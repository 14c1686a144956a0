"""Heads that read hints, states that keep only what these decide, and canvases that are cropped."""

from dataclasses import replace

import pytest
import torch

from canvas.symbols import BLANK, MASK
from trm.analysis.record import cell_attention
from trm.models.bias import all_rows
from trm.models.configs import GPTConfig, LoopedConfig, RecursiveConfig
from trm.models.coordinates import Coordinates
from trm.models.gpt import GPT
from trm.models.hints import HintHeads
from trm.models.iterative import Loop
from trm.models.looped import LoopedTransformer
from trm.models.recursive import TinyRecursiveModel
from trm.solving.iteration import hints_after, likeliest
from trm.solving.iterative_predictor import IterativePredictor

CLASSES = {"carry": 4, "row_kind": 6}
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
@pytest.mark.parametrize("more", [{}, {"crop": True}, {"skip_blank": True}])
def test_iterative_models_say_of_every_cell_what_its_hints_are(make, more):
    model = make(hints=CLASSES, **more)
    loop = Loop(model, working(5, 6, 1, 1))
    loop.step()
    hints = loop.read_hints()
    assert {name: list(logits.shape) for name, logits in hints.items()} == {
        name: [1, 5, 6, classes] for name, classes in CLASSES.items()
    }
    sum(logits.square().sum() for logits in hints.values()).backward()
    for parameter in (*model.hint_heads.parameters(), *model.layers.parameters()):
        assert parameter.grad.abs().sum() > 0


def test_a_gpt_says_what_the_hints_of_each_next_cell_are():
    torch.manual_seed(0)
    model = GPT(GPTConfig(height=3, width=4, hidden_size=16, num_heads=2, hints=CLASSES))
    ids = torch.randint(1, 10, (2, 7))
    x = model.activations(ids, 3, 4)
    hints = model.read_hints(x)
    assert {name: list(logits.shape) for name, logits in hints.items()} == {
        "carry": [2, 7, 4],
        "row_kind": [2, 7, 6],
    }
    torch.testing.assert_close(model.head(x), model(ids, 3, 4))
    ids[:, 4:] = 0
    earlier = model.read_hints(model.activations(ids, 3, 4))
    torch.testing.assert_close(earlier["carry"][:, :4], hints["carry"][:, :4])  # nothing later


# Crop


@pytest.mark.parametrize("make", [recursive, looped])
def test_a_cropped_canvas_has_the_tokens_of_the_box_of_what_is_not_blank(make):
    model = make(crop=True)
    context = model.encode(working(7, 9, 2, 3))
    cells = [row * 9 + column for row in (2, 3, 4) for column in (3, 4, 5, 6)]
    assert context.places.tolist() == [cells]
    assert context.lengths.tolist() == [12]


@pytest.mark.parametrize("make", [recursive, looped])
def test_a_cropped_canvas_is_answered_alike_wherever_the_working_lies(make):
    model = make(crop=True, hints=CLASSES)
    answers = []
    for size, top, left in [((3, 4), 0, 0), ((7, 9), 2, 3), ((12, 5), 8, 1)]:
        loop = Loop(model, working(*size, top, left))
        loop.step()
        loop.step()
        logits, halt = loop.read()
        box = (slice(None), slice(top, top + 3), slice(left, left + 4))
        answers.append([logits[box], halt, loop.read_hints()["carry"][box]])
    for other in answers[1:]:
        torch.testing.assert_close(other, answers[0], rtol=1e-5, atol=1e-5)
    assert model.translation_invariant
    assert not make(crop=True, position="sinusoidal").translation_invariant


# Decide


def test_a_decided_state_is_the_sum_of_the_embeddings_of_what_is_sure():
    torch.manual_seed(0)
    heads = HintHeads(16, CLASSES, kept=True)
    z = torch.randn(2, 5, 16)
    threshold, wanted = 0.5, torch.zeros(2, 5, 16)
    first, sure = 0, 0
    for name, classes in CLASSES.items():
        probabilities = heads(z)[name].softmax(dim=-1)
        for b in range(2):
            for s in range(5):
                chosen = int(probabilities[b, s].argmax())
                if probabilities[b, s, chosen] > threshold:
                    wanted[b, s] += heads.embed.weight[first + chosen]
                    sure += 1
        first += classes
    assert 0 < sure < 20
    torch.testing.assert_close(heads.quantise(z, threshold), wanted * (16 / 2) ** 0.5)


def test_classes_that_are_written_are_held_as_if_they_had_been_decided():
    torch.manual_seed(0)
    heads = HintHeads(16, CLASSES, kept=True)
    z = torch.randn(2, 5, 16)
    classes = {name: logits.argmax(-1) for name, logits in heads(z).items()}
    torch.testing.assert_close(heads.written(classes, z.dtype), heads.quantise(z, 0.0))
    name, number = next(iter(CLASSES.items()))
    classes[name][1, 2] = 255  # of no cell
    less = heads.quantise(z, 0.0) - heads.written(classes, z.dtype)
    chosen = heads(z)[name][1, 2].argmax()
    torch.testing.assert_close(less[1, 2], heads.embed.weight[chosen] * heads.scale)
    assert chosen < number
    assert (less.abs().sum(-1) > 1e-4).sum() == 1


def test_nothing_decided_is_zero_and_no_gradient_flows_through_decisions():
    torch.manual_seed(0)
    heads = HintHeads(16, CLASSES, kept=True)
    z = torch.randn(2, 5, 16, requires_grad=True)
    assert heads.quantise(z, 1.0).abs().sum() == 0
    heads.quantise(z, 0.0).sum().backward()
    assert z.grad is None
    assert heads.head.weight.grad is None
    assert heads.embed.weight.grad.abs().sum() > 0


def test_a_state_that_keeps_decisions_goes_on_alike_from_all_states_that_decide_alike():
    model = recursive(hints=CLASSES, hint_threshold=0.5)
    context = model.encode(working(4, 5, 0, 0))
    start = model.initial_state(context)
    assert start.z_H.abs().sum() == start.z_L.abs().sum() == 0
    state = model.iterate(context, start)
    other = state._replace(z_L=torch.randn_like(state.z_L))  # which is not kept
    for one, two in zip(model.iterate(context, state), model.iterate(context, other), strict=True):
        torch.testing.assert_close(one, two)


# Reading


def test_hints_are_read_after_as_many_steps_as_each_sample_takes():
    model = recursive(hints=CLASSES)
    tokens = torch.cat([working(5, 6, top, 1) for top in (0, 1, 2)])
    steps = torch.tensor([3, 1, 2])
    found = hints_after(model, tokens.numpy(), steps.numpy())
    for i, number in enumerate(steps.tolist()):
        loop = Loop(model, tokens[i : i + 1])
        for _ in range(number):
            loop.step()
        for name, logits in loop.read_hints().items():
            assert (likeliest(logits)[0].numpy() == found[name][i]).all()


@pytest.mark.parametrize(
    ("neighbourhood", "radius"), [("before", 2), ("just_before", 0), ("just_before", 2)]
)
@torch.no_grad()
def test_rows_that_see_the_rows_around_them_are_seen_as_all_pairs_are(
    neighbourhood, radius, monkeypatch
):
    model = recursive(crop=True, radius=radius, neighbourhood=neighbourhood, direction_bias=2.0)
    torch.nn.init.normal_(model.position.weight)
    tall = working(9, 7, 1, 2)
    low = tall.clone()
    low[:, 3] = BLANK
    both = torch.cat((tall, low))
    context = model.encode(both)
    assert list(context.bias.shape) == [2, 2, 3, 4, 12]
    predictor = IterativePredictor(model, 2)
    mine, (seen, _) = model(both, steps=2), cell_attention(predictor, both.numpy(), 2)
    boxes = Coordinates.boxes
    monkeypatch.setattr(
        Coordinates, "boxes", lambda cells, *some: replace(boxes(cells, *some), alike=None)
    )
    pairs = model.encode(both).bias
    assert list(pairs.shape) == [2, 2, 12, 12]
    there = context.places < 63
    for i, cells in enumerate(there):
        torch.testing.assert_close(
            all_rows(context.bias)[i][:, cells][:, :, cells], pairs[i][:, cells][:, :, cells]
        )
    for one, other in zip(mine, model(both, steps=2), strict=True):
        torch.testing.assert_close(one, other)
    for name, attention in cell_attention(predictor, both.numpy(), 2)[0].items():
        torch.testing.assert_close(seen[name], attention)
