import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from filelock import FileLock

from trm.sweep import runs
from trm.sweep.runs import Jobs
from trm.training.iterative_module import IterativeModule

STUDY = {
    "config": "debug",
    "axes": {"model.optimizer.lr": [0.003, 1e30]},
    "evaluate": {"inside": {"digits-a": "1..2", "digits-b": "1", "problems": 4}},
}


@pytest.fixture
def study(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(STUDY))
    return file


@pytest.fixture
def in_process(monkeypatch):
    """Runs are worked out in this process, one after the other."""

    class Job:
        def __init__(self, code: int) -> None:
            self.result, self.done = (lambda: code), (lambda: True)

    def submit(jobs, run, words):
        return Job(runs._command(words, runs.folder_of(jobs.output, run) / "log.txt", None, ""))

    monkeypatch.setattr(Jobs, "_submit", submit)
    monkeypatch.setattr(runs, "_INTERVAL", 0)


def test_a_dry_run_tells_what_would_run_and_starts_nothing(command, study, tmp_path):
    words = ("--output", "out", "--dry-run", "--jobs", 1, "--seed", 7)
    ran = command("sweep", study, *words, folder=tmp_path)
    assert ran.code == 0
    assert "2 settings x 1 seeds: 2 runs, 1 at once" in ran.out
    assert "5,818" in ran.out
    assert not (tmp_path / "out").exists()


def test_runs_are_trained_evaluated_and_told_and_done_ones_stay(
    command, study, tmp_path, in_process
):
    ran = command("sweep", study, "--output", "out", folder=tmp_path)
    assert ran.code == 1, ran.err  # as one of them has failed
    text = (tmp_path / "out/study.md").read_text()
    assert "1 of 2 runs are done" in text
    assert "lr 1e+30, seed 0: training ended with code 1" in text
    assert "is not finite" in text
    assert "| lr 0.003 | 5,818 |" in text
    assert (tmp_path / "out/study.png").stat().st_size > 5000
    done = tmp_path / "out/runs/lr_0.003-seed0/state.json"
    before = done.stat().st_mtime_ns
    grids = list((tmp_path / "out/evaluations/inside").glob("*/grid.json"))
    assert [grid.parent.name for grid in grids] == ["lr_0.003-seed0"]
    study.write_text(yaml.safe_dump(STUDY | {"axes": {"model.optimizer.lr": [0.003]}}))
    again = command("sweep", study, "--output", "out", folder=tmp_path)
    assert again.code == 0, again.err
    assert "1 of them done already" in again.out
    assert done.stat().st_mtime_ns == before


def test_runs_are_compared_where_their_losses_are_equal(command, study, tmp_path, in_process):
    held = {
        "config": "debug",
        "set": {"trainer.max_epochs": 3, "trainer.check_val_every_n_epoch": 1},
        "axes": {"model.network.config.hidden_size": [8, 32]},
        "checkpoint": "equal_loss",
        "evaluate": {"inside": {"digits-a": "1", "digits-b": "1", "problems": 4}},
    }
    study.write_text(yaml.safe_dump(held))
    ran = command("sweep", study, "--output", "out", folder=tmp_path)
    assert ran.code == 0, ran.err
    chosen, lowest = [], []
    for file in (tmp_path / "out/runs").glob("*/state.json"):
        state = json.loads(file.read_text())
        [(checkpoint, *_)] = state["evaluated"].values()
        assert len(state["losses"]) == 3
        chosen.append(state["losses"][checkpoint])
        lowest.append(min(state["losses"].values()))
    assert max(chosen) <= max(lowest)
    text = (tmp_path / "out/study.md").read_text()
    assert "2 of 2 runs are done" in text
    assert "validation loss" in text
    assert "study-lines.png" in text


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"axes": {"model.optimizer.lrr": [1]}}, "lrr 1: there is no setting model.optimizer.lrr"),
        ({"axes": {"model.optimizer.lr": ["fast"]}}, "lr fast: model.optimizer.lr: expected float"),
        ({"evaluate": {"x": {"digitsa": 3}}}, "evaluate: x: unrecognized arguments: --digitsa"),
        ({"evaluate": {"x": {"contexts": True}}}, "contexts are of one model"),
        ({"evaluate": {"x": {"digits": 1}}}, "lr 0.003: evaluate: x: "),
        ({"axis": {}}, "mine.yaml: axis: there is no such field"),
        ({"config": "studies/depth"}, "is a study, of many runs"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(command, study, tmp_path, more, told):
    study.write_text(yaml.safe_dump(STUDY | more))
    ran = command("sweep", study, "--output", "out", folder=tmp_path)
    assert ran.code == 2
    assert told in ran.err
    assert not (tmp_path / "out").exists()


def test_a_folder_is_one_sweeps_at_a_time(command, study, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    ran = command("sweep", study, "--output", "file", folder=tmp_path)
    assert (ran.code, "--output file is no folder to write to" in ran.err) == (2, True)
    monkeypatch.setattr("trm.commands.sweep._PATIENCE", 0)
    (tmp_path / "out").mkdir()
    with FileLock(runs.lock_of(tmp_path / "out")):
        ran = command("sweep", study, "--output", "out", folder=tmp_path)
    assert (ran.code, "another trm sweep is at work in out" in ran.err) == (2, True)


def test_slurm_takes_options_and_a_cluster(command, study, tmp_path, monkeypatch):
    ran = command("sweep", study, "--output", "out", "--slurm", "gpu", folder=tmp_path)
    assert ran.code == 2
    assert "--slurm takes options like partition=gpu, not 'gpu'" in ran.err
    monkeypatch.setattr("shutil.which", lambda name: None)
    ran = command("sweep", study, "--output", "out", "--slurm", folder=tmp_path)
    assert (ran.code, "--slurm: " in ran.err, "srun" in ran.err) == (2, True, True)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
def test_runs_end_with_the_command_that_is_killed_and_go_on_where_they_were(
    command, study, tmp_path, in_process, monkeypatch
):
    long = {"trainer.max_epochs": 500, "trainer.check_val_every_n_epoch": 500}
    study.write_text(yaml.safe_dump({"config": "debug", "set": long}))
    trm = [str(Path(sys.executable).with_name("trm")), "sweep", str(study), "--output", "out"]
    last = tmp_path / "out/runs/debug-seed0/version_0/checkpoints/last.ckpt"
    with subprocess.Popen([*trm, "--quiet"], cwd=tmp_path, stdout=subprocess.DEVNULL) as sweep:
        wait_for(last.is_file)
        [controller] = children(sweep.pid)
        [run] = children(controller)
        sweep.kill()
    wait_for(lambda: not any(Path(f"/proc/{process}").exists() for process in (controller, run)))
    epochs: list[int] = []

    def stop(module) -> None:
        epochs.append(module.current_epoch)
        if len(epochs) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(IterativeModule, "on_train_epoch_start", stop)
    before = torch.load(last, weights_only=True)["epoch"]
    command("sweep", study, "--output", "out", folder=tmp_path)
    assert epochs == [before + 1, before + 2, before + 3]
    assert not (tmp_path / "out/runs/debug-seed0/version_1").exists()


def children(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [int(word) for file in threads for word in file.read_text().split()]


def wait_for(true, seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
