"""Auxiliary losses: their labels in every view, their values, and what they leave as it was."""

import math
from types import SimpleNamespace
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from runs import charts_without_a_curve, events_of, last_of
from safetensors import safe_open
from tiny import SIZES, tiny_module, tiny_trm

from augment.transforms import CanvasShift, SampleTransform
from canvas.addition import Addition
from canvas.canvas_size import Blanks, Canvas, Insertion
from canvas.drawing import UNDEFINED
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.sequences import IGNORE, at_writers, sequences
from canvas.symbols import DIGIT_IDS
from trm.checkpoints.loading import load_solver
from trm.models.configs import GPTConfig
from trm.models.gpt import GPT
from trm.models.iterative import Loop
from trm.training.auxiliary import AuxiliaryConfig, AuxiliaryHeads
from trm.training.configs import OptimizerConfig, ScheduleConfig
from trm.training.data import CanvasDataModule
from trm.training.gpt_module import GPTModule
from trm.training.optimisers import build_optimizer
from trm.training.published_step import Carry, carried_step
from trm.training.samples import DrawnProblems, RowStepSamples, SequenceSamples
from trm.training.step import DepthConfig, fresh_step

TASK = Multiplication("standard", digits_a=(1, 3), digits_b=(1, 3))
NAMES = {"product": 0.3, "carry": 0.5}
FIRST = 0.3 * math.log(13) + 0.5 * math.log(10)  # their losses while all classes are equally likely
HEADS = {f"auxiliary.{name}_head.{part}" for name in NAMES for part in ("weight", "bias")}
DIGITS = torch.from_numpy(DIGIT_IDS[:10]).long()
VIEWS = {"upright": None, "any": [A.D4(p=1.0), CanvasShift()], "shifted": [CanvasShift()]}


def samples(kind: Any, names: Any = NAMES, view: str = "upright", **more: Any) -> dict[str, Any]:
    transforms = VIEWS[view]
    more |= {"transform": SampleTransform(transforms) if transforms else None}
    more |= {"auxiliary": AuxiliaryConfig(dict.fromkeys(names, 1.0) if names else {})}
    return kind(TASK, Canvas(9, 9), "train", 0, 64, 64, **more).__getitems__(range(64))


@pytest.mark.parametrize(
    ("kind", "view"),
    [(RowStepSamples, "any"), (RowStepSamples, "shifted"), (SequenceSamples, "shifted")],
)
@pytest.mark.parametrize("blanks", [0, 1])
def test_labels_stay_at_their_cells_in_every_view(kind, view, blanks):
    """The product is the digit that its row writes, so it moves with the labels."""
    batch = samples(kind, view=view, blanks=Blanks(blanks, blanks))
    labels, product = batch["labels"].long(), batch["auxiliary"][..., 0].long()
    masked = batch.get("answer", labels != IGNORE)
    assert (batch["auxiliary"][~masked] == UNDEFINED).all()
    digits = (product >= 1) & (product <= 10)  # 0: none; above: zeros of two kinds
    assert digits.sum() > 100
    assert (labels[digits] == DIGITS[product[digits] - 1]).all()
    upright = samples(kind, blanks=Blanks(blanks, blanks))
    for one, other in zip(classes_by_label(batch), classes_by_label(upright), strict=True):
        assert (one == other).all()


def classes_by_label(batch: dict[str, Any]) -> list[np.ndarray]:
    """Return each sample's labels with their classes, sorted, where a class stands for something.

    They are the same in every view.
    """
    classes = batch["auxiliary"].long()
    there = ((classes > 0) & (classes != UNDEFINED)).any(dim=-1)
    pairs = torch.cat([batch["labels"].long().unsqueeze(-1), classes], dim=-1)
    found = zip(pairs, there, strict=True)
    return [np.array(sorted(map(tuple, one[here].tolist()))) for one, here in found]


def test_classes_are_those_of_long_multiplication():
    """47 x 36, as in `canvas.cells.rules.standard`: 282, 1410, and their sum 1692."""
    problem = Problems.from_ints([(47, 36)])
    drawing = TASK.canvas_layout.draw_worked(problem, 6, 6)
    names = {"multiplicand": 1.0, "multiplier": 1.0, "carry": 1.0, "sum": 1.0, "sum_carry": 1.0}
    data = RowStepSamples(TASK, Canvas(6, 6), "train", 0, 1, 1, auxiliary=AuxiliaryConfig(names))
    whole = Insertion.random(drawing, (0, 0), np.zeros((1, 0), dtype=np.uint64))
    drawn = DrawnProblems(problem, drawing, whole, data.keys([0]))
    maps = dict(zip(names, data._auxiliary(drawn, np.array([1])), strict=True))
    row, end = int(drawing.canvas_row(1)[0]), int(drawing.left[0] + drawing.widths[0])
    tens = {name: int(of[0, row, end - 2]) for name, of in maps.items()}  # 3 x 7 = 21, 8 + 1 = 9
    assert tens == {"multiplicand": 8, "multiplier": 4, "carry": 3, "sum": 10, "sum_carry": 1}
    hundreds = {name: int(of[0, row, end - 3]) for name, of in maps.items()}  # 3 x 4 + 2, 2 + 4
    assert hundreds == {"multiplicand": 5, "multiplier": 4, "carry": 2, "sum": 7, "sum_carry": 1}
    assert (maps["sum"][0, row + 1] == UNDEFINED).all()


def test_a_class_is_at_the_token_that_writes_its_cell():
    assert at_writers(np.array([[[1, 2], [3, 4]]]), 0).tolist() == [[2, 1, 0, 4, 3, 0, 0]]
    drawing = TASK.canvas_layout.draw_worked(Problems.from_ints([(47, 36), (9, 8)]), 7, 7)
    _, labels = sequences(drawing)
    counted = labels != IGNORE
    cells = at_writers(drawing.truth, 0)
    inside = counted & (cells > 0)
    assert inside.any()
    assert (cells[inside] == labels[inside]).all()


@pytest.mark.parametrize("kind", [RowStepSamples, SequenceSamples])
def test_auxiliary_labels_change_no_other_part_of_a_sample(kind):
    without, batch = samples(kind, names=(), view="shifted"), samples(kind, view="shifted")
    assert "auxiliary" not in without
    assert batch.keys() - without.keys() == {"auxiliary"}
    assert all(np.array_equal(batch[name], part) for name, part in without.items())


def test_losses_end_at_an_epoch_or_a_share_of_the_run():
    assert AuxiliaryConfig({"carry": 0.3, "sum": 0.0}).at(99) == ("carry",)
    half = AuxiliaryConfig({"carry": 0.3}, until=0.5)
    assert [half.at(epoch, 4) for epoch in range(4)] == [("carry",)] * 2 + [()] * 2
    assert AuxiliaryConfig({"carry": 0.3}, until=3).at(3) == ()
    with pytest.raises(ValueError, match=r"model\.auxiliary_until: until"):
        AuxiliaryConfig({}, until=1.5)
    with pytest.raises(ValueError, match=r"model\.auxiliary\.carry is 0 or more, not -1"):
        AuxiliaryConfig({"carry": -1})
    with pytest.raises(ValueError, match=r"set trainer\.max_epochs"):
        half.at(0, -1)


def test_losses_are_mean_cross_entropies_of_defined_cells():
    heads = AuxiliaryHeads({"carry": 2, "sum": 4}, {"carry": 0.5, "sum": 2.0}, width=1)
    labels = torch.tensor([[0, 3], [1, UNDEFINED], [1, UNDEFINED], [UNDEFINED] * 2]).byte()
    first = heads(torch.ones(4, 1), labels)
    assert first["auxiliary/carry"].item() == pytest.approx(math.log(2))  # all weights are 0
    assert first["loss"].item() == pytest.approx(0.5 * math.log(2) + 2.0 * math.log(4))
    with torch.no_grad():
        heads.carry_head.weight[1] = math.log(3)  # a probability of 3/4 for class 1
    figures = heads(torch.ones(2, 2, 1), labels.view(2, 2, 2))
    expected = (math.log(4) + 2 * math.log(4 / 3)) / 3
    assert figures["auxiliary/carry"].item() == pytest.approx(expected)
    assert figures["auxiliary_accuracy/carry"].item() == pytest.approx(2 / 3)
    assert figures["auxiliary_accuracy/sum"].item() == 0
    nothing = heads(torch.ones(4, 1), torch.full_like(labels, UNDEFINED))["loss"]
    over = heads(torch.ones(4, 1), None)["loss"]
    for loss in (nothing, over):  # every weight has a gradient, which devices wait for
        heads.zero_grad()
        loss.backward()
        assert loss.item() == 0
        assert all(p.grad is not None and not p.grad.any() for p in heads.parameters())


FORMS = [{}, {"crop": True}, {"skip_blank": True}, {"num_prefixes": 1, "prefix_length": 2}]


@pytest.mark.parametrize("more", FORMS)
def test_heads_read_the_states_that_the_answer_is_read_from(more):
    model, batch = tiny_trm(**more), samples(RowStepSamples)
    loop = Loop(model, batch["inputs"])
    loop.advance(2)
    states, masked = model.cell_states(loop.state, loop.context), batch["answer"]
    logits, _ = loop.read()
    torch.testing.assert_close(model.lm_head(states[masked]), logits[masked])


def module_with(**more: Any):
    made = tiny_module(**more)
    made.add_auxiliary(TASK)
    return made


def test_auxiliary_losses_are_added_under_both_schedules():
    batch, depth = samples(RowStepSamples), DepthConfig()
    plain, made = module_with(), module_with(auxiliary=NAMES)
    for one, other in zip(plain.model.parameters(), made.model.parameters(), strict=True):
        assert torch.equal(one, other)  # heads take no random numbers
    without = {name: part for name, part in batch.items() if name != "auxiliary"}
    before, more = fresh_step(plain.model, without, 1, 2), {"heads": made.auxiliary}
    after = fresh_step(made.model, batch, 1, 2, **more)
    carried, carry = carried_step(plain.model, without, None, depth)
    added, kept = carried_step(made.model, batch, None, depth, **more)
    for one, other in ((before, after), (carried, added)):
        assert torch.equal(one["loss_cells"], other["loss_cells"])
        assert (other["loss"] - one["loss"]).item() == pytest.approx(FIRST, abs=1e-5)
    over, _ = carried_step(made.model, without, carry, depth, **more)
    assert "auxiliary/carry" not in over
    assert set(kept.batch) - set(carry.batch) == {"auxiliary"}
    still = Carry(carry.state, carry.steps, torch.zeros_like(carry.halted), carry.batch)
    _, later = carried_step(made.model, batch, still, depth, **more)
    assert (later.batch["auxiliary"] == UNDEFINED).all()  # the samples are older than the losses


def test_a_gpt_learns_auxiliary_classes_at_its_own_tokens():
    parts: dict[str, Any] = {"optimizer": OptimizerConfig(), "schedule": ScheduleConfig()}
    batch, losses = samples(SequenceSamples), []
    for auxiliary in ({}, NAMES):
        torch.manual_seed(0)
        made = GPTModule(GPT(GPTConfig(9, 9, **SIZES)), **parts, auxiliary=auxiliary)
        made.add_auxiliary(TASK)
        made._trainer = SimpleNamespace(global_step=0, current_epoch=0, log_every_n_steps=99)
        losses.append(made.training_step(batch, 0))
    assert (losses[1] - losses[0]).item() == pytest.approx(FIRST, abs=1e-5)
    losses[1].backward()
    assert made.auxiliary.carry_head.weight.grad.any()


def test_heads_are_output_heads_to_the_optimiser():
    made = module_with(auxiliary=NAMES, network={"num_layers": 1})
    groups = build_optimizer(made, OptimizerConfig(name="muon")).param_groups
    named = {group["name"]: {id(p) for p in group["params"]} for group in groups}
    assert id(made.auxiliary.carry_head.weight) in named["decayed"]
    assert id(made.auxiliary.carry_head.bias) in named["rest"]
    plain = module_with(network={"num_layers": 1})
    assert plain.auxiliary is None
    assert all(name.startswith("model.") for name in plain.state_dict())


def test_sub_tasks_that_cannot_be_learned_are_refused():
    with pytest.raises(ValueError, match=r"a sub-task must be one of .*carry.*Did you mean carry"):
        tiny_module(auxiliary={"cary": 1.0}).add_auxiliary(TASK)
    with pytest.raises(ValueError, match="first_addend, addend_above, digit_sum, got 'carry'"):
        tiny_module(auxiliary={"carry": 1.0}).add_auxiliary(Addition("column"))
    with pytest.raises(ValueError, match=r"model\.auxiliary: .* direct declares no local"):
        tiny_module(auxiliary={"carry": 1.0}).add_auxiliary(Multiplication("direct"))
    own = tiny_module(auxiliary={"carry": 1.0})
    own.model = torch.nn.Linear(1, 1)
    with pytest.raises(ValueError, match="Linear has none: leave it out"):
        own.add_auxiliary(TASK)


def test_the_data_draws_what_the_module_learns():
    data = CanvasDataModule(TASK, Canvas(9, 9), batch_size=8, batches_per_epoch=1)
    made = module_with(auxiliary=NAMES, auxiliary_until=1)
    data.trainer = SimpleNamespace(world_size=1, global_rank=0, lightning_module=made)
    loader = data.train_dataloader()
    assert next(iter(loader))["auxiliary"].shape == (8, 9, 9, 2)
    loader.sampler.set_epoch(1)
    assert "auxiliary" not in next(iter(loader))


def test_heads_stay_out_of_solving_testing_and_exported_weights(command, debug, tmp_path):
    learned = (*debug, "--model.auxiliary={carry: 0.3, product: 0.3}")
    short = ("--trainer.max_epochs", 1)
    command("fit", *learned, *short, folder=tmp_path)
    assert charts_without_a_curve(tmp_path) == []
    logged = set(events_of(tmp_path).Tags()["scalars"])
    assert {"train/auxiliary/carry", "train/auxiliary_accuracy/product"} <= logged
    last, weights = next(tmp_path.rglob("last.ckpt")), tmp_path / "weights.safetensors"
    mine = load_solver(last, device="cpu").predictor.model.state_dict()
    command("inspect", "--checkpoint", last, "--export", weights)
    with safe_open(weights, "pt") as file:
        assert set(file.keys()) == set(mine)
    tests = [(*learned, "--ckpt_path", weights), (*debug, "--ckpt_path", last)]
    assert len({command("test", *words, folder=tmp_path).out for words in tests}) == 1
    ran = command("fit", *debug, "--ckpt_path", last, folder=tmp_path, code=2)
    assert "auxiliary losses: carry, product (here none)" in ran.err
    folder = tmp_path / "begun"
    folder.mkdir()
    command("fit", *debug, *short, "--weights", last, folder=folder)
    assert not HEADS & last_of(folder)["state_dict"].keys()
