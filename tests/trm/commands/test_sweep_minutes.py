"""`trm sweep --minutes` from end to end: measured, trained as long as fits, stopped, resumed."""

import json
import logging
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from trm.checkpoints.loading import load_solver
from trm.commands import cli
from trm.commands import sweep as sweep_command
from trm.extras.sweep import budget, speed
from trm.extras.sweep.runs import Jobs
from trm.training.callbacks import CheckpointFiles

# The parts of configs/studies/note.yaml, tiny.
STUDY = {
    "config": "debug",
    "set": {
        **{"data.batch_size": 4, "data.batches_per_epoch": 4, "data.validation_problems": 2},
        **{"data.training_problems": 0, "data.task.digits_a": [1, 1]},
        "trainer.log_every_n_steps": 2,
    },
    "axes": {
        "model": {
            "TRM": {
                "share": 3,
                "evaluate": ["lengths", "more views"],
                "data.canvas.height": 6,
                "data.canvas.width": 6,
                "data.transforms": [{"class_path": "albumentations.D4", "init_args": {"p": 1.0}}],
                "model.depth.stages": [{"until": 0.5, "H_cycles": 1, "L_cycles": 1}],
            },
            "GPT": {
                "config": "gpt/gpt2_rope_2d",
                "evaluate": ["lengths"],
                **{"model.network.config.hidden_size": 16, "model.network.config.num_heads": 2},
                **{"model.network.config.num_layers": 1, "data.task.digits_b": [1, 1]},
                **{"data.canvas.height": 6, "data.canvas.width": 6, "data.workers": 0},
            },
        }
    },
    "checkpoint": "last",
    "export": "bfloat16",
    "evaluate": {
        "lengths": {"digits-a": "1", "digits-b": "1", "problems": 2},
        "more views": {"digits-a": "1", "digits-b": "1", "problems": 2, "views": 2},
    },
}


class Job:
    """A command in this process: done when it is started, or at work until it is terminated."""

    def __init__(self, code: int | None) -> None:
        self.returncode = code

    def poll(self) -> int | None:
        return self.returncode

    def terminate(self) -> None:
        self.returncode = 143

    def wait(self, timeout: float | None = None) -> None:
        pass


class StoppedError(Exception):
    """Raised in a training that then seems to go on, until its time is up."""


class Killed(BaseException):
    """Raised in a training to end the whole command."""


@pytest.fixture
def here(monkeypatch):
    """Run all commands of a study in this process; ``stop`` is raised at the next checkpoint.

    The clock is made up: a stage takes a second, a training of a GPT 100, a batch 12.
    """
    told = SimpleNamespace(stages=[], fits=[], stop=None, now=0.0)

    def submit(jobs, run, words, device, module):
        told.stages.append(f"{run.setting.name} {jobs.stages[run]}")
        told.now += 1
        if words[0] == "fit":
            told.fits.append(words)
            told.now += 99.0 * (run.setting.name == "GPT")  # nothing is left over
        log = jobs.folder(run) / "log.txt"
        with log.open("a") as file, redirect_stdout(file), redirect_stderr(file):
            try:
                if module == "trm":
                    return Job(cli.run(words))
                speed.main(words)
                logging.disable(logging.NOTSET)
                measured(Path(words[0]))
                return Job(0)
            except StoppedError:
                return Job(None)

    save = CheckpointFiles.save_checkpoint

    def stopping(*args, **more):
        save(*args, **more)
        stop, told.stop = told.stop, None
        if stop is not None:
            raise stop

    def sleep(_: float) -> None:
        told.now += 30

    clock = SimpleNamespace(time=time.time, sleep=sleep, monotonic=lambda: told.now)
    for module in (budget, sweep_command):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(CheckpointFiles, "save_checkpoint", stopping)
    monkeypatch.setattr(Jobs, "_submit", submit)
    monkeypatch.setattr(budget, "SECONDS", 0.01)
    monkeypatch.setattr(speed, "_WARM_UP", 1)
    monkeypatch.setattr(speed, "_LEAST", 1)
    return told


def measured(file: Path) -> None:
    """Replace the times in a file of a run's speed."""
    found = json.loads(file.read_text())
    cases = [case | {"warm_up": 1.0, "rate": case["rate"] and 1 / 12} for case in found["cases"]]
    file.write_text(json.dumps(found | {"start": 1.0, "cases": cases}))


@pytest.fixture
def sweep(command, tmp_path, here):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(STUDY, sort_keys=False))

    def run(minutes: float, **more: int):
        here.stages.clear()
        here.fits.clear()
        words = ("sweep", file, "--output", "out", "--minutes", minutes)
        return command(*words, folder=tmp_path, **more)

    return run


@pytest.mark.usefixtures("undrawn")
def test_a_study_in_minutes_continues_after_every_stop(sweep, here, tmp_path):
    out = tmp_path / "out"

    def state(name: str) -> dict:
        return json.loads((out / f"runs/{name}-seed0/state.json").read_text())

    ran = sweep(0.5)  # not enough for an epoch
    assert here.stages[:2] == ["TRM measuring", "GPT measuring"]
    assert not here.fits
    assert "TRM, seed 0: its time is too short for one epoch: 4 batches take 48 seconds" in ran.out
    assert "the same command with more --minutes continues" in " ".join(ran.out.split())
    page = (out / "study.md").read_text()
    assert "| TRM, seed 0 | 50 % | eager | 4 | " in page
    assert "| GPT, seed 0 | 100 % | compiled | 4 | – | – | – | – | – | not compiled on" in page

    here.stop = Killed()
    with pytest.raises(Killed):
        sweep(10)
    assert here.stages == ["TRM training"]
    [first] = here.fits
    assert "batches in " in state("TRM")["note"]

    here.stop = StoppedError()
    ran = sweep(10)
    parts = ["training", "evaluating lengths"]
    assert here.stages == [
        *(f"TRM {part}" for part in (*parts, "evaluating more_views")),
        *(f"GPT {part}" for part in parts),
    ]
    assert here.fits[0] == first  # goes on, for the same number of epochs
    cut = state("TRM")
    assert (cut["trained"], cut["cut"], cut["error"]) == (False, 8, "")  # two epochs
    assert cut["steps"] > 8
    told = f"its time of training was up after 8 of {cut['steps']} steps; it continues with more"
    assert f"TRM, seed 0: {told}" in ran.out
    assert told in (out / "study.md").read_text()
    assert state("GPT")["trained"]
    check_parts(out)
    before = (out / "weights/TRM-seed0.safetensors").read_bytes()

    sweep(30)
    assert here.stages == [f"TRM {part}" for part in (*parts, "evaluating more_views")]
    assert state("TRM")["trained"]
    assert "2 of 2 runs are done" in (out / "study.md").read_text()
    assert (out / "weights/TRM-seed0.safetensors").read_bytes() != before
    check_parts(out)


def check_parts(out: Path) -> None:
    """Each run has weights in bfloat16 that solve, and its grids."""
    for name, evaluations in {"TRM": ("lengths", "more_views"), "GPT": ("lengths",)}.items():
        file = out / f"weights/{name}-seed0.safetensors"
        solver = load_solver(file, device="cpu")
        assert file.stat().st_size < 2 * solver.predictor.model.num_parameters + 8_000
        assert len(solver.solve(solver.task.parsed(["2x3"]))) == 1
        grids = sorted(out.glob(f"evaluations/*/{name}-seed0/grid.json"))
        assert [grid.parts[-3] for grid in grids] == sorted(evaluations)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("more", "words", "told"),
    [
        ({}, ("--jobs", 2), "leave out --jobs"),
        ({}, ("--minutes", 0), "0 is not a number of minutes above 0"),
        ({"checkpoint": "equal_loss", "axes": {}}, (), "leave out --minutes, or set checkpoint"),
        (
            {"set": {"model.depth.stages": [{"until": 3}]}, "axes": {}},
            (),
            "as a share of the run, like 0.8",
        ),
    ],
)
def test_studies_that_cannot_have_minutes_are_refused(command, tmp_path, more, words, told):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(STUDY | more, sort_keys=False))
    ran = command("sweep", file, "--output", "out", "--minutes", 5, *words, folder=tmp_path, code=2)
    assert told in ran.err
    assert not (tmp_path / "out").exists()
