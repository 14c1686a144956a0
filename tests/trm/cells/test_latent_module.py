"""Training of models that invent what their cells hand on."""

import csv

import pytest
import torch
from runs import assert_same, whole_and_resumed

from canvas.canvas_size import Canvas
from canvas.cells.spec import SYMBOL
from canvas.multiplication import Multiplication
from trm.cells.latent_module import merged_op_inputs
from trm.cells.samples import SolutionSamples

SMALL = (
    "--config", "generalise/latent", "--data.task.base", 2, "--data.batch_size", 8,
    "--data.task.digits_a", "[1,3]", "--data.task.digits_b", "[1,3]",
    "--data.batches_per_epoch", 10, "--data.validation_problems", 4,
    "--data.training_problems", 0, "--model.schedule.decay", "constant",
    "--trainer.max_epochs", 2, "--trainer.check_val_every_n_epoch", 1,
    "--model.cooling", "[0.5,0.85]", "--model.merging", 1, "--model.coldest", 0.1,
    "--data.curriculum", "null",
    "--model.network.config.codes", "{carry: 5}", "--model.network.config.hidden_size", 32,
    "--trainer.log_every_n_steps", 1,
)  # fmt: skip


def test_samples_are_cells_of_canvases_with_their_neighbours():
    task = Multiplication(layout="lattice", base=3, digits_a=(1, 3), digits_b=(1, 3), smallest=0)
    batch = SolutionSamples(task, Canvas(margin=2), "train", 0, 16, 8).__getitems__(list(range(8)))
    rule = task.local_rule(latent=True)
    signals = dict(zip(rule.signals, batch["labels"].T[1:], strict=True))
    right, above, above_left = batch["sources"].T
    places = batch["places"]
    for source, (down, left) in ((right, (0, -1)), (above, (-1, 0)), (above_left, (-1, 1))):
        there = source >= 0
        assert there.any()
        moved = places[there] + torch.tensor([down, left])
        assert torch.equal(places[source[there]], moved)
    assert (right[places[:, 1] > 0] >= 0).all()
    grid = (batch["labels"][:, 0] >= 0) & (above >= 0) & (right >= 0)
    digit = signals["multiplicand"][above[grid]]  # handed down a column without a change
    inside = digit > 0
    assert torch.equal(signals["multiplicand"][grid][inside], digit[inside])


def test_a_run_gets_cold_and_its_model_solves(command, tmp_path):
    command("fit", *SMALL, "--trainer.logger", "CSVLogger", folder=tmp_path)
    file = next(tmp_path.glob("**/metrics.csv"))
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    found = [float(row["train/temperature"]) for row in rows if row["train/temperature"]]
    assert found[:11] == [1] * 11
    assert found[11:17] == sorted(found[11:17], reverse=True)
    assert found[17:] == pytest.approx([0.1] * 3)
    checkpoint = str(next(tmp_path.glob("**/last.ckpt")).relative_to(tmp_path))
    solved = command("solve", "--checkpoint", checkpoint, "101x11", folder=tmp_path)
    assert "101 x 11 = " in solved.out


def test_merged_op_inputs_are_those_of_canvases_each_once(latent_model):
    model, task = latent_model
    rule = task.local_rule(latent=True)
    samples = SolutionSamples(task, Canvas(margin=2), "train", 0, 512, 64)
    pages = [samples.__getitems__(list(range(start, start + 64))) for start in range(0, 512, 64)]
    op_inputs = merged_op_inputs(rule, model, pages)
    ids = op_inputs["op_inputs"]
    assert len(ids.unique()) == len(ids)
    said = dict(zip((SYMBOL, *rule.signals), op_inputs["labels"].T, strict=True))
    parts = model.parts(model.cells(model.reader.decode(ids))[0])
    for name in (SYMBOL, "multiplier", "multiplicand", "addend"):  # its codes have kept their names
        asked = said[name] >= 0
        assert torch.equal(parts[name].argmax(dim=1)[asked], said[name][asked])
    # A row's beginning and a carry of 0 are told apart by rows of a 0 alone.
    used = {tuple(pair) for pair in torch.stack((said["multiplier"], said["carry"])).T.tolist()}
    assert (said["carry"] >= 0).all()
    labels = torch.cat([page["labels"] for page in pages]).T[1:]
    true = dict(zip(rule.signals, labels, strict=True))
    assert len(used) < len(torch.stack((true["multiplier"], true["carry"])).unique(dim=1)[0])


def test_a_run_with_state_merging_resumes_exactly(command, tmp_path):
    settings = (*SMALL, "--model.cooling", "[0,0.001]", "--model.merging", 0.6)
    settings += ("--model.coldest", 0.35, "--data.batches_per_epoch", 2)
    settings += ("--trainer.logger", "CSVLogger")
    whole, resumed = whole_and_resumed(command, tmp_path, *settings, epochs=(2, 3))
    assert_same(whole, resumed)
    file = next(tmp_path.glob("whole/**/metrics.csv"))
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert sum(bool(row["train/op_inputs"]) for row in rows) == 1  # the third epoch merges
    temperatures = [row["train/temperature"] for row in rows if row["train/temperature"]]
    assert float(temperatures[0]) == 1
    assert float(temperatures[-1]) == pytest.approx(0.35)
