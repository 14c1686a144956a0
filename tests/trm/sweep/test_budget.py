"""A study within minutes, from end to end: measured, trained as long as fits, stopped, resumed."""

import json
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from trm.checkpoints.loading import load_solver, unpack
from trm.commands import cli
from trm.sweep import budget, speed
from trm.sweep.budget import Budget, Worker
from trm.sweep.runs import Jobs
from trm.sweep.speed import Measured, Speed
from trm.sweep.study import Setting, Study
from trm.training.callbacks import CheckpointFiles

# The parts of configs/studies/note.yaml, tiny.
STUDY = {
    "config": "debug",
    "set": {
        "data.batch_size": 4,
        "data.batches_per_epoch": 4,
        "data.validation_problems": 2,
        "data.training_problems": 0,
        "data.task.digits_a": [1, 1],
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
                "model.network.config.hidden_size": 16,
                "model.network.config.num_heads": 2,
                "model.network.config.num_layers": 1,
                "data.task.digits_b": [1, 1],
                "data.canvas.height": 6,
                "data.canvas.width": 6,
                "data.workers": 0,
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


class Stopped(Exception):
    """Raised where a training is stopped."""


@pytest.fixture
def here(monkeypatch):
    """Run all commands of a study in this process; ``stops``: by checkpoints, what ends training."""
    told = SimpleNamespace(stages=[], fits=[], stops=None)

    def submit(jobs, run, words, device, module="trm"):
        told.stages.append((run.setting.name, jobs.stages[run]))
        if words[0] == "fit":
            told.fits.append(words)
        with (
            (jobs.folder(run) / "log.txt").open("a") as file,
            redirect_stdout(file),
            redirect_stderr(file),
        ):
            try:
                code = 0 if module == "trm" else speed.main(words)
                code = cli.run(words) if module == "trm" else 0
            except Stopped:
                return Job(None)
        return Job(code)

    save = CheckpointFiles.save_checkpoint

    def stopping(*args, **more):
        save(*args, **more)
        if told.stops is not None:
            told.stops -= 1
            if told.stops == 0:
                told.stops = None
                raise told.how

    monkeypatch.setattr(CheckpointFiles, "save_checkpoint", stopping)
    monkeypatch.setattr(Jobs, "_submit", submit)
    monkeypatch.setattr(budget, "_POLL", 0)
    # So that little is trained: 16 batches a second for the TRM, and 8 in the GPT's time.
    monkeypatch.setattr(budget, "_WITH_EVALUATIONS", (0.02, 0.05))
    monkeypatch.setattr(speed, "_WARM_UP", 1)
    monkeypatch.setattr(speed, "_LEAST", 1)
    return told


@pytest.fixture
def sweep(command, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(STUDY, sort_keys=False))

    def run(minutes, **more):
        words = ("sweep", file, "--output", "out", "--minutes", minutes)
        return command(*words, folder=tmp_path, **more)

    return run
