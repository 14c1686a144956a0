"""What is read from models is what they compute."""

import pytest
import torch
from torch import nn

from canvas.hints import hint_classes
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import to_sequences
from trm.checkpoints import SHIPPED
from trm.checkpoints.loading import load_solver
from trm.models.iterative import Loop, named
from trm.probing.cells import examples, token_of_cell
from trm.probing.features import BLOCKS, INPUT, NORM, Site, last_step, main_name, watch

HINTS = hint_classes(Multiplication("standard").rules, 3)
PROBLEMS = Problems.from_ints([(5, 7), (8, 3), (2, 4)], base=3)


@pytest.mark.parametrize("more", [{}, {"crop": True}, {"num_prefixes": 1, "prefix_length": 2}])
def test_states_are_those_after_each_supervision_step(make_solver, more):
    solver = make_solver(**more)
    every = examples(solver, PROBLEMS)
    watched = watch(solver.predictor, every, (1, 3))
    assert list(watched.features) == [
        Site(INPUT, 0), *(Site(name, step) for step in (1, 3) for name in ("z_H", "z_L"))
    ]  # fmt: skip
    loop = Loop(solver.predictor.model, torch.from_numpy(every.inputs))
    loop.advance(3)
    for name, state in named(loop.state).items():
        own = state[:, more.get("prefix_length", 0) :]
        assert torch.equal(watched.features[Site(name, 3)], own)
    assert (watched.answers == loop.read()[0].argmax(-1).numpy()).all()
    assert (main_name(solver.predictor), last_step(solver.predictor, (1, 3))) == ("z_H", 3)


def test_a_page_that_is_finished_is_what_a_model_in_order_writes(monkeypatch):
    solver = load_solver(SHIPPED, device="cpu")
    problems = Problems.from_ints([(253, 83), (97, 46)])
    every, taken = examples(solver, problems), []
    step = Loop.step
    monkeypatch.setattr(Loop, "step", lambda self: (taken.append(1), step(self)))
    last = solver.predictor.max_steps
    watched = watch(solver.predictor, every, (1, last))
    assert len(taken) < last / 4, "steps that would change nothing are left out"
    assert (watched.answers == every.labels)[every.working].all()
    (early, late) = (watched.features[Site("state", n)] for n in (1, last))
    assert not torch.equal(early, late)


def test_heads_say_what_the_model_says(make_solver):
    solver = make_solver(hints=HINTS)
    every = examples(solver, PROBLEMS)
    heads = watch(solver.predictor, every, (1, 2)).heads
    loop = Loop(solver.predictor.model, torch.from_numpy(every.inputs))
    loop.advance(2)
    for name, logits in loop.read_hints().items():
        assert (heads[2][name] == logits.argmax(-1)).all()
    assert set(heads) == {1, 2}


@pytest.mark.parametrize("family", ["recursive", "looped"])
def test_the_last_layer_gives_the_state_and_those_before_are_read_too(make_solver, family):
    solver = make_solver(family)
    every = examples(solver, PROBLEMS)
    plain, more = (watch(solver.predictor, every, (2,), layers) for layers in (False, True))
    names = {site.name for site in set(more.features) - set(plain.features)}
    state = {"recursive": ("z_L", "z_H"), "looped": ("state",)}[family]
    assert names == {f"{name}, layer 1" for name in state}
    layer = solver.predictor.model.layers[1]
    context = solver.predictor.model.encode(torch.from_numpy(every.inputs))
    main = main_name(solver.predictor)
    with torch.no_grad():
        made = layer(
            more.features[Site(f"{main}, layer 1", 2)], context.rotation, context.bias, context.keys
        )
    torch.testing.assert_close(made, more.features[Site(main, 2)])


@pytest.mark.parametrize("loops", [1, 2])
def test_a_gpt_is_read_after_each_block_and_norm(make_solver, loops):
    solver = make_solver("gpt", num_layers=3, loops=loops, hints=HINTS)
    every = examples(solver, PROBLEMS)
    watched = watch(solver.predictor, every, (1,))
    last = 3 * loops
    blocks = [Site(BLOCKS, step) for step in range(1, last + 1)]
    assert list(watched.features) == [Site(INPUT, 0), *blocks, Site(NORM, last)]
    assert (main_name(solver.predictor), last_step(solver.predictor, (1,))) == (NORM, last)
    gpt = solver.predictor.model
    _, H, W = every.inputs.shape
    x = gpt.activations(torch.from_numpy(to_sequences(every.inputs)), H, W)
    x = x[:, token_of_cell(H, W)]
    assert torch.equal(watched.features[Site(NORM, last)], x)
    torch.testing.assert_close(gpt.norm(watched.features[blocks[-1]]), x)
    assert (watched.answers.reshape(3, -1) == gpt.head(x).argmax(-1).numpy()).all()
    assert set(watched.heads[last]) == set(HINTS)


def test_no_hook_stays(make_solver):
    for family in ("recursive", "gpt"):
        solver = make_solver(family)
        watch(solver.predictor, examples(solver, PROBLEMS), (1,), layers=family != "gpt")
        layers: nn.ModuleList = solver.predictor.model.layers
        assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)


def test_states_that_are_no_tokens_are_refused(make_solver, monkeypatch):
    solver = make_solver("looped")
    model = solver.predictor.model
    monkeypatch.setattr(type(model), "iterate", lambda self, context, state: state.mean(1))
    with pytest.raises(ValueError, match="one vector for each cell"):
        watch(solver.predictor, examples(solver, PROBLEMS), (1,))


def test_layers_of_a_model_that_does_not_tell_its_updates_are_refused(make_solver, monkeypatch):
    solver = make_solver("looped")
    monkeypatch.setattr(type(solver.predictor.model), "updates", ())
    assert main_name(solver.predictor) == "state"
    with pytest.raises(ValueError, match="leave out --layers"):
        watch(solver.predictor, examples(solver, PROBLEMS), (1,), layers=True)
