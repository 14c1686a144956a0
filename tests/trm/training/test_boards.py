"""What TensorBoard shows of a short run."""

import re
from pathlib import Path

import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from trm.training.boards import ValidationFigures, hyperparameters


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
    assert settings["model.model.hidden_size"].number_value == 16
    assert not [name for name in settings if "callbacks" in name]
    named = [info.name.tag for info in content("experiment").experiment.metric_infos]
    assert "validation/solved" in named
    for tag in named:  # nothing but what was measured
        steps = [event.step for event in events.Scalars(tag)]
        assert steps == ([4, 9] if tag.startswith("validation/") else list(range(10)))


def test_every_curve_of_the_layout_is_there(run):
    _, events = run
    [config] = events.Tensors("custom_scalars__config__")
    layout = Layout.FromString(config.tensor_proto.string_val[0])
    tags = [tag for c in layout.category for chart in c.chart for tag in chart.multiline.tag]
    assert len(tags) > 10
    for tag in tags:
        assert any(re.fullmatch(tag, known) for known in events.Tags()["scalars"]), tag


def test_a_validation_draws_accuracy_reliability_and_supervision_steps(run):
    _, events = run
    for name in ("by_length", "by_kind", "reliability", "supervision_steps"):
        assert [image.step for image in events.Images(f"figures/{name}")] == [5, 10]


def test_settings_are_named_as_on_the_command_line_but_for_init_args():
    config = {
        "model": {"class_path": "M", "init_args": {"depth": {"free_steps": [0, 7]}, "x": None}},
        "trainer": {"callbacks": [{"class_path": "C"}], "max_epochs": 3, "log_every_n_steps": 9},
        "ckpt_path": "elsewhere",
    }
    assert hyperparameters(config) == {
        "model.class_path": "M",
        "model.depth.free_steps": "[0, 7]",
        "trainer.max_epochs": 3,
    }


def test_a_number_of_validations_below_one_is_refused():
    with pytest.raises(ValueError, match="every_n_validations of ValidationFigures is 1 or more"):
        ValidationFigures(0)
