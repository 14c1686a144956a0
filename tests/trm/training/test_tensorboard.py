"""What TensorBoard shows of a short run."""

import re
from pathlib import Path

import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from trm.training.tensorboard import hparams_summaries, hyperparameters


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


def test_hyperparameters_stand_beside_figures_that_were_measured(run):
    _, events = run

    def content(name: str) -> HParamsPluginData:
        [data] = [
            data.plugin_data.content
            for tag, data in events.summary_metadata.items()
            if tag == f"_hparams_/{name}"
        ]
        return HParamsPluginData.FromString(data)

    settings = content("session_start_info").session_start_info.hparams
    assert settings["data.task.layout"].string_value == "lattice"
    assert settings["model.network.config.hidden_size"].number_value == 16
    assert not [name for name in settings if "callbacks" in name]
    named = [info.name.tag for info in content("experiment").experiment.metric_infos]
    assert "validation/solved" in named
    for tag in named:  # nothing but what was measured
        steps = [event.step for event in events.Scalars(tag)]
        assert steps == ([4, 9] if tag.startswith("validation/") else list(range(10)))


def test_the_settings_that_matter_are_the_columns_shown_unasked():
    chosen = {
        "data.batch_size": 16,
        "data.task.layout": "lattice",
        "model.network.config.position": "rope_2d",
        "model.optimizer.lr": 0.1,
        "seed_everything": 3,
        "model.network.config.num_layers": 2,
    }
    experiment, _ = hparams_summaries(chosen)
    content = experiment.value[0].metadata.plugin_data.content
    infos = HParamsPluginData.FromString(content).experiment.hparam_infos
    assert {info.name for info in infos} == set(chosen)
    assert {info.name for info in infos if info.differs} == set(chosen) - {"data.batch_size"}


def test_every_chart_of_the_page_shows_curves_of_a_run(run):
    _, events = run
    [config] = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(config.tensor_proto.string_val[0])
    charts = [chart for category in layout.category for chart in category.chart]
    assert len(charts) > 10
    for tag in [tag for chart in charts for tag in chart.multiline.tag]:
        assert len([known for known in events.Tags()["scalars"] if re.match(tag, known)]) == 1, tag
    # Both are 1 where nothing is right, and all is held wrong.
    shown = [[tag.rstrip("$") for tag in chart.multiline.tag] for chart in charts]
    assert ["validation/confidence_accuracy", "validation/teacher_forced_rows"] in shown
    assert ["train/halting_accuracy", "train/row_accuracy"] in shown


def test_every_curve_and_picture_of_each_validation_says_what_it_means(run):
    tags = run[1].Tags()
    for tag in (*tags["scalars"], *tags["images"]):
        described = run[1].SummaryMetadata(tag).summary_description
        assert described.endswith("."), tag
    assert [image.step for image in run[1].Images("figures/supervision_steps")] == [4, 9]


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
