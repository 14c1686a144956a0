"""Both families train on long addition as on multiplication, in either layout."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas.addition import Addition
from canvas.problems import Problems
from trm.checkpoints.loading import load_solver

TINY = """
    --trainer.accelerator=cpu --trainer.max_epochs=1 --trainer.check_val_every_n_epoch=1
    --trainer.log_every_n_steps=1 --trainer.precision=32-true --model.network.config.hidden_size=16
    --model.network.config.num_heads=2 --model.network.config.num_layers=1
    --model.schedule.warmup_steps=1 --model.schedule.decay=constant --data.batch_size=8
    --data.batches_per_epoch=3 --data.validation_problems=6 --data.training_problems=2
    --data.task.digits=[1,3]
""".split()  # noqa: SIM905
ITERATIVE = ["--model.network.config.intermediate_size=16", "--model.solve_steps=2"]
FAMILIES = {"iterative": ("quick", "addition", ITERATIVE), "gpt": ("gpt", "addition-gpt", [])}
LAYOUTS = {"column": ["answer"], "column_carries": ["carries", "answer"]}


@pytest.mark.parametrize(("family", "layout"), [("iterative", "column"), ("gpt", "column_carries")])
def test_a_run_is_scored_and_solved_with(command, repository, tmp_path, family, layout):
    config, name, more = FAMILIES[family]
    words = ("--config", repository / f"configs/addition/{config}.yaml", *TINY, *more)
    words += ("--data.task.layout", layout)
    ran = command("fit", *words, folder=tmp_path, pictures=True)
    assert ran.code == 0, ran.err
    run = tmp_path / f"runs/{name}/version_0"
    task = Addition(layout, digits=(1, 3), addends=(2, 3), long_bias=1.0)
    assert "figures/by_size" in EventAccumulator(str(run)).Reload().Tags()["images"]
    ran = command("test", *words, "--ckpt_path", "best", folder=tmp_path)
    assert ran.code == 0, ran.err
    assert " of 6; 95 % interval" in ran.out
    solver = load_solver(run, device="cpu")
    assert solver.task == task
    two, three = solver.solve(Problems.from_ints([(87, 604), (9, 0, 999)]))
    assert len(two.rows) == len(three.rows) == len(LAYOUTS[layout])
    assert three.operands == (9, 0, 999)
