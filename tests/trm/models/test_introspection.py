"""What a probe reads off is what the model did."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from canvas.symbols import BLANK, MASK
from trm.models import bias
from trm.models.configs import GPTConfig, LoopedConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.introspection import gpt_attention, introspect
from trm.models.layers import Attention
from trm.models.looped import LoopedTransformer
from trm.models.recursive import TinyRecursiveModel

SHAPE = {"hidden_size": 16, "num_heads": 2, "num_layers": 2, "intermediate_size": 16}


def model(**more) -> TinyRecursiveModel:
    torch.manual_seed(0)
    settings = {"H_cycles": 2, "L_cycles": 3, "position": "relative_2d", **more}
    return TinyRecursiveModel(RecursiveConfig(**SHAPE, **settings)).eval()


def looped(**more) -> LoopedTransformer:
    torch.manual_seed(0)
    return LoopedTransformer(LoopedConfig(**SHAPE, position="relative_2d", **more)).eval()


def canvases() -> torch.Tensor:
    """One full canvas, and one with fewer tokens than cells."""
    tokens = torch.full((2, 4, 5), BLANK, dtype=torch.uint8)
    tokens[0] = torch.randint(1, 11, (4, 5), generator=torch.Generator().manual_seed(1))
    tokens[:, 0, 1:4] = torch.tensor([2, 3, 4])
    tokens[:, 2] = MASK
    return tokens


def test_it_changes_nothing_and_leaves_nothing_behind():
    mine, tokens = model(), canvases()
    before = mine(tokens, steps=2)
    introspect(mine, tokens, 2)
    after = mine(tokens, steps=2)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    for part in mine.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"skip_blank": True},
        {"position": "rope_2d", "num_prefixes": 1, "prefix_length": 3},
        {"skip_blank": True, "neighbourhood": "local_nearest", "radius": 1},
        {"skip_blank": True, "neighbourhood": "local_nearest", "radius": 1, "few": True},
        {"attend_self": False},
        {"attend_self": False, "crop": True, "neighbourhood": "before", "radius": 1},
        {"position": "shaw"},
    ],
    ids=["all", "written", "prefix", "local_nearest", "listed", "others", "rows of others", "keys"],
)
def test_the_attention_is_the_one_that_made_the_answer(how, monkeypatch):
    """Values averaged by it and projected are what the attention layer gave."""
    if how.pop("few", False):
        monkeypatch.setattr(bias, "FEW_FROM", 0)
    mine, tokens = looped(**how) if "attend_self" in how else model(**how), canvases()
    given, made = [], []
    layers = [layer for layer in mine.modules() if isinstance(layer, Attention)]

    def note(_, arguments, named, output):
        x, rotation, *_ = arguments
        given.append((x, rotation, named["seen"]))
        made.append(output)

    for layer in layers:
        layer.register_forward_hook(note, with_kwargs=True)
    probed = introspect(mine, tokens, 2)
    context = mine.encode(tokens)
    P, cells = mine.config.prefix_length, 20
    attention = probed.attention[mine.updates[-1]]
    for place, (layer, weights) in enumerate(zip(layers, attention, strict=True)):
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


def test_changes_are_those_of_each_update_in_turn():
    mine, tokens = model(L_cycles=1, H_cycles=1), canvases()
    context = mine.encode(tokens)
    states = [mine.initial_state(context)]
    with torch.no_grad():
        for _ in range(3):
            states.append(mine.iterate(context, states[-1]))
    probed = introspect(mine, tokens, 3)
    for name, changes in probed.changes.items():
        values = [getattr(state, name) for state in states]
        expected = [(new - old).square().mean((1, 2)).sqrt() for old, new in pairwise(values)]
        torch.testing.assert_close(changes[:, 0], torch.stack(expected))


def test_there_are_as_many_changes_as_cycles():
    probed = introspect(model(), canvases(), 4)
    assert {name: part.shape for name, part in probed.changes.items()} == {
        "z_H": (4, 2, 2),
        "z_L": (4, 6, 2),
    }
    assert list(probed.attention) == ["z_L", "z_H"]
    assert {part.shape for part in probed.attention.values()} == {(2, 2, 2, 20, 20)}


def test_a_mixer_has_no_attention():
    mixer = model(block="mixer", position="none", height=4, width=5)
    probed = introspect(mixer, canvases(), 1)
    assert probed.attention == {}
    assert probed.changes["z_H"].shape == (1, 2, 2)


def test_no_step_is_refused():
    with pytest.raises(ValueError, match="at least one supervision step, not 0"):
        introspect(model(), canvases(), 0)


def test_a_model_that_tells_no_updates_is_compared_from_step_to_step(monkeypatch):
    mine, tokens = model(), canvases()
    whole = introspect(mine, tokens, 3).changes["z_H"]
    monkeypatch.setattr(type(mine), "updates", ())
    probed = introspect(mine, tokens, 3)
    assert {name: part.shape for name, part in probed.changes.items()} == {
        "z_H": (3, 1, 2),
        "z_L": (3, 1, 2),
    }
    assert probed.attention == {}
    assert not torch.allclose(probed.changes["z_H"][:, 0], whole[:, 0])


@pytest.mark.parametrize("position", ["relative_2d", "shaw"])
@pytest.mark.parametrize("loops", [1, 2])
def test_the_attention_of_a_gpt_is_the_one_that_made_the_answer(loops, position):
    torch.manual_seed(0)
    config = GPTConfig(4, 5, hidden_size=16, num_heads=2, num_layers=2, loops=loops)
    gpt = GPT(replace(config, position=position)).eval()
    for parameter in gpt.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ids = torch.randint(1, 15, (3, 9), generator=torch.Generator().manual_seed(0))
    given, made = [], []

    def note(_, arguments, output):
        given.append(arguments[0])
        made.append(output)

    for layer in gpt.layers:
        layer.attention.register_forward_hook(note)
    weights = gpt_attention(gpt, ids, 4, 5)
    assert weights.shape == (2 * loops, 3, 2, 9, 9)
    assert not weights.triu(1).any()
    for number, (x, output) in enumerate(zip(given, made, strict=True)):
        attention = gpt.layers[number % 2].attention
        _, _, v = attention.project(x)
        averaged = attention.out((weights[number] @ v).transpose(1, 2).flatten(2))
        torch.testing.assert_close(averaged, output, rtol=1e-4, atol=1e-5)
