import json
import os
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest
import yaml

from trm.commands import cli
from trm.extras.sweep import runs
from trm.extras.sweep.runs import Jobs
from trm.extras.sweep.study import Run, Setting, Study
from trm.io.files import alone
from trm.runtime.processes import ENDS_WITH

STUDY = {
    "config": "debug",
    "set": {
        **{"trainer.max_epochs": 2, "trainer.check_val_every_n_epoch": 1, "data.batch_size": 4},
        **{"data.batches_per_epoch": 3, "data.validation_problems": 4, "data.training_problems": 0},
    },
    "axes": {"model.optimizer.lr": [0.003, 0.0003, 1e30]},
    "checkpoint": "equal_loss",
    "evaluate": {"inside": {"digits-a": "1..2", "digits-b": "1", "problems": 4}},
}


@pytest.fixture
def study(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(STUDY))
    return file


def test_a_dry_run_starts_nothing_and_a_busy_folder_is_refused(command, study, tmp_path):
    ran = command("sweep", study, "--output", "out", "--dry-run", "--jobs", 1, folder=tmp_path)
    assert "3 settings x 1 seeds: 3 runs, 1 at once" in ran.out
    assert "5,818" in ran.out
    assert not (tmp_path / "out").exists()
    with alone(tmp_path / "out"):
        ran = command("sweep", study, "--output", "out", folder=tmp_path, code=2)
    assert "another process is at work on out" in ran.err
    (tmp_path / "file").touch()
    for folder, why in (("file", "is not a folder"), ("/proc/self/x", "is no folder to write to")):
        ran = command("sweep", study, "--output", folder, folder=tmp_path, code=2)
        assert why in ran.err
        assert "building" not in ran.out  # models are built afterwards


@pytest.mark.usefixtures("undrawn")
def test_a_study_is_run_printed_and_kept(command, study, tmp_path, monkeypatch):
    def submit(jobs, run, words, device, module):  # in this process, one after the other
        log = jobs.folder(run) / "log.txt"
        with log.open("a") as file, redirect_stdout(file), redirect_stderr(file):
            code = cli.run(words)
        return SimpleNamespace(returncode=code, poll=lambda: code)

    monkeypatch.setattr(Jobs, "_submit", submit)
    monkeypatch.setattr(runs, "_INTERVAL", 0)
    command("sweep", study, "--output", "out", folder=tmp_path, code=1)
    text = (tmp_path / "out/study.md").read_text()
    assert "2 of 3 runs are done" in text
    assert "lr 1e+30, seed 0: training ended with code 1" in text
    assert "is not finite" in text
    assert "| lr 0.003 | 5,818 |" in text
    assert "validation loss" in text
    assert "study.png" in text
    assert (tmp_path / "out/study.png").exists()
    done = [tmp_path / f"out/runs/lr_{lr}-seed0/state.json" for lr in ("0.0003", "0.003")]
    chosen, lowest = [], []
    for state in (json.loads(file.read_text()) for file in done):
        [(checkpoint, *_)] = state["evaluated"].values()
        assert len(state["losses"]) == 2
        chosen.append(state["losses"][checkpoint])
        lowest.append(min(state["losses"].values()))
    assert max(chosen) <= max(lowest)
    before = [file.stat().st_mtime_ns for file in done]
    grids = list((tmp_path / "out/evaluations/inside").glob("*/grid.json"))
    assert sorted(grid.parent.name for grid in grids) == [file.parent.name for file in done]
    study.write_text(yaml.safe_dump(STUDY | {"axes": {"model.optimizer.lr": [0.003, 0.0003]}}))
    again = command("sweep", study, "--output", "out", folder=tmp_path)
    assert "2 of them done already" in again.out
    assert [file.stat().st_mtime_ns for file in done] == before
    assert "left out of its report: runs/lr_1e+30-seed0" in again.out
    assert (
        "left out of its report: runs/lr\\_1e+30-seed0" in (tmp_path / "out/study.md").read_text()
    )
    sizes = {"evaluate": {"inside": {"digits-a": "1", "digits-b": "1", "problems": 4}}}
    study.write_text(yaml.safe_dump(STUDY | sizes))
    planned = command("sweep", study, "--output", "out", "--dry-run", folder=tmp_path)
    assert "3 runs, 2 of them trained and to be evaluated" in planned.out
    longer = STUDY["set"] | {"trainer.max_epochs": 3}
    study.write_text(yaml.safe_dump(STUDY | {"set": longer}))
    refused = command("sweep", study, "--output", "out", "--dry-run", folder=tmp_path, code=2)
    assert "--trainer.max_epochs=2, --trainer.max_epochs=3" in refused.err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"axes": {"model.optimizer.lrr": [1]}}, "lrr 1: there is no setting model.optimizer.lrr"),
        ({"axes": {"model.optimizer.lr": ["fast"]}}, "lr fast: model.optimizer.lr: expected float"),
        ({"evaluate": {"x": {"digitsa": 3}}}, "evaluate: x: unrecognized arguments: --digitsa"),
        ({"evaluate": {"x": {"digits": 1}}}, "lr 0.003: evaluate: x: "),
        ({"config": "studies/depth"}, "is a study, of many runs"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(command, study, tmp_path, more, told):
    study.write_text(yaml.safe_dump(STUDY | more))
    assert told in command("sweep", study, "--output", "out", folder=tmp_path, code=2).err
    assert not (tmp_path / "out").exists()


def test_runs_end_with_the_command_whatever_ends_it(tmp_path, monkeypatch):
    """A process looks for this in its environment: see tests/trm/runtime/test_processes.py."""
    started = []
    monkeypatch.setattr(runs, "Popen", lambda words, **how: started.append(how["env"]))
    run = Run(Setting("a", {}, "debug", ()), 0)
    jobs = Jobs(tmp_path, Study((run.setting,)))
    jobs.folder(run).mkdir(parents=True)
    jobs._submit(run, ["fit"], "3", "trm")
    assert started[0].items() >= {ENDS_WITH: str(os.getpid()), "CUDA_VISIBLE_DEVICES": "3"}.items()
