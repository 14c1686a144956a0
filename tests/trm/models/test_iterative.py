"""The protocol: any state goes through the same loop, starts and carry."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn

from trm.models.iterative import IterativeModel, Loop
from trm.models.states import map_state, named, unnamed, where_samples
from trm.solving.iterative_predictor import IterativePredictor
from trm.training.published_step import Carry, carried_step
from trm.training.random_bits import random_starts, uniform
from trm.training.step import DepthConfig


class Pair(NamedTuple):
    one: torch.Tensor
    other: torch.Tensor


STATES = {"tensor": lambda x: x, "named": lambda x: Pair(x, 2 * x[:, 0])}


@dataclass
class CountConfig:
    size: int = 4


class Counter(IterativeModel):
    """Adds what it reads to its state at every step; its contexts are plain tensors."""

    def __init__(self, config=None, make=STATES["tensor"]):
        super().__init__()
        self.config, self.make = config or CountConfig(), make
        self.embed = nn.Embedding(18, self.config.size)
        self.head = nn.Linear(self.config.size, 18)

    def encode(self, tokens):
        return self.embed(tokens.int())

    def initial_state(self, context):
        return self.make(torch.zeros_like(context))

    def iterate(self, context, state):
        return map_state(torch.add, state, self.make(context))

    def read(self, state, context):
        z = next(iter(named(state).values()))
        return self.head(z), z.mean((1, 2, 3))


def counter(kind="tensor"):
    torch.manual_seed(0)
    return Counter(make=STATES[kind])


def canvases(batch=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 14, (batch, 2, 3), generator=generator, dtype=torch.uint8)


def equal(one, other):
    one, other = named(one), named(other)
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("kind", STATES)
def test_a_state_is_mapped_selected_and_named(kind):
    state = STATES[kind](torch.arange(24.0).view(4, 2, 3))
    assert type(map_state(torch.neg, state)) is type(state)
    assert list(named(state)) == {"tensor": ["state"], "named": ["one", "other"]}[kind]
    assert equal(unnamed(state, named(state)), state)
    index = torch.tensor([True, False, True, False])
    mixed = where_samples(index, state, map_state(torch.neg, state))
    for name, part in named(mixed).items():
        assert torch.equal(part[index], named(state)[name][index])
        assert torch.equal(part[~index], -named(state)[name][~index])


@pytest.mark.parametrize("kind", STATES)
def test_a_model_of_any_state_takes_its_steps(kind):
    model, tokens = counter(kind), canvases()
    loop = Loop(model, tokens)
    loop.advance(2)
    assert not any(part.requires_grad for part in named(loop.state).values())
    loop.step()
    assert equal(loop.state, model.make(3 * model.embed(tokens.int())))
    logits, halt_logits = model(tokens, steps=3)
    torch.testing.assert_close(logits, loop.read()[0])
    loop.keep(torch.tensor([3, 1]))
    torch.testing.assert_close(loop.read()[1], halt_logits[[3, 1]])


@pytest.mark.parametrize("kind", STATES)
def test_random_starts_depend_on_the_sample_and_the_tensor(kind):
    state = STATES[kind](torch.full((60, 30, 50), 9.0))
    seeds = torch.arange(60)
    started = random_starts(state, 0.5, seeds)
    chosen = uniform(seeds) < 0.5
    parts = named(started)
    for name, part in parts.items():
        assert torch.equal(part[~chosen], named(state)[name][~chosen])
        assert abs(part[chosen].std() - 1) < 0.03
    firsts = torch.stack([part[chosen].flatten(1)[:, 0] for part in parts.values()])
    assert len(firsts.flatten().unique()) == firsts.numel()
    half = random_starts(map_state(lambda part: part[::2], state), 0.5, seeds[::2])
    assert equal(half, map_state(lambda part: part[::2], started))


def batch(seed):
    inputs = canvases(seed=seed)
    answer = torch.ones_like(inputs, dtype=torch.bool)
    return {"inputs": inputs, "seeds": torch.arange(4), "labels": inputs, "answer": answer}


@pytest.mark.parametrize("kind", STATES)
def test_a_carry_contains_states_of_any_structure(kind):
    model, depth = counter(kind), DepthConfig("carry", halt_max_steps=9, exploration=0)
    _, carry = carried_step(model, batch(0), None, depth)
    halted = torch.tensor([False, True, False, False])
    held = Carry(**carry._asdict() | {"halted": halted})
    _, after = carried_step(model, batch(1), held, depth)
    assert after.steps.tolist() == [2, 1, 2, 2]
    old, new = batch(0)["inputs"], batch(1)["inputs"]
    assert torch.equal(after.batch["inputs"], torch.stack([old[0], new[1], old[2], old[3]]))
    loop = Loop(model, batch(0)["inputs"])
    loop.advance(2)
    expected = named(loop.state)
    loop = Loop(model, batch(1)["inputs"])
    loop.step()
    for name, part in named(loop.state).items():
        expected[name][1] = part[1]
        torch.testing.assert_close(after.state[name], expected[name])
    assert not any(part.requires_grad for part in after.state.values())


@pytest.mark.parametrize("kind", STATES)
def test_a_model_of_any_state_solves_and_is_traced(kind):
    model = counter(kind).eval()
    inputs = canvases()
    inputs[:, 1] = 13
    predictor = IterativePredictor(model, max_steps=5)
    assert predictor.at_once(9, 9)
    assert not predictor.translation_invariant
    filled, shown = predictor(inputs.numpy()), inputs.numpy()
    seen = IterativePredictor(model, 5).trace(shown, shown)
    assert (seen.answers == filled.canvases).all()
    assert (filled.steps == [curve.halt or 5 for curve in seen.curves]).all()
