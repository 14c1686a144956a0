"""`trm prove`: proofs, refutations, folders, and what can be done with them."""

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from canvas.canvas_size import Canvas
from canvas.tasks import task_data
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY, FORMAT
from trm.checkpoints.loading import load_solver, pack, plain, unpack
from trm.models.local import LocalRecursiveModel

MODELS = Path(__file__).parents[3] / "docs" / "models"
FILES = {"proof.json", "table.npz", "program.py", "check.py", "margins.png"}


def saved(folder: Path, task, model: LocalRecursiveModel) -> Path:
    about = {"format": FORMAT, "family": "local"}
    about |= {"network": "trm.models.local.LocalRecursiveModel", "model": plain(model.config)}
    data = {"task": task_data(task), "canvas": plain(Canvas())}
    file = folder / "model.safetensors"
    file.write_bytes(pack({CHECKPOINT_KEY: about, DATA_KEY: data}, {}, dict(model.state_dict())))
    return file


@pytest.fixture(scope="module")
def proof(ternary, command, tmp_path_factory):
    """The folder of a proof, and what was said."""
    folder = tmp_path_factory.mktemp("ternary")
    file = saved(folder, ternary.task, ternary.model)
    ran = command("prove", "--checkpoint", file, "--output", "proof", folder=folder)
    return folder / "proof", ran.out


def test_a_proof_says_what_it_rests_on(proof, ternary):
    folder, said = proof
    assert {file.name for file in folder.iterdir()} == FILES
    assert "right on every problem of any length" in said
    assert "1,368" in said
    assert "right.multiplier" in said
    record = json.loads((folder / "proof.json").read_text())
    assert record["verdict"] == "proved"
    assert (record["windows"], record["wrong_windows"]) == (1368, 0)
    assert min(record["smallest_margin"], record["margin_left_by_rounding"]) > 0
    assert record["arithmetic"] == "float64"  # several cycles: too coarse a bound for float32
    assert record["outputs"]["carry"]["entries"] == 26
    assert record["counterexample"] is None
    assert record["task"]["base"] == 3
    assert len(record["weights_sha256"]) == len(record["windows_sha256"]) == 64


def test_a_proof_is_checked_again(proof, command, tmp_path):
    folder, _ = proof
    ran = command("prove", "--check", folder)
    assert ran.err == ""
    assert "proved: lattice in base 3, all 1,368 windows" in ran.out
    words = [sys.executable, "-I", folder / "check.py", folder]
    alone = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (alone.returncode, alone.stdout) == (0, ran.out)
    with np.load(folder / "table.npz") as arrays:
        changed = dict(arrays)
    changed["carry.values"][5] += 1
    np.savez(tmp_path / "table.npz", **changed)
    ran = command("prove", "--check", tmp_path, code=1)
    assert "not proved: in row b" in ran.out


def test_who_solves_with_a_proved_file_is_told(ternary, proof, command, tmp_path):
    """The verdict lies beside the file, and counts for these weights alone."""
    file = proof[0].parent / "model.safetensors"
    noted = file.with_suffix(".proof.json")
    assert json.loads(noted.read_text())["verdict"] == "proved"

    def confidence(weights: Path) -> float:
        solver = load_solver(weights)
        return solver.solve(solver.task.problems([(12, 11)]))[0].confidence

    assert confidence(file) == 1
    exported = tmp_path / "exported.safetensors"
    command("inspect", "--checkpoint", file, "--export", exported)
    assert unpack(exported)["card"]["proof"]["verdict"] == "proved"
    alone = saved(tmp_path, ternary.task, ternary.model)
    unsure = confidence(alone)
    shutil.copyfile(noted, tmp_path / noted.name)
    assert confidence(alone) == 1 > unsure
    # A proof that bounds rounding replaces one that does not, and not the other way round.
    (tmp_path / noted.name).unlink()
    for more, bounded in ((["--as-computed"], False), ([], True), (["--as-computed"], True)):
        command("prove", "--checkpoint", alone, *more)
        record = json.loads((tmp_path / noted.name).read_text())
        assert ("as it is computed" not in record["arithmetic"]) == bounded
    model = copy.deepcopy(ternary.model)  # trained on, under the same name
    with torch.no_grad():
        model.H_init += 1e-6
    saved(tmp_path, ternary.task, model)
    assert confidence(alone) < 1


def test_a_proved_model_is_sure_of_no_page_that_its_rule_is_not_of():
    solver = load_solver(MODELS / "column-carries-seed0.safetensors")  # two addends
    solver.predictor.proved = True
    two, three = solver.solve(solver.task.problems([(12, 34), (12, 34, 56)]))
    assert (two.correct, two.confidence) == (True, 1)
    assert (three.correct, three.confidence) == (False, 0)


def test_a_wrong_model_is_refuted_by_the_smallest_problem(ternary, command, tmp_path, checkpoint):
    model = copy.deepcopy(ternary.model)
    with torch.no_grad():
        model.lm_head.bias[3] -= 1000  # writes 0 where a digit 2 belongs
    spoilt = saved(tmp_path, ternary.task, model)
    words = ("prove", "--checkpoint", spoilt, "--output", "refuted")
    ran = command(*words, folder=tmp_path, code=1)
    assert "refuted: 1 x 2 goes wrong, and no smaller problem does" in ran.out
    assert "[" in ran.out  # the wrong cell
    record = json.loads((tmp_path / "refuted/proof.json").read_text())
    assert record["counterexample"]["problem"] == "1 x 2"
    assert record["counterexample"]["right"] == ["_1_*", "_2_2"]
    assert record["counterexample"]["worked"] != record["counterexample"]["right"]
    assert {file.name for file in (tmp_path / "refuted").iterdir()} == {"proof.json", "margins.png"}
    ran = command("prove", "--checkpoint", checkpoint, "--search", 50, code=1)
    assert "refuted: " in ran.out
