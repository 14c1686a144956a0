"""The reference's weights give the reference's numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from trm.models.interop import load_reference_trm, to_reference_state_dict
from trm.models.iterative import Loop
from trm.training.losses import stablemax_cross_entropy

REFERENCE = Path(__file__).parents[2] / "reference"
KINDS = ["rope1d", "learned", "mixer"]


def read(kind):
    with np.load(REFERENCE / f"trm_{kind}.npz") as file:
        return {key: file[key] for key in file}


def params(numbers):
    return {
        key.removeprefix("param/"): torch.tensor(value)
        for key, value in numbers.items()
        if key.startswith("param/")
    }


def load(numbers, prefix="", **changes):
    config = {
        key: int(numbers[f"config/{key}"]) for key in ("num_heads", "H_cycles", "L_cycles")
    } | {"height": 4, "width": 9, "prefix_length": int(numbers["config/puzzle_emb_len"])}
    weights = {prefix + key: value for key, value in params(numbers).items()}
    return load_reference_trm(weights, **(config | changes))


def losses(logits, halt_logits, labels):
    labelled = labels != -100
    counts = labelled.sum(-1)
    tokens = stablemax_cross_entropy(logits, labels)
    lm = (tokens / counts.clamp(min=1).unsqueeze(-1)).sum()
    right = ((logits.argmax(-1) == labels) & labelled).sum(-1) == counts
    return lm, F.binary_cross_entropy_with_logits(halt_logits, right.float(), reduction="sum")


def close(ours, expected, tolerance):
    expected = np.asarray(expected)
    ours = ours.detach().numpy()
    assert np.abs(ours - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


def four_steps(numbers, dtype):
    """What each of four supervision steps says, by the reference's names."""
    model = load(numbers).to(dtype)
    inputs = torch.tensor(numbers["batch/inputs"]).view(-1, 4, 9)
    labels = torch.tensor(numbers["batch/labels"]).long()
    loop = Loop(model, inputs, torch.tensor(numbers["batch/puzzle_identifiers"]))
    for _ in range(4):
        loop.step()
        logits, halt_logits = loop.read()
        lm, halt = losses(logits.flatten(1, 2), halt_logits, labels)
        yield {
            "logits": logits.flatten(1, 2),
            "q_halt_logits": halt_logits,
            "lm_loss": lm,
            "q_halt_loss": halt,
        }


@pytest.mark.parametrize("kind", KINDS)
def test_four_supervision_steps_match_the_reference(kind):
    numbers = read(kind)
    walks = four_steps(numbers, torch.float32), four_steps(numbers, torch.float64)
    for step, (said, exact) in enumerate(zip(*walks, strict=True)):
        # Rounding grows from step to step, in the reference's numbers as in these: as much as
        # float32 and float64 differ here, by which processors differ, too.
        rounding = (said["logits"] - exact["logits"]).abs().max() / exact["logits"].abs().max()
        tolerance = 1e-5 + 3 * rounding.item() * (step > 0)
        assert tolerance < 5e-3
        for name, value in said.items():
            close(value, numbers[f"step{step}/{name}"], tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_gradient_matches_the_reference(kind):
    numbers = read(kind)
    model = load(numbers)
    inputs = torch.tensor(numbers["batch/inputs"]).view(-1, 4, 9)
    context = model.encode(inputs, torch.tensor(numbers["batch/puzzle_identifiers"]))
    logits, halt_logits = model.read(model.iterate(context, model.initial_state(context)), context)
    labels = torch.tensor(numbers["batch/labels"]).long()
    lm, halt = losses(logits.flatten(1, 2), halt_logits, labels)
    total = lm + 0.5 * halt
    close(total, numbers["grad_step0/total_loss"], 1e-5)
    total.backward()
    for parameter in model.parameters():
        parameter.data = parameter.grad  # so that the gradients, too, can be renamed
    gradients = to_reference_state_dict(model)
    for key, expected in numbers.items():
        if key.startswith("grad_step0/") and "total" not in key:
            ours = gradients[key.removeprefix("grad_step0/")].numpy()
            error = np.abs(ours - expected).max() / np.abs(expected).max()
            assert error <= 1e-4, (key, error)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_go_back_under_the_reference_names_unchanged(kind):
    numbers = read(kind)
    back = to_reference_state_dict(load(numbers))
    assert back.keys() == params(numbers).keys()
    assert all(torch.equal(back[key], value) for key, value in params(numbers).items())


def test_wrapped_and_saved_weights_load(tmp_path):
    numbers = read("learned")
    wrapped = {f"_orig_mod.model.inner.{key}": value for key, value in params(numbers).items()}
    torch.save(wrapped, tmp_path / "step_100")
    model = load_reference_trm(tmp_path / "step_100", height=4, width=9, num_heads=4)
    assert (model.config.position, model.config.prefix_length) == ("learned", 4)
    assert model.config.intermediate_size == 256


@pytest.mark.parametrize(("numbers_learned", "tokens"), [(1, 1), (32, 1), (33, 2), (70, 3)])
def test_a_prefix_length_of_0_is_as_many_tokens_as_the_embedding_fills(numbers_learned, tokens):
    weights = params(read("rope1d"))
    weights["puzzle_emb.weights"] = torch.ones(3, numbers_learned)
    model = load_reference_trm(weights, height=4, width=9, num_heads=4, prefix_length=0)
    assert model.config.hidden_size == 32
    assert model.config.prefix_length == tokens


@pytest.mark.parametrize(
    ("weights", "looks"),
    [
        ({"transformer.wte.weight": torch.zeros(1)}, "a nanoGPT checkpoint"),
        ({"pytorch-lightning_version": "2.6.6"}, "a Lightning checkpoint"),
        ({"H_level.layers.0.mlp.down_proj.weight": torch.zeros(1)}, "an HRM"),
        ({"weight": torch.zeros(1)}, "it has weight"),
    ],
)
def test_a_file_of_another_kind_is_named(weights, looks):
    with pytest.raises(ValueError, match=looks):
        load_reference_trm(weights, height=4, width=9)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "notes.pt"
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match=r"notes\.pt is not a file of plain tensors"):
        load_reference_trm(path, height=4, width=9)


def test_a_canvas_that_does_not_fit_the_weights_is_refused():
    with pytest.raises(ValueError, match="does not fit a 4 x 8 canvas"):
        load(read("mixer"), width=8)
