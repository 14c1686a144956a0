"""What a probe reads off is what the model did."""

from itertools import pairwise

import pytest
import torch

from canvas.symbols import BLANK, MASK
from trm.models import recursive
from trm.models.layers import Attention
from trm.models.probe import probe
from trm.models.recursive import RecursiveConfig, TinyRecursiveModel

SHAPE = {"hidden_size": 16, "num_heads": 2, "num_layers": 2, "intermediate_size": 16}


def model(**more) -> TinyRecursiveModel:
    torch.manual_seed(0)
    settings = {"H_cycles": 2, "L_cycles": 3, "position": "relative_2d", **more}
    return TinyRecursiveModel(RecursiveConfig(**SHAPE, **settings)).eval()


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
    probe(mine, tokens, 2)
    after = mine(tokens, steps=2)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    for part in mine.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"tokens": "written"},
        {"position": "rope_2d", "num_prefixes": 1, "prefix_length": 3},
        {"tokens": "written", "neighbourhood": "horizon", "radius": 1},
        {"tokens": "written", "neighbourhood": "horizon", "radius": 1, "few": True},
    ],
    ids=["all", "written", "prefix", "horizon", "listed"],
)
def test_the_attention_is_the_one_that_made_the_answer(how, monkeypatch):
    """Values averaged by it and projected are what the attention layer gave."""
    if how.pop("few", False):
        monkeypatch.setattr(recursive, "FEW_FROM", 0)
    mine, tokens = model(**how), canvases()
    given, made = [], []
    layers = [layer for layer in mine.modules() if isinstance(layer, Attention)]

    def note(_, arguments, output):
        given.append(arguments)
        made.append(output)

    for layer in layers:
        layer.register_forward_hook(note)
    probed = probe(mine, tokens, 2)
    context = mine.encode(tokens)
    P, cells = mine.config.prefix_length, 20
    for place, (layer, weights) in enumerate(zip(layers, probed.attention_H, strict=True)):
        x, rotation, *_ = given[place - len(layers)]
        _, _, v = layer.project(x, rotation)
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
    probed = probe(mine, tokens, 3)
    for name, changes in (("z_H", probed.changes_H), ("z_L", probed.changes_L)):
        values = [getattr(state, name) for state in states]
        expected = [(new - old).square().mean((1, 2)).sqrt() for old, new in pairwise(values)]
        torch.testing.assert_close(changes[:, 0], torch.stack(expected))


def test_there_are_as_many_changes_as_cycles():
    probed = probe(model(), canvases(), 4)
    assert probed.changes_H.shape == (4, 2, 2)
    assert probed.changes_L.shape == (4, 6, 2)
    assert probed.attention_L.shape == probed.attention_H.shape == (2, 2, 2, 20, 20)


def test_a_mixer_has_no_attention():
    mixer = model(block="mixer", position="none", height=4, width=5)
    probed = probe(mixer, canvases(), 1)
    assert probed.attention_H is None
    assert probed.changes_H.shape == (1, 2, 2)


def test_no_step_is_refused():
    with pytest.raises(ValueError, match="at least one supervision step, not 0"):
        probe(model(), canvases(), 0)
