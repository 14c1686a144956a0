import os
import pickle
import re
from pathlib import Path

import pytest
import torch

from canvas.addition import Addition
from canvas.problems import Problems
from canvas.tasks import task_data
from trm.checkpoints.keys import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import find_checkpoint, load_checkpoint, load_solver


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self):
        return Path.touch, (self.sprung,)


def changed(checkpoint: Path, tmp_path: Path, change) -> Path:
    content = torch.load(checkpoint, weights_only=True)
    change(content)
    torch.save(content, tmp_path / "changed.ckpt")
    return tmp_path / "changed.ckpt"


def test_a_solver_has_the_weights_the_task_and_the_steps_of_its_checkpoint(checkpoint):
    solver = load_solver(checkpoint, device="cpu")
    weights = torch.load(checkpoint, weights_only=True)["state_dict"]
    mine = solver.predictor.model.state_dict()
    assert {f"model.{name}" for name in mine} == set(weights)
    assert all((value == weights[f"model.{name}"]).all() for name, value in mine.items())
    assert (solver.task.layout, solver.task.digits_a, solver.task.digits_b) == (
        "lattice",
        (1, 2),
        (1, 1),
    )
    assert solver.predictor.max_steps == 2
    assert not solver.predictor.model.training


def test_what_is_asked_for_comes_before_what_the_checkpoint_says(checkpoint):
    solver = load_solver(checkpoint, steps=5, height=9, width=11, device="cpu")
    assert (solver.predictor.max_steps, solver.canvas.height, solver.canvas.width) == (5, 9, 11)


def test_a_file_and_the_folder_of_its_run_solve_alike(checkpoint, trained):
    problems = Problems.from_ints([(12, 3), (4, 5)])
    one, other = (load_solver(path, device="cpu").solve(problems) for path in (checkpoint, trained))
    assert [s.row_confidence for s in one] == [s.row_confidence for s in other]


def test_of_a_folder_the_best_checkpoint_comes_before_the_last_and_the_newest_run_first(tmp_path):
    def write(name: str, age: int) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
        return path

    step = write("version_0/checkpoints/step=3.ckpt", 0)
    assert find_checkpoint(tmp_path) == step
    last = write("version_0/checkpoints/last.ckpt", 5)
    assert find_checkpoint(tmp_path) == last
    write("version_9/checkpoints/best.ckpt", 9)
    newest = write("version_10/checkpoints/best.ckpt", 8)
    assert find_checkpoint(str(tmp_path)) == newest
    assert find_checkpoint(step) == step


def test_of_a_folder_of_several_weights_none_is_chosen(tmp_path):
    alone = tmp_path / "a.safetensors"
    alone.touch()
    assert find_checkpoint(tmp_path) == alone
    (tmp_path / "b.safetensors").touch()
    with pytest.raises(ValueError, match=r"holds 2 files of weights: name one of them, as .*saf"):
        find_checkpoint(tmp_path)


def test_a_missing_checkpoint_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no checkpoint .*nothing; train one"):
        load_checkpoint(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="no checkpoint below"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("content", [b"", b"some text\n", b"PK\x03\x04", b"\x80\x02}", b"\0" * 99])
def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "strange.ckpt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"strange\.ckpt cannot be read as a checkpoint") as error:
        load_checkpoint(path)
    assert "weights_only" not in str(error.value)  # PyTorch's advice is to run the file's code


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_checkpoint_that_is_cut_short_is_refused(checkpoint, tmp_path, kept):
    content = checkpoint.read_bytes()
    path = tmp_path / "short.ckpt"
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match="cannot be read as a checkpoint: it is cut short"):
        load_solver(path)


@pytest.mark.parametrize("write", [torch.save, lambda trap, path: path.write_bytes(trap)])
def test_nothing_in_a_checkpoint_is_executed(tmp_path, write):
    sprung, path = tmp_path / "sprung", tmp_path / "trap.ckpt"
    trap = Trap(sprung)
    write(trap if write is torch.save else pickle.dumps(trap), path)
    with pytest.raises(ValueError, match="never executed"):
        load_solver(path)
    assert not sprung.exists()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ([1, 2], "a list"),
        (torch.zeros(2), "a Tensor"),
        ({"state_dict": {}}, "something else (it has state_dict, ...)"),
        ({"pytorch-lightning_version": "2.6.6", "state_dict": {}}, "a Lightning checkpoint"),
        ({"model_args": {}, "model": {}}, "a nanoGPT checkpoint"),
        ({"_orig_mod.transformer.wte.weight": torch.zeros(2)}, "a nanoGPT checkpoint"),
        ({"_orig_mod.model.inner.L_level.x": torch.zeros(2)}, "a reference TRM"),
        ({"model.inner.H_level.x": torch.zeros(2)}, "an HRM with separate H and L networks"),
        ({3: torch.zeros(2)}, "something else (it has 3, ...)"),
    ],
)
def test_a_file_of_something_else_is_refused_with_what_it_looks_like(tmp_path, content, kind):
    torch.save(content, tmp_path / "other.ckpt")
    looks = re.escape(f"holds no model of this package, it looks like {kind}:")
    with pytest.raises(ValueError, match=looks):
        load_solver(tmp_path / "other.ckpt")


def test_weights_of_another_shape_are_refused_in_one_sentence(checkpoint, tmp_path):
    def wider(content):
        content[CHECKPOINT_KEY]["model"]["hidden_size"] = 32

    with pytest.raises(ValueError, match="does not fit this version's models") as error:
        load_solver(changed(checkpoint, tmp_path, wider))
    assert "\n" not in str(error.value)


def test_weights_that_are_not_finite_are_refused(checkpoint, tmp_path):
    def lost(content):
        next(iter(content["state_dict"].values())).flatten()[0] = float("nan")

    with pytest.raises(ValueError, match="not finite"):
        load_solver(changed(checkpoint, tmp_path, lost))


def test_a_setting_that_this_version_does_not_know_is_named(checkpoint, tmp_path):
    def later(content):
        content[CHECKPOINT_KEY]["model"]["experts"] = 4

    with pytest.raises(ValueError, match="experts"):
        load_solver(changed(checkpoint, tmp_path, later))


def test_a_checkpoint_of_another_family_or_format_is_refused(checkpoint, tmp_path):
    for key, value in (("family", "hrm"), ("format", 1)):

        def other(content, key=key, value=value):
            content[CHECKPOINT_KEY][key] = value

        with pytest.raises(ValueError, match=f"does not fit this version's models .*{value}"):
            load_solver(changed(checkpoint, tmp_path, other))


@pytest.mark.parametrize("device", ["abacus", "meta", "cuda:99", ""])
def test_a_device_that_does_not_exist_is_refused(checkpoint, device):
    with pytest.raises(ValueError, match="there is no device"):
        load_solver(checkpoint, device=device)


def test_a_checkpoint_says_in_plain_data_what_it_holds(checkpoint):
    content = load_checkpoint(checkpoint)
    assert content[CHECKPOINT_KEY]["family"] == "iterative"
    assert content[CHECKPOINT_KEY]["model"]["hidden_size"] == 16
    assert content[DATA_KEY]["task"]["task"] == "multiplication"
    assert content[DATA_KEY]["task"]["layout"] == "lattice"
    assert content[DATA_KEY]["canvas"]["margin"] == 1


def test_the_task_is_the_one_that_the_checkpoint_names(checkpoint, tmp_path):
    task = Addition("column_carries", digits=(1, 4), addends=(2, 3))

    def sums(content):
        content[DATA_KEY]["task"] = task_data(task)

    solver = load_solver(changed(checkpoint, tmp_path, sums), device="cpu")
    assert solver.task == task
    (solution,) = solver.solve(solver.task.problems([(12, 34, 5)]))
    assert (solution.right_answer, len(solution.rows)) == (51, 2)


@pytest.mark.parametrize("word", ["task", "layout"])
def test_code_of_ones_own_that_nobody_imported_is_named_and_not_run(
    checkpoint, tmp_path, monkeypatch, word
):
    (tmp_path / "unknown_code.py").write_text("raise AssertionError('imported')")
    monkeypatch.chdir(tmp_path)

    def own(content):
        content[DATA_KEY]["task"][word] = "unknown_code.Mine"

    told = rf"its {word} is unknown_code\.Mine, .* like --import unknown_code"
    with pytest.raises(ValueError, match=told):
        load_solver(changed(checkpoint, tmp_path, own), device="cpu")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("subtraction", "does not fit this version's models"),
        (3, "does not fit this version's models"),
        ("canvas.task.Task", "lacks answer, lengths, longest"),
        ("canvas.layouts.Layout", "is not a Task"),
    ],
)
def test_a_task_that_is_none_is_refused(checkpoint, tmp_path, name, told):
    def other(content):
        content[DATA_KEY]["task"]["task"] = name

    with pytest.raises(ValueError, match=rf"changed\.ckpt.*{told}"):
        load_solver(changed(checkpoint, tmp_path, other), device="cpu")
