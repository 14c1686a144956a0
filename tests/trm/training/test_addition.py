"""Both families train on long addition as on multiplication, in either layout."""

from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas import task_data
from canvas.addition import Addition
from canvas.problems import Problems
from trm.checkpoints import CHECKPOINT_KEY, DATA_KEY
from trm.checkpoints.loading import load_solver

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


def load(run: Path) -> dict:
    return torch.load(run / "checkpoints/last.ckpt", weights_only=True)


@pytest.mark.parametrize(("family", "layout"), [("iterative", "column"), ("gpt", "column_carries")])
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
