"""Exported weights: the same model as the checkpoint's, and nothing else."""

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from canvas.problems import Problems
from trm.checkpoints.exported import HEADER, halved, is_half, pack, unpack
from trm.checkpoints.keys import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_checkpoint, load_solver


@pytest.fixture
def exported(checkpoint, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(pack(load_checkpoint(checkpoint), {"note": "of a test"}))
    return path


def header(path) -> dict:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()[HEADER])


def test_exported_weights_solve_as_their_checkpoint_does(checkpoint, exported):
    problems = Problems.from_ints([(12, 3), (4, 5)])
    one, other = (
        load_solver(path, device="cpu").solve(problems) for path in (checkpoint, exported)
    )
    assert [s.record() for s in one] == [s.record() for s in other]


def test_what_was_packed_comes_out_again_without_what_only_training_needs(checkpoint, exported):
    before, after = load_checkpoint(checkpoint), unpack(exported)
    assert after["card"] == {"note": "of a test"}
    assert after[CHECKPOINT_KEY] == before[CHECKPOINT_KEY]
    assert json.dumps(after[DATA_KEY]) == json.dumps(before[DATA_KEY])
    assert (after["global_step"], after["epoch"]) == (before["global_step"], before["epoch"])
    assert set(after["state_dict"]) == set(before["state_dict"])
    assert all(torch.equal(v, before["state_dict"][k]) for k, v in after["state_dict"].items())
    assert "optimizer_states" in before
    assert "optimizer_states" not in after
    assert exported.stat().st_size < checkpoint.stat().st_size


def test_halved_weights_are_half_as_large_and_solve(checkpoint, exported, tmp_path):
    half = tmp_path / "half.safetensors"
    content = halved(load_checkpoint(checkpoint))
    half.write_bytes(pack(content, {}))
    assert half.stat().st_size < 0.6 * exported.stat().st_size
    assert is_half(load_checkpoint(half))
    assert not is_half(load_checkpoint(exported))
    model = load_solver(half, device="cpu").predictor.model
    for name, value in model.state_dict().items():
        assert value.dtype == torch.float32
        expected = load_checkpoint(checkpoint)["state_dict"][f"model.{name}"]
        torch.testing.assert_close(value, expected.half().float(), rtol=0, atol=0)


def test_a_weight_too_large_for_half_is_told(checkpoint):
    content = load_checkpoint(checkpoint)
    name = next(iter(content["state_dict"]))
    content["state_dict"][name] = content["state_dict"][name] + 1e6
    with pytest.raises(ValueError, match="too large for float16"):
        halved(content)


def test_a_folder_of_exported_weights_is_found(exported):
    assert load_solver(exported.parent, device="cpu").task.layout == "lattice"


@pytest.mark.parametrize("size", [0, 7, 100, -10])
def test_a_damaged_file_is_refused_in_a_sentence(exported, size):
    exported.write_bytes(exported.read_bytes()[:size])
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        load_solver(exported)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {HEADER: "not json"},
        {HEADER: "[]"},
        {HEADER: json.dumps({"symbols": "abc"})},
        {"other": "{}"},
    ],
)
def test_weights_that_do_not_say_what_they_are_are_refused(tmp_path, metadata):
    path = tmp_path / "strange.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata)
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        load_solver(path)


def test_weights_of_another_shape_are_refused(exported):
    told = header(exported)
    told["model"]["model"]["hidden_size"] = 32
    with safe_open(exported, framework="pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(weights, exported, {HEADER: json.dumps(told)})
    with pytest.raises(ValueError, match="does not fit this version's models"):
        load_solver(exported)
