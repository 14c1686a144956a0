"""A GPT as it is trained: here on sums, with their carries as rows of their own."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from runs import charts_without_a_curve, events_of, last_of

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.sequences import IGNORE
from trm.checkpoints import CHECKPOINT_KEY
from trm.checkpoints.loading import load_solver
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.solving.calibration import Calibration, fit_calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.teacher_forced import teacher_forced
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule, loop_losses, sequence_loss
from trm.training.samples import SequenceSamples

TINY = """
    --config=addition/gpt --trainer.accelerator=cpu --trainer.max_epochs=2
    --trainer.check_val_every_n_epoch=1 --trainer.log_every_n_steps=1 --trainer.precision=32-true
    --model.network.config.hidden_size=16 --model.network.config.num_heads=2
    --model.network.config.num_layers=1 --model.schedule.warmup_steps=1
    --model.schedule.decay=constant --data.batch_size=8 --data.batches_per_epoch=4
    --data.validation_problems=9 --data.task.digits=[1,3] --data.task.layout=column_carries
""".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def trained_gpt(command, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    command("fit", *TINY, "--panels.num_samples=1", folder=folder, pictures=True)
    return folder


def test_a_run_has_the_pictures_of_a_recursive_one_and_is_scored(trained_gpt, command):
    events = events_of(trained_gpt)
    assert {
        *(f"train/{name}" for name in ("loss", "cell_accuracy")),
        *(f"validation/{name}" for name in ("solved", "loss", "teacher_forced_rows")),
        *(f"validation/{name}" for name in ("teacher_forced_cells", "confidence_accuracy")),
        "speed/samples_per_second",
    } <= set(events.Tags()["scalars"])
    assert set(events.Tags()["images"]) == {"panels/row_1", "panels/wrong_1"}
    assert charts_without_a_curve(trained_gpt) == []
    ran = command("test", *TINY, "--ckpt_path", "best", folder=trained_gpt)
    assert " of 9; 95 % interval" in ran.out
    solver = load_solver(trained_gpt, device="cpu")
    assert solver.task == Addition("column_carries", digits=(1, 3), addends=(2, 3), long_bias=1.0)
    two, three = solver.solve(Problems.from_ints([(87, 604), (9, 0, 999)]))
    assert len(two.rows) == len(three.rows) == 2  # carries and answer
    assert three.operands == (9, 0, 999)


def test_a_calibration_fits_validation_rows_and_is_saved(trained_gpt):
    kept = Calibration(**last_of(trained_gpt)[CHECKPOINT_KEY]["calibration"])
    assert kept != Calibration()
    solver = load_solver(next(trained_gpt.rglob("last.ckpt")), device="cpu")
    assert solver.predictor._calibration == kept
    data = CanvasDataModule(solver.task, solver.canvas, validation_problems=9)
    raw = GPTPredictor(solver.predictor.model, np.asarray)
    judged = [teacher_forced(raw, drawing) for _, drawing in data.val_dataloader()[0]]
    scores = np.concatenate([one.filled.confidence for one in judged])
    right = np.concatenate([one.rows_exact for one in judged])
    again = fit_calibration(scores, right)
    assert (again.scale, again.offset) == pytest.approx((kept.scale, kept.offset), rel=1e-3)
    mine = module()  # of two devices, which gather what they have judged
    mine._scored, other = [(scores[:7], right[:7])], [(scores[7:], right[7:])]
    mine.gathered, mine.log = lambda judged: [judged, other], lambda *_, **__: None
    mine.on_validation_epoch_end()
    assert mine.calibration == again


def test_a_gpt_learns_from_shifts_and_votes_over_shifts(command, tmp_path):
    shift = "--data.transforms=[augment.transforms.CanvasShift]"
    short = "--trainer.max_epochs=1", "--data.batches_per_epoch=1"
    command("fit", *TINY, *short, shift, folder=tmp_path)
    last = next(tmp_path.rglob("last.ckpt"))
    assert load_solver(last, device="cpu").trained_symmetries == ("e",)
    ran = command("solve", "--checkpoint", last, "--views", 3, "12+7", folder=tmp_path)
    assert "of 3 views" in ran.out


def module(settings: dict | None = None, **model) -> GPTModule:
    torch.manual_seed(0)
    network = GPT(GPTConfig(6, 6, hidden_size=16, num_heads=2, num_layers=1, **model))
    parts = {"optimizer": OptimizerConfig(), "schedule": ScheduleConfig()}
    return GPTModule(network, **parts, **(settings or {}))


def batch(n: int = 8) -> dict:
    data = SequenceSamples(Multiplication("standard"), Canvas(6, 6), "train", 0, n, n)
    return data.__getitems__(range(n))


def test_only_what_comes_after_the_operands_counts_in_the_loss():
    labels, logits = batch()["labels"], torch.zeros(8, 43, 18)
    flat, _ = sequence_loss(logits, labels)
    assert flat == pytest.approx(np.log(18), rel=1e-5)
    ignored = labels == IGNORE
    logits[ignored] = torch.randn(int(ignored.sum()), 18)
    assert sequence_loss(logits, labels)[0] == flat
    known = torch.nn.functional.one_hot(labels.clamp(min=0), 18).float() * 100
    sure, accuracy = sequence_loss(known, labels)
    assert sure == pytest.approx(0, abs=1e-6)
    assert accuracy == 1


def test_random_positions_depend_on_epoch_and_batch():
    sequences, losses = batch(), []
    for epoch, index in ((0, 0), (0, 0), (0, 1), (1, 0)):
        torch.manual_seed(0)
        mine = module(position="randomised")
        # One optimiser step may add up the gradients of several batches.
        mine._trainer = SimpleNamespace(global_step=0, current_epoch=epoch, log_every_n_steps=99)
        losses.append(mine.training_step(sequences, index).item())
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3


def test_loop_losses_by_hand_on_two_tokens():
    """Computed by hand on two tokens: one is right after every loop, one after the last."""
    model = module(loops=3, halting=True).model
    with torch.no_grad():
        model.embed_tokens.weight.zero_()
        model.embed_tokens.weight[5, 0] = model.embed_tokens.weight[6, 1] = 1.0
        model.halt_head.weight[0, 2] = 1.0  # the halt logit is the third channel
    states = [torch.zeros(1, 3, 16) for _ in range(3)]
    labels = torch.tensor([[5, IGNORE, 6]])
    for loop, (first, last) in enumerate([((4, 0, -1), (4, 0, 2)), ((4, 0, 3), (4, 0, -2)),
                                          ((4, 0, 1), (0, 4, -1))]):  # fmt: skip
        states[loop][0, 0, :3], states[loop][0, 2, :3] = map(torch.tensor, (first, last))
    classes = model.config.vocab_size
    rest = np.log(np.exp(4) + classes - 1)  # of a logit of 4 beside zeros
    good, bad = rest - 4, rest
    # right: yes no, yes no, yes yes; halt logits: -1 2, 3 -2, 1 -1
    softplus = [np.log1p(np.exp(-z if right else z)) for z, right in
                ((-1, 1), (2, 0), (3, 1), (-2, 0), (1, 1), (-1, 1))]  # fmt: skip
    for supervised, cells in ((1, good), (2, ((good + bad) / 2 + good) / 2)):
        found = loop_losses(model, states, labels, supervised)
        assert found["loss_cells"].item() == pytest.approx(cells, rel=1e-5)
        assert found["loss_halting"].item() == pytest.approx(np.mean(softplus), rel=1e-5)
        total = cells + np.mean(softplus) / 2
        assert found["loss"].item() == pytest.approx(total, rel=1e-5)
        assert found["cell_accuracy"] == 1
        # Predicted rightly: no no, yes yes, yes no.
        assert found["halting_accuracy"].item() == pytest.approx(3 / 6)


def test_the_number_of_loops_of_a_batch_follows_from_the_seed():
    sequences, ran = batch(), []
    mine = module({"fewest_loops": 1}, loops=4, halting=True)
    mine.model.layers[0].register_forward_hook(lambda *_: ran.append(1))
    mine.log_training = lambda figures: None
    numbers = []
    for _ in range(2):
        for index in range(12):
            mine._trainer = SimpleNamespace(global_step=0, current_epoch=0, log_every_n_steps=99)
            ran.clear()
            mine.training_step(sequences, index).backward()
            numbers.append(len(ran))
    assert numbers[:12] == numbers[12:]
    assert set(numbers) == {1, 2, 3, 4}
    assert mine.model.config.loops == 4
    assert all(parameter.grad.abs().max() > 0 for parameter in mine.model.parameters())
    always = module(loops=5)
    assert (always.fewest_loops, always.about().get("solve_steps")) == (5, None)


REFUSED = [
    ({}, {"halting": True}, "there is one: set model.network.config.loops to 2 or more"),
    ({"fewest_loops": 7}, {"loops": 6}, "model.fewest_loops is from 1 to 6, not 7"),
    ({"supervised_loops": 3}, {"loops": 2}, "model.supervised_loops is from 1 to 2, not 3"),
    (
        {"solve_steps": 9},
        {},
        "model.solve_steps is of a looped GPT: set model.network.config.loops",
    ),
    ({"solve_steps": 0}, {"loops": 2}, "model.solve_steps is from 1 to 10,000, not 0"),
]


@pytest.mark.parametrize(("settings", "network", "words"), REFUSED)
def test_loops_that_do_not_fit_are_refused(settings, network, words):
    with pytest.raises(ValueError, match=words):
        module(settings, **network)


def test_a_halting_gpt_is_trained_solves_and_is_inspected(command, tmp_path):
    loops = ["--model.network.config.loops=3", "--model.network.config.halting=true"]
    loops += ["--model.fewest_loops=1", "--model.solve_steps=5", "--data.task.layout=column"]
    command("fit", *TINY, *loops, "--trainer.max_epochs=1", folder=tmp_path)
    assert charts_without_a_curve(tmp_path) == []
    scalars = events_of(tmp_path).Tags()["scalars"]
    assert {"train/loss_halting", "train/halting_accuracy"} <= set(scalars)
    assert "validation/supervision_steps" in scalars
    last = next(tmp_path.rglob("last.ckpt"))
    for steps, most in ((None, 5), (9, 9), (1, 1)):
        solver = load_solver(last, steps, device="cpu")
        assert solver.predictor.model.config.loops == (solver.predictor.max_steps or 1) == most
        [solution] = solver.solve(Problems.from_ints([(87, 604)]))
        assert min(3, most) <= solution.row_steps[0] <= most
    ran = command("solve", "--checkpoint", last, "87+604", folder=tmp_path)
    assert "loops of a symbol per row: " in ran.out
    pictures = tmp_path / "pictures"
    ran = command("inspect", "--checkpoint", last, "87+604", "--output", pictures)
    assert "loops of a symbol, most of each row: " in ran.out
    assert {path.name for path in pictures.glob("*.png")} == {"rows.png", "settled.png"}
