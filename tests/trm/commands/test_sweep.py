import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from trm.sweeps import running
from trm.sweeps.study import read_study

STUDY = {
    "config": "debug",
    "axes": {"model.optimizer.lr": [0.003, 1e30]},
    "evaluate": {"inside": {"digits-a": "1..2", "digits-b": "1", "problems": 8}},
}


@pytest.fixture
def study(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(STUDY))
    return file


def test_a_dry_run_tells_what_would_run_and_starts_nothing(command, study, tmp_path):
    ran = command("sweep", study, "--output", "out", "--dry-run", "--jobs", 1, folder=tmp_path)
    assert ran.code == 0
    assert "2 settings x 1 seeds: 2 runs, 1 at once" in ran.out
    assert "5,818" in ran.out
    assert not (tmp_path / "out").exists()


def test_runs_are_trained_evaluated_and_told_and_done_ones_stay(process, study, tmp_path):
    ran = process("sweep", study, "--output", "out", "--jobs", 1, folder=tmp_path)
    assert ran.code == 1, ran.err  # as one of them has failed
    text = (tmp_path / "out/study.md").read_text()
    assert "1 of 2 runs are done" in text
    assert "lr 1e+30, seed 0: trm fit ended with code 1" in text
    assert "is not finite" in text
    assert "| lr 0.003 | 5,818 |" in text
    assert (tmp_path / "out/study.png").stat().st_size > 5000
    done = tmp_path / "out/points/lr_0.003-seed0/point.json"
    before = done.stat().st_mtime_ns
    grids = list((tmp_path / "out/evaluations/inside").glob("*/grid.json"))
    assert [grid.parent.name for grid in grids] == ["lr_0.003-seed0"]

    study.write_text(yaml.safe_dump(STUDY | {"axes": {"model.optimizer.lr": [0.003]}}))
    again = process("sweep", study, "--output", "out", folder=tmp_path)
    assert again.code == 0, again.err
    assert "1 of them done already" in again.out
    assert "1 settings of earlier calls are not in the study" in " ".join(again.out.split())
    assert done.stat().st_mtime_ns == before
    (tmp_path / "out/study.md").unlink()
    gathered = process("sweep", study, "--output", "out", "--gather", folder=tmp_path)
    assert gathered.code == 0, gathered.err
    assert "1 of 1 runs are done" in (tmp_path / "out/study.md").read_text()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"axes": {"model.optimizer.lrr": [1]}}, "lrr 1: there is no setting model.optimizer.lrr"),
        ({"evaluate": {"x": {"digitsa": 3}}}, "evaluate: x: unrecognized arguments: --digitsa"),
        ({"evaluate": {"x": {"contexts": True}}}, "contexts are of one model"),
        ({"evaluate": {"x": {"digits": 1}}}, "evaluate: x: --digits are no sizes of the task"),
        ({"axis": {}}, "mine.yaml: a study has no key axis"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(command, study, tmp_path, more, told):
    study.write_text(yaml.safe_dump(STUDY | more))
    ran = command("sweep", study, "--output", "out", folder=tmp_path)
    assert ran.code == 2
    assert told in ran.err
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_told_at_once(command, study, tmp_path):
    (tmp_path / "out").touch()
    ran = command("sweep", study, "--output", "out", folder=tmp_path)
    assert ran.code == 2
    assert "--output out is no folder to write to" in ran.err


def test_a_study_is_no_config_of_one_run(command, study):
    ran = command("fit", "--config", study)
    assert ran.code == 2
    assert "is a study, of many runs: trm sweep" in ran.err


def test_seeds_begin_where_the_command_line_says(command, study, tmp_path):
    study.write_text(yaml.safe_dump(STUDY | {"seeds": [0, 1], "axes": {}}))
    ran = command("sweep", study, "--output", "out", "--seed", 7, "--dry-run", folder=tmp_path)
    assert ran.code == 0
    assert "1 settings x 2 seeds" in ran.out


def test_slurm_options_are_looked_at(command, study, tmp_path):
    ran = command("sweep", study, "--output", "out", "--slurm", "gpu", folder=tmp_path)
    assert ran.code == 2
    assert "--slurm takes options like partition=gpu, not 'gpu'" in ran.err


def test_without_slurm_nothing_is_begun(command, study, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    ran = command("sweep", study, "--output", "out", "--slurm", folder=tmp_path)
    assert ran.code == 2
    assert "--slurm: there is no SLURM here (no srun)" in ran.err
    assert not (tmp_path / "out").exists()


def test_slurm_gets_the_runs_as_an_array(study, tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    from trm.sweeps import slurm
    from trm.sweeps.plan import make_plan

    monkeypatch.setattr("trm.sweeps.plan.try_out", lambda words, check: running_trial())
    plan = make_plan(read_study(study), None, lambda name: None)
    point = next(plan.points())
    folder = running.folder_of(tmp_path, point)
    # What a node does, in a process of this machine: the words of a run that is done.
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    folder.mkdir(parents=True)
    state = running.State(list(point.words), point.config, "done", True)
    state.evaluated = running.wanted(plan, {point: state})[point]
    (folder / "point.json").write_text(json.dumps(vars(state)))
    [job] = slurm.submit(tmp_path, plan, [point], {"timeout_min": 5}, 1, cluster="local")
    assert job.result() == running.DONE


def running_trial():
    from trm.sweeps.trial import Trial

    return Trial(1, 1, 1, 1, 1, 1.0, 1.0)


def test_runs_are_compared_where_their_losses_are_equal(process, study, tmp_path):
    held = {
        "config": "debug",
        "set": {"trainer.max_epochs": 3, "trainer.check_val_every_n_epoch": 1},
        "axes": {"model.network.config.hidden_size": [8, 32]},
        "checkpoint": "equal_loss",
        "evaluate": {"inside": {"digits-a": "1", "digits-b": "1", "problems": 4}},
    }
    study.write_text(yaml.safe_dump(held))
    ran = process("sweep", study, "--output", "out", "--jobs", 1, folder=tmp_path)
    assert ran.code == 0, ran.err
    assert "2 of 2 runs are done" in (tmp_path / "out/study.md").read_text()
    chosen, lowest = {}, {}
    for file in (tmp_path / "out/points").glob("*/point.json"):
        state = json.loads(file.read_text())
        [(checkpoint, *_)] = state["evaluated"].values()
        chosen[file.parent.name] = state["losses"][checkpoint]
        lowest[file.parent.name] = min(state["losses"].values())
        assert len(state["losses"]) == 3
    assert max(chosen.values()) <= max(lowest.values())
    text = (tmp_path / "out/study.md").read_text()
    assert "validation loss" in text
    assert "study-lines.png" in text
    assert (tmp_path / "out/study-lines.png").stat().st_size > 5000


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
def test_runs_end_with_the_command_that_is_killed_and_go_on_where_they_were(study, tmp_path):
    study.write_text(yaml.safe_dump({"config": "debug", "set": {"trainer.max_epochs": 500}}))
    trm = [str(Path(sys.executable).with_name("trm")), "sweep", str(study), "--output", "out"]
    log = tmp_path / "out/points/debug-seed0/log.txt"
    last = tmp_path / "out/points/debug-seed0/version_0/checkpoints/last.ckpt"
    with subprocess.Popen([*trm, "--quiet"], cwd=tmp_path, stdout=subprocess.DEVNULL) as sweep:
        wait_for(last.is_file)
        [run] = children(sweep.pid)
        sweep.kill()
    wait_for(lambda: not Path(f"/proc/{run}").exists())
    assert "trm fit: stopped" in log.read_text()
    epochs = torch.load(last, weights_only=True)["epoch"]

    with subprocess.Popen([*trm, "--quiet"], cwd=tmp_path, stdout=subprocess.DEVNULL) as sweep:
        wait_for(lambda: torch.load(last, weights_only=True)["epoch"] > epochs)
        sweep.terminate()
    assert sweep.returncode == 143
    assert not (tmp_path / "out/points/debug-seed0/version_1").exists()


def children(process: int) -> list[int]:
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [int(word) for file in threads for word in file.read_text().split()]


def wait_for(true, seconds: float = 100.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.2)
