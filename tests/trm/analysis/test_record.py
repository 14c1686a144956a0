"""What is recorded is what modules are given and give, and what is put there is computed with."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from canvas.symbols import BLANK, MASK
from trm.analysis.record import (
    ATTENTION,
    INPUT,
    OUTPUT,
    Recorder,
    SequenceRecorder,
    Site,
    StepRecorder,
    attention_of,
    cell_attention,
    state_changes,
)
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.iterative import named
from trm.models.recursive import TinyRecursiveModel
from trm.solving.gpt_predictor import Calibration, GPTPredictor

SHAPE = {"hidden_size": 16, "num_heads": 2, "num_layers": 2, "intermediate_size": 16}


def model(**more) -> TinyRecursiveModel:
    torch.manual_seed(0)
    settings = {"H_cycles": 2, "L_cycles": 3, "position": "relative_2d", **more}
    return TinyRecursiveModel(RecursiveConfig(**SHAPE, **settings)).eval()


def gpt(position: str = "relative_2d", loops: int = 1) -> GPTPredictor:
    torch.manual_seed(0)
    config = GPTConfig(4, 5, hidden_size=16, num_heads=2, num_layers=2, loops=loops)
    made = GPT(replace(config, position=position)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return GPTPredictor(made, Calibration())


def canvases() -> np.ndarray:
    """One full canvas, and one with fewer tokens than cells."""
    tokens = np.full((2, 4, 5), BLANK, dtype=np.uint8)
    tokens[0] = np.random.default_rng(1).integers(1, 11, (4, 5))
    tokens[:, 0, 1:4] = 2, 3, 4
    tokens[:, 2] = MASK
    return tokens


def hooks_of(model: nn.Module) -> list:
    return [
        hook
        for part in model.modules()
        for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    ]


def test_a_record_changes_nothing_and_leaves_nothing_behind():
    mine, tokens = model(), torch.from_numpy(canvases())
    before = mine(tokens, steps=2)
    recorder = StepRecorder(mine, canvases(), 2)
    sites = [site for of_pass in recorder.layers() for site in of_pass]
    record = recorder.run([*recorder.input_sites(), *sites, *recorder.states([1, 2])])
    assert torch.equal(record.logits, before[0])
    assert [len(record.values[site]) for site in sites] == [2] * len(sites)
    assert torch.equal(mine(tokens, steps=2)[0], before[0])
    assert hooks_of(mine) == []


def test_each_call_in_a_step_has_its_own_site():
    """The last layer's output in the last update of a step is the state after it."""
    recorder = StepRecorder(model(), canvases(), 3)
    last, state = recorder.layers(2)[-1][-1], recorder.states([2])[0]
    values = recorder.run([last, state]).values
    assert torch.equal(values[last][0], values[state][list(named(recorder.initial)).index("z_H")])
    given = replace(recorder.layers(2)[-1][1], kind=INPUT)
    before = recorder.layers(2)[-1][0]
    values = recorder.run([given, before]).values
    assert torch.equal(values[given][0], values[before][0])


@pytest.mark.parametrize("kind", [INPUT, OUTPUT])
@pytest.mark.parametrize("family", ["steps", "sequence"])
def test_what_is_put_there_is_seen_and_computed_with_and_no_hook_stays(kind, family):
    recorder: Recorder = SequenceRecorder(gpt(), canvases())
    if family == "steps":
        recorder = StepRecorder(model(), canvases(), 2)
    site = replace(recorder.layers()[-1][-1], kind=kind)
    base = recorder.run([site])
    swapped = recorder.run([site], change=lambda _, n, value: base.values[site][n].flip(0))
    assert torch.equal(swapped.values[site][-1], base.values[site][-1].flip(0))
    if kind == OUTPUT:  # the answer is read from it
        alone = recorder.run([site], [1, 0]).logits
        assert not torch.allclose(swapped.logits, base.logits)
        if family == "sequence":
            torch.testing.assert_close(swapped.logits, alone)
    with pytest.raises(ZeroDivisionError):
        recorder.run(recorder.heads(), change=lambda *_: 1 / 0)
    assert hooks_of(recorder.model) == []


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"skip_blank": True},
        {"position": "rope_2d", "num_prefixes": 1, "prefix_length": 3},
        {"skip_blank": True, "neighbourhood": "local_nearest", "radius": 1},
        {"position": "shaw"},
    ],
    ids=["all", "written", "prefix", "local_nearest", "keys"],
)
def test_the_attention_is_the_one_that_made_the_answer(how):
    """Values averaged by it and projected are what the attention layer gave."""
    mine = model(**how)
    given, made = [], []
    layers = attention_of(mine)

    def note(_, arguments, output):
        given.append(arguments[:2])
        made.append(output)

    for layer in layers:
        layer.register_forward_hook(note)
    found = cell_attention(mine, canvases(), 2)[mine.updates[-1]]
    context = mine.encode(torch.from_numpy(canvases()))
    P, cells = mine.config.prefix_length, 20
    for place, (layer, weights) in enumerate(zip(layers, found, strict=True)):
        _, _, v = layer.project(*given[place - len(layers)])
        places = context.places
        if places is None:
            places = torch.arange(cells).expand(2, -1)
        on_canvas = v.new_zeros(2, v.shape[1], cells + 1, v.shape[-1])
        index = places[:, None, :, None].expand_as(v[:, :, P:])
        on_canvas.scatter_(2, index, v[:, :, P:])
        if P:  # what went to the prefix is not shown
            assert (weights.sum(-1) < 1).all()
            continue
        averaged = layer.out((weights @ on_canvas[:, :, :cells]).transpose(1, 2).flatten(2))
        for sample in range(2):
            there = places[sample] < cells
            torch.testing.assert_close(
                averaged[sample, places[sample][there]],
                made[place - len(layers)][sample, there],
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.mark.parametrize("position", ["relative_2d", "shaw"])
@pytest.mark.parametrize("loops", [1, 2])
def test_the_attention_of_a_gpt_is_the_one_that_made_the_answer(loops, position):
    predictor = gpt(position, loops)
    recorder = SequenceRecorder(predictor, canvases())
    attended = [site for of_loop in recorder.attention().values() for site in of_loop]
    calls = [
        Site(f"{kind} {loop} {k}", block.attention, kind, calls=frozenset({loop}))
        for loop in range(loops)
        for k, block in enumerate(predictor.model.layers)
        for kind in (INPUT, OUTPUT)
    ]
    values = recorder.run([*attended, *calls]).values
    assert all(site.kind == ATTENTION for site in attended)
    for site, given, made in zip(attended, calls[::2], calls[1::2], strict=True):
        (weights,) = values[site]
        assert not weights.triu(1).any()
        _, _, v = site.part.project(values[given][0])
        averaged = site.part.out((weights @ v).transpose(1, 2).flatten(2))
        torch.testing.assert_close(averaged, values[made][0], rtol=1e-4, atol=1e-5)


def test_changes_are_those_of_each_update_in_turn():
    mine = model(L_cycles=1, H_cycles=1)
    context = mine.encode(torch.from_numpy(canvases()))
    states = [mine.initial_state(context)]
    with torch.no_grad():
        for _ in range(3):
            states.append(mine.iterate(context, states[-1]))
    for name, changes in state_changes(mine, canvases(), 3).items():
        values = [getattr(state, name) for state in states]
        expected = [(new - old).square().mean((1, 2)).sqrt() for old, new in pairwise(values)]
        torch.testing.assert_close(changes[:, 0], torch.stack(expected))


def test_there_are_as_many_changes_as_cycles_and_attention_of_the_last(make_solver):
    changes = state_changes(model(), canvases(), 4)
    assert {name: part.shape for name, part in changes.items()} == {
        "z_L": (4, 6, 2),
        "z_H": (4, 2, 2),
    }
    found = cell_attention(model(), canvases(), 4)
    assert list(found) == ["z_L", "z_H"]
    assert {part.shape for part in found.values()} == {(2, 2, 2, 20, 20)}
    looped = make_solver("looped", H_cycles=2).predictor.model
    changes = state_changes(looped, canvases(), 3)
    assert {name: part.shape for name, part in changes.items()} == {"state": (3, 2, 2)}


def test_a_model_that_tells_no_updates_is_compared_from_step_to_step(monkeypatch):
    mine = model()
    whole = state_changes(mine, canvases(), 3)["z_H"]
    monkeypatch.setattr(type(mine), "updates", ())
    changes = state_changes(mine, canvases(), 3)
    assert {k: part.shape for k, part in changes.items()} == {"z_H": (3, 1, 2), "z_L": (3, 1, 2)}
    assert cell_attention(mine, canvases(), 3) == {}
    assert not torch.allclose(changes["z_H"][:, 0], whole[:, 0])
    with pytest.raises(ValueError, match="heads of TinyRecursiveModel cannot be patched"):
        StepRecorder(mine, canvases(), 1).heads()
