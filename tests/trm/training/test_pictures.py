from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import draw_worked
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Prediction, TeacherForced, teacher_forced
from trm.training.canvas_module import Validated
from trm.training.tensorboard import Pictures, chosen_rows, title


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
    assert len(run.looks) == 4  # at each validation one, and one at all rows step by step
    for tag in ("row_1", "row_2", "wrong_1", "wrong_2"):
        assert [image.step for image in run.events.Images(f"panels/{tag}")] == [2, 5]
    for look in run.looks[::2]:
        np.testing.assert_array_equal(look.inputs[:2], run.looks[0].inputs[:2])
        assert look.steps == run.module.solve_steps
    assert not any(look.training for look in run.looks)
    assert all(look.autocast for look in run.looks)
    assert run.module.training
    final = run.module.model.lm_head.weight  # the average, once training has ended
    torch.testing.assert_close(run.looks[-1].weights, final.detach())


def test_without_tensorboard_nothing_is_drawn(fit, tmp_path, monkeypatch):
    monkeypatch.setattr(IterativePredictor, "trace", None)  # would fail if called
    fit(tmp_path, Pictures(), logger=CSVLogger(tmp_path))


def validated(right: list[bool], confidence: list[float], a: int = 10) -> Validated:
    """Problems of one row each, right or wrong, with the given confidence."""
    problems = Problems.from_ints([(a + i, 7) for i in range(len(right))])
    drawing = draw_worked(Multiplication("lattice").rules.work(problems), 3, 50)

    def fill(inputs: np.ndarray) -> Prediction:
        said = np.where(np.array(right)[:, None, None], drawing.truth, 0)
        return Prediction(said, np.array(confidence, np.float32), np.ones(len(inputs), np.int64))

    forced: TeacherForced = teacher_forced(fill, drawing)
    return Validated(problems, drawing, forced)


def test_the_wrong_rows_of_all_batches_are_drawn_the_surest_first():
    batches = [
        validated([True, False, True], [0.9, 0.2, 0.3]),
        validated([False, True], [0.8, 1.0]),
    ]
    chosen = chosen_rows(batches, 4)
    titles = {tag: title(Multiplication("lattice"), *row) for tag, row in chosen.items()}
    assert {tag: name for tag, name in titles.items() if not tag.startswith("row_")} == {
        "wrong_1": "10 × 7   row 1 of 1: answer",
        "wrong_2": "11 × 7   row 1 of 1: answer",
    }
    assert chosen["wrong_1"] == (batches[1], 0)
    assert [chosen[f"row_{i + 1}"][1] for i in range(4)] == [0, 1, 2, 1]
    assert title(Multiplication(), validated([True], [1.0], a=10**40), 0).startswith("1000000000")
