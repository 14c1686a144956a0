"""Long addition is trained as multiplication is, with its carries as rows of their own."""

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
    --data.task.digits=[1,3] --panels.num_samples=1
""".split()  # noqa: SIM905


def test_a_run_is_scored_and_solved_with(command, repository, tmp_path):
    words = ("--config", repository / "configs/addition/gpt.yaml", *TINY)
    words += ("--data.task.layout", "column_carries")
    ran = command("fit", *words, folder=tmp_path, pictures=True)
    assert ran.code == 0, ran.err
    run = tmp_path / "runs/addition-gpt/version_0"
    task = Addition("column_carries", digits=(1, 3), addends=(2, 3), long_bias=1.0)
    assert "panels/row_1" in EventAccumulator(str(run)).Reload().Tags()["images"]
    ran = command("test", *words, "--ckpt_path", "best", folder=tmp_path)
    assert ran.code == 0, ran.err
    assert " of 6; 95 % interval" in ran.out
    solver = load_solver(run, device="cpu")
    assert solver.task == task
    two, three = solver.solve(Problems.from_ints([(87, 604), (9, 0, 999)]))
    assert len(two.rows) == len(three.rows) == 2  # carries and answer
    assert three.operands == (9, 0, 999)
