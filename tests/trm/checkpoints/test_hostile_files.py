"""Files that lie, were damaged, or would take all memory: refused in one sentence, or solved with.

Nothing in them is ever executed.
"""

import copy
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
from safetensors.torch import save

from canvas.problems import Problems
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY, HEADER, read_task
from trm.checkpoints.content import load_checkpoint, pack
from trm.checkpoints.loading import load_solver

ODD = (-1, 10**9, 10**30, "x", None, 1.5, [])


class Made:
    """Is a call of a function in a pickle."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def doubled(value: Any, times: int = 60) -> Any:
    """A value that stands in 2^times places."""
    for _ in range(times):
        value = [value, value]
    return value


def tried(load: Callable[[Path], Any], file: Path) -> Any:
    """The content of a file; None if it is refused, in a short sentence."""
    told = ""
    try:
        return load(file)
    except ValueError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 600
    return None


def solve(file: Path) -> None:
    solver = load_solver(file, device="cpu")
    solver.solve(Problems.from_ints([(12, 3)], solver.task.base))


@pytest.mark.parametrize("name", ["x.ckpt", "x.safetensors"])
def test_no_damaged_file_is_taken_for_another_model(checkpoint, tmp_path, name):
    file, draw, refused, whole = tmp_path / name, random.Random(0), 0, checkpoint.read_bytes()
    if name == "x.safetensors":
        whole = pack(load_checkpoint(checkpoint), {})
    file.write_bytes(whole)
    good = load_checkpoint(file)
    for number in range(60):
        damaged = bytearray(whole)
        if number < 10:  # cut short
            del damaged[draw.randrange(len(whole)) :]
        elif number < 30:  # a bit
            damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        else:  # bytes that changed, in the first part more often than elsewhere
            region = len(whole) if number % 3 else 4000
            for _ in range(draw.choice((1, 4, 8, 64, 2000))):
                damaged[draw.randrange(region)] = draw.randrange(256)
        file.write_bytes(damaged)
        content = tried(load_checkpoint, file)
        if content is None:
            refused += 1
            continue
        # It was in what nobody reads, such as dates.
        assert all(content[key] == good[key] for key in (CHECKPOINT_KEY, DATA_KEY, "epoch"))
        for weight, value in good["state_dict"].items():
            assert torch.equal(content["state_dict"][weight], value)
    assert refused >= 40


def settings_of(content: dict) -> list[tuple[str, ...]]:
    """The places of everything that a file says of its model and its data."""

    def below(part: dict, path: tuple[str, ...]):
        for name, value in part.items():
            yield (*path, name)
            if isinstance(value, dict):
                yield from below(value, (*path, name))

    return [place for part in (CHECKPOINT_KEY, DATA_KEY) for place in below(content[part], (part,))]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_odd_setting_does_harm(checkpoint, tmp_path, odd):
    content, file = load_checkpoint(checkpoint), tmp_path / "x.safetensors"
    places = settings_of(content)
    assert len(places) > 30
    for *path, name in places:
        changed = {**content, **copy.deepcopy({k: content[k] for k in (CHECKPOINT_KEY, DATA_KEY)})}
        part = changed
        for step in path:
            part = part[step]
        part[name] = odd
        file.write_bytes(pack(changed, {}))
        tried(solve, file)


@pytest.mark.parametrize(
    "more",
    [
        torch.zeros(1).expand(60_000, 50_000),
        [one[i:] for one in [torch.zeros(9999)] for i in range(999)],
        torch.empty(9, device="meta"),
        torch.zeros(9, 9).to_sparse(),
        Made(bytearray, 6_000_000_000),
        Made(torch.Tensor, 60_000, 50_000),
    ],
    ids=lambda more: type(more).__name__,
)
def test_tensors_larger_in_memory_than_on_disk_are_refused(changed, more):
    file = changed(lambda content: content["state_dict"].update({"model.more": more}))
    assert file.stat().st_size < 2**20
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        load_checkpoint(file)


def test_a_packed_archive_is_refused(checkpoint, tmp_path):
    file = tmp_path / "packed.ckpt"
    with ZipFile(checkpoint) as whole, ZipFile(file, "w", ZIP_DEFLATED) as packed:
        for entry in whole.infolist():
            packed.writestr(entry.filename, whole.read(entry))
    with pytest.raises(ValueError, match="damaged, cut short, packed,"):
        load_checkpoint(file)


@pytest.mark.parametrize("place", [CHECKPOINT_KEY, DATA_KEY, "global_step"])
def test_settings_that_stand_in_too_many_places_are_refused(changed, place):
    def change(content: dict) -> None:
        if place == "global_step":
            content[place] = doubled(1)
        else:
            content[place]["more"] = doubled("e")

    with pytest.raises(ValueError, match="does not describe its model") as error:
        load_solver(changed(change))
    assert len(str(error.value)) < 400


def test_tied_weights_and_long_settings_pass(changed):
    tied, long = torch.zeros(1000), {"x": list(range(5000)), "y": "z" * 10_000}
    more = {"more": {"a": tied, "b": [tied.view(10, 100), {"c": tied}]}}
    load_checkpoint(changed(lambda content: content.update(more, epoch=long)))
    for much in (list(range(100_000)), "z" * 100_000, {"x" * 100_000: 1}):
        with pytest.raises(ValueError, match="too long"):
            load_checkpoint(changed(put("epoch", value=much)))


def weights(*said: tuple[str, str]) -> bytes:
    """Weights that do not say what they are."""
    return save({"weight": torch.zeros(2)}, dict(said) or None)


STRANGE = [b"", b"some text\n", b"PK\x03\x04", b"\x80\x02}", b"\0" * 99, weights()]
STRANGE += [weights((HEADER, held)) for held in ("not json", "[]", '{"symbols": "abc"}')]


@pytest.mark.parametrize("content", STRANGE)
@pytest.mark.parametrize("ending", ["ckpt", "safetensors"])
def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path, content, ending):
    path = tmp_path / f"strange.{ending}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"strange\.\w+ cannot be read as a checkpoint") as error:
        load_checkpoint(path)
    assert "weights_only" not in str(error.value)  # PyTorch's advice is to run the file's code


@pytest.mark.parametrize("write", [torch.save, lambda trap, path: path.write_bytes(trap)])
def test_nothing_in_a_checkpoint_is_executed(tmp_path, write):
    sprung, path = tmp_path / "sprung", tmp_path / "trap.ckpt"
    trap = {DATA_KEY: {"task": {"base": Made(Path.touch, sprung)}}}
    write(trap if write is torch.save else pickle.dumps(trap), path)
    read_task(path)
    with pytest.raises(ValueError, match="never executed"):
        load_solver(path)
    assert not sprung.exists()


def put(place: str, *path: str, value: Any) -> Callable[[dict], None]:
    """A change that puts a value where a file's settings have another."""

    def change(content: dict) -> None:
        *above, last = place, *path
        part = content
        for name in above:
            part = part[name]
        part[last] = value

    return change


def lost(content: dict) -> None:
    next(iter(content["state_dict"].values())).flatten()[0] = float("nan")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put(CHECKPOINT_KEY, "model", "hidden_size", value=32), "size mismatch"),
        (lambda content: content["state_dict"].popitem(), "Missing key"),
        (lost, "holds numbers that are not finite"),
        (put(CHECKPOINT_KEY, "model", "experts", value=4), "experts"),
        (
            put(CHECKPOINT_KEY, "model", "hidden_size", value=doubled(1, 10)),
            r"hidden_size is '\[\[",
        ),
        (put(CHECKPOINT_KEY, "model", "hidden_size", value=16.5), r"hidden_size is '16\.5'"),
        (put(CHECKPOINT_KEY, "model", "hidden_size", value=10**9), "hidden_size is 1000000000"),
        (put(CHECKPOINT_KEY, "solve_steps", value=10**9), "solve_steps is 1000000000"),
        (put(CHECKPOINT_KEY, "family", value="hrm"), "hrm"),
        (put(CHECKPOINT_KEY, "format", value=1), "format 1"),
        (put(DATA_KEY, "task", "task", value="exponentiation"), "exponentiation"),
        (put(DATA_KEY, "task", "task", value=3), "task must be one of .* got 3"),
        (put(DATA_KEY, "task", "base", value="10"), "base is '10'"),
        (put(DATA_KEY, "task", "base", value=True), "base is 'True'"),
        (put(DATA_KEY, "task", "long_bias", value=float("nan")), "JSON"),
        (put(DATA_KEY, "symmetries", value=["x"]), "symmetry"),
    ],
)
def test_misfits_are_named_in_one_short_sentence(changed, change, reason):
    with pytest.raises(ValueError, match=f"does not fit this version's models .*{reason}") as error:
        load_solver(changed(change), device="cpu")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


TASK = (DATA_KEY, "task", "task")


@pytest.mark.parametrize(
    ("place", "name", "told"),
    [
        (TASK, "own_code.Mine", r"its task is own_code\.Mine, .* like --import own"),
        ((DATA_KEY, "task", "layout"), "own_code.Mine", r"its layout is own_code\.Mine, .* like"),
        ((CHECKPOINT_KEY, "model", "position"), "own_code.Mine", r"its position is own_code\.Mine"),
        (TASK, "canvas.task.Task", "lacks answer, lengths, longest"),
        (TASK, "canvas.layouts.Layout", "is not a Task"),
    ],
)
def test_code_is_named_and_not_run(changed, tmp_path, monkeypatch, place, name, told):
    (tmp_path / "own_code.py").write_text("raise AssertionError('imported')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"changed\.ckpt.*{told}"):
        load_solver(changed(put(*place, value=name)), device="cpu")


@pytest.fixture(scope="module")
def integers(repository) -> dict:
    """The content of a file of a model in integers."""
    return load_checkpoint(repository / "docs/models/lattice-int8-seed2.safetensors")


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("embed_tokens.weight", lambda x: x.float(), "holds torch.float32, and needs torch.int8"),
        ("layers.0.out.fraction.multiplier", lambda x: x.long(), "torch.int64, and needs .*int32"),
        ("layers.0.down.weight", lambda x: x[:, :9], "size mismatch for layers.0.down.weight"),
        ("layers.0.silu", lambda x: x[1:], "size mismatch for layers.0.silu"),
        ("layers.0.silu", lambda x: x * 0 + 32767, "layers.0.to_hidden has a multiplier with"),
        ("layers.0.out.fraction.shift", lambda x: x * 0, "layers.0.out has a multiplier below 0"),
        ("head.fraction.multiplier", lambda x: x * 1000, "head has a multiplier with which"),
        ("H_init", lambda x: x * 0 + 2**30, "H_init is larger than 16,777,216"),
        ("head_bias", lambda x: x * 0 - 2**31, "head_bias is larger than 16,777,216"),
        ("to_head.shift", lambda _: None, "Missing key.*to_head.shift"),
    ],
)
def test_integers_that_could_overflow_or_are_none_are_refused(
    integers, tmp_path, name, change, reason
):
    weights = {k.removeprefix("model."): v for k, v in integers["state_dict"].items()}
    weights[name] = change(weights[name])
    file = tmp_path / "x.safetensors"
    file.write_bytes(pack(integers, {}, {k: v for k, v in weights.items() if v is not None}))
    with pytest.raises(ValueError, match=f"does not fit this version's models .*{reason}") as error:
        load_solver(file, device="cpu")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bits", [4, 3, 0, "8", None, True, 10**30])
def test_another_number_of_bits_is_refused(integers, tmp_path, bits):
    content = {**integers, CHECKPOINT_KEY: copy.deepcopy(integers[CHECKPOINT_KEY])}
    content[CHECKPOINT_KEY]["model"]["weight_bits"] = bits
    file = tmp_path / "x.safetensors"
    file.write_bytes(pack(content, {}))
    with pytest.raises(ValueError, match="does not fit this version's models"):
        load_solver(file, device="cpu")
