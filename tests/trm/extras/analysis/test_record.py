"""Records are inputs and outputs of modules, and what is put there is computed with."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import tiny_trm
from torch import nn

from canvas.symbols import BLANK, MASK
from trm.extras.analysis import record
from trm.extras.analysis.record import Recorder, SequenceRecorder, StepRecorder
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.models.recursive import TinyRecursiveModel
from trm.models.states import named


def model(**more) -> TinyRecursiveModel:
    cycles = {"num_layers": 2, "H_cycles": 2, "L_cycles": 3}
    return tiny_trm(**cycles | {"position": "relative_2d"} | more)


def gpt(position: str = "relative_2d", loops: int = 1) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(4, 5, hidden_size=16, num_heads=2, num_layers=2, loops=loops)
    made = GPT(replace(config, position=position)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def canvases() -> np.ndarray:
    """One full canvas, and one with fewer tokens than cells."""
    tokens = np.full((2, 4, 5), BLANK, dtype=np.uint8)
    tokens[0] = np.random.default_rng(1).integers(1, 11, (4, 5))
    tokens[:, 0, 1:4] = 2, 3, 4
    tokens[:, 2] = MASK
    return tokens


def hooks_of(model: nn.Module) -> list:
    parts = model.modules()
    return [hook for part in parts for hook in (*part._forward_hooks, *part._forward_pre_hooks)]


def test_a_record_changes_nothing_and_has_a_value_per_call():
    mine, tokens = model(), torch.from_numpy(canvases())
    before = mine(tokens, steps=2)
    recorder = StepRecorder(mine, canvases(), 2)
    sites = [site for of_update in recorder.layers().values() for site in of_update]
    found = recorder.run([*recorder.inputs(), *sites, *recorder.states([1, 2])])
    assert torch.equal(found.logits, before[0])
    assert [len(found.values[site]) for site in sites] == [2] * len(sites)
    assert torch.equal(mine(tokens, steps=2)[0], before[0])
    assert hooks_of(mine) == []
    # The last layer's output in the last update of a step is the state after it.
    recorder = StepRecorder(model(), canvases(), 3)
    before, last = recorder.layers(2)["z_H"]
    state = recorder.states([2])[0]
    values = recorder.run([last, state]).values
    assert torch.equal(values[last][0], values[state][list(named(recorder.initial)).index("z_H")])
    given = last._replace(of=("blocks.1.input",))
    values = recorder.run([given, before]).values
    assert torch.equal(values[given][0], values[before][0])


@pytest.mark.parametrize("kind", ["input", "output"])
@pytest.mark.parametrize("family", ["steps", "sequence"])
def test_replaced_values_are_used_and_no_hook_stays(kind, family):
    recorder: Recorder = SequenceRecorder(gpt(), canvases())
    if family == "steps":
        recorder = StepRecorder(model(), canvases(), 2)
    (*_, (*_, last)) = recorder.layers().values()
    site = last._replace(of=(f"blocks.1.{kind}",))
    base = recorder.run([site])
    swapped = recorder.run([site], change=lambda _, n, value: base.values[site][n].flip(0))
    assert torch.equal(swapped.values[site][-1], base.values[site][-1].flip(0))
    if kind == "output":  # the answer is read from it
        alone = recorder.run([site], [1, 0]).logits
        assert not torch.allclose(swapped.logits, base.logits)
        if family == "sequence":
            torch.testing.assert_close(swapped.logits, alone)
    with pytest.raises(ZeroDivisionError):
        recorder.run(recorder.heads(), change=lambda *_: 1 / 0)
    assert hooks_of(recorder.model) == []


PREFIX = {"position": "rope_2d", "num_prefixes": 1, "prefix_length": 3}


@pytest.mark.parametrize("how", [{"skip_blank": True}, PREFIX])
def test_attention_between_cells_is_that_of_their_tokens(how):
    recorder = StepRecorder(model(**how), canvases(), 2)
    found = record.cell_attention(recorder.model, canvases(), 2)["z_H"]
    weights = recorder.attention(2)["z_H"][..., -recorder.length :, -recorder.length :]
    for sample, places in enumerate(recorder.cells):
        there = places[places < 20]
        of_tokens = weights[:, sample, :, : len(there), : len(there)]
        assert torch.equal(found[:, sample][..., there[:, None], there], of_tokens)
        none = np.setdiff1d(np.arange(20), there)
        assert not found[:, sample][..., none, :].any()


def test_models_without_updates_have_no_layers_and_no_heads(monkeypatch):
    mine = model()
    assert list(record.cell_attention(mine, canvases(), 4)) == ["z_L", "z_H"]
    monkeypatch.setattr(type(mine), "updates", ())
    assert record.cell_attention(mine, canvases(), 3) == {}
    with pytest.raises(ValueError, match="heads of TinyRecursiveModel cannot be patched"):
        StepRecorder(mine, canvases(), 1).heads()


def test_a_cell_that_is_no_token_is_refused_with_those_that_are():
    canvas = canvases()[1]
    for cell in ((0, 1), (0, 3), (2, 0)):
        record.check_token(model(skip_blank=True), canvas, cell)
    record.check_token(model(), canvas, (3, 4))  # all cells are tokens
    record.check_token(model(crop=True), canvas, (1, 2))  # within the box of what is not blank
    with pytest.raises(ValueError, match=r"the cell 2,3 is blank .* tokens: 1: 2-4; 3: 1-5$"):
        record.check_token(model(skip_blank=True), canvas, (1, 2))
    with pytest.raises(ValueError, match=r"tokens: 1: 1-5; 2: 1-5; 3: 1-5$"):
        record.check_token(model(crop=True), canvas, (3, 0))
