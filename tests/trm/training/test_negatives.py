"""Samples that teach the confidence alone, and training steps with them."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from runs import charts_without_a_curve, events_of, last_of
from tiny import tiny_module, tiny_trm

from augment import symmetry
from augment.symmetry import SYMMETRIES
from augment.transforms import CanvasShift, SampleTransform
from canvas.addition import Addition
from canvas.canvas_size import Blanks, Canvas
from canvas.drawing import UNDEFINED, row_steps
from canvas.multiplication import Multiplication
from canvas.problems import Problems, split_of
from canvas.symbols import BLANK, DIGIT_OF, MASK
from canvas.task import Task
from trm.cells import CellModule, LatentModule
from trm.checkpoints import CHECKPOINT_KEY
from trm.checkpoints.loading import load_solver
from trm.extras.model_card import model_card
from trm.models.iterative import Loop
from trm.solving.calibration import Calibration
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rows import Prediction
from trm.solving.teacher_forced import teacher_forced
from trm.training import GPTModule, IterativeModule
from trm.training.auxiliary import AuxiliaryConfig, AuxiliaryHeads
from trm.training.data import CanvasDataModule
from trm.training.negatives import (
    KINDS,
    NegativesConfig,
    SamplesWithNegatives,
    other_problems,
    random_kinds,
    with_own_rows,
)
from trm.training.published_step import carried_step
from trm.training.samples import RowStepSamples
from trm.training.step import LOSSES, DepthConfig, fresh_step, step_loss, supervise

LENGTHS: dict[str, Any] = {"digits_a": (1, 3), "digits_b": (1, 3), "long_bias": 1.0}
TASKS: dict[str, Task] = {
    name: Multiplication(name, **LENGTHS)
    for name in ("lattice", "standard", "running_sum", "accumulate")
}
TASKS["column"] = Addition("column", digits=(1, 4), addends=(2, 3))
TRANSFORM = SampleTransform([A.D4(p=1.0), CanvasShift()])
ALL = NegativesConfig(turned=0.2, guessed=0.2, digit=0.15, other=0.15, own=0.15)
SIZE = 48
tasks = pytest.mark.parametrize("name", TASKS)
blank_lines = pytest.mark.parametrize("blanks", [Blanks(), Blanks(2, 2)], ids=["", "blanks"])


def samples(task: Task, negatives: NegativesConfig | None, **more: Any) -> RowStepSamples:
    of: Any = (task, Canvas(16, 16), "train", 5, 4 * SIZE, SIZE)
    if negatives is None:
        return RowStepSamples(*of, **more)
    return SamplesWithNegatives(*of, **{"transform": TRANSFORM, "negatives": negatives, **more})


def pairs(
    name: str, negatives: NegativesConfig, blanks: Blanks
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Samples without negatives, with ``given`` and ``written``, and the same with them."""
    plain, other = (samples(TASKS[name], n, blanks=blanks) for n in (None, negatives))
    _, drawing, inserted, *_ = plain.draw_batch(range(SIZE))
    before, after = (data.__getitems__(range(SIZE)) for data in (plain, other))
    row = before["answer"].any(2).long().argmax(1).numpy()
    maps = {"given": inserted(drawing.given, False), "row": row}
    above = (np.arange(16) < row[:, None])[:, :, None]
    maps["written"] = above & inserted(drawing.unknown, False)
    sources = inserted.rows[np.arange(SIZE), row] - drawing.canvas_row(0)
    maps |= {"step": sources, "before": inserted.row(drawing.canvas_row(sources - 1))}
    whole = {key: value.numpy() for key, value in before.items()} | maps
    after = {key: value.numpy() for key, value in after.items()}
    for i in range(SIZE):
        yield {k: v[i] for k, v in whole.items()}, {k: v[i] for k, v in after.items()}


def places(one: np.ndarray, other: np.ndarray) -> Iterator[tuple[str, tuple[int, int]]]:
    """Symmetries and rolls that could take the content of one canvas to that of the other."""
    for name in SYMMETRIES:
        turned = symmetry.apply(name, one) != BLANK
        corners = [[part.any(axis=k).argmax() for k in (1, 0)] for part in (turned, other != BLANK)]
        yield name, tuple(np.subtract(corners[1], corners[0]).tolist())


def moved(cells: np.ndarray, name: str, shift: tuple[int, int]) -> np.ndarray:
    return np.roll(symmetry.apply(name, cells), shift, (0, 1))


@tasks
@blank_lines
def test_a_turned_sample_is_masked_and_then_turned(name, blanks):
    seen = set()
    for before, after in pairs(name, NegativesConfig(turned=1.0), blanks):
        parts = ("inputs", "labels", "answer")
        found = [
            symmetry
            for symmetry, shift in places(before["labels"], after["labels"])
            if all((moved(before[p], symmetry, shift) == after[p]).all() for p in parts)
        ]
        assert found
        assert after["correct"] == ("e" in found)
        seen.update(found)
    assert seen == set(SYMMETRIES)


@tasks
@blank_lines
def test_a_guessed_sample_is_turned_and_then_masked(name, blanks):
    seen, empty = set(), 0
    for before, after in pairs(name, NegativesConfig(guessed=1.0), blanks):
        unmasked = np.where(before["answer"], BLANK, before["inputs"]).astype(np.uint8)
        below = before["row"] - (unmasked != BLANK).any(axis=1).argmax()
        found = []
        for kind, shift in places(before["labels"], after["labels"]):
            cells, given = (moved(part, kind, shift) for part in (unmasked, before["given"]))
            line = (cells != BLANK).any(axis=1).argmax() + below
            masked = (np.arange(16) == line)[:, None] & ~given
            if (np.where(masked, MASK, cells) == after["inputs"]).all():
                assert (after["answer"] == masked).all()
                assert MASK not in after["inputs"][given]
                found.append(kind)
        assert found
        assert after["correct"] == ("e" in found)
        empty += not after["answer"].any()
        seen.update(found)
    assert seen == set(SYMMETRIES)
    assert empty < SIZE / 3


@tasks
@blank_lines
def test_negatives_of_kind_digit_change_one_digit_above(name, blanks):
    changed = 0
    for before, after in pairs(name, NegativesConfig(digit=1.0), blanks):
        differs = before["inputs"] != after["inputs"]
        digits = (DIGIT_OF[before["inputs"]] >= 0) & before["written"]
        assert differs.sum() == digits.any()
        assert (differs <= digits).all()
        assert (DIGIT_OF[after["inputs"][differs]] >= 0).all()
        assert after["correct"] == (not differs.any())
        for part in ("labels", "answer"):
            assert (before[part] == after[part]).all()
        changed += differs.any()
    assert changed > SIZE / 4 or name == "column"  # a sum has a single row


@tasks
@blank_lines
def test_other_rows_above_are_of_a_problem_with_another_digit(name, blanks):
    if name == "column":
        pytest.skip("a sum has a single row")
    other = 0
    for before, after in pairs(name, NegativesConfig(other=1.0), blanks):
        differs = before["inputs"] != after["inputs"]
        assert (differs <= before["written"]).all()
        assert after["correct"] == (not differs.any())
        other += differs.any()
    assert other > SIZE / 4


def test_no_row_of_a_held_out_problem_occurs():
    """The rows of `accumulate` show which problem they are of."""
    task = TASKS["accumulate"]
    plain, data = samples(task, None), samples(task, NegativesConfig(other=1.0))
    shown = left = 0
    for first in range(0, 2 * SIZE, SIZE):
        indices = range(first, first + SIZE)
        problems, drawing, *_ = plain.draw_batch(indices)
        batch, before = data.__getitems__(indices), plain.__getitems__(indices)
        for i, (a, b) in enumerate(problems.to_ints()):
            row = int(before["answer"][i].any(1).long().argmax())
            differs = (batch["inputs"][i] != before["inputs"][i]).any()
            left += bool(not differs and row > drawing.canvas_row(0)[i])
            if not differs:
                continue
            place = drawing.top[i : i + 1], drawing.left[i : i + 1]
            digits = range(len(str(a)))
            near = {int(str(a)[:k] + d + str(a)[k + 1 :]) for k in digits for d in "0123456789"}
            fits = [
                split_of(one)[0]
                for c in near - {a}
                if len(str(c)) == len(str(a))
                for one in [Problems.from_ints([(c, b)])]
                for truth in [task.canvas_layout.draw_worked(one, 16, 16, *place).truth[0]]
                if (truth[:row] == batch["inputs"][i, :row].numpy())[drawing.unknown[i, :row]].all()
            ]
            assert 0 in fits
            shown += 1
    assert shown > SIZE / 2
    assert left > 0  # held-out problems were drawn, and left out


@tasks
@blank_lines
def test_the_row_above_is_marked_if_the_model_fills_it_in(name, blanks):
    for before, after in pairs(name, NegativesConfig(own=1.0), blanks):
        assert after["above"].any() == (before["step"] > 0)
        assert after["correct"]
        line = (np.arange(16) == before["before"])[:, None] & ~before["given"]
        assert (after["above"] == (line & (before["step"] > 0))).all()
        assert (before["inputs"] == after["inputs"]).all()


def test_kinds_have_their_shares():
    words = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    kinds = random_kinds(ALL, words)
    shares = {kind: (kinds == kind).mean() for kind in KINDS}
    expected = {"plain": 1 - sum(vars(ALL).values()), **vars(ALL)}
    assert shares == pytest.approx(expected, abs=0.015)
    assert (random_kinds(NegativesConfig(), words) == "plain").all()
    assert (random_kinds(NegativesConfig(own=1.0), words) == "own").all()


def test_other_problems_differ_and_have_no_leading_zero():
    words = np.random.default_rng(0).integers(0, 2**64, (400, 2), dtype=np.uint64)
    for base, least in ((10, 1), (2, 0)):
        first = [base**2 + i % (base**3 - base**2) for i in range(400)]
        problems = Problems.from_ints([(n, 1) for n in first], base)
        others = other_problems(problems, words)
        assert (others.lengths == problems.lengths).all()
        both = others.to_ints(), problems.to_ints()
        changed = [a != b for (a, _), (b, _) in zip(*both, strict=True)]
        assert all(changed) if least else any(changed)
    one = Problems.from_ints([(1, 1)], 2)
    assert {other_problems(one, words[i : i + 1]).to_ints()[0] for i in range(9)} == {(0, 1)}


def test_shares_of_zero_leave_all_samples_upright():
    plain, none = samples(TASKS["standard"], None), samples(TASKS["standard"], NegativesConfig())
    before, after = (data.__getitems__(range(SIZE)) for data in (plain, none))
    assert after.pop("correct").all()
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)


def some_batch(negatives: NegativesConfig = ALL, size: int = 24) -> dict[str, torch.Tensor]:
    return samples(TASKS["lattice"], negatives).__getitems__(range(size))


@pytest.mark.parametrize("loss", LOSSES)
def test_negatives_have_no_cell_loss_and_count_as_incorrect(loss):
    batch = some_batch()
    correct = batch["correct"]
    assert 2 < correct.sum() < len(correct) - 2
    logits = torch.randn(*batch["inputs"].shape, 20, requires_grad=True)
    halt = torch.randn(len(correct), requires_grad=True)
    part = {name: batch[name] for name in ("labels", "answer")}
    found = step_loss(logits, halt, **part, loss=loss, correct=correct)
    found["loss"].backward()
    assert (logits.grad[~correct] == 0).all()
    assert (logits.grad[correct] != 0).any()
    assert (halt.grad[~correct] > 0).all()  # towards "incorrect"
    alone = {name: tensor[correct] for name, tensor in part.items()}
    chosen = step_loss(logits[correct], halt[correct], **alone, loss=loss)
    for name in ("loss_cells", "cell_accuracy", "row_accuracy", "halting_accuracy"):
        torch.testing.assert_close(found[name], chosen[name])
    rejected = (halt[~correct] < 0).float().mean()
    torch.testing.assert_close(found["negatives_rejected"], rejected)
    every = step_loss(logits, halt, **part, loss=loss, correct=torch.ones_like(correct))
    plain = step_loss(logits, halt, **part, loss=loss)
    assert torch.equal(every["loss"], plain["loss"])
    none = step_loss(logits, halt, **part, loss=loss, correct=torch.zeros_like(correct))
    assert none["loss_cells"] == 0
    assert none["loss"].isfinite()


def test_auxiliary_heads_learn_nothing_of_negatives():
    auxiliary = AuxiliaryConfig({"carry": 1.0})
    data = samples(TASKS["lattice"], NegativesConfig(turned=0.5), auxiliary=auxiliary)
    batch, model = data.__getitems__(range(24)), tiny_trm()
    heads = AuxiliaryHeads({"carry": 10}, {"carry": 1.0}, 16)
    loop = Loop(model, batch["inputs"])
    loop.step()
    figures = supervise(loop, loop.read(), batch, heads=heads)
    defined = (batch["auxiliary"][..., 0] != UNDEFINED) & batch["correct"][:, None, None]
    expected = heads(model.cell_states(loop.state, loop.context)[defined], None)
    assert expected["loss"] == 0
    labels = batch["auxiliary"].clone()
    labels[~batch["correct"]] = UNDEFINED
    alone = heads(model.cell_states(loop.state, loop.context), labels)
    assert torch.equal(figures["auxiliary/carry"], alone["auxiliary/carry"])
    assert (labels != batch["auxiliary"]).any()


def test_the_models_own_row_stands_above_and_is_correct_or_not():
    batch, model = some_batch(NegativesConfig(own=1.0)), tiny_trm()
    # A "model" that writes the truth in half of the canvases.
    truth = batch["labels"]

    class Oracle(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, steps: int) -> tuple[torch.Tensor, None]:
            asked.append((tokens, steps))
            written = truth[chosen].clone()
            written[::2] = 5
            return torch.nn.functional.one_hot(written.long(), 20), None

    asked: list[tuple[torch.Tensor, int]] = []
    above = batch["above"]
    chosen = above.flatten(1).any(1)
    found = with_own_rows(Oracle(), batch, 3)
    [(tokens, steps)] = asked
    assert steps == 3
    assert ((tokens == MASK) == above[chosen]).all()
    assert (tokens[batch["answer"][chosen]] == BLANK).all()
    assert set(found) == set(batch) - {"above"}
    assert torch.equal(found["inputs"][~above], batch["inputs"][~above])
    rows = torch.where(above, truth, 0)
    same = (found["inputs"] == rows)[above]
    assert 0.3 < same.float().mean() < 0.9
    correct = ((found["inputs"] == truth) | batch["answer"]).flatten(1).all(1)
    assert torch.equal(found["correct"], correct)
    assert correct[chosen][1::2].all()
    assert not correct[chosen][::2].any()
    none = some_batch(NegativesConfig(digit=1.0, own=0.0))
    assert "above" not in none
    assert with_own_rows(model, none, 2) is none
    real = with_own_rows(model, batch, 2)
    assert ((real["inputs"] == MASK) == batch["answer"]).all()


@pytest.mark.parametrize("schedule", ["fresh", "carry"])
def test_labels_of_negatives_are_never_read(schedule):
    model = tiny_trm().train()
    batch = with_own_rows(model, some_batch(), 2)
    depth = DepthConfig(schedule, halt_max_steps=4)
    wrong = {**batch, "labels": batch["labels"].clone()}
    wrong["labels"][~batch["correct"]] = 7  # labels of negatives are never read
    figures = []
    for one in (batch, wrong):
        if schedule == "fresh":
            figures.append(fresh_step(model, one, 0, 1))
        else:
            found, carry = carried_step(model, one, None, depth)
            assert torch.equal(carry.batch["correct"], one["correct"])
            figures.append(found)
    both = zip(*(of.values() for of in figures), strict=True)
    assert all(torch.equal(a, b) for a, b in both)
    assert "negatives_rejected" in figures[0]


def test_a_carry_without_negatives_goes_on_with_them_and_back():
    model = tiny_trm().train()
    batch = with_own_rows(model, some_batch(), 2)
    plain = {name: part for name, part in batch.items() if name != "correct"}
    depth = DepthConfig("carry", halt_max_steps=4)
    _, carry = carried_step(model, plain, None, depth)
    _, after = carried_step(model, batch, carry._replace(halted=carry.halted & False), depth)
    assert after.batch["correct"].all()
    _, carry = carried_step(model, batch, None, depth)
    _, after = carried_step(model, plain, carry._replace(halted=carry.halted & False), depth)
    assert torch.equal(after.batch["correct"], batch["correct"])


# Runs

EXTRA = """
data:
  batch_size: 16
  canvas: {square: true}
  task: {init_args: {digits_b: [1, 2]}}
  transforms: [{class_path: albumentations.D4, init_args: {p: 1.0}}]
  negatives: {turned: 0.2, guessed: 0.2, digit: 0.1, other: 0.1, own: 0.3}
"""


def test_a_transform_that_always_turns_is_enough():
    flip, half = {"transforms": [A.HorizontalFlip(p=1.0)]}, NegativesConfig(turned=0.5)
    CanvasDataModule(TASKS["lattice"], Canvas(), negatives=half, **flip)


def test_only_row_steps_have_negatives():
    data = CanvasDataModule(TASKS["lattice"], Canvas(), negatives=NegativesConfig(digit=0.5))
    data.training_samples(IterativeModule, 1)
    for module in (GPTModule, CellModule, LatentModule):
        with pytest.raises(ValueError, match=r"data\.negatives are for recursive transformers"):
            data.training_samples(module, 1)


def test_a_run_logs_the_confidence_on_negatives(command, debug, tmp_path):
    extra = tmp_path / "extra.yaml"
    extra.write_text(EXTRA)
    more = ("--model.patience", 4, "--trainer.log_every_n_steps", 1, "--trainer.max_epochs", 1)
    more += ("--model.confidence", "cells")
    command("fit", *debug, "--config", extra, *more, folder=tmp_path)
    events = events_of(tmp_path)
    scalars = events.Tags()["scalars"]
    assert {"train/negatives_rejected", "validation/turned_rejected"} < set(scalars)
    for name in ("train/negatives_rejected", "validation/confidence_turned"):
        assert 0 <= events.Scalars(name)[-1].value <= 1
    assert charts_without_a_curve(tmp_path) == []
    assert len(events.Images("figures/samples")) == 1
    held = last_of(tmp_path)
    kinds = {"turned": 0.2, "guessed": 0.2, "digit": 0.1, "other": 0.1, "own": 0.3}
    assert held["CanvasDataModule"]["negatives"] == kinds
    solver = load_solver(next(tmp_path.rglob("last.ckpt")), device="cpu")
    assert solver.predictor.options.patience == 4
    fitted = last_of(tmp_path)[CHECKPOINT_KEY]["calibration"]
    assert solver.predictor._calibration == Calibration(**fitted) != Calibration()
    assert solver.trained_symmetries == tuple(SYMMETRIES)
    card = model_card(next(tmp_path.rglob("last.ckpt")))
    assert "**Confidence.** That in a row is the lesser" in card
    assert "taught by negatives, 20 % `turned`, 20 % `guessed`, 10 % `digit`" in card


def test_turned_validation_rows_are_turned_upright_rows(monkeypatch):
    module = tiny_module(solve_steps=2)
    how = {"negatives": NegativesConfig(turned=0.5), "transforms": [A.D4(p=1.0)]}
    data = CanvasDataModule(TASKS["lattice"], Canvas(square=True), validation_problems=12, **how)
    module._trainer = SimpleNamespace(datamodule=data)
    assert "turned_rejected" in module.validated_metrics
    _, drawing = data.val_dataloader()[0].dataset.__getitems__(range(12))
    seen: list[np.ndarray] = []

    def fill(self, inputs: np.ndarray) -> Prediction:
        seen.append(inputs)
        confidence = np.linspace(0, 1, len(inputs)).astype(np.float32)
        ones = np.ones(len(inputs), np.int64)
        return Prediction(inputs, confidence, ones, ones > 0)

    monkeypatch.setattr(IterativePredictor, "__call__", fill)
    forced = teacher_forced(IterativePredictor(module.model, 2), drawing)
    figures = module.more_metrics(drawing, forced)
    assert figures["turned_rejected"] == (0.5, 12)
    assert figures["confidence_turned"] == (pytest.approx(0.5), 12)
    assert "confidence_correct" not in figures  # no row is
    upright = {one.tobytes() for one in row_steps(drawing).inputs}
    back = [{symmetry.apply(n, one).tobytes() for n in SYMMETRIES} & upright for one in seen[-1]]
    assert all(back)
    assert not {one.tobytes() for one in seen[-1]} & upright
