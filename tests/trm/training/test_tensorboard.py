"""A run in TensorBoard: its config, curves and pictures of a validation's rows."""

import re
from types import SimpleNamespace

import numpy as np
import torch
import yaml
from drawings import drawn
from lightning.pytorch.callbacks import EMAWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from runs import events_of
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from canvas.multiplication import Multiplication
from canvas.problems import Problems
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rows import Prediction
from trm.solving.teacher_forced import TeacherForced, teacher_forced
from trm.training.canvas_module import Validated
from trm.training.tensorboard import CUSTOM_SCALARS, Pictures, chosen_rows, hyperparameters, title


def test_a_run_has_its_whole_config_settings_and_charts(trained):
    events = events_of(trained)
    [page] = events.Tensors("config/text_summary")
    text = page.tensor_proto.string_val[0].decode()
    assert text.startswith("```yaml\n")
    shown = yaml.safe_load(text.removeprefix("```yaml\n").removesuffix("```"))
    assert shown == yaml.safe_load(next(trained.rglob("config.yaml")).read_text())
    [content] = [
        data.plugin_data.content
        for tag, data in events.summary_metadata.items()
        if tag == "_hparams_/session_start_info"
    ]
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert settings["data.task.layout"].string_value == "lattice"
    assert settings["model.network.config.hidden_size"].number_value == 16
    assert not [name for name in settings if "callbacks" in name]
    [config] = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(config.tensor_proto.string_val[0])
    charts = {chart.title: chart for page in layout.category for chart in page.chart}
    for name, of in ((n, of) for page in CUSTOM_SCALARS.values() for n, of in page.items()):
        if "auxiliary" in name or "turned" in name:  # this run has no such samples
            assert name not in charts
            continue
        assert list(charts[name].multiline.tag) == [of]
        assert any(re.match(of, known) for known in events.Tags()["scalars"]), of


def test_hyperparameters_have_the_names_of_the_command_line():
    config = {
        "model": {"class_path": "M", "init_args": {"depth": {"no_grad_steps": [0, 7]}, "x": None}},
        "data": {"canvas": {"square": True}},
        "trainer": {"callbacks": [{"class_path": "C"}], "max_epochs": 3, "log_every_n_steps": 9},
        "ckpt_path": "elsewhere",
    }
    assert hyperparameters(config) == {
        "model.class_path": "M",
        "model.depth.no_grad_steps": "[0, 7]",
        "data.canvas.square": "True",
        "trainer.max_epochs": 3,
    }


def test_each_validation_draws_the_same_rows(fit, tmp_path, monkeypatch):
    looks, trace = [], IterativePredictor.trace

    def watched(self, inputs, labels, steps=None):
        look = SimpleNamespace(inputs=inputs, steps=steps or self.max_steps)
        look.training, look.autocast = self.model.training, torch.is_autocast_enabled("cpu")
        look.weights = self.model.lm_head.weight.detach().clone()
        looks.append(look)
        return trace(self, inputs, labels, steps)

    monkeypatch.setattr(IterativePredictor, "trace", watched)
    averaging = EMAWeightAveraging(decay=0.5)
    module = fit(tmp_path, averaging, Pictures(num_samples=2), val_check_interval=3)
    events = events_of(tmp_path)
    assert len(looks) == 4  # at each validation one, and one at all rows step by step
    for tag in ("row_1", "row_2", "wrong_1", "wrong_2"):
        assert [image.step for image in events.Images(f"panels/{tag}")] == [2, 5]
    for look in looks[::2]:
        np.testing.assert_array_equal(look.inputs[:2], looks[0].inputs[:2])
        assert look.steps == module.solve_steps
    assert not any(look.training for look in looks)
    assert all(look.autocast for look in looks)
    assert module.training
    final = module.model.lm_head.weight  # the average, once training has ended
    torch.testing.assert_close(looks[-1].weights, final.detach())


def test_without_a_tensorboard_logger_nothing_is_drawn(fit, tmp_path, monkeypatch):
    monkeypatch.setattr(IterativePredictor, "trace", None)  # would fail if called
    fit(tmp_path, Pictures(), logger=CSVLogger(tmp_path))


def validated(right: list[int], confidence: list[float], a: int = 10) -> Validated:
    """Problems of one row each, right or wrong, with the given confidence."""
    pairs = [(a + i, 7) for i in range(len(right))]
    drawing = drawn("lattice", pairs, 3, 50)

    def fill(inputs: np.ndarray) -> Prediction:
        said = np.where(np.array(right, bool)[:, None, None], drawing.truth, 0)
        ones = np.ones(len(inputs), np.int64)
        return Prediction(said, np.array(confidence, np.float32), ones, ones > 0)

    forced: TeacherForced = teacher_forced(fill, drawing)
    return Validated(Problems.from_ints(pairs), drawing, forced)


def test_incorrect_rows_are_drawn_the_most_confident_first():
    first, second = validated([1, 0, 1], [0.9, 0.2, 0.3]), validated([0, 1], [0.8, 1.0])
    chosen = chosen_rows([first, second], 4)
    titles = {tag: title(Multiplication("lattice"), *row) for tag, row in chosen.items()}
    wrong = {f"wrong_{i + 1}": f"{10 + i} × 7   row 1 of 1: answer" for i in (0, 1)}
    assert {tag: name for tag, name in titles.items() if not tag.startswith("row_")} == wrong
    assert chosen["wrong_1"] == (second, 0)
    assert [chosen[f"row_{i + 1}"][1] for i in range(4)] == [0, 1, 2, 1]
    assert title(Multiplication(), validated([True], [1.0], a=10**40), 0).startswith("1000000000")
