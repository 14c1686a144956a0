import hashlib

import pytest
import torch

from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_solver
from trm.evaluation.comparison import by_setting, distinct_names, side_by_side
from trm.evaluation.models import describe, describe_all, labels


def checkpoints(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [folder / name for name in names]


def test_a_model_is_called_like_its_run(tmp_path):
    names = ["runs/gpt-learned/version_0/checkpoints/best.ckpt", "downloads/tiny.ckpt"]
    names.insert(1, "runs/quickstart/version_2/checkpoints/last.ckpt")
    files = checkpoints(tmp_path, names)
    assert labels(files) == ["gpt-learned", "quickstart", "tiny"]
    assert labels([tmp_path / "runs/gpt-learned"]) == ["gpt-learned"]


def test_models_of_one_name_get_distinct_names(tmp_path):
    run = "a/quickstart/version_{}/checkpoints/best.ckpt"
    files = checkpoints(tmp_path, [run.format(0), run.format(1), "b/other.ckpt"])
    assert labels(files, [0, 1, 0]) == ["quickstart, seed 0", "quickstart, seed 1", "other"]
    assert labels(files) == [str(files[0]), str(files[1]), "other"]
    ways = ["q", "q", "q", "r"], ["q1", "q2", "q2", "r1"], ["1/q", "2/q", "3/q", "4/r"]
    assert distinct_names(*ways) == ["q1", "2/q", "3/q", "r"]
    full = ["r: q", "s: q", "t: r: q"]
    assert distinct_names(["q", "q", "r: q"], full) == full


def test_a_model_is_described_from_its_checkpoint(checkpoint, changed):
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
    other = changed(lambda content: content[DATA_KEY].update(seed=7))
    about = describe(other, "other", steps=5)
    assert (about["seed"], about["solve_steps"]) == (7, 5)


def test_models_without_common_problems_are_refused(checkpoint, trained, changed):
    octal = changed(lambda content: content[DATA_KEY]["task"].update(base=8), "octal")
    told = r"debug: multiplication in base 10, octal: multiplication in base 8\. Evaluate them one"
    with pytest.raises(ValueError, match=told):
        describe_all([checkpoint, octal], None)
    with pytest.raises(ValueError, match=r"trained.* and .*best\.ckpt: one checkpoint"):
        describe_all([trained, checkpoint], None)


def models(*names: str, **other) -> list[dict]:
    return [{"name": name, "model": {"hidden_size": 8}} | other for name in names]


@pytest.mark.parametrize(
    ("names", "setting"),
    [
        (("wide, seed 0", "wide, seed 1"), "wide"),
        (("lattice-seed1", "lattice-seed12"), "lattice"),
        (("a_seed_0", "a_seed_1"), "a"),
    ],
)
def test_seeds_of_a_setting_are_together(names, setting):
    assert {n: len(held) for n, held in by_setting(models(*names)).items()} == {setting: 2}


def test_settings_pool_seeds_of_equal_models_alone():
    assert list(by_setting(models("a, seed 0", "b, seed 0"))) == ["a, seed 0", "b, seed 0"]
    assert list(by_setting(models("seed 1", "seed 2"))) == ["seed 1", "seed 2"]
    held = models("a, seed 0", "a, seed 1") + models("a, seed 2", model={"hidden_size": 16})
    for order in (held, held[::-1]):
        assert {n: len(some) for n, some in by_setting(order).items()} == {"a": 2, "a, seed 2": 1}
    deeper = models("a, seed 0") + models("a, seed 1", settings={"steps": 9})
    assert list(by_setting(deeper)) == ["a, seed 0", "a, seed 1"]
    alone = by_setting(models("a", "a, seed 0", "a, seed 1"))
    assert sorted(len(some) for some in alone.values()) == [1, 2]


def test_shared_names_get_the_folders_of_their_evaluations(make_grid):
    def share(a: int, b: int) -> float:
        return 0.5

    grids = [make_grid({"small": share, f"gpt{i}": share}, 1, 1, seed=i) for i in range(2)]
    merged = side_by_side(grids, ["runA", "runB"])["models"]
    assert [m["name"] for m in merged] == ["runA: small", "gpt0", "runB: small", "gpt1"]
    assert [m["settings"]["seed"] for m in merged] == [0, 0, 1, 1]
    grids[1]["models"][0]["seed"] = 1  # of training
    merged = side_by_side(grids, ["runA", "runB"])["models"]
    assert [m["name"] for m in merged] == ["small, seed 0", "gpt0", "small, seed 1", "gpt1"]
    grids = [make_grid({"small": share, "b: small": share}, 1, 1), make_grid({"small": share})]
    assert len({m["name"] for m in side_by_side(grids, ["a", "b"])["models"]}) == 3
