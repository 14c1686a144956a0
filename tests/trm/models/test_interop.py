"""Published weights give the numbers of the code that they were published with."""

from pathlib import Path

import numpy as np
import pytest
import torch

from canvas.symbols import PAD
from trm.models.interop import load_reference_trm
from trm.models.iterative import Loop
from trm.training.step import step_loss

REFERENCE = Path(__file__).parents[2] / "reference"
TRMS = ["rope1d", "learned"]


def read(kind):
    with np.load(REFERENCE / f"{kind}.npz") as file:
        return {key: file[key] for key in file}


def params(numbers, prefix="", group="param/"):
    return {
        prefix + key.removeprefix(group): torch.tensor(value)
        for key, value in numbers.items()
        if key.startswith(group)
    }


def load_trm(numbers, weights=None, **changes):
    config = {
        key: int(numbers[f"config/{key}"]) for key in ("num_heads", "H_cycles", "L_cycles")
    } | {"height": 4, "width": 9, "prefix_length": int(numbers["config/puzzle_emb_len"])}
    return load_reference_trm(weights or params(numbers), **(config | changes))


def error(ours, expected, floor=0.0):
    """The largest difference, by the largest number."""
    ours, expected = ours.detach().numpy(), np.asarray(expected)
    return np.abs(ours - expected).max() / max(floor, np.abs(expected).max())


def four_steps(numbers, dtype):
    """What each of four supervision steps says, by the reference's names."""
    model = load_trm(numbers).to(dtype)
    inputs = torch.tensor(numbers["batch/inputs"]).view(-1, 4, 9)
    loop = Loop(model, inputs, torch.tensor(numbers["batch/puzzle_identifiers"]))
    for _ in range(4):
        loop.step()
        logits, halt_logits = loop.read()
        yield {"logits": logits.flatten(1, 2), "q_halt_logits": halt_logits}


@pytest.mark.parametrize("kind", TRMS)
def test_four_supervision_steps_match_the_reference(kind):
    numbers = read(f"trm_{kind}")
    walks = four_steps(numbers, torch.float32), four_steps(numbers, torch.float64)
    for step, (said, exact) in enumerate(zip(*walks, strict=True)):
        # Rounding grows from step to step, in the reference's numbers as in these: as much as
        # float32 and float64 differ here, by which processors differ, too.
        rounding = (said["logits"] - exact["logits"]).abs().max() / exact["logits"].abs().max()
        tolerance = 1e-5 + 3 * rounding.item() * (step > 0)
        assert tolerance < 5e-3
        for name, value in said.items():
            assert error(value, numbers[f"step{step}/{name}"], floor=1.0) <= tolerance


@pytest.mark.parametrize("kind", TRMS)
def test_the_first_gradient_matches_the_reference(kind):
    numbers = read(f"trm_{kind}")
    model = load_trm(numbers)
    inputs = torch.tensor(numbers["batch/inputs"]).view(-1, 4, 9)
    loop = Loop(model, inputs, torch.tensor(numbers["batch/puzzle_identifiers"]))
    loop.step()
    logits, halt_logits = loop.read()
    labels = torch.tensor(numbers["batch/labels"]).view(-1, 4, 9)
    answer = labels != -100
    labels = labels.masked_fill(~answer, PAD).to(torch.uint8)
    step = step_loss(logits, halt_logits, labels, answer, loss="stablemax")
    total = len(labels) * step["loss"]
    assert error(total, numbers["grad_step0/total_loss"], floor=1.0) <= 1e-5
    total.backward()
    weights, theirs = params(numbers), params(numbers, group="grad_step0/")
    gradients = weights | {key: theirs[key] for key in weights.keys() & theirs.keys()}
    expected, same = (load_trm(numbers, one).state_dict() for one in (gradients, weights))
    for name, parameter in model.named_parameters():
        if torch.equal(expected[name], same[name]):
            assert name == "prefix"  # of which none is given
        else:
            assert error(parameter.grad, expected[name]) <= 1e-4, name


def test_wrapped_weights_load_and_what_does_not_fit_is_refused(tmp_path):
    torch.save(params(read("trm_learned"), "_orig_mod.model.inner."), tmp_path / "step_100")
    model = load_reference_trm(tmp_path / "step_100", height=4, width=9, num_heads=4)
    assert (model.config.position, model.config.prefix_length) == ("learned", 4)
    assert model.config.intermediate_size == 256
    path = tmp_path / "notes.pt"
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match=r"notes\.pt is not a file of plain tensors"):
        load_reference_trm(path, height=4, width=9)
    with pytest.raises(ValueError, match="no weights of a reference TRM: they lack 'embed_tokens"):
        load_reference_trm({"layers.0.attention.qkv.weight": torch.zeros(1)}, height=4, width=9)
    with pytest.raises(ValueError, match="does not fit a 4 x 8 canvas"):
        load_trm(read("trm_learned"), width=8)


@pytest.mark.parametrize(("numbers_learned", "tokens"), [(1, 1), (32, 1), (33, 2), (70, 3)])
def test_a_prefix_length_of_0_is_as_many_tokens_as_the_embedding_fills(numbers_learned, tokens):
    weights = params(read("trm_rope1d"))
    weights["puzzle_emb.weights"] = torch.ones(3, numbers_learned)
    model = load_reference_trm(weights, height=4, width=9, num_heads=4, prefix_length=0)
    assert model.config.hidden_size == 32
    assert model.config.prefix_length == tokens
