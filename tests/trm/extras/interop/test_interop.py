"""Weights of others give the numbers of the code that they were trained with, and go back."""

import enum
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml

from canvas.symbols import PAD, START, encode
from trm.extras.interop.nanogpt import load_nanogpt, nanogpt_checkpoint
from trm.extras.interop.reference_trm import load_reference_trm, reference_settings, reference_state
from trm.extras.interop.token_ids import renumbered
from trm.extras.interop.weight_files import kind_of, read_file
from trm.models.configs import GPTConfig, RecursiveConfig
from trm.models.gpt import GPT
from trm.models.iterative import Loop
from trm.models.recursive import TinyRecursiveModel
from trm.training.step import step_loss

REFERENCE = Path(__file__).parents[3] / "reference"
TRMS = ["rope1d", "learned"]
GPTS = {
    "abs_learned": "learned",
    "sinusodial": "sinusoidal",
    "custom_pid": "learned_2d",
    "rope_2d": "rope_2d",
}


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


def error(ours, expected, floor=0.0):
    """The largest difference, by the largest number."""
    ours, expected = ours.detach().numpy(), np.asarray(expected)
    return np.abs(ours - expected).max() / max(floor, np.abs(expected).max())


def four_steps(numbers, dtype):
    """Output of each of four supervision steps, by the reference's names."""
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
            assert error(parameter.grad, expected[name]) <= 1e-5, name


def test_wrapped_weights_load_and_misfits_are_refused(tmp_path):
    torch.save(params(read("trm_learned"), "_orig_mod.model.inner."), tmp_path / "step_100")
    model = load_reference_trm(tmp_path / "step_100", height=4, width=9, num_heads=4)
    assert (model.config.position, model.config.prefix_length) == ("learned", 4)
    assert model.config.intermediate_size == 256
    path = tmp_path / "notes.pt"
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match=r"notes\.pt is not a file of plain tensors"):
        load_reference_trm(path, height=4, width=9)
    with pytest.raises(ValueError, match=r"these weights lack embed_tokens\.embedding_weight"):
        load_reference_trm({"layers.0.attention.qkv.weight": torch.zeros(1)}, height=4, width=9)
    mixer = {"L_level.layers.0.mlp_t.down_proj.weight": torch.zeros(40, 256)}
    with pytest.raises(ValueError, match=r"an MLP over tokens in place of attention \(mlp_t\)"):
        load_reference_trm(params(read("trm_rope1d")) | mixer, height=4, width=9)
    with pytest.raises(ValueError, match="does not fit a 4 x 8 canvas"):
        load_trm(read("trm_learned"), width=8)


@pytest.mark.parametrize(("numbers_learned", "tokens"), [(1, 1), (32, 1), (33, 2), (70, 3)])
def test_a_prefix_length_of_0_is_the_length_of_the_embedding(numbers_learned, tokens):
    weights = params(read("trm_rope1d"))
    weights["puzzle_emb.weights"] = torch.ones(3, numbers_learned)
    model = load_reference_trm(weights, height=4, width=9, num_heads=4, prefix_length=0)
    assert model.config.hidden_size == 32
    assert model.config.prefix_length == tokens


@pytest.mark.parametrize("kind", TRMS)
def test_weights_go_back_under_the_names_of_the_published_trm(kind):
    numbers = read(f"trm_{kind}")
    back = reference_state(load_trm(numbers))
    theirs = params(numbers, "_orig_mod.model.inner.")
    assert back.keys() == theirs.keys()
    assert all(torch.equal(back[name], value) for name, value in theirs.items())


def test_the_published_trm_loads_the_reference_config(repository):
    """Its training loads a file with exactly these names and shapes."""
    published = json.loads((REFERENCE / "trm_published.json").read_text())
    config = yaml.safe_load((repository / "configs/trm/reference.yaml").read_text())
    settings = config["model"]["init_args"]["network"]["init_args"]["config"]
    model = TinyRecursiveModel(RecursiveConfig(**settings))
    shapes = {name: list(value.shape) for name, value in reference_state(model).items()}
    assert shapes == published["shapes"]
    assert reference_settings(model) == published["arch"] | {"forward_dtype": "float32"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"position": "relative_2d"}, "no position relative_2d: convert a model of `trm fit"),
        ({"neighbourhood": "local_lines"}, "no neighbourhood local_lines"),
        ({"skip_blank": True, "crop": True}, "no skip_blank, no crop"),
        ({"halt_pool": "mask"}, "no halt_pool mask"),
        ({"intermediate_size": 100}, r"no intermediate_size 100 \(not a multiple of 256\)"),
    ],
)
def test_a_model_that_the_published_trm_lacks_is_refused(settings, reason):
    model = TinyRecursiveModel(RecursiveConfig(4, 9, hidden_size=32, num_heads=4, **settings))
    with pytest.raises(ValueError, match=f"the published TRM has {reason}"):
        reference_state(model)


@pytest.mark.parametrize("kind", GPTS)
def test_logits_loss_and_gradients_match_nanogpt(kind):
    numbers = read(f"gpt_{kind}")
    model = load_gpt(numbers).eval()
    assert model.config.position == GPTS[kind]
    logits = model(torch.tensor(numbers["idx"]), 6, 7)
    loss = F.cross_entropy(logits.flatten(0, 1), torch.tensor(numbers["targets"]).flatten())
    assert error(logits, numbers["logits"]) <= 1e-5
    assert abs(loss.item() - numbers["loss"]) <= 1e-5
    loss.backward()
    theirs, weights = params(numbers, group="grad/"), params(numbers)
    weights |= {name: theirs[name] for name in weights.keys() & theirs.keys()}
    weights.pop("lm_head.weight")  # the embedding itself
    expected = load_gpt(numbers, weights).state_dict()
    for name, parameter in model.named_parameters():
        twice = 2 if name == "position.prefix" else 1  # theirs of the start's row and column
        assert error(twice * parameter.grad, expected[name]) <= 1e-5, name


@pytest.mark.parametrize("kind", GPTS)
def test_greedy_continuations_match_nanogpt(kind):
    numbers = read(f"gpt_{kind}")
    expected = torch.tensor(numbers["greedy_from_12"])
    forced = expected.clone()
    forced[:, 12:] = -1
    ids, log_probs, *_ = load_gpt(numbers).eval().generate(forced, 6, 7, end=99)
    assert torch.equal(ids, expected)
    assert (log_probs[:, :12] == 0).all()
    assert (log_probs[:, 12:] < 0).all()


@pytest.mark.parametrize("kind", GPTS)
def test_weights_and_tables_go_back_under_the_names_of_nanogpt(kind):
    numbers = read(f"gpt_{kind}")
    checkpoint = nanogpt_checkpoint(load_gpt(numbers))
    back, theirs = checkpoint["model"], params(numbers)
    assert back.keys() == theirs.keys()
    for name, value in theirs.items():
        first = int(".wpe_" in name)  # of the start's row and column only the sum counts
        torch.testing.assert_close(back[name][first:], value[first:], rtol=0, atol=1e-6)
    settings = checkpoint["model_args"]
    assert settings["block_size"] == 49
    assert (settings["n_layer"], settings["n_head"], settings["n_embd"]) == (2, 4, 32)
    assert ("height" in settings) == (kind != "abs_learned")


def test_a_gpt_without_positions_gets_a_nanogpt_table_of_zeros():
    config = GPTConfig(2, 3, hidden_size=16, num_heads=2, num_layers=1, position="none", bias=True)
    model = GPT(config).eval()
    back = load_nanogpt(nanogpt_checkpoint(model), height=2, width=3).eval()
    ids = torch.tensor([[15, 1, 2, 3, 14]])
    assert torch.equal(back(ids, 2, 3), model(ids, 2, 3))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"position": "alibi"}, "no position alibi; it and its canvas variants have position"),
        ({"loops": 2}, "no 2 loops"),
        ({"loops": 2, "halting": True}, "no 2 loops, no halting"),
        ({"intermediate_size": 24}, "no intermediate_size 24 at hidden_size 16"),
    ],
)
def test_a_gpt_that_nanogpt_lacks_is_refused(settings, reason):
    config = GPTConfig(2, 3, hidden_size=16, num_heads=2, num_layers=1, **settings)
    with pytest.raises(ValueError, match=f"nanoGPT has {reason}"):
        nanogpt_checkpoint(GPT(config))


def test_a_checkpoint_of_the_note_contains_all_settings(tmp_path, monkeypatch):
    """Its encoding is an object of a class of that code, which is not imported here."""
    numbers, module = read("gpt_rope_2d"), ModuleType("model")
    kind = enum.Enum("PositionEmbedding", {"QK_ROTARY": 4, "ROPE_2D": 6}, module="model")
    module.PositionEmbedding = kind
    monkeypatch.setitem(sys.modules, "model", module)
    settings = {"n_layer": 2, "n_head": 4, "n_embd": 32, "block_size": 1024, "vocab_size": 17}
    settings |= {"bias": False, "dropout": 0.1, "pe": kind.ROPE_2D, "width": 7, "height": 6}
    checkpoint = {
        "model": params(numbers, "_orig_mod."),
        "optimizer": {"state": {}, "param_groups": []},
        "model_args": settings,
        "best_val_loss": torch.tensor(1.5),
    }
    torch.save(checkpoint, tmp_path / "ckpt.pt")
    monkeypatch.delitem(sys.modules, "model")
    content = read_file(tmp_path / "ckpt.pt")
    assert kind_of(content) == "nanogpt"
    model = load_nanogpt(content).eval()
    assert (model.config.height, model.config.width, model.config.num_heads) == (6, 7, 4)
    assert error(model(torch.tensor(numbers["idx"]), 6, 7), numbers["logits"]) <= 1e-5
    with pytest.raises(ValueError, match="have num_heads 4, not 2: leave it out"):
        load_nanogpt(content, num_heads=2)
    with pytest.raises(ValueError, match="have width 7, not 5: leave it out"):
        load_nanogpt(content, width=5)


@pytest.mark.parametrize("kind", ["abs_learned", "custom_pid"])
def test_a_learned_table_that_is_longer_than_needed_is_cut(kind):
    numbers = read(f"gpt_{kind}")
    whole, cut = load_gpt(numbers).eval(), load_gpt(numbers, height=4).eval()
    assert cut.num_parameters < whole.num_parameters
    ids = torch.tensor(numbers["idx"])[:, : 1 + 4 * 8]
    torch.testing.assert_close(cut(ids, 4, 7), whole(ids, 6, 7))
    with pytest.raises(ValueError, match=r"a 7 x 7 canvas needs .*: check height and width"):
        load_gpt(numbers, height=7)


def test_weights_that_are_not_nanogpts_are_refused():
    numbers = read("gpt_abs_learned")
    with pytest.raises(ValueError, match="have an output head of their own"):
        load_gpt(numbers | {"param/lm_head.weight": np.zeros((17, 32), np.float32)})
    name = "param/transformer.h.1.attn.c_attn.weight"
    with pytest.raises(ValueError, match=r"does not fit nanoGPT's shape: .*attention\.qkv"):
        load_gpt(numbers | {name: numbers[name].T})
    for lost in ("param/transformer.h.0.mlp.c_fc.weight", "param/transformer.wte.weight"):
        rest = {key: value for key, value in numbers.items() if key != lost}
        with pytest.raises(ValueError, match="these weights lack transformer"):
            load_gpt(rest)
    rest = {key: value for key, value in numbers.items() if "h.1.ln_1" not in key}
    with pytest.raises(ValueError, match=r"Missing key.*layers\.1\.attention_norm"):
        load_gpt(rest)
    numbers = read("gpt_sinusodial")
    with pytest.raises(ValueError, match="do not contain their num_heads: name it"):
        load_gpt(numbers, num_heads=None)
    del numbers["param/sinusoidal_pe"]
    with pytest.raises(ValueError, match="do not contain their position: name it"):
        load_gpt(numbers)
    logits = load_gpt(numbers, position="sinusoidal").eval()(torch.tensor(numbers["idx"]), 6, 7)
    assert error(logits, numbers["logits"]) <= 1e-5


def test_token_ids_of_other_projects_are_converted():
    """The same sequence has the same logits, each at the id of its symbol."""
    numbers, text = read("gpt_rope_2d"), "0123456789*_#^$"
    theirs = load_gpt(numbers).eval()
    needed = encode("0123456789_#^$").tolist()
    ours = renumbered(theirs, text, needed, START).eval()
    ids = torch.tensor([[13, 1, 2, 3, 11, 10, 12]])
    same = torch.from_numpy(encode("^123_*#")).long()[None]
    expected, found = theirs(ids, 6, 7), ours(same, 6, 7)
    assert found.shape[-1] == 17
    torch.testing.assert_close(found[..., encode(text).tolist()], expected[..., :15])
    assert torch.equal(found[..., PAD], found[..., START])
    for wrong, reason in [
        ("0123456789*_#^", "it lacks [$]"),
        ("0123456789*_#^$0", "a symbol occurs twice"),
        ("0123456789*_#^$+.~A", "the model has 17 ids"),
        ("0123456789x_#^$", "x is no symbol"),
    ]:
        with pytest.raises(ValueError, match=reason):
            renumbered(theirs, wrong, needed, START)


def single(name):
    return re.search(r"(layers|h)\.[1-9]", name) is None


def broken(weights):
    """Each weight but those of further layers: missing, in another form or size, or not finite."""
    for name in filter(single, weights):
        value = weights[name]
        yield {key: one for key, one in weights.items() if key != name}
        if value.is_floating_point():
            yield weights | {name: value.flatten()[:1]}
            yield weights | {name: torch.cat((value, value))}
            yield weights | {name: torch.full_like(value, torch.nan)}
            yield weights | {name: torch.zeros(0)}


@pytest.mark.parametrize("kind", [*GPTS, *TRMS])
def test_broken_weights_are_refused_in_one_line(kind):
    numbers = read(f"gpt_{kind}" if kind in GPTS else f"trm_{kind}")
    load, refused = load_gpt if kind in GPTS else load_trm, list[str]()
    fixed = ("pos_x", "pos_y", "cos_x", "sin_x", "cos_y", "sin_y", "sinusoidal_pe", "wpe_")
    for weights in broken(params(numbers)):
        try:
            load(numbers, weights)
        except ValueError as error:
            refused.append(str(error))
    needed = [name for name in params(numbers) if single(name) and not name.endswith(fixed)]
    assert len(refused) > 3 * len(needed) > 15
    assert not any("\n" in sentence or len(sentence) > 400 for sentence in refused)
