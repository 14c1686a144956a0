"""Recursive models: canvases in, logits and a halt logit out, whatever the encoding."""

import pytest
import torch

from canvas.symbols import BLANK, MASK, VOCAB_SIZE
from trm.models.configs import NEIGHBOURHOODS, POSITIONS, RecursiveConfig
from trm.models.iterative import Loop
from trm.models.recursive import TinyRecursiveModel

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
@pytest.mark.parametrize("position", FIXED)
@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
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


def test_bfloat16_autocast_trains_all_weights():
    model = make(position="relative_2d", neighbourhood="local_lines")
    with torch.autocast("cpu", torch.bfloat16):
        context = model.encode(canvases())
        state = model.iterate(context, model.initial_state(context))
        logits, halt_logits = model.read(state, context)
    assert (state.z_H.dtype, context.terms.bias.dtype) == (torch.bfloat16, torch.bfloat16)
    assert halt_logits.dtype == torch.float32
    # Weights first cast in the cycles without gradient must be cast anew for the last.
    (logits.float().square().mean() + halt_logits.sum()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    exact, _ = model(canvases())
    torch.testing.assert_close(logits.float(), exact, rtol=0, atol=0.4)


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_skip_blank_makes_outputs_independent_of_the_canvas_size(neighbourhood):
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
        fewer, kept = context.select(index), type(state)(*(part[index] for part in state))
        logits, halt = model.read(model.iterate(context, state), context)
        fewer_logits, fewer_halt = model.read(model.iterate(fewer, kept), fewer)
        torch.testing.assert_close(fewer_logits, logits[index], rtol=0, atol=1e-5)
        torch.testing.assert_close(fewer_halt, halt[index], rtol=0, atol=1e-5)


def test_the_halting_head_reads_the_masked_row():
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
    expected = model.halt_head(state.z_H[0].view(4, 5, -1)[2].mean(0))[0]
    torch.testing.assert_close(model.read(state, context)[1][0], expected)


@pytest.mark.parametrize("skip_blank", [False, True])
def test_halt_pool_every_is_the_product_over_cells(skip_blank):
    model = make(position="relative_2d", halt_pool="every", skip_blank=skip_blank)
    tokens = canvases()
    tokens[0, :2] = BLANK
    context = model.encode(tokens)
    state = model.initial_state(context)
    state = state._replace(z_H=torch.randn_like(state.z_H))
    found = model.read(state, context)[1].sigmoid()
    cells = model.halt_head(model.cell_states(state, context))[..., 0].sigmoid()
    if skip_blank:  # blank cells are no tokens
        cells = cells.where(tokens != BLANK, 1.0)
    torch.testing.assert_close(found, cells.flatten(1).prod(dim=1), rtol=1e-4, atol=1e-7)


def test_one_incorrect_cell_decides_on_canvases_of_any_size():
    for size in (3, 30):
        model = make(position="relative_2d", halt_pool="every")
        model.halt_head.weight.data[0] = torch.eye(16)[0]
        model.halt_head.bias.data.zero_()
        context = model.encode(torch.ones(1, size, size, dtype=torch.uint8))
        state = model.initial_state(context)
        z = torch.full_like(state.z_H, 15.0)
        z[:, 0, 0] = -3.0
        found = model.read(state._replace(z_H=z), context)[1]
        torch.testing.assert_close(found, torch.tensor([-3.0]), rtol=0, atol=0.01)


def working(height: int, width: int, top: int, left: int) -> torch.Tensor:
    """Some symbols in a box of 3 x 4, its last row masked in part, on a larger canvas."""
    canvas = torch.full((1, height, width), BLANK, dtype=torch.uint8)
    box = torch.tensor([[BLANK, 2, 3, 4], [1, 2, BLANK, BLANK], [MASK] * 4], dtype=torch.uint8)
    canvas[0, top : top + 3, left : left + 4] = box
    return canvas


def test_a_cropped_canvas_gives_the_same_outputs_at_any_offset():
    model = make(crop=True, **OFFSETS)
    context = model.encode(working(7, 9, 2, 3))
    cells = [row * 9 + column for row in (2, 3, 4) for column in (3, 4, 5, 6)]
    assert context.cell_numbers.tolist() == [cells]
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
