"""What TensorBoard shows of a short run."""

import re
from pathlib import Path

import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from trm.training.tensorboard import CUSTOM_SCALARS, hyperparameters


def events_of(folder: Path) -> EventAccumulator:
    [path] = folder.rglob("events*")
    return EventAccumulator(str(path), size_guidance={"images": 0, "tensors": 0}).Reload()


@pytest.fixture(scope="module")
def run(trained) -> tuple[Path, EventAccumulator]:
    folder = trained / "runs/debug/version_0"
    return folder, events_of(folder)


def test_the_whole_config_is_a_page(run):
    folder, events = run
    [page] = events.Tensors("config/text_summary")
    text = page.tensor_proto.string_val[0].decode()
    assert text.startswith("```yaml\n")
    shown = yaml.safe_load(text.removeprefix("```yaml\n").removesuffix("```"))
    assert shown == yaml.safe_load((folder / "config.yaml").read_text())


def test_the_settings_of_runs_are_there_to_be_compared(run):
    [content] = [
        data.plugin_data.content
        for tag, data in run[1].summary_metadata.items()
        if tag == "_hparams_/session_start_info"
    ]
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert settings["data.task.layout"].string_value == "lattice"
    assert settings["model.network.config.hidden_size"].number_value == 16
    assert not [name for name in settings if "callbacks" in name]


def test_every_chart_of_the_page_shows_curves_of_a_run(run):
    _, events = run
    [config] = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(config.tensor_proto.string_val[0])
    charts = {chart.title: chart for page in layout.category for chart in page.chart}
    for title, of in ((t, of) for page in CUSTOM_SCALARS.values() for t, of in page.items()):
        assert list(charts[title].multiline.tag) == [of]
        assert any(re.match(of, known) for known in events.Tags()["scalars"]), of


def test_settings_are_named_as_on_the_command_line_but_for_init_args():
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
