"""Published weights give the numbers of the code that they were published with."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from trm.models.interop import load_nanogpt, load_reference_trm
from trm.models.iterative import Loop
from trm.training.losses import stablemax_cross_entropy

REFERENCE = Path(__file__).parents[2] / "reference"
TRMS = ["rope1d", "learned"]
GPTS = {
    "abs_learned": "learned",
    "sinusodial": "sinusoidal",
    "custom_pid": "learned_2d",
    "rope_2d": "rope_2d",
}
NO_SYMBOL = 99  # an end that never comes


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


def load_gpt(numbers, weights=None, **changes):
    settings = {"height": 6, "width": 7, "num_heads": 4} | changes
    return load_nanogpt(weights or params(numbers), **settings)


def losses(logits, halt_logits, labels):
    labelled = labels != -100
    counts = labelled.sum(-1)
    tokens = stablemax_cross_entropy(logits, labels)
    lm = (tokens / counts.clamp(min=1).unsqueeze(-1)).sum()
    right = ((logits.argmax(-1) == labels) & labelled).sum(-1) == counts
    return lm, F.binary_cross_entropy_with_logits(halt_logits, right.float(), reduction="sum")


def error(ours, expected, floor=0.0):
    """The largest difference, by the largest number."""
    ours, expected = ours.detach().numpy(), np.asarray(expected)
    return np.abs(ours - expected).max() / max(floor, np.abs(expected).max())


def check_gradients(model, numbers, group, load):
    """The gradients of all weights that have one there, loaded as if they were weights."""
    theirs = params(numbers, group=group)
    weights = params(numbers)
    weights |= {key: value for key, value in theirs.items() if key in weights}
    if "transformer.wte.weight" in weights:  # the head is the embedding
        weights.pop("lm_head.weight", None)
    expected, same = load(weights).state_dict(), load(params(numbers)).state_dict()
    for name, parameter in model.named_parameters():
        if not torch.equal(expected[name], same[name]):
            twice = 2 if name == "position.prefix" else 1  # theirs of the start's row and column
            assert error(twice * parameter.grad, expected[name]) <= 1e-4, name
        else:
            assert name == "prefix"


def four_steps(numbers, dtype):
    """What each of four supervision steps says, by the reference's names."""
    model = load_trm(numbers).to(dtype)
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
    labels = torch.tensor(numbers["batch/labels"]).long()
    lm, halt = losses(logits.flatten(1, 2), halt_logits, labels)
    total = lm + 0.5 * halt
    assert error(total, numbers["grad_step0/total_loss"], floor=1.0) <= 1e-5
    total.backward()
    check_gradients(model, numbers, "grad_step0/", lambda some: load_trm(numbers, some))


def test_wrapped_and_saved_weights_load(tmp_path):
    torch.save(params(read("trm_learned"), "_orig_mod.model.inner."), tmp_path / "step_100")
    model = load_reference_trm(tmp_path / "step_100", height=4, width=9, num_heads=4)
    assert (model.config.position, model.config.prefix_length) == ("learned", 4)
    assert model.config.intermediate_size == 256


@pytest.mark.parametrize(("numbers_learned", "tokens"), [(1, 1), (32, 1), (33, 2), (70, 3)])
def test_a_prefix_length_of_0_is_as_many_tokens_as_the_embedding_fills(numbers_learned, tokens):
    weights = params(read("trm_rope1d"))
    weights["puzzle_emb.weights"] = torch.ones(3, numbers_learned)
    model = load_reference_trm(weights, height=4, width=9, num_heads=4, prefix_length=0)
    assert model.config.hidden_size == 32
    assert model.config.prefix_length == tokens


@pytest.mark.parametrize("kind", GPTS)
def test_logits_loss_and_gradients_match_nanogpt(kind):
    numbers = read(f"gpt_{kind}")
    model = load_gpt(numbers)
    assert model.config.position == GPTS[kind]
    logits = model(torch.tensor(numbers["idx"]), 6, 7)
    loss = F.cross_entropy(logits.flatten(0, 1), torch.tensor(numbers["targets"]).flatten())
    assert error(logits, numbers["logits"]) <= 1e-5
    assert abs(loss.item() - numbers["loss"]) <= 1e-5
    loss.backward()
    check_gradients(model, numbers, "grad/", lambda some: load_gpt(numbers, some))


@pytest.mark.parametrize("kind", GPTS)
def test_greedy_continuations_match_nanogpt(kind):
    numbers = read(f"gpt_{kind}")
    expected = torch.tensor(numbers["greedy_from_12"])
    forced = expected.clone()
    forced[:, 12:] = -1
    ids, log_probs = load_gpt(numbers).generate(forced, 6, 7, NO_SYMBOL)
    assert torch.equal(ids, expected)
    assert (log_probs[:, :12] == 0).all()
    assert (log_probs[:, 12:] < 0).all()


def test_a_training_checkpoint_says_its_heads_itself(tmp_path):
    numbers = read("gpt_abs_learned")
    checkpoint = {
        "model": params(numbers, "_orig_mod."),
        "optimizer": {"state": {}, "param_groups": []},
        "model_args": {"n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 17, "dropout": 0.1},
        "best_val_loss": torch.tensor(1.5),
    }
    torch.save(checkpoint, tmp_path / "ckpt.pt")
    model = load_nanogpt(tmp_path / "ckpt.pt", height=6, width=7)
    assert model.config.num_heads == 4
    assert error(model.eval()(torch.tensor(numbers["idx"]), 6, 7), numbers["logits"]) <= 1e-5
    with pytest.raises(ValueError, match="has num_heads 4, not 2: leave num_heads out"):
        load_nanogpt(checkpoint, height=6, width=7, num_heads=2)


@pytest.mark.parametrize("kind", ["abs_learned", "custom_pid"])
def test_a_learned_table_that_is_longer_than_needed_is_cut(kind):
    numbers = read(f"gpt_{kind}")
    whole, cut = load_gpt(numbers), load_gpt(numbers, height=4)
    assert cut.num_parameters < whole.num_parameters
    ids = torch.tensor(numbers["idx"])[:, : 1 + 4 * 8]
    torch.testing.assert_close(cut(ids, 4, 7), whole(ids, 6, 7))
    with pytest.raises(ValueError, match=r"a 7 x 7 canvas needs .* Check height and width"):
        load_gpt(numbers, height=7)


@pytest.mark.parametrize("load", [load_reference_trm, load_nanogpt])
@pytest.mark.parametrize(
    ("key", "looks"),
    [
        ("pytorch-lightning_version", "a Lightning checkpoint"),
        ("H_level.layers.0.mlp.down_proj.weight", "an HRM"),
        ("layers.0.attention.qkv.weight", "a state dict of this package"),
        ("weight", "it has weight"),
    ],
)
def test_a_file_of_another_kind_is_named(load, key, looks):
    with pytest.raises(ValueError, match=looks):
        load({key: torch.zeros(1)}, height=4, width=9)


def test_what_does_not_fit_or_is_not_said_is_refused(tmp_path):
    path = tmp_path / "notes.pt"
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match=r"notes\.pt is not a file of plain tensors"):
        load_reference_trm(path, height=4, width=9)
    with pytest.raises(ValueError, match="does not fit a 4 x 8 canvas"):
        load_trm(read("trm_learned"), width=8)
    numbers = read("gpt_abs_learned")
    with pytest.raises(ValueError, match="has a head of its own"):
        load_gpt(numbers | {"param/lm_head.weight": np.zeros((17, 32), np.float32)})
    name = "param/transformer.h.1.attn.c_attn.weight"
    with pytest.raises(ValueError, match="does not fit nanoGPT's shape"):
        load_gpt(numbers | {name: numbers[name].T})
    numbers = read("gpt_sinusodial")
    with pytest.raises(ValueError, match="does not say its num_heads: give num_heads"):
        load_gpt(numbers, num_heads=None)
    del numbers["param/sinusoidal_pe"]
    with pytest.raises(ValueError, match="does not say its position"):
        load_gpt(numbers)
    logits = load_gpt(numbers, position="sinusoidal")(torch.tensor(numbers["idx"]), 6, 7)
    assert error(logits, numbers["logits"]) <= 1e-5
