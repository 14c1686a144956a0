import random
from functools import partial

import pytest
import torch

from canvas.multiplication import Multiplication
from trm.models.configs import RecursiveConfig
from trm.models.iterative import State, map_state
from trm.models.recursive import RecursiveState, TinyRecursiveModel
from trm.training.configs import DepthConfig
from trm.training.data import Canvas
from trm.training.depth import carried_step, carry_step, fresh_step, initial_carry
from trm.training.losses import step_loss
from trm.training.samples import RowStepSamples

TASK = Multiplication("lattice", base=3, digits_a=(1, 1), digits_b=(1, 1))
LOSS = partial(step_loss, loss="softmax")


def batch(start: int = 0, size: int = 6) -> dict[str, torch.Tensor]:
    data = RowStepSamples(TASK, Canvas(3, 5), "train", 0, 600, size)
    return data.__getitems__(range(start, start + size))


def tiny_model(seed: int = 0) -> TinyRecursiveModel:
    torch.manual_seed(seed)
    sizes = {"height": 3, "width": 5, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32}
    depth = {"num_layers": 1, "H_cycles": 1, "L_cycles": 1}
    config = RecursiveConfig(**sizes, **depth, position="rope_2d", halt_pool="mask")
    return TinyRecursiveModel(config).train()


def detached(state: State) -> State:
    return map_state(torch.Tensor.detach, state)


def gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    return [torch.zeros(1) if p.grad is None else p.grad.clone() for p in model.parameters()]


def test_gradients_flow_from_the_supervised_steps_alone():
    model, depth = tiny_model(), DepthConfig(no_grad_steps=(1, 4), supervised_steps=2)
    seed = 11
    result = fresh_step(model, batch(), depth, LOSS, seed)
    result.loss.backward()
    through = gradients(model)

    model.zero_grad()
    samples = batch()
    context = model.encode(samples["inputs"])
    state = model.initial_state(context)
    for _ in range(random.Random(seed).randint(1, 4)):
        state = detached(model.iterate(context, state))
    for _ in range(2):
        state = model.iterate(context, state)
        logits, halt_logits = model.read(state, context)
        one = LOSS(logits, halt_logits, samples["labels"], samples["answer"])
        (one.total / 2).backward(retain_graph=True)
        state = detached(state)
    for mine, by_hand in zip(through, gradients(model), strict=True):
        torch.testing.assert_close(mine, by_hand)
    torch.testing.assert_close(result.last.total, one.total)


@pytest.mark.parametrize("schedule", ["fresh", "carry"])
def test_what_is_drawn_for_a_sample_does_not_depend_on_the_others(schedule):
    model, samples = tiny_model(), batch(size=60)
    torch.nn.init.constant_(model.halt_head.bias, 5.0)  # it would halt at once, if it may
    depth = DepthConfig(
        schedule, halt_max_steps=5, exploration=0.7, no_grad_steps=(0, 0), random_start=0.5
    )

    def outcome(chosen: slice) -> torch.Tensor:
        some = {name: part[chosen] for name, part in samples.items()}
        if schedule == "carry":
            carry, halted = None, []
            for _ in range(4):
                _, carry = carried_step(model, some, carry, depth, LOSS)
                halted.append(carry.halted)
            return torch.stack(halted, dim=1)
        started = []
        with pytest.MonkeyPatch.context() as patch:
            iterate = model.iterate
            patch.setattr(model, "iterate", lambda c, s: started.append(s) or iterate(c, s))
            fresh_step(model, some, depth, LOSS, 0)
        return started[0].z_L

    whole = outcome(slice(None))
    assert len(whole.unique(dim=0)) > 2
    for half in (slice(0, None, 2), slice(1, None, 2)):  # the shares of two devices
        assert torch.equal(outcome(half), whole[half])


def test_a_carry_from_a_checkpoint_goes_to_the_device_of_the_batch(monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)  # of meta it cannot tell
    model, depth = tiny_model(), DepthConfig("carry", halt_max_steps=3)
    _, carry = carried_step(model, batch(), None, depth, LOSS)
    held = carry.to(torch.device("cpu"))
    elsewhere = {name: part.to("meta") for name, part in batch(6).items()}
    # The meta device computes nothing, and refuses to mix with the CPU as a GPU does.
    with pytest.raises(RuntimeError, match="meta"):
        torch.where(held.halted, elsewhere["seeds"], held.batch["seeds"].to("meta"))
    _, after = carried_step(model.to("meta"), elsewhere, held, depth, LOSS)
    parts = (*after.state.values(), after.steps, after.halted, *after.batch.values())
    assert {part.device.type for part in parts} == {"meta"}


@pytest.mark.parametrize("schedule", ["fresh", "carry"])
def test_a_training_step_never_waits_for_the_device_to_say_a_number(schedule, monkeypatch):
    def wait(tensor: torch.Tensor) -> None:
        pytest.fail("a training step asked the device for a number")

    model, depth, samples, carry = tiny_model(), DepthConfig(schedule), batch(), None
    for method in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__"):
        monkeypatch.setattr(torch.Tensor, method, wait)
    for seed in range(3):
        if schedule == "fresh":
            fresh_step(model, samples, depth, LOSS, seed)
        else:
            _, carry = carried_step(model, samples, carry, depth, LOSS)


# Who goes on, who halts, and who takes the place


def halting(halt_bias=-5.0):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "intermediate_size": 32}
    model = TinyRecursiveModel(RecursiveConfig(height=3, width=4, **sizes))
    torch.nn.init.constant_(model.halt_head.bias, halt_bias)
    return model


def numbered(seed, size=4):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(1, 14, (size, 3, 4), generator=generator, dtype=torch.uint8)
    answer_row, seeds = torch.full((size,), seed), torch.arange(size)
    return {"inputs": inputs, "labels": inputs.long(), "answer_row": answer_row, "seeds": seeds}


def test_halted_samples_are_replaced_and_the_others_kept():
    model = halting()
    carry, _ = carry_step(model, initial_carry(numbered(0)), numbered(1), 8, 0.0)
    assert carry.steps.tolist() == [1] * 4
    assert not carry.halted.any()
    carry.halted[1] = True
    before = RecursiveState(**carry.state)
    after, loop = carry_step(model, carry, numbered(2), 8, 0.0)
    logits, halt_logits = loop.read()
    assert after.batch["answer_row"].tolist() == [1, 2, 1, 1]
    assert after.steps.tolist() == [2, 1, 2, 2]
    new = torch.arange(4) == 1
    torch.testing.assert_close(logits[new], model(numbered(2)["inputs"])[0][new])
    context = model.encode(numbered(1)["inputs"])
    expected = model.read(model.iterate(context, before), context)
    torch.testing.assert_close(logits[~new], expected[0][~new])
    torch.testing.assert_close(halt_logits[~new], expected[1][~new])


def steps_until_halt(model, maximum, exploration, size=512):
    model.config.H_cycles = model.config.L_cycles = 1
    carry = initial_carry(numbered(0, size))
    taken = torch.zeros(size, dtype=torch.long)
    with torch.no_grad():
        for _ in range(maximum):
            carry, _ = carry_step(model, carry, numbered(0, size), maximum, exploration)
            taken = torch.where((taken == 0) & carry.halted, carry.steps, taken)
    return taken


def test_a_doubtful_sample_takes_all_steps_and_a_sure_one_a_single_step():
    assert set(steps_until_halt(halting(-5.0), 4, 0.0).tolist()) == {4}
    assert set(steps_until_halt(halting(5.0), 4, 0.0).tolist()) == {1}
    assert set(steps_until_halt(halting(5.0).eval(), 4, 0.0).tolist()) == {4}


def test_exploration_makes_a_share_of_sure_samples_go_on():
    assert set(steps_until_halt(halting(5.0), 4, 1.0).tolist()) == {2, 3, 4}
    share = (steps_until_halt(halting(5.0), 4, 0.25) > 1).float().mean()
    assert 0.15 < share < 0.35
