import hashlib

import pytest
import torch

from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_solver
from trm.evaluation.models import describe, describe_all, labels


def checkpoints(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [folder / name for name in names]


def test_a_model_is_called_like_its_run(tmp_path):
    files = checkpoints(
        tmp_path,
        [
            "runs/gpt-learned/version_0/checkpoints/best.ckpt",
            "runs/quickstart/version_2/checkpoints/last.ckpt",
            "downloads/tiny.ckpt",
        ],
    )
    assert labels(files) == ["gpt-learned", "quickstart", "tiny"]
    assert labels([tmp_path / "runs/gpt-learned"]) == ["gpt-learned"]


def test_runs_of_one_name_are_told_apart(tmp_path):
    run = "a/quickstart/version_{}/checkpoints/best.ckpt"
    files = checkpoints(tmp_path, [run.format(0), run.format(1), "b/other.ckpt"])
    assert labels(files, [0, 1, 0]) == ["quickstart, seed 0", "quickstart, seed 1", "other"]
    assert labels(files) == [str(files[0]), str(files[1]), "other"]


def test_a_model_is_described_from_its_checkpoint(checkpoint, twin):
    about, solver = describe(checkpoint, "mine"), load_solver(checkpoint, device="cpu")
    content = torch.load(checkpoint, weights_only=True)
    expected = {
        **{"name": "mine", "checkpoint": str(checkpoint), "family": "iterative", "seed": 0},
        "sha256": hashlib.sha256(checkpoint.read_bytes()).hexdigest(),
        "parameters": solver.predictor.model.num_parameters,
        "step": content["global_step"],
        "solve_steps": content[CHECKPOINT_KEY]["solve_steps"],
    }
    assert expected.items() <= about.items()
    assert about["model"]["hidden_size"] == 16
    task = {"task": "multiplication", "layout": "lattice", "digits_a": (1, 2)}
    assert task.items() <= about["task"].items()
    assert about["ranges"]["digits_a"] == (1, 2)
    assert about["canvas"]["height"] is None
    assert "cells" not in about
    content[DATA_KEY]["seed"] = 7
    torch.save(content, twin)
    about = describe(twin, "other", steps=5)
    assert (about["seed"], about["solve_steps"]) == (7, 5)


def test_models_of_different_bases_are_refused(checkpoint, tmp_path):
    content = torch.load(checkpoint, weights_only=True)
    content[DATA_KEY]["task"]["base"] = 8
    torch.save(content, tmp_path / "octal.ckpt")
    told = r"debug: multiplication in base 10, octal: multiplication in base 8\. Evaluate them one"
    with pytest.raises(ValueError, match=told):
        describe_all([checkpoint, tmp_path / "octal.ckpt"])


@pytest.mark.parametrize("names", [["one"], ["one", "one"], ["one", "two", "three"]])
def test_every_model_needs_a_name_of_its_own(checkpoint, twin, names):
    with pytest.raises(ValueError, match="2 different names are wanted"):
        describe_all([checkpoint, twin], names)


def test_a_checkpoint_that_is_given_twice_is_refused(checkpoint, trained):
    with pytest.raises(ValueError, match=r"trained.* and .*best\.ckpt: one checkpoint, given more"):
        describe_all([trained, checkpoint])
