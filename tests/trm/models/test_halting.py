"""The carry: who goes on, who halts, and who takes the place."""

import pytest
import torch

from canvas.symbols import BLANK, MASK
from trm.models.configs import LoopedConfig, RecursiveConfig
from trm.models.halting import Carry, carry_step, initial_carry
from trm.models.iterative import Loop
from trm.models.recursive import LoopedTransformer, RecursiveState, TinyRecursiveModel


def make(halt_bias=-5.0):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "intermediate_size": 32}
    model = TinyRecursiveModel(RecursiveConfig(height=3, width=4, **sizes))
    torch.nn.init.constant_(model.halt_head.bias, halt_bias)
    return model


def batch(seed, size=4):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(1, 14, (size, 3, 4), generator=generator, dtype=torch.uint8)
    answer_row, seeds = torch.full((size,), seed), torch.arange(size)
    return {"inputs": inputs, "labels": inputs.long(), "answer_row": answer_row, "seeds": seeds}


def test_halted_samples_are_replaced_and_the_others_kept():
    model = make()
    carry, _ = carry_step(model, initial_carry(batch(0)), batch(1), 8, 0.0)
    assert carry.steps.tolist() == [1] * 4
    assert not carry.halted.any()
    carry.halted[1] = True
    before = RecursiveState(**carry.state)
    after, loop = carry_step(model, carry, batch(2), 8, 0.0)
    logits, halt_logits = loop.read()
    assert after.batch["answer_row"].tolist() == [1, 2, 1, 1]
    assert after.steps.tolist() == [2, 1, 2, 2]
    new = torch.arange(4) == 1
    torch.testing.assert_close(logits[new], model(batch(2)["inputs"])[0][new])
    context = model.encode(batch(1)["inputs"])
    expected = model.read(model.iterate(context, before), context)
    torch.testing.assert_close(logits[~new], expected[0][~new])
    torch.testing.assert_close(halt_logits[~new], expected[1][~new])


def steps_until_halt(model, maximum, exploration, size=512):
    model.config.H_cycles = model.config.L_cycles = 1
    carry = initial_carry(batch(0, size))
    taken = torch.zeros(size, dtype=torch.long)
    with torch.no_grad():
        for _ in range(maximum):
            carry, _ = carry_step(model, carry, batch(0, size), maximum, exploration)
            taken = torch.where((taken == 0) & carry.halted, carry.steps, taken)
    return taken


def test_a_doubtful_sample_takes_all_steps_and_a_sure_one_a_single_step():
    assert set(steps_until_halt(make(-5.0), 4, 0.0).tolist()) == {4}
    assert set(steps_until_halt(make(5.0), 4, 0.0).tolist()) == {1}
    assert set(steps_until_halt(make(5.0).eval(), 4, 0.0).tolist()) == {4}


def test_exploration_makes_a_share_of_sure_samples_go_on():
    assert set(steps_until_halt(make(5.0), 4, 1.0).tolist()) == {2, 3, 4}
    share = (steps_until_halt(make(5.0), 4, 0.25) > 1).float().mean()
    assert 0.15 < share < 0.35


def page(seed, rows, columns):
    """A canvas of 7 x 8, blank outside of a few rows and columns, and at random among these.

    Its last row is masked.
    """
    generator = torch.Generator().manual_seed(seed)
    canvas = torch.full((1, 7, 8), BLANK, dtype=torch.uint8)
    corner = torch.randint(1, 12, (rows, columns), generator=generator, dtype=torch.uint8)
    corner[torch.rand(rows, columns, generator=generator) < 0.3] = BLANK
    corner[0, 0], corner[-1] = 3, MASK
    canvas[0, 1 : rows + 1, 8 - columns :] = corner
    return canvas


PREFIX = {"position": "rope_1d", "num_prefixes": 1, "prefix_length": 3}
OFFSETS = {"position": "relative_2d", "halt_pool": "mask"}
TOKENS = {
    "skip_blank behind a prefix": {"skip_blank": True, **PREFIX},
    "skip_blank and learned": {"skip_blank": True, "position": "learned", "halt_pool": "mask"},
    "skip_blank and shaw": {"skip_blank": True, "position": "shaw"},
    "skip_blank and the nearest cells": {
        "skip_blank": True,
        "neighbourhood": "local_nearest",
        **OFFSETS,
    },
    "crop behind a prefix": {"crop": True, **PREFIX},
    "crop and offsets": {"crop": True, **OFFSETS},
    "crop of a looped transformer": {"crop": True, **OFFSETS},
}


def make_ragged(name):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_heads": 4, "num_layers": 2, "intermediate_size": 32}
    settings = {"height": 7, "width": 8, **sizes, **TOKENS[name]}
    if "looped" in name:
        return LoopedTransformer(LoopedConfig(**settings)).train()
    return TinyRecursiveModel(RecursiveConfig(**settings, H_cycles=2, L_cycles=2)).train()


def said_and_learned(model, loop, sample):
    """All that is read of one sample, and the gradients of it."""
    said = [part[sample] for part in loop.read()]
    mixed = sum((part.sin() * (i + 1)).sum() for i, part in enumerate(said))
    parameters = list(model.parameters())
    kept = {"allow_unused": True, "retain_graph": True}  # it goes on with the same embeddings
    return said, torch.autograd.grad(mixed, parameters, **kept)


@pytest.mark.parametrize("name", TOKENS)
def test_a_sample_goes_on_as_it_would_alone_while_longer_ones_come_and_go_beside_it(name):
    model = make_ragged(name)
    mine = page(0, 3, 4)
    beside = [page(1, 2, 3), page(2, 6, 8), page(3, 2, 3), page(4, 4, 6), page(5, 6, 8)]
    alone, carry, lengths = Loop(model, mine), None, []
    for neighbour in beside:
        inputs = torch.cat((mine, neighbour))
        new = {"inputs": inputs, "labels": inputs.long(), "seeds": torch.arange(2)}
        carry = carry or initial_carry(new)
        carry, loop = carry_step(model, carry, new, 9, 0.0)
        lengths.append(next(iter(carry.state.values())).shape[1])
        alone.step()
        anew = Loop(model, neighbour)
        anew.step()
        for sample, expected in ((0, alone), (1, anew)):
            said, learned = said_and_learned(model, loop, sample)
            others = said_and_learned(model, expected, 0)
            torch.testing.assert_close(said, others[0], rtol=1e-4, atol=1e-4)
            for gradient, other in zip(learned, others[1], strict=True):
                if other is None:
                    assert gradient is None or not gradient.any()
                else:
                    torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-3)
        # The one beside it has halted, and the carry has been in a checkpoint.
        carry = Carry.from_plain(carry.plain())
        carry.halted = torch.tensor([False, True])
    assert lengths[0] < lengths[3] < lengths[1]
    assert lengths[2] == lengths[0]


def test_a_smaller_last_batch_is_refused():
    model = make()
    with pytest.raises(ValueError, match="Drop the last incomplete batch"):
        carry_step(model, initial_carry(batch(0)), batch(1, 3), 4, 0.0)
