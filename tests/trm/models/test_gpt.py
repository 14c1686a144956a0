"""GPT on a canvas: what comes next depends on what came before, with a cache or without."""

import math

import pytest
import torch
import torch.nn.functional as F
from tiny import confident_gpt

from trm.models.configs import POSITIONS, GPTConfig
from trm.models.gpt import GPT

LENGTH = 1 + 4 * (5 + 1)
START, END = 15, 16


def sequence(batch=3, length=LENGTH, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 15, (batch, length), generator=generator)
    ids[:, 0] = START
    return ids


def with_gaps(batch=4):
    """Prompts of mixed lengths, with tokens given in the middle, as a lattice's margin digits."""
    forced = sequence(batch, LENGTH + 1)
    for sample, given in enumerate([5, 9, 14, 5][:batch]):
        forced[sample, given:] = -1
    forced[:2, 16] = 7
    forced[3, 10:12] = 3
    return forced


@pytest.mark.parametrize("position", POSITIONS)
def test_a_later_token_never_changes_an_earlier_prediction(position):
    model, ids = confident_gpt(position=position), sequence()
    changed = ids.clone()
    changed[:, 10:] = sequence(seed=1)[:, 10:]
    before, after = model(ids, 4, 5), model(changed, 4, 5)
    torch.testing.assert_close(before[:, :10], after[:, :10])
    assert not torch.allclose(before[:, 10:], after[:, 10:])
    torch.testing.assert_close(model(ids[:, :10], 4, 5), before[:, :10], rtol=1e-4, atol=1e-5)


def test_every_loop_adds_the_embedded_tokens_to_its_input():
    looped, ids = confident_gpt(loops=3), sequence()
    terms = looped._terms(4, 5).part(0, ids.shape[1])
    embedded = looped.embed_tokens(ids) + terms.vectors
    x = torch.zeros_like(embedded)
    for _ in range(3):
        x = x + embedded
        for layer in looped.layers:
            x = layer(x, terms)
    torch.testing.assert_close(looped.hidden(ids, terms)[-1], looped.norm(x))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("loops", [1, 3])
def test_greedy_decoding_with_a_cache_equals_one_full_pass(position, loops):
    """Keys and values that are kept give what one pass over all tokens says."""
    model, forced = (
        confident_gpt(position=position, loops=loops, num_layers=2 if loops == 1 else 1),
        with_gaps(),
    )
    ids, log_probs, *_ = model.generate(forced, 4, 5, end=99)
    assert torch.equal(ids[forced >= 0], forced[forced >= 0])
    likely = torch.log_softmax(model(ids[:, :-1], 4, 5), dim=-1)
    best = likely.max(dim=-1)
    written = forced[:, 1:] < 0
    assert torch.equal(ids[:, 1:][written], best.indices[written])
    expected = torch.where(written, best.values, 0.0)
    torch.testing.assert_close(log_probs[:, 1:], expected, rtol=1e-4, atol=1e-5)


def test_decoding_stops_when_every_sequence_has_ended():
    steps, model, forced = [], confident_gpt(), with_gaps()
    model.layers[0].register_forward_hook(lambda *_: steps.append(1))  # counts its passes
    free, *_ = model.generate(forced, 4, 5, end=99)
    assert len(steps) == LENGTH + 1 - 5
    # Whatever the first sample writes last but two is the end; the others are given one.
    last = LENGTH - 2
    end = int(free[0, last])
    forced[1:, 15] = end
    forced[1:, 20] = 7
    first = int((free[0, 5:] == end).nonzero()[0]) + 5
    steps.clear()
    ids, log_probs, *_ = model.generate(forced, 4, 5, end)
    assert len(steps) == max(first, 15) + 1 - 5
    assert torch.equal(ids[0, :first], free[0, :first])
    assert (ids[0, first:] == end).all()
    assert (log_probs[0, first + 1 :] == 0).all()
    # What was given after an end has no place any more.
    assert (ids[1:, 15:] == end).all()
    assert (log_probs[1:, 15:] == 0).all()


@pytest.mark.parametrize("position", POSITIONS)
def test_bfloat16_autocast_is_close_and_trains_every_weight(position):
    model, ids = confident_gpt(position=position, bias=True), sequence()
    exact = model(ids, 4, 5)
    model.train()
    with torch.autocast("cpu", torch.bfloat16):
        F.cross_entropy(model(ids, 4, 5).float().flatten(0, 1), ids.flatten()).backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        rounded = model.eval()(ids, 4, 5)
        written, *_ = model.generate(with_gaps(), 4, 5, END)
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(written, model.generate(with_gaps(), 4, 5, END)[0])
    error = (rounded.float() - exact).square().mean() / exact.square().mean()
    assert error.sqrt() < 0.02


def test_the_first_weights_are_gpt_2s():
    torch.manual_seed(0)
    model = GPT(GPTConfig(hidden_size=192, num_heads=4, num_layers=3, bias=True))
    branch = 0.02 / math.sqrt(6)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all()
        elif "norm" in name:
            assert (parameter == 1).all()
        else:
            std = branch if name.endswith(("out.weight", "down.weight")) else 0.02
            assert parameter.std().item() == pytest.approx(std, rel=0.1), name


def halting(position: str, loops: int = 6, bias: float = 0.0):
    """A looped model whose halting head, with random weights, stops tokens at different loops."""
    model = confident_gpt(position=position, loops=loops, num_layers=1, halting=True)
    with torch.no_grad():
        model.halt_head.bias.fill_(bias)
    return model


def by_hand(logits: torch.Tensor, halt_logits: torch.Tensor) -> tuple[int, float, int, bool]:
    """Token, log-probability, loops and "unsettled" from all loops of one token.

    A token needs a positive halt logit and two loops in which nothing changed.
    """
    chosen = logits.argmax(dim=-1).tolist()  # one for each loop
    settled = [
        n for n in range(2, len(chosen))
        if chosen[n] == chosen[n - 1] == chosen[n - 2] and halt_logits[n] > 0
    ]  # fmt: skip
    last = settled[0] if settled else len(chosen) - 1
    sure = -math.log1p(math.exp(-halt_logits[last]))
    return chosen[last], sure, last + 1, not settled


@pytest.mark.parametrize("position", POSITIONS)
def test_tokens_halt_at_their_own_loop_as_without_a_cache(position):
    """Every token is read in all its loops, also in those after it was written itself."""
    model, forced = halting(position), with_gaps()
    found = model.generate(forced, 4, 5, end=99)
    states = torch.stack(model.loop_states(found.ids[:, :-1], 4, 5))  # [loops, B, T, D]
    logits, halt_logits = model.head(states).detach(), model.halt_logits(states).detach()
    written = forced < 0
    for sample, t in written.nonzero().tolist():
        expected = by_hand(logits[:, sample, t - 1], halt_logits[:, sample, t - 1])
        token, sure, *rest = (part[sample, t].item() for part in found)
        assert (token, *rest) == (expected[0], *expected[2:])
        assert sure == pytest.approx(expected[1], abs=1e-4)
    assert torch.equal(found.ids[~written], forced[~written])
    assert all((part[~written] == 0).all() for part in found[1:])
    if position == "none":  # the test is of something
        assert found.loops[written].unique().tolist() == [3, 4, 5, 6]
        assert 0 < found.unsettled[written].sum() < written.sum()


def test_a_token_that_halts_does_not_depend_on_the_other_samples():
    model, forced = halting("none"), with_gaps()
    together = model.generate(forced, 4, 5, end=99)
    for i in range(len(forced)):
        alone = model.generate(forced[i : i + 1], 4, 5, end=99)
        for one, other in zip(alone, together, strict=True):
            torch.testing.assert_close(one[0], other[i])


def test_more_loops_than_needed_change_nothing_and_cost_nothing():
    """A token that halts within 6 loops halts there with 50, too; the other 44 never run."""
    few, many = halting("none", 6, bias=9.0), halting("none", 50, bias=9.0)
    many.load_state_dict(few.state_dict())
    passes = []
    many.layers[0].register_forward_hook(lambda *_: passes.append(1))
    forced = with_gaps()[:1]
    found, other = few.generate(forced, 4, 5, end=99), many.generate(forced, 4, 5, end=99)
    settled = ~found.unsettled[0].cummax(dim=0).values  # those before the first that ran out
    assert settled.sum() > 5
    assert torch.equal(found.ids[0, settled], other.ids[0, settled])
    assert torch.equal(found.loops[0, settled], other.loops[0, settled])
    assert len(passes) == other.loops.sum()


def test_without_halting_all_loops_run():
    model, forced = confident_gpt(loops=4, num_layers=1), with_gaps()
    found = model.generate(forced, 4, 5, end=99)
    assert (found.loops[forced < 0] == 4).all()
    assert not found.unsettled.any()


def test_a_halting_head_is_one_linear_output():
    assert (
        confident_gpt(halting=True, loops=2).num_parameters
        == confident_gpt(loops=2).num_parameters + 16 + 1
    )
