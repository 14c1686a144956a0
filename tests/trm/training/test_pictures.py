from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas.multiplication import Multiplication
from canvas.problems import Problems, split_of
from canvas.render import draw_worked
from canvas.symbols import MASK
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Prediction, TeacherForced, teacher_forced
from trm.training.canvas_module import Validated
from trm.training.data import Canvas, CanvasDataModule
from trm.training.pictures import Pictures, example_steps, titles, wrong_steps


@dataclass
class Look:
    """What the panels' trace was run on."""

    inputs: np.ndarray
    steps: int
    training: bool
    autocast: bool
    weights: torch.Tensor


@pytest.fixture(scope="module")
def run(fit, tmp_path_factory):
    """A short run with averaged weights: its looks, module and TensorBoard events."""
    looks, trace = [], IterativePredictor.trace

    def watched(self, inputs, steps=None):
        model, autocast = self.model, torch.is_autocast_enabled("cpu")
        weights = model.lm_head.weight.detach().clone()
        looks.append(Look(inputs, steps or self.max_steps, model.training, autocast, weights))
        return trace(self, inputs, steps)

    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IterativePredictor, "trace", watched)
        averaging = EMAWeightAveraging(decay=0.5)
        module = fit(folder, averaging, Pictures(num_samples=2), val_check_interval=3)
    [path] = folder.rglob("events*")
    events = EventAccumulator(str(path), size_guidance={"images": 0}).Reload()
    return SimpleNamespace(looks=looks, module=module, events=events)


def test_the_same_rows_are_drawn_at_each_validation_as_it_sees_them(run):
    assert len(run.looks) == 4  # rows to draw and rows to follow, at each of two validations
    for tag in ("row_1", "row_2", "wrong_1", "wrong_2"):
        assert [image.step for image in run.events.Images(f"panels/{tag}")] == [2, 5]
    for look in run.looks[::2]:
        np.testing.assert_array_equal(look.inputs[:2], run.looks[0].inputs[:2])
        assert look.steps == run.module.solve_steps
    assert {look.steps for look in run.looks[1::2]} == {2 * run.module.deepest}
    assert not any(look.training for look in run.looks)
    assert all(look.autocast for look in run.looks)
    assert run.module.training
    final = run.module.model.lm_head.weight  # the average, once training has ended
    torch.testing.assert_close(run.looks[-1].weights, final.detach())


def test_without_tensorboard_nothing_is_drawn(fit, tmp_path, monkeypatch):
    monkeypatch.setattr(IterativePredictor, "trace", None)  # would fail if called
    fit(tmp_path, Pictures(), logger=CSVLogger(tmp_path))


def validated(right: list[bool], confidence: list[float]) -> Validated:
    """Problems of one row each, right or wrong, with the given confidence."""
    problems = Problems.from_ints([(10 + i, 7) for i in range(len(right))])
    drawing = draw_worked(Multiplication("lattice").rules.work(problems), 3, 6)

    def fill(inputs: np.ndarray) -> Prediction:
        said = np.where(np.array(right)[:, None, None], drawing.truth, 0)
        return Prediction(said, np.array(confidence, np.float32), np.ones(len(inputs), np.int64))

    forced: TeacherForced = teacher_forced(fill, drawing)
    return Validated(problems, drawing, forced.rows_exact, forced)


def test_the_wrong_rows_of_all_batches_are_drawn_the_surest_first():
    batches = [
        validated([True, False, True], [0.9, 0.2, 0.3]),
        validated([False, True, False], [0.8, 1.0, 0.1]),
    ]
    rows = wrong_steps(batches, 2)
    named = [
        Multiplication("lattice").names(problems)[steps.problem[0]] for problems, _, steps in rows
    ]
    assert named == ["10 x 7", "11 x 7"]
    np.testing.assert_array_equal(rows[0][2].labels[0], batches[1].drawing.truth[0])


def data_of(task: Multiplication, canvas: Canvas, problems: int) -> CanvasDataModule:
    return CanvasDataModule(task, canvas, validation_problems=problems)


def test_samples_differ_in_length_and_in_row_and_belong_to_validation():
    task = Multiplication(layout="standard", digits_a=(1, 4), digits_b=(1, 4))
    problems, drawing, steps = example_steps(data_of(task, Canvas(8, 9), 256), 6)
    lengths = [tuple(one) for one in problems.lengths.tolist()]
    assert (len(set(lengths)), lengths[0], lengths[-1]) == (6, (1, 1), (4, 4))
    assert len(set(steps.step.tolist())) > 2
    assert (steps.step < drawing.steps).all()
    assert (split_of(problems) == 1).all()
    assert ((steps.inputs == MASK) == steps.answer).all()
    assert steps.inputs.shape == (6, 8, 9)


def test_titles_name_the_problem_or_its_digits_the_row_and_its_kind():
    for sizes, start in (((2, 1), "{} × {}"), ((40, 30), "40 × 30 digits")):
        task = Multiplication("standard", digits_a=sizes[:1] * 2, digits_b=sizes[1:] * 2)
        problems, drawing, steps = example_steps(data_of(task, Canvas(), 8), 1)
        found = titles(task, problems, drawing, steps)[0]
        assert found.startswith(f"{start.format(*problems.to_ints()[0])}   row 1 of ")
        assert found.endswith(": partial product")
