"""The looped transformer: a loop of one is the plain transformer, and more loops go on from it."""

from functools import partial

import pytest
import torch

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from trm.models.configs import LoopedConfig
from trm.models.recursive import LoopedTransformer
from trm.training.configs import DepthConfig
from trm.training.depth import carried_step, fresh_step
from trm.training.losses import step_loss
from trm.training.samples import RowStepSamples

SMALL = {"height": 3, "width": 5, "hidden_size": 32, "num_heads": 2, "num_layers": 2}
SMALL |= {"intermediate_size": 32, "halt_pool": "mask", "position": "relative_2d"}
LOSS = partial(step_loss, loss="softmax")


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
