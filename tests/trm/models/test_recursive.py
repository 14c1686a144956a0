"""Recursive and looped models: canvases in, logits and a halt logit out, whatever the encoding."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canvas.symbols import BLANK, MASK, VOCAB_SIZE
from trm.models.configs import NEIGHBOURHOODS, POSITIONS, RecursiveConfig
from trm.models.iterative import Loop, select
from trm.models.recursive import TinyRecursiveModel
from trm.training.losses import stablemax_cross_entropy

SMALL = {"height": 4, "width": 5, "hidden_size": 16, "num_heads": 2, "num_layers": 1}
SMALL |= {"intermediate_size": 32, "H_cycles": 2, "L_cycles": 2}
OFFSETS = {"position": "relative_2d", "radius": 1}
FIXED = [position for position in POSITIONS if position not in ("randomised", "abacus")]


def make(**changes):
    torch.manual_seed(0)
    model = TinyRecursiveModel(RecursiveConfig(**(SMALL | changes)))
    # The head starts at zero, where it cannot tell anything apart.
    torch.nn.init.normal_(model.halt_head.weight)
    return model


def canvases(batch=3, height=4, width=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 14, (batch, height, width), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("skip_blank", [False, True])
@pytest.mark.parametrize(
    ("position", "neighbourhood"), list(itertools.product(FIXED, NEIGHBOURHOODS))
)
def test_every_position_goes_with_every_neighbourhood(position, neighbourhood, skip_blank):
    model = make(position=position, neighbourhood=neighbourhood, radius=1, skip_blank=skip_blank)
    for size in filter(lambda size: model.accepts(*size), [(4, 5), (3, 4), (6, 7)]):
        model.zero_grad()
        logits, halt_logits = model(canvases(3, *size))
        assert logits.shape == (3, *size, VOCAB_SIZE)
        assert halt_logits.shape == (3,)
        (logits.square().mean() + halt_logits.sum()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


def test_bfloat16_autocast_keeps_the_states_in_bfloat16_and_trains_all_weights():
    model = make(position="relative_2d", neighbourhood="local_lines")
    with torch.autocast("cpu", torch.bfloat16):
        context = model.encode(canvases())
        state = model.iterate(context, model.initial_state(context))
        logits, halt_logits = model.read(state, context)
    assert (state.z_H.dtype, context.bias.dtype) == (torch.bfloat16, torch.bfloat16)
    assert halt_logits.dtype == torch.float32
    # Weights first cast in the cycles without gradient must be cast anew for the last.
    (logits.float().square().mean() + halt_logits.sum()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    exact, _ = model(canvases())
    torch.testing.assert_close(logits.float(), exact, rtol=0, atol=0.4)


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_a_model_of_what_is_written_does_not_know_how_large_the_canvas_is(neighbourhood):
    model = make(position="relative_2d", neighbourhood=neighbourhood, skip_blank=True)
    torch.nn.init.normal_(model.position.weight)
    working = canvases(2, 3, 3)
    alone, _ = model(working)
    # Beside a fuller sample, which makes padding of some tokens.
    tokens = torch.full((3, 6, 8), BLANK, dtype=torch.uint8)
    tokens[:2, 2:5, 1:4] = working
    tokens[2] = MASK
    logits, _ = model(tokens)
    torch.testing.assert_close(logits[:2, 2:5, 1:4], alone, rtol=1e-4, atol=1e-4)
    assert (logits[:2].argmax(-1)[tokens[:2] == BLANK] == BLANK).all()


@pytest.mark.parametrize("skip_blank", [False, True])
@pytest.mark.parametrize("position", ["relative_2d", "rope_2d"])
def test_samples_taken_out_of_a_batch_go_on_as_before(position, skip_blank):
    model = make(position=position, halt_pool="mask", skip_blank=skip_blank)
    for index in (torch.tensor([True, False, True]), torch.tensor([2, 0])):
        context = model.encode(canvases())
        state = model.iterate(context, model.initial_state(context))
        fewer, kept = context.select(index), select(state, index)
        logits, halt = model.read(model.iterate(context, state), context)
        fewer_logits, fewer_halt = model.read(model.iterate(fewer, kept), fewer)
        torch.testing.assert_close(fewer_logits, logits[index], rtol=0, atol=1e-5)
        torch.testing.assert_close(fewer_halt, halt[index], rtol=0, atol=1e-5)


def test_the_head_judges_the_masked_row():
    model = make(halt_pool="mask")
    tokens = canvases().clamp(max=BLANK)
    tokens[0, 2] = MASK
    context = model.encode(tokens)
    expected = torch.zeros(4, 5)
    expected[2] = 1 / 5
    torch.testing.assert_close(context.halt_weights[0].view(4, 5), expected)
    # Nothing is masked in the others: they are judged as a whole.
    torch.testing.assert_close(context.halt_weights[1], torch.full((20,), 1 / 20))
    state = model.initial_state(context)
    state = state._replace(z_H=torch.randn_like(state.z_H))
    head = model.halt_head
    expected = head(state.z_H[0].view(4, 5, -1)[2].mean(0))[0]
    torch.testing.assert_close(model.read(state, context)[1][0], expected)


# The published TRM, SamsungSAILMontreal/TinyRecursiveModels: weights and gradients go by the names
# that they have here, all else is as it was said there.


def published(position):
    """A model with its weights in a loop, its numbers, and its batch's labels."""
    with np.load(Path(__file__).parents[2] / f"reference/trm_{position}.npz") as file:
        numbers = {key: torch.from_numpy(file[key]) for key in file}
    shape = {"height": 4, "width": 9, "vocab_size": 14, "hidden_size": 32, "num_heads": 4}
    shape |= {"intermediate_size": 256, "H_cycles": 2, "L_cycles": 3}
    prefix = {"num_prefixes": 2, "prefix_length": 4, "prefix_size": 32}
    model = TinyRecursiveModel(RecursiveConfig(**shape, **prefix, position=position))
    model.load_state_dict({k[6:]: part for k, part in numbers.items() if k.startswith("param/")})
    return model, numbers


def say(loop, numbers):
    """What a supervision step says, by the names of there."""
    loop.step()
    (logits, halt_logits), labels = loop.read(), numbers["batch/labels"].long()
    logits = logits.flatten(1, 2)
    labelled = labels != -100
    counts = labelled.sum(-1)
    right = ((logits.argmax(-1) == labels) & labelled).sum(-1) == counts
    tokens = stablemax_cross_entropy(logits, labels) / counts.clamp(min=1).unsqueeze(-1)
    halt = F.binary_cross_entropy_with_logits(halt_logits, right.float(), reduction="sum")
    said = {"logits": logits, "q_halt_logits": halt_logits}
    return said | {"lm_loss": tokens.sum(), "q_halt_loss": halt}


def away(ours, theirs, floor=0.0):
    """The largest difference, by the largest number."""
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp(min=floor)).item()


@pytest.mark.parametrize("position", ["rope_1d", "learned"])
def test_supervision_steps_and_gradients_are_those_of_the_published_trm(position):
    loops = []
    for dtype in (torch.float32, torch.float64):
        model, numbers = published(position)
        tokens = numbers["batch/inputs"].view(-1, 4, 9)
        loops.append(Loop(model.to(dtype), tokens, numbers["batch/puzzle_identifiers"]))
    for step in range(4):
        said, exact = (say(loop, numbers) for loop in loops)
        # Rounding grows from step to step, in the reference's numbers as in these: as much as
        # float32 and float64 differ here, by which processors differ, too.
        tolerance = 1e-5 + 3 * away(said["logits"], exact["logits"]) * (step > 0)
        assert tolerance < 5e-3
        for name, value in said.items():
            assert away(value, numbers[f"step{step}/{name}"], floor=1.0) <= tolerance
        if step == 0:
            total = said["lm_loss"] + 0.5 * said["q_halt_loss"]
            assert away(total, numbers["grad_step0/total_loss"], floor=1.0) <= 1e-5
            total.backward()
            for name, parameter in loops[0].model.named_parameters():
                if name != "prefix":  # of which no gradient is given
                    theirs = numbers[f"grad_step0/{name}"]
                    assert away(parameter.grad, theirs) <= 1e-4, name


# Cells that are no tokens


def working(height: int, width: int, top: int, left: int) -> torch.Tensor:
    """Some symbols in a box of 3 x 4, its last row masked in part, on a larger canvas."""
    canvas = torch.full((1, height, width), BLANK, dtype=torch.uint8)
    box = torch.tensor([[BLANK, 2, 3, 4], [1, 2, BLANK, BLANK], [MASK] * 4], dtype=torch.uint8)
    canvas[0, top : top + 3, left : left + 4] = box
    return canvas


def test_a_cropped_canvas_has_the_tokens_of_the_box_of_what_is_not_blank():
    model = make(crop=True, **OFFSETS)
    context = model.encode(working(7, 9, 2, 3))
    cells = [row * 9 + column for row in (2, 3, 4) for column in (3, 4, 5, 6)]
    assert context.places.tolist() == [cells]
    assert model.lengths(context).tolist() == [12]


def test_a_cropped_canvas_is_answered_alike_wherever_the_working_lies():
    model = make(crop=True, **OFFSETS)
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
