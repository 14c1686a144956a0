"""nanoGPT's weights, and its canvas variants', give their numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.models.interop import load_nanogpt, load_reference_trm, to_nanogpt_state_dict

REFERENCE = Path(__file__).parents[2] / "reference"
KINDS = {
    "abs_learned": "learned",
    "sinusodial": "sinusoidal",
    "custom_pid": "learned_2d",
    "rope_2d": "rope_2d",
}
NO_SYMBOL = 99  # an end that never comes


def read(kind):
    with np.load(REFERENCE / f"gpt_{kind}.npz") as file:
        return {key: file[key] for key in file}


def params(numbers, prefix=""):
    return {
        prefix + key.removeprefix("param/"): torch.tensor(value)
        for key, value in numbers.items()
        if key.startswith("param/")
    }


def load(numbers, **changes):
    return load_nanogpt(params(numbers), **({"height": 6, "width": 7, "num_heads": 4} | changes))


def error(ours, expected):
    return np.abs(ours.detach().numpy() - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("kind", KINDS)
def test_logits_loss_and_gradients_match_the_reference(kind):
    numbers = read(kind)
    model = load(numbers)
    assert model.config.position == KINDS[kind]
    logits = model(torch.tensor(numbers["idx"]), 6, 7)
    loss = F.cross_entropy(logits.flatten(0, 1), torch.tensor(numbers["targets"]).flatten())
    assert error(logits, numbers["logits"]) <= 1e-5
    assert abs(loss.item() - numbers["loss"]) <= 1e-5
    loss.backward()
    for parameter in model.parameters():
        parameter.data = parameter.grad  # so that the gradients, too, can be renamed
    gradients = to_nanogpt_state_dict(model)
    if kind == "custom_pid":  # the start token's row and column are one vector here
        gradients["transformer.wpe_w.weight"][0] = gradients["transformer.wpe_h.weight"][0]
    expected = {
        key.removeprefix("grad/"): value
        for key, value in numbers.items()
        if key.startswith("grad/")
    }
    assert gradients.keys() == expected.keys() | {"lm_head.weight"}
    for key, value in expected.items():
        assert error(gradients[key], value) <= 1e-4, key


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_continuations_match_the_reference(kind, cached):
    numbers = read(kind)
    expected = torch.tensor(numbers["greedy_from_12"])
    forced = expected.clone()
    forced[:, 12:] = -1
    ids, log_probs = load(numbers).generate(forced, 6, 7, NO_SYMBOL, cached=cached)
    assert torch.equal(ids, expected)
    assert (log_probs[:, :12] == 0).all()
    assert (log_probs[:, 12:] < 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_go_back_under_nanogpts_names(kind):
    numbers = read(kind)
    back = to_nanogpt_state_dict(load(numbers))
    assert back.keys() <= params(numbers).keys()
    for key, value in back.items():
        if ".wpe_" in key:  # row 0 and column 0 are the start token's: only their sum counts
            assert torch.equal(value[1:], params(numbers)[key][1:])
        else:
            assert torch.equal(value, params(numbers)[key])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("position", KINDS.values())
def test_our_weights_survive_the_journey_there_and_back(position, bias):
    torch.manual_seed(0)
    sizes = {"height": 3, "width": 4, "hidden_size": 16, "num_heads": 2, "num_layers": 2}
    model = GPT(GPTConfig(**sizes, intermediate_size=24, position=position, bias=bias))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)  # biases and gains, too
    silent = position if position in ("sinusoidal", "rope_2d") else None
    back = load_nanogpt(
        to_nanogpt_state_dict(model), height=3, width=4, num_heads=2, position=silent
    )
    assert back.config == model.config
    ours = model.state_dict()
    assert back.state_dict().keys() == ours.keys()
    assert all(torch.equal(value, ours[key]) for key, value in back.state_dict().items())


def test_a_training_checkpoint_says_its_heads_itself(tmp_path):
    numbers = read("abs_learned")
    arguments = {"n_layer": 2, "n_head": 4, "n_embd": 32, "block_size": 49, "bias": False}
    checkpoint = {
        "model": params(numbers, "_orig_mod."),
        "optimizer": {"state": {}, "param_groups": []},
        "model_args": arguments | {"vocab_size": 17, "dropout": 0.1},
        "iter_num": 100,
        "best_val_loss": torch.tensor(1.5),
        "config": {"dataset": "multiplication"},
    }
    torch.save(checkpoint, tmp_path / "ckpt.pt")
    model = load_nanogpt(tmp_path / "ckpt.pt", height=6, width=7)
    assert model.config.num_heads == 4
    logits = model.eval()(torch.tensor(numbers["idx"]), 6, 7)
    assert error(logits, numbers["logits"]) <= 1e-5
    with pytest.raises(ValueError, match="has num_heads 4, not 2: leave num_heads out"):
        load_nanogpt(checkpoint, height=6, width=7, num_heads=2)


@pytest.mark.parametrize("kind", ["abs_learned", "custom_pid"])
def test_a_learned_table_that_is_longer_than_needed_is_cut(kind):
    numbers = read(kind)
    whole, cut = load(numbers), load(numbers, height=4)
    assert cut.num_parameters < whole.num_parameters
    ids = torch.tensor(numbers["idx"])[:, : 1 + 4 * 8]
    torch.testing.assert_close(cut(ids, 4, 7), whole(ids, 6, 7))
    with pytest.raises(ValueError, match=r"a 7 x 7 canvas needs .* Check height and width"):
        load(numbers, height=7)


def test_nanogpts_causal_mask_is_no_weight():
    weights = params(read("abs_learned"))
    weights["transformer.h.0.attn.bias"] = torch.ones(1, 1, 49, 49).tril()
    load_nanogpt(weights, height=6, width=7, num_heads=4)


def test_what_a_file_does_not_say_has_to_be_given():
    numbers = read("sinusodial")
    with pytest.raises(ValueError, match="does not say its num_heads: give num_heads"):
        load(numbers, num_heads=None)
    del numbers["param/sinusoidal_pe"]
    with pytest.raises(ValueError, match="does not say its position"):
        load(numbers)
    with pytest.raises(ValueError, match="Did you mean sinusoidal"):
        load(numbers, position="sinusodial")
    logits = load(numbers, position="sinusoidal")(torch.tensor(numbers["idx"]), 6, 7)
    assert error(logits, numbers["logits"]) <= 1e-5


@pytest.mark.parametrize(
    ("weights", "looks"),
    [
        ({"pytorch-lightning_version": "2.6.6"}, "a Lightning checkpoint"),
        ({"L_level.layers.0.mlp.down_proj.weight": torch.zeros(1)}, "a reference TRM"),
        ({"layers.0.attention.qkv.weight": torch.zeros(1)}, "a state dict of this package"),
        ({"transformer.wte.weight": torch.zeros(1)}, "nanoGPT checkpoint. It lacks transformer.h"),
        ({"weight": torch.zeros(1)}, "it has weight"),
    ],
)
def test_a_file_of_another_kind_is_named(weights, looks):
    with pytest.raises(ValueError, match=looks):
        load_nanogpt(weights, height=6, width=7)


def test_a_nanogpt_is_no_reference_trm():
    with pytest.raises(ValueError, match="looks like a nanoGPT checkpoint"):
        load_reference_trm(params(read("rope_2d")), height=6, width=7)


def test_a_head_of_its_own_and_transposed_weights_are_refused():
    weights = params(read("abs_learned"))
    with pytest.raises(ValueError, match="has a head of its own"):
        load_nanogpt(
            weights | {"lm_head.weight": torch.zeros(17, 32)}, height=6, width=7, num_heads=4
        )
    name = "transformer.h.1.attn.c_attn.weight"
    with pytest.raises(ValueError, match="does not fit nanoGPT's shape"):
        load_nanogpt(weights | {name: weights[name].T}, height=6, width=7, num_heads=4)


def test_positions_that_nanogpt_does_not_know_stay_here():
    sizes = {"height": 3, "width": 4, "hidden_size": 16, "num_heads": 2, "num_layers": 1}
    with pytest.raises(ValueError, match="this model has alibi"):
        to_nanogpt_state_dict(GPT(GPTConfig(**sizes, position="alibi")))
