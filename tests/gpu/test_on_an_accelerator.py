"""Training and solving on an accelerator, beside the same on the CPU.

They are skipped where there is none. With TRM_TEST_ON=cpu they run anywhere, which shows that they
are in order, not that an accelerator is.
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import trm
from canvas.problems import Problems
from canvas.sampling import sample
from trm.solving.solver import Solver
from trm.solving.voting_settings import Voting

ACCELERATOR = os.environ.get("TRM_TEST_ON", "gpu")
DEVICE = "cpu" if ACCELERATOR == "cpu" else "auto"
pytestmark = pytest.mark.skipif(
    ACCELERATOR != "cpu" and not torch.accelerator.is_available(), reason="needs an accelerator"
)

MODELS = Path(__file__).parents[2] / "docs/models"
TRAINER = ("--trainer.accelerator", ACCELERATOR, "--trainer.devices", "1")
SAME = {"rtol": 1e-3, "atol": 1e-3}  # weights after some steps; an accelerator adds in any order
TINY = """
    --model.network.config.hidden_size=16 --model.network.config.num_heads=2
    --model.network.config.intermediate_size=32 --model.network.config.H_cycles=2
    --model.network.config.L_cycles=1 --model.network.config.prefix_size=16 --model.solve_steps=2
    --data.batch_size=4 --data.batches_per_epoch=4 --data.workers=0 --data.validation_problems=4
    --data.training_problems=4 --data.task.digits_a=[1,2] --data.task.digits_b=[1,2]
    --data.canvas.height=8 --data.canvas.width=8 --trainer.log_every_n_steps=1
    --trainer.check_val_every_n_epoch=1 --model.schedule.decay=constant
    --trainer.precision=32-true
""".split()  # noqa: SIM905
RUNS = {  # of each schedule, and of a sequence model
    "carry": ("--config", "trm/reference", *TINY),
    "fresh": ("--config", "debug", "--model.schedule.decay=constant"),
    "gpt": (
        *("--config", "gpt/small_rope_2d", "--data.batch_size=4", "--data.batches_per_epoch=4"),
        *("--data.validation_problems=4", "--data.training_problems=4"),
        *("--model.network.config.hidden_size=16", "--model.network.config.num_layers=1"),
        *("--model.schedule.decay=constant", "--trainer.precision=32-true"),
        *("--trainer.check_val_every_n_epoch=1", "--trainer.log_every_n_steps=1"),
    ),
}


def last(folder: Path) -> dict:
    (path,) = folder.glob("runs/*/version_0/checkpoints/last.ckpt")
    return torch.load(path, weights_only=True, map_location="cpu")


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_as_if_nothing_had_happened(command, tmp_path, name):
    for folder, epochs in (("whole", [2]), ("parts", [1, 2])):
        (tmp_path / folder).mkdir()
        for number in epochs:
            more = ("--ckpt_path", "last") if epochs.index(number) else ()
            words = ("fit", *RUNS[name], *TRAINER, "--trainer.max_epochs", number, *more)
            ran = command(*words, folder=tmp_path / folder)
            assert ran.code == 0, ran.err
    whole, parts = last(tmp_path / "whole"), last(tmp_path / "parts")
    assert parts["global_step"] == whole["global_step"]
    for key, weights in whole["state_dict"].items():
        torch.testing.assert_close(parts["state_dict"][key], weights, **SAME)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_killed_goes_on_and_can_be_solved_with(command, tmp_path, name):
    words = [sys.executable, "-m", "trm", "fit", *RUNS[name], *TRAINER]
    with subprocess.Popen([*words, "--trainer.max_epochs=500", "--quiet"], cwd=tmp_path) as run:
        end = time.monotonic() + 300
        while not list(tmp_path.glob("runs/*/version_0/checkpoints/last.ckpt")):
            assert run.poll() is None
            assert time.monotonic() < end, "it took too long"
            time.sleep(0.1)
        run.send_signal(signal.SIGKILL)
    epochs = last(tmp_path)["epoch"] + 2
    more = ("--trainer.max_epochs", epochs, "--ckpt_path", "last")
    ran = command("fit", *RUNS[name], *TRAINER, *more, folder=tmp_path)
    assert ran.code == 0, ran.err
    assert last(tmp_path)["epoch"] == epochs - 1
    solution = trm.solve("12x3", trm.load_solver(tmp_path, device=DEVICE))
    assert solution.correct in (True, False)


@pytest.mark.skipif(ACCELERATOR == "cpu", reason="compiling for a CPU takes minutes")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch", "ignore:The .grad attribute")
def test_a_compiled_model_learns_what_an_eager_one_does(command, tmp_path):
    for mode in ("true", "reduce-overhead", "false"):
        (tmp_path / mode).mkdir()
        words = (
            "fit",
            *RUNS["carry"],
            *TRAINER,
            "--trainer.max_epochs=1",
            f"--model.compile={mode}",
        )
        ran = command(*words, folder=tmp_path / mode)
        assert ran.code == 0, ran.err
    for mode in ("true", "reduce-overhead"):
        for key, weights in last(tmp_path / "false")["state_dict"].items():
            compiled = last(tmp_path / mode)["state_dict"][key]
            torch.testing.assert_close(compiled, weights, **SAME)


def problems_of(solver: Solver, count: int) -> Problems:
    return sample(solver.task.evenly(), 0, "test", 0, np.arange(count))


@pytest.mark.parametrize(
    "name",
    [None, "decimal-seed0", "standard-seed0", "all-views-seed0", "addition-gpt-seed0"],
)
@pytest.mark.parametrize("voting", [None, Voting(views=4)])
def test_answers_and_confidence_are_those_of_the_cpu(name, voting):
    path = None if name is None else MODELS / f"{name}.safetensors"
    there = trm.load_solver(path, device=DEVICE, voting=voting)
    here = trm.load_solver(path, device="cpu", voting=voting)
    asked = problems_of(here, 12)
    for one, other in zip(there.solve(asked), here.solve(asked), strict=True):
        assert one.answer == other.answer
        assert one.confidence == pytest.approx(other.confidence, abs=0.02)


def test_half_precision_says_the_same():
    solver = trm.load_solver(device=DEVICE)
    asked = problems_of(solver, 24)
    whole = [solution.answer for solution in solver.solve(asked)]
    kind = next(solver.predictor.model.parameters()).device.type
    with torch.autocast(kind, torch.bfloat16):
        assert [solution.answer for solution in solver.solve(asked)] == whole


def test_files_and_figures_are_those_of_the_cpu(command, tmp_path):
    with (tmp_path / "problems.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b"), (12, 34), (987, 65), (1234, 5678)])
    records, shares = {}, {}
    for where in (ACCELERATOR, "cpu"):
        words = ("--input", "problems.csv", "--output", f"{where}.jsonl", "--accelerator", where)
        ran = command("solve", *words, folder=tmp_path)
        assert ran.code == 0, ran.err
        lines = (tmp_path / f"{where}.jsonl").read_text().splitlines()
        records[where] = [json.loads(line)["answer"] for line in lines]
        size = ("--digits-a", "2,8", "--digits-b", "2,8", "--problems", 8)
        words = ("evaluate", *size, "--accelerator", where, "--output", f"grid-{where}")
        ran = command(*words, folder=tmp_path)
        assert ran.code == 0, ran.err
        grid = json.loads((tmp_path / f"grid-{where}/grid.json").read_text())
        shares[where] = [cell["solved"] for model in grid["models"] for cell in model["cells"]]
    assert records[ACCELERATOR] == records["cpu"] == [408, 64155, 7006652]
    assert shares[ACCELERATOR] == shares["cpu"]
