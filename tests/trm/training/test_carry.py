"""The carry: who goes on, who halts, and who takes the place."""

import pytest
import torch

from trm.models.configs import RecursiveConfig
from trm.models.recursive import RecursiveState, TinyRecursiveModel
from trm.training.depth import carry_step, initial_carry


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


def test_a_smaller_last_batch_is_refused():
    model = make()
    with pytest.raises(ValueError, match="Drop the last incomplete batch"):
        carry_step(model, initial_carry(batch(0)), batch(1, 3), 4, 0.0)
