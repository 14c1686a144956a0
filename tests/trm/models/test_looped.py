"""The looped transformer: a loop of one is the plain transformer, and more loops go on from it."""

from functools import partial

import pytest
import torch

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, MASK
from trm.models.canvas_transformer import on_canvas
from trm.models.configs import LoopedConfig
from trm.models.iterative import Loop
from trm.models.looped import LoopedTransformer
from trm.training.configs import DepthConfig
from trm.training.depth import carried_step, fresh_step
from trm.training.losses import step_loss
from trm.training.samples import RowStepSamples

SMALL = {"height": 3, "width": 5, "hidden_size": 32, "num_heads": 2, "num_layers": 2}
SMALL |= {"intermediate_size": 32, "halt_pool": "mask", "position": "relative_2d"}
LOSS = partial(step_loss, loss="softmax", givens_weight=0.0, halt_weight=0.5)


def make(**changes) -> LoopedTransformer:
    torch.manual_seed(0)
    return LoopedTransformer(LoopedConfig(**(SMALL | changes)))


def batch(start: int = 0, size: int = 6) -> dict[str, torch.Tensor]:
    task = Multiplication("lattice", base=3, digits_a=(1, 1), digits_b=(1, 1))
    data = RowStepSamples(task, Canvas(3, 5), "train", 0, 600, size)
    return data.__getitems__(range(start, start + size))


@pytest.mark.parametrize("skip_blank", [False, True])
def test_a_loop_of_one_is_the_plain_transformer(skip_blank):
    model = make(skip_blank=skip_blank, neighbourhood="local_lines")
    tokens = batch()["inputs"]
    context = model.encode(tokens)
    x = context.inputs
    for layer in model.layers:
        x = layer(x, context.rotation, context.bias)
    for said, expected in zip(model(tokens), model.heads(x, context), strict=True):
        assert torch.equal(said, expected)


def test_a_loop_goes_on_from_the_state_with_the_input_added():
    model, tokens = make(), batch()["inputs"]
    context = model.encode(tokens)
    state = torch.zeros_like(context.inputs)
    for _ in range(3):
        state = model.network(state + context.inputs, context)
    torch.testing.assert_close(model(tokens, steps=3)[0], model.heads(state, context)[0])
    torch.testing.assert_close(make(loops_per_step=3)(tokens)[0], model(tokens, steps=3)[0])


SEES = {
    "all": {},
    "rope": {"position": "rope_2d"},
    "nothing that tells places": {"position": "none"},
    "rows of a box": {"crop": True, "neighbourhood": "before"},
    "written cells": {"skip_blank": True, "neighbourhood": "local_lines"},
    "the nearest": {"neighbourhood": "local_nearest", "radius": 1},
}


@pytest.mark.parametrize("few_from", [0, 1000])
@pytest.mark.parametrize("changes", SEES.values(), ids=SEES)
def test_without_its_own_state_a_cell_follows_from_the_state_of_others(
    changes, few_from, monkeypatch
):
    monkeypatch.setattr("trm.models.bias.FEW_FROM", few_from)
    model = make(attend_self=False, num_layers=1, **changes)
    context = model.encode(batch()["inputs"])
    state = torch.randn_like(context.inputs)
    said = model.iterate(context, state)
    token = 1
    changed = state.clone()
    changed[:, token] += 1.0
    differs = (model.iterate(context, changed) - said).abs().amax(dim=(0, 2))
    assert differs[token] == 0
    assert differs.max() > 1e-3  # others see it
    with_own = make(num_layers=1, **changes)
    with_own.load_state_dict(model.state_dict())
    differs = (with_own.iterate(context, changed) - with_own.iterate(context, state)).abs()
    assert differs[:, token].max() > 1e-3


def test_a_lone_cell_without_its_own_state_is_still_a_number():
    model = make(attend_self=False, skip_blank=True, neighbourhood="local_lines")
    tokens = torch.full((1, 3, 5), BLANK)
    tokens[0, 0, 0], tokens[0, 2, 4] = MASK, MASK
    loop = Loop(model, tokens)
    for _ in range(3):
        loop.step()
    assert loop.read()[0].isfinite().all()
    loop.keep(torch.tensor([0]))
    loop.step()


HINTED = {
    "hints": {"sum": 4, "carry": 4},
    "hint_threshold": 0.5,
    "attend_self": False,
    "crop": True,
}


@torch.no_grad()
def test_a_step_from_hints_is_one_from_states_that_are_right():
    model = make(**HINTED, neighbourhood="just_before", radius=1)
    tokens = batch()["inputs"]
    context = model.encode(tokens)
    state = torch.randn_like(context.inputs)
    logits = model.hint_heads(state)
    classes = {name: on_canvas(x, context).argmax(-1) for name, x in logits.items()}
    model.hint_heads.head.weight *= 100  # all decisions are sure
    expected = model.iterate(context, state)
    there = context.places < 15
    taught = model.step_from_hints(context, classes)
    torch.testing.assert_close(taught[there], expected[there])


@torch.no_grad()
@pytest.mark.parametrize("cut", [{"crop": True}, {"skip_blank": True}])
def test_what_lies_below_the_row_to_fill_in_is_not_worked_on_where_nothing_sees_it(cut):
    model = make(neighbourhood="before", **cut)
    tokens = torch.randint(1, 11, (2, 4, 5))
    tokens[:, 2] = MASK
    above = tokens.clone()
    above[:, 3] = BLANK
    assert model.encode(tokens).inputs.shape[1] == 15
    assert make(neighbourhood="local_lines", **cut).encode(tokens).inputs.shape[1] == 20
    for said, expected in zip(model(tokens, steps=3), model(above, steps=3), strict=True):
        torch.testing.assert_close(said, expected)
    filled = tokens.masked_fill(tokens == MASK, 1)
    assert model.encode(filled).inputs.shape[1] == 20  # nothing is asked for


@torch.no_grad()
def test_a_cell_follows_from_what_is_written_before_it_alone():
    model = make(**HINTED, neighbourhood="before")
    tokens = torch.randint(1, 11, (1, 3, 5))
    classes = {name: torch.randint(0, 4, (1, 3, 5)) for name in HINTED["hints"]}
    context = model.encode(tokens)
    said = on_canvas(model.step_from_hints(context, classes), context)
    later = {name: part.clone() for name, part in classes.items()}
    for part in later.values():
        part[0, 1, :3] = (part[0, 1, :3] + 1) % 4
        part[0, 2] = (part[0, 2] + 1) % 4
    differs = (on_canvas(model.step_from_hints(context, later), context) - said).abs().sum(-1)[0]
    assert (differs[0] == 0).all()
    assert (differs[1, 2:] == 0).all()  # not even of itself
    assert (differs[1, :2] > 0).all()
    assert (differs[2] > 0).all()
    # The first cell has nothing before it, and does not see itself instead.
    for part in later.values():
        part[0, 0, 4] = (part[0, 0, 4] + 1) % 4
    first = on_canvas(model.step_from_hints(context, later), context)[0, 0]
    assert torch.equal(first[4], said[0, 0, 4])
    assert not torch.equal(first[3], said[0, 0, 3])


def test_what_needs_hints_or_attention_is_refused_without():
    with pytest.raises(ValueError, match="set block to attention"):
        make(attend_self=False, block="mixer", position="none")
    for model in (make(), make(hints={"sum": 4})):
        context = model.encode(batch()["inputs"])
        with pytest.raises(ValueError, match=r"no states that are built from hints"):
            model.step_from_hints(context, {})


@pytest.mark.parametrize("schedule", ["fresh", "carry"])
def test_a_handful_of_samples_is_learned_by_heart(schedule):
    model = make(num_layers=1).train()
    depth = DepthConfig(schedule, halt_max_steps=4, no_grad_steps=(0, 2), supervised_steps=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    carry, losses = None, []
    for step in range(70):
        if schedule == "fresh":
            result = fresh_step(model, batch(), depth, LOSS, step)
        else:
            result, carry = carried_step(model, batch(), carry, depth, LOSS)
        optimizer.zero_grad()
        result.loss.backward()
        optimizer.step()
        losses.append(result.last.lm.item())
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
