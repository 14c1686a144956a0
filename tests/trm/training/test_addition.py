"""Both families train on long addition as on multiplication, in either layout."""

from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas import task_data
from canvas.addition import Addition
from canvas.layouts import ROW_KINDS
from canvas.problems import Problems, split_of
from canvas.render import IGNORE, row_steps
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_solver
from trm.training.data import Canvas
from trm.training.samples import RowStepSamples, SequenceSamples

TINY = """
    --trainer.accelerator=cpu --trainer.max_epochs=2 --trainer.check_val_every_n_epoch=1
    --trainer.log_every_n_steps=1 --trainer.precision=32-true --model.network.config.hidden_size=16
    --model.network.config.num_heads=2 --model.network.config.num_layers=1
    --model.schedule.warmup_steps=1 --model.schedule.decay=constant --data.batch_size=8
    --data.batches_per_epoch=3 --data.validation_problems=6 --data.training_problems=2
    --data.task.digits=[1,3]
""".split()  # noqa: SIM905
ITERATIVE = ["--model.network.config.intermediate_size=16", "--model.solve_steps=2"]
FAMILIES = {"iterative": ("quick", "addition", ITERATIVE), "gpt": ("gpt", "addition-gpt", [])}
LAYOUTS = {"column": ["answer"], "column_carries": ["carries", "answer"]}
TASKS = [Addition(layout, digits=(1, 3), addends=(2, 3)) for layout in LAYOUTS]


def load(run: Path) -> dict:
    return torch.load(run / "checkpoints/last.ckpt", weights_only=True)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_is_resumed_exactly_scored_and_solved_with(
    command, repository, tmp_path, family, layout
):
    config, name, more = FAMILIES[family]
    words = ("--config", repository / f"configs/addition/{config}.yaml", *TINY, *more)
    words += ("--data.task.layout", layout)
    for folder, epochs in (("whole", 2), ("halves", 1)):
        (tmp_path / folder).mkdir()
        ran = command("fit", *words, "--trainer.max_epochs", epochs, folder=tmp_path / folder)
        assert ran.code == 0, ran.err
    ran = command("fit", *words, "--ckpt_path", "last", folder=tmp_path / "halves")
    assert ran.code == 0, ran.err
    run = tmp_path / f"whole/runs/{name}/version_0"
    whole, resumed = load(run), load(tmp_path / f"halves/runs/{name}/version_0")
    assert whole["global_step"] == resumed["global_step"] == 6
    for part, weights in whole["state_dict"].items():
        torch.testing.assert_close(resumed["state_dict"][part], weights, rtol=0, atol=0)
    assert resumed[CHECKPOINT_KEY] == whole[CHECKPOINT_KEY]
    task = Addition(layout, digits=(1, 3), addends=(2, 3), long_bias=1.0)
    assert whole[DATA_KEY]["task"] == task_data(task)
    assert "figures/by_size" in EventAccumulator(str(run)).Reload().Tags()["images"]
    ran = command("test", *words, "--ckpt_path", "best", folder=tmp_path / "whole")
    assert ran.code == 0, ran.err
    assert " of 6; 95 % interval" in ran.out
    solver = load_solver(run, device="cpu")
    assert solver.task == task
    two, three = solver.solve(Problems.from_ints([(87, 604), (9, 0, 999)]))
    assert len(two.rows) == len(three.rows) == len(LAYOUTS[layout])
    assert three.operands == (9, 0, 999)


@pytest.mark.parametrize("task", TASKS, ids=list(LAYOUTS))
def test_a_sample_is_one_row_of_a_problem_of_the_training_split(task):
    data = RowStepSamples(task, Canvas(), "train", 7, 64, 64)
    problems, drawing, *_ = data._drawing(range(64))
    assert (split_of(problems) == 0).all()
    assert set(problems.counts.tolist()) == {2, 3}
    sums = [sum(operands) for operands in problems.to_ints()]
    assert [task.answer(operands) for operands in problems.to_ints()] == sums
    steps = row_steps(drawing)
    rows = drawing.first_step[steps.problem] + steps.step
    kinds = {ROW_KINDS[kind] for kind in drawing.kinds[steps.problem, rows].tolist()}
    assert kinds == set(LAYOUTS[task.layout])
    batch = data.__getitems__(range(64))
    for i in range(64):
        own = steps.problem == i
        drawn = [batch[name][i].numpy() for name in ("inputs", "labels", "answer")]
        found = zip(steps.inputs[own], steps.labels[own], steps.answer[own], strict=True)
        assert any(all((x == y).all() for x, y in zip(row, drawn, strict=True)) for row in found)


@pytest.mark.parametrize("task", TASKS, ids=list(LAYOUTS))
def test_a_sequence_is_charged_for_all_that_is_below_the_operands(task):
    data = SequenceSamples(task, Canvas(), "train", 7, 16, 16)
    _, drawing, *_ = data._drawing(range(16))
    batch = data.__getitems__(range(16))
    height, width = batch["height"], batch["width"]
    charged = (batch["labels"][:, :-1].view(16, height, width + 1) != IGNORE).any(dim=2)
    for i in range(16):
        first = int(drawing.row_of_step(0)[i])
        assert charged[i].nonzero()[:, 0].tolist() == list(range(first, height))
    cells = batch["ids"][:, 1:].view(16, height, width + 1)[:, :, :width].flip(2)
    assert (cells.numpy() == drawing.truth).all()
