import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm import save_model
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY, SHIPPED, find_checkpoint, read_task
from trm.checkpoints.content import (
    check_same_network,
    load_checkpoint,
    new_content,
    pack,
    unpack,
)
from trm.checkpoints.loading import load_solver
from trm.io.files import files_below
from trm.models import GPT, GPTConfig, RecursiveConfig, TinyRecursiveModel


@pytest.fixture
def exported(checkpoint, tmp_path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(pack(load_checkpoint(checkpoint), {"note": "of a test"}))
    return path


def test_a_solver_has_weights_task_and_steps_of_its_checkpoint(checkpoint):
    solver = load_solver(checkpoint, device="cpu")
    weights = torch.load(checkpoint, weights_only=True)["state_dict"]
    mine = solver.predictor.model.state_dict()
    assert {f"model.{name}" for name in mine} == set(weights)
    assert all((value == weights[f"model.{name}"]).all() for name, value in mine.items())
    task = solver.task
    assert (task.layout, task.digits_a, task.digits_b) == ("lattice", (1, 2), (1, 1))
    assert solver.predictor.max_steps == 2
    assert not solver.predictor.model.training
    with pytest.raises(ValueError, match="steps: 1,000,000,000 is not a whole number from 1"):
        load_solver(checkpoint, steps=10**9, device="cpu")
    solver = load_solver(checkpoint, steps=5, height=9, width=11, device="cpu")  # if asked for
    assert (solver.predictor.max_steps, solver.canvas.height, solver.canvas.width) == (5, 9, 11)


def test_the_checkpoint_of_a_compiled_network_loads(checkpoint, tmp_path):
    content = torch.load(checkpoint, weights_only=True)
    weights = content["state_dict"].items()  # as of a Trainer with torch.compile(network)
    content["state_dict"] = {k.replace("model.", "model._orig_mod.", 1): v for k, v in weights}
    torch.save(content, tmp_path / "compiled.ckpt")
    mine, theirs = (
        load_solver(file, device="cpu").predictor.model.state_dict()
        for file in (checkpoint, tmp_path / "compiled.ckpt")
    )
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], value) for name, value in theirs.items())


def test_a_looped_gpt_takes_as_many_loops_as_are_asked_for(repository, tmp_path):
    plain = repository / "docs/models/addition-gpt-seed0.safetensors"
    content, looped = unpack(plain), tmp_path / "looped.safetensors"
    content[CHECKPOINT_KEY]["model"]["loops"] = 2
    looped.write_bytes(pack(content, {}))
    for file, steps, loops in ((plain, 3, 1), (looped, None, 2), (looped, 3, 3)):
        assert load_solver(file, steps, device="cpu").predictor.model.config.loops == loops


def test_file_folder_and_exported_weights_solve_alike(checkpoint, trained, exported):
    problems = Problems.from_ints([(12, 3), (4, 5)])
    expected = [s.record() for s in load_solver(checkpoint, device="cpu").solve(problems)]
    for path in (trained, exported, exported.parent):
        assert [s.record() for s in load_solver(path, device="cpu").solve(problems)] == expected


RECURSIVE = TinyRecursiveModel(RecursiveConfig(hidden_size=16, num_heads=2))


@pytest.mark.parametrize(
    ("network", "settings"),
    [
        (RECURSIVE, {"solve_steps": 3}),
        (GPT(GPTConfig(height=5, width=6, hidden_size=16, num_heads=2)), {}),
    ],
    ids=["recursive", "gpt"],
)
def test_a_network_of_no_training_is_saved_with_its_task(network, settings, tmp_path):
    task = Multiplication("standard", base=7, digits_a=(1, 2))
    save_model(file := tmp_path / "mine.safetensors", network, task, Canvas(5, 6), **settings)
    solver = load_solver(file, device="cpu")
    assert (solver.task, solver.canvas) == (task, Canvas(5, 6))
    assert solver.predictor.max_steps == settings.get("solve_steps")
    loaded = solver.predictor.model.state_dict()
    assert all((value == loaded[name]).all() for name, value in network.state_dict().items())


def test_what_no_command_could_load_is_not_saved(tmp_path):
    file = tmp_path / "mine.safetensors"
    with pytest.raises(ValueError, match="a task is like canvas"):
        save_model(file, RECURSIVE, "lattice")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Linear belongs to no family"):
        save_model(file, torch.nn.Linear(1, 1), Multiplication())
    assert not file.exists()


def test_bfloat16_weights_are_half_as_large_and_load_as_float32(checkpoint, exported, tmp_path):
    file, again = tmp_path / "half.safetensors", tmp_path / "again.safetensors"
    file.write_bytes(pack(load_checkpoint(checkpoint), {}, dtype=torch.bfloat16))
    assert file.stat().st_size < exported.stat().st_size - 1.9 * 5818
    whole, rounded = unpack(exported)["state_dict"], unpack(file)["state_dict"]
    assert {value.dtype for value in rounded.values()} == {torch.float32}
    for name, value in whole.items():
        assert torch.equal(rounded[name], value.bfloat16().float())
    again.write_bytes(pack(unpack(file), {}, dtype=torch.bfloat16))
    assert again.read_bytes() == file.read_bytes()
    solved = load_solver(file, device="cpu").solve(Problems.from_ints([(12, 3)]))
    assert len(solved) == 1
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1  # of a weight: the digest is that of the weights in the file
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match="damaged"):
        load_solver(file, device="cpu")


def test_exported_weights_load_without_the_optimizer_state(checkpoint, exported):
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


def test_saved_weights_equal_their_own_export_today(repository):
    for file in [SHIPPED, *(repository / "docs/models").glob("*.safetensors")]:
        content = unpack(file)  # in float32
        with safe_open(file, "pt") as stored:
            dtypes = {stored.get_tensor(name).dtype for name in stored.keys()}  # noqa: SIM118
        half = torch.bfloat16 if torch.bfloat16 in dtypes else None
        assert pack(content, content["card"], dtype=half) == file.read_bytes(), file


def test_a_folder_leads_to_the_best_checkpoint_of_its_newest_run(tmp_path):
    def write(name: str, age: int) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
        return path

    (tmp_path / "last.ckpt").symlink_to(tmp_path / "nowhere")
    if hasattr(os, "mkfifo"):  # Windows has none
        os.mkfifo(tmp_path / "best.ckpt")
    with pytest.raises(FileNotFoundError, match="no checkpoint below"):
        find_checkpoint(tmp_path)
    step = write("version_0/checkpoints/step=3.ckpt", 0)
    assert find_checkpoint(tmp_path) == step
    last = write("version_0/checkpoints/last.ckpt", 5)
    assert find_checkpoint(tmp_path) == last
    write("version_9/checkpoints/best.ckpt", 9)
    newest = write("version_10/checkpoints/best.ckpt", 8)
    assert find_checkpoint(str(tmp_path)) == newest
    assert find_checkpoint(tmp_path, ["last.ckpt"]) == last
    assert find_checkpoint(step) == step


def saved(path: Path, step: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"global_step": step, "state_dict": {"weight": torch.ones(2)}}, path)
    return path


def test_the_newest_run_does_not_depend_on_file_times(tmp_path):
    """They change when a folder is copied or unpacked; numbers of versions and steps stay."""
    older = saved(tmp_path / "x/version_9/checkpoints/last.ckpt")
    newer = saved(tmp_path / "x/version_10/checkpoints/last.ckpt")
    steps = [saved(tmp_path / f"y/step={step}.ckpt", step) for step in (5, 40)]
    for file in (older, steps[0]):
        os.utime(file, (2e9, 2e9))
    assert find_checkpoint(tmp_path / "x") == newer
    assert find_checkpoint(tmp_path / "y") == steps[1]


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators alone")
def test_links_to_folders_are_followed_but_not_in_circles(tmp_path):
    saved(tmp_path / "disk/mine/checkpoints/best.ckpt")
    run = tmp_path / "runs/x"
    run.mkdir(parents=True)
    for name, target in {
        "version_0": tmp_path / "disk/mine",
        "up": tmp_path / "runs",
        "again": run,
        "latest": run / "version_0",
        "lost": tmp_path / "nowhere",
    }.items():
        (run / name).symlink_to(target, target_is_directory=True)
    saved(run / "version_1/checkpoints/last.ckpt")
    (tmp_path / "runs/y").symlink_to(run, target_is_directory=True)
    assert find_checkpoint(run, ["best.ckpt"]).parent.samefile(tmp_path / "disk/mine/checkpoints")
    assert find_checkpoint(tmp_path / "runs") == run / "version_1/checkpoints/last.ckpt"
    below = [file.resolve() for file in files_below(tmp_path / "runs") if file.is_file()]
    assert sorted(below) == sorted(tmp_path.rglob("*.ckpt"))  # each once


def test_a_folder_of_many_runs_names_them(tmp_path):
    for name in ("a/version_0", "a/version_1", "b"):
        saved(tmp_path / name / "checkpoints/best.ckpt")
    with pytest.raises(ValueError, match=r"holds 2 runs: name one of them, \S+/a, \S+/b$"):
        find_checkpoint(tmp_path)
    for name in "cdef":
        saved(tmp_path / name / "step=3.ckpt")
    with pytest.raises(ValueError, match=r"holds 6 runs: .*/e, …$"):
        find_checkpoint(tmp_path)
    own = saved(tmp_path / "version_3/checkpoints/last.ckpt")
    assert find_checkpoint(tmp_path) == own


def test_a_folder_without_one_checkpoint_is_refused(tmp_path):
    alone = tmp_path / "a.safetensors"
    alone.touch()
    assert find_checkpoint(tmp_path) == alone
    (tmp_path / "b.safetensors").touch()
    with pytest.raises(ValueError, match=r"holds 2 files of weights: .*saf"):
        find_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint .*nothing; train one"):
        load_checkpoint(tmp_path / "nothing")
    with pytest.raises(ValueError, match="path is empty"):
        find_checkpoint("")


@pytest.mark.parametrize(
    ("content", "held"),
    [
        ([1, 2], "list"),
        ({}, "nothing"),
        ({"pytorch-lightning_version": "2.6.6", 3: 1}, "pytorch-lightning_version, 3"),
        ({"model.inner.L_level.x": torch.zeros(2)}, "model.inner.L_level.x"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_its_content(tmp_path, content, held):
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=f"holds no model of this package, but {held}: "):
        load_solver(tmp_path / "other.ckpt")


@pytest.mark.parametrize("device", ["abacus", "meta", "cuda:99", ""])
def test_a_device_that_does_not_exist_is_refused(checkpoint, device):
    with pytest.raises(ValueError, match="there is no device"):
        load_solver(checkpoint, device=device)


def test_without_an_accelerator_any_device_index_is_the_cpu(checkpoint, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for device in ("auto", "auto:1", "cpu:0"):
        assert load_solver(checkpoint, device=device).predictor.device == "cpu"
    with pytest.raises(ValueError, match="there is no GPU to compute on: take cpu or auto"):
        load_solver(checkpoint, device="gpu")


def test_the_task_of_a_file_is_read_without_pytorch(checkpoint, tmp_path):
    for file in (SHIPPED, checkpoint):
        assert read_task(file) == load_checkpoint(file)[DATA_KEY]["task"]
    broken = tmp_path / "broken.ckpt"
    for content in (b"", b"PK\x03\x04", SHIPPED.read_bytes()[:100]):
        broken.write_bytes(content)
        assert read_task(broken) == {}
    assert read_task(tmp_path / "nowhere.ckpt") == {}


def test_a_size_by_default_is_compared_by_the_shapes_of_weights():
    wide, narrow = (
        GPT(GPTConfig(hidden_size=16, num_heads=2, num_layers=1, intermediate_size=size))
        for size in (64, 32)
    )
    content = new_content(wide, Multiplication())
    content["state_dict"] = {f"model.{name}": w for name, w in wide.state_dict().items()}
    content[CHECKPOINT_KEY]["model"]["intermediate_size"] = None  # 4 * 16
    check_same_network(wide, content)
    with pytest.raises(ValueError, match=r"another model: intermediate_size None \(here 32\)"):
        check_same_network(narrow, content)
