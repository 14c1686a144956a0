import csv
import itertools
import os
import re
import signal
from pathlib import Path
from typing import NoReturn

import pytest
import torch
from forked import forked
from runs import TINY_TRM, assert_same, events_of, last_of, whole_and_resumed

from canvas.problems import Problems
from trm.checkpoints.content import load_checkpoint
from trm.checkpoints.loading import load_solver
from trm.commands import cli
from trm.solving.teacher_forced import teacher_forced
from trm.training.callbacks import CheckpointFiles
from trm.training.cli import train
from trm.training.samples import ValidationProblems

CSV = "--trainer.logger=lightning.pytorch.loggers.CSVLogger"  # for which nothing is drawn


def test_a_run_leaves_its_config_checkpoints_and_figures(trained):
    run = trained / "runs/debug/version_0"
    names = {path.name for path in run.rglob("*") if path.is_file()}
    assert {"config.yaml", "best.ckpt", "last.ckpt"} <= names
    events = events_of(run)
    scalars = set(events.Tags()["scalars"])
    assert {
        *(f"train/{name}" for name in ("loss", "loss_cells", "loss_halting", "row_accuracy")),
        *(f"train/{name}" for name in ("cell_accuracy", "halting_accuracy")),
        "speed/samples_per_second",
    } <= scalars
    figures = {"solved", "loss", "free_running_rows", "supervision_steps", "confidence_accuracy"}
    figures |= {"teacher_forced_rows", "teacher_forced_cells"}
    for group in ("validation", "training_problems"):
        logged = {name.split("/")[1] for name in scalars if name.startswith(f"{group}/")}
        assert logged == figures
    assert any(name.startswith("learning_rate/") for name in scalars)
    pictures = {"panels/row_1", "panels/wrong_1", "figures/supervision_steps"}
    assert pictures <= set(events.Tags()["images"])
    assert [event.step for event in events.Scalars("train/loss")] == list(range(10))
    assert last_of(trained)["global_step"] == 10
    solver = load_solver(run / "checkpoints/last.ckpt", device="cpu")
    data = ValidationProblems(solver.task, solver.canvas, "train", 0, 8, 8)
    forced = teacher_forced(solver.predictor, data.__getitems__(range(8))[1])
    logged = events.Scalars("training_problems/teacher_forced_cells")
    assert logged[-1].value == pytest.approx(forced.cell_accuracy.mean(), abs=1e-6)


def test_one_seed_stands_for_all(debug, monkeypatch):
    monkeypatch.setattr("sys.argv", ["trm"])
    words = [*map(str, debug), "--seed=3", "--trainer.logger=false", "--trainer.devices=1"]
    config = train(words, run=False).config
    for key in ("seed_everything", "data.seed", "model.init_args.seed"):
        assert config[key] == 3
    assert config["seed"] is None  # so that another of these can be changed


def test_a_checkpoint_is_scored_as_its_exported_weights_are(trained, command, debug, tmp_path):
    run, weights = trained / "runs/debug", tmp_path / "weights.safetensors"
    command("inspect", "--checkpoint", run, "--export", weights)
    best = run / "version_0/checkpoints/best.ckpt"
    words = ("test", *debug, "--ckpt_path")
    ran = command(*words, best, folder=tmp_path)
    assert command(*words, weights, folder=tmp_path) == ran
    solved = re.search(r"test/solved +(\S+) % \((\d+) of 4; 95 % interval \S+ to ", ran.out)
    assert solved, ran.out
    assert float(solved[1]) == pytest.approx(100 * int(solved[2]) / 4, abs=0.05)
    rows = re.findall(r"test/(?:free_running|teacher_forced)_rows .* of (\d+); 95 %", ran.out)
    assert len(rows) == 2
    assert int(rows[0]) == int(rows[1]) >= 4
    # 100 % where all are wrong, and held wrong
    assert re.search(r"/confidence_accuracy .*; \d+\.\d % of these rows are correct", ran.out)
    assert "Test metric" not in ran.out  # Lightning's own table
    ran = command("fit", *debug, "--ckpt_path", weights, folder=tmp_path, code=2)
    assert "holds weights alone" in ran.err


def test_a_run_with_carry_averages_and_heads_resumes_exactly(command, tmp_path):
    words = (*TINY_TRM, "--trainer.accelerator", "cpu")
    words += ("--model.auxiliary={carry: 0.3, product: 0.3}",)
    words += ("--model.depth.halt_max_steps", 3)  # some samples are replaced in each epoch
    whole, resumed = whole_and_resumed(command, tmp_path, *words)
    assert_same(whole, resumed, "carry", "current_model_state")
    carry = whole["carry"][0]
    assert (carry["steps"] > 1).any()  # there was something to take over
    assert carry["state"]["z_H"].shape[1] == 16 + 8 * 8  # the prefix and every cell
    averaged, raw = whole["state_dict"], whole["current_model_state"]
    raw = {name.removeprefix("module."): value for name, value in raw.items()}
    assert set(raw) == set(averaged)
    assert any(not torch.equal(averaged[name], raw[name]) for name in averaged)
    heads = {name for name in averaged if name.startswith("auxiliary.")}
    names = itertools.product(("carry", "product"), ("weight", "bias"))
    assert heads == {f"auxiliary.{name}_head.{part}" for name, part in names}
    assert all(averaged[name].any() for name in heads)
    solver = load_solver(tmp_path / "whole", device="cpu")
    mine = solver.predictor.model.state_dict()
    assert all(torch.equal(value, averaged[f"model.{name}"]) for name, value in mine.items())
    assert len(solver.solve(Problems.from_ints([(12, 34)]))[0].rows) == 3


def launched(words: list[str], processes: int) -> NoReturn:
    """Stand in for `launch`, whose processes import Lightning anew."""
    assert words[:3] == ["-P", "-m", "trm"]
    codes = forked(lambda: cli.run(words[3:]), processes)
    raise SystemExit(next(filter(None, codes), 0))


@pytest.mark.skipif(
    not hasattr(os, "fork") or torch.cuda.is_available(),
    reason="the processes are forks, which lack the threads of gradients on a GPU",
)
def test_two_processes_train_as_one_and_end_and_resume_together(
    command, debug, tmp_path, monkeypatch
):
    words = ("fit", *debug, "--model.schedule.decay", "constant", "--trainer.max_epochs", 3)
    words += ("--model.depth.schedule", "carry")
    words += ("--model.depth.halt_max_steps", 3)  # some samples are replaced in each epoch
    words += ("--data.canvas.height", 4, "--data.canvas.width", 6)  # as many masked cells each
    # Losses that end: gradients of 0 then, which the processes exchange.
    words += ("--model.auxiliary={carry: 0.3}", "--model.auxiliary_until", 2)
    several = (*words, CSV, "--trainer.devices", 2, "--trainer.enable_progress_bar", "false")
    two, one = tmp_path / "two", tmp_path / "one"
    two.mkdir()
    one.mkdir()
    save = CheckpointFiles.save_checkpoint

    def end(files: CheckpointFiles, checkpoint: dict, path: Path, **more: object) -> None:
        save(files, checkpoint, path, **more)
        if Path(path).name == "last.ckpt":
            os.kill(os.getpid(), signal.SIGTERM)  # the other process waits for this one

    monkeypatch.setattr("trm.runtime.processes.launch", launched)
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFiles, "save_checkpoint", end)
        patch.setattr("trm.commands.cli._PATIENCE", 0)
        command(*several, folder=two, code=-signal.SIGTERM)
    assert last_of(two)["global_step"] == 2
    command(*several, "--ckpt_path", "last", folder=two)
    assert [path.name for path in (two / "runs/debug").iterdir()] == ["version_0"]
    command(*words, folder=one)
    resumed, alone = last_of(two), last_of(one)
    assert resumed["global_step"] == alone["global_step"] == 6
    assert_same(resumed, alone, near=1e-4)
    (whole,) = alone["carry"]
    for rank, carry in enumerate(resumed["carry"]):
        assert torch.equal(carry["batch"]["inputs"], whole["batch"]["inputs"][rank::2])
    for folder in (two, one):  # one row a step: of two processes one writes, also after the end
        with (folder / "runs/debug/version_0/metrics.csv").open(newline="") as file:
            logged = [int(row["step"]) for row in csv.DictReader(file) if row["train/loss"]]
        assert logged == list(range(6))


def test_the_end_of_a_process_is_told_with_how_to_go_on(command, debug, tmp_path, monkeypatch):
    def launch(words: list[str], processes: int) -> NoReturn:
        raise ChildProcessError("process 2 of 2 was ended by signal 9, and so all of them end")

    monkeypatch.setattr("trm.runtime.processes.launch", launch)
    ran = command("fit", *debug, CSV, "--trainer.devices", 2, folder=tmp_path, code=1)
    assert "was ended by signal 9, and so all of them end; with --ckpt_path last it" in ran.err


def test_without_a_terminal_training_prints_its_progress(command, debug, tmp_path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr("trm.training.callbacks.rank_zero_info", lines.append)
    command("fit", *debug, "--trainer.max_epochs", 1, folder=tmp_path)
    assert "epoch 1, step 2: train/loss " in "\n".join(lines)


def test_a_full_disk_leaves_the_checkpoints_before(command, debug, tmp_path, monkeypatch):
    save, saved = torch.save, []

    def full(content, file):
        save(content, file)
        saved.append(file)
        if len(saved) > 2:  # the first epoch's best and last
            file.truncate(1000)
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("trm.training.callbacks.torch.save", full)
    ran = command("fit", *debug, folder=tmp_path, code=2)
    assert len(saved) == 3
    assert "No space left on device" in ran.err
    checkpoints = {file.name: file for file in tmp_path.rglob("*.ckpt")}
    assert checkpoints.keys() == {"best.ckpt", "last.ckpt"}
    for file in checkpoints.values():
        assert torch.load(file, weights_only=True)["global_step"] == 2


def test_a_run_begins_with_bfloat16_weights(trained, command, debug, tmp_path):
    weights = tmp_path / "weights.safetensors"
    command("inspect", "--checkpoint", trained, "--export", weights, "--dtype", "bfloat16")
    held = load_solver(weights, device="cpu").predictor.model.state_dict()
    words = (*debug, "--weights", weights, "--trainer.max_epochs", 1)
    words += ("--trainer.check_val_every_n_epoch", 1)
    rates = ("--model.optimizer.lr", 0, "--model.optimizer.matrix_lr", 0)
    command("fit", *words, *rates, folder=tmp_path)
    last = last_of(tmp_path)
    assert last["epoch"] == 0
    for name, value in held.items():
        torch.testing.assert_close(last["state_dict"][f"model.{name}"], value)
    first = load_checkpoint(weights)
    before = {"steps": first["global_step"], **first["cost"]}
    before.pop("flops")
    assert last["cost"]["before"] == before
    weights.unlink()  # a run that resumes does not read them again
    command("fit", *words, "--trainer.max_epochs", 2, "--ckpt_path", "last", folder=tmp_path)
    assert last_of(tmp_path)["cost"]["before"] == before
    card = command("models", tmp_path / "runs").out
    assert f"after {before['steps']} steps, {before['samples']} samples" in " ".join(card.split())
    wider = ("--model.network.config.hidden_size", 32)
    ran = command("fit", *debug, "--weights", trained, *wider, folder=tmp_path, code=2)
    assert "hidden_size 16 (here 32)" in ran.err


def test_predictions_of_named_weights_are_in_the_working_folder(command, repository, tmp_path):
    before = sorted((repository / "docs/models").iterdir())
    words = ("--config", "trm/quick", "--ckpt_path", "trm-quick-seed0")
    command("predict", *words, "--data.validation_problems", 3, folder=tmp_path)
    assert len((tmp_path / "predictions-0.jsonl").read_text().splitlines()) == 3
    assert sorted((repository / "docs/models").iterdir()) == before
