import hashlib
from dataclasses import replace

import pytest
import torch
import yaml

from canvas import task_data
from canvas.addition import Addition
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_solver
from trm.evaluation import grid_models as models
from trm.evaluation.grid_models import describe, describe_all, labels
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.solving.calibration import Calibration
from trm.solving.gpt_predictor import GPTPredictor


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
    run = "a/quickstart/version_{}/checkpoints/{}.ckpt"
    names = [run.format(*which) for which in ((0, "best"), (1, "best"), (1, "last"))]
    files = checkpoints(tmp_path, [*names, "b/other/version_0/checkpoints/best.ckpt"])
    assert labels(files) == [
        "quickstart/version_0",
        "quickstart/version_1/best",
        "quickstart/version_1/last",
        "other",
    ]
    assert labels([files[0], files[0], files[3]]) == [
        "quickstart/version_0/best (1)",
        "quickstart/version_0/best (2)",
        "other",
    ]


def with_configs(folder, configs):
    files = checkpoints(
        folder, [f"q/version_{i}/checkpoints/best.ckpt" for i in range(len(configs))]
    )
    for file, config in zip(files, configs, strict=True):
        (file.parents[1] / "config.yaml").write_text(yaml.safe_dump(config))
    return files


def config_of(seed=0, lr=1e-3, save_dir="runs", data_seed=None):
    return {
        "seed_everything": seed,
        "model": {"init_args": {"optimizer": {"lr": lr}, "seed": seed}},
        "data": {"seed": seed if data_seed is None else data_seed, "batch_size": 64},
        "trainer": {"logger": {"init_args": {"save_dir": save_dir}}},
    }


@pytest.mark.parametrize(
    ("configs", "names"),
    [
        ([config_of(seed) for seed in (0, 1, 2)], ["q, seed 0", "q, seed 1", "q, seed 2"]),
        ([config_of(lr=lr) for lr in (0.1, 0.2)], ["q, lr 0.1", "q, lr 0.2"]),
        (
            [config_of(0, 0.1), config_of(1, 0.1), config_of(0, 0.2)],
            ["q, lr 0.1, seed 0", "q, lr 0.1, seed 1", "q, lr 0.2, seed 0"],
        ),
        # Where they tie, or differ in what says nothing of the model, or in seeds one by one.
        ([config_of(), config_of()], ["q/version_0", "q/version_1"]),
        ([config_of(save_dir="a"), config_of(save_dir="b")], ["q/version_0", "q/version_1"]),
        ([config_of(0), config_of(1, data_seed=7)], ["q/version_0", "q/version_1"]),
    ],
)
def test_runs_of_one_name_are_told_apart_by_what_differs(tmp_path, configs, names):
    assert labels(with_configs(tmp_path, configs)) == names


def test_a_model_is_described_from_its_checkpoint(checkpoint):
    about = describe(checkpoint, "mine")
    assert about["name"] == "mine"
    assert about["checkpoint"] == str(checkpoint)
    assert about["sha256"] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert about["family"] == "iterative"
    solver = load_solver(checkpoint, device="cpu")
    assert about["parameters"] == solver.predictor.model.num_parameters
    assert about["model"]["hidden_size"] == 16
    assert about["task"]["layout"] == "lattice"
    assert about["task"]["task"] == "multiplication"
    assert about["task"]["digits_a"] == (1, 2)
    assert about["ranges"]["digits_a"] == (1, 2)
    assert about["canvas"]["height"] is None
    assert about["step"] == torch.load(checkpoint, weights_only=True)["global_step"]
    assert "cells" not in about


def test_models_of_different_bases_are_refused(checkpoint, tmp_path):
    content = torch.load(checkpoint, weights_only=True)
    content[DATA_KEY]["task"]["base"] = 8
    torch.save(content, tmp_path / "octal.ckpt")
    told = r"debug: multiplication in base 10, octal: multiplication in base 8\. Evaluate them one"
    with pytest.raises(ValueError, match=told):
        describe_all([checkpoint, tmp_path / "octal.ckpt"])


def test_models_of_different_tasks_are_refused(checkpoint, tmp_path):
    content = torch.load(checkpoint, weights_only=True)
    content[DATA_KEY]["task"] = task_data(Addition())
    torch.save(content, tmp_path / "sums.ckpt")
    with pytest.raises(ValueError, match=r"debug: multiplication in base 10, sums: addition in"):
        describe_all([checkpoint, tmp_path / "sums.ckpt"])


@pytest.mark.parametrize("names", [["one"], ["one", "one"], ["one", "two", "three"]])
def test_every_model_needs_a_name_of_its_own(checkpoint, twin, names):
    with pytest.raises(ValueError, match="2 different names are wanted"):
        describe_all([checkpoint, twin], names)


def test_two_files_may_hold_the_same_checkpoint(checkpoint, twin):
    one, two = describe_all([checkpoint, twin], ["one", "two"])
    assert (one["name"], two["name"]) == ("one", "two")
    assert one["sha256"] == two["sha256"]


def test_a_checkpoint_that_is_given_twice_is_refused(checkpoint, trained):
    with pytest.raises(ValueError, match=r"trained.* and .*best\.ckpt: one checkpoint, given more"):
        describe_all([trained, checkpoint])


def test_a_model_is_told_with_how_it_was_trained_and_how_it_solves(checkpoint, trained, twin):
    about = describe(checkpoint, "mine")
    content = torch.load(checkpoint, weights_only=True)
    assert about["solve_steps"] == content[CHECKPOINT_KEY]["solve_steps"]
    assert about["seed"] == 0
    (written,) = trained.rglob("config.yaml")
    assert about["config"] == yaml.safe_load(written.read_text())
    assert about["config"]["data"]["task"]["init_args"]["layout"] == "lattice"
    assert describe(twin, "alone")["config"] is None
    content[DATA_KEY]["seed"] = 7
    torch.save(content, twin)
    about = describe(twin, "other", steps=5)
    assert (about["seed"], about["solve_steps"]) == (7, 5)


def test_a_gpt_has_no_supervision_steps(tmp_path, monkeypatch, checkpoint):
    shape = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "height": 6, "width": 6}
    gpt = GPTPredictor(GPT(GPTConfig(position="learned_2d", **shape)).eval(), Calibration())
    solver = load_solver(checkpoint, device="cpu")
    monkeypatch.setattr(models, "load_solver", lambda *_, **__: replace(solver, predictor=gpt))
    assert describe(checkpoint, "gpt", steps=5)["solve_steps"] is None


def test_a_damaged_configuration_is_named(twin):
    twin.with_name("config.yaml").write_text("data: [1, 2")
    with pytest.raises(ValueError, match=r"config\.yaml is damaged: mend it, or move it away"):
        describe(twin, "mine")
