import re

import pytest
import yaml

from trm.extras.sweep.study import read_study


@pytest.fixture
def study(tmp_path):
    """Reads a study with changes."""

    def read(**more):
        held = {
            "config": "debug",
            "set": {"trainer.max_epochs": 3},
            "axes": {
                "data.task.base": [2, 10],
                "size": {"small": {"model.network.config.hidden_size": 8}, "large": {}},
            },
            "seeds": [4, 5],
            **more,
        }
        file = tmp_path / "mine.yaml"
        file.write_text(yaml.safe_dump(held, sort_keys=False))
        return read_study(file)

    return read


def test_combinations_are_settings_compared_within_groups(study):
    found = study()
    names = [setting.name for setting in found.settings]
    assert names == ["base 2, small", "base 2, large", "base 10, small", "base 10, large"]
    assert found.settings[2].labels == {"data.task.base": "base 10", "size": "small"}
    options = "--trainer.max_epochs=3 --data.task.base=10 --model.network.config.hidden_size=8"
    assert " ".join(found.settings[2].options) == options
    assert found.seeds == (4, 5)
    runs = found.runs()
    assert [run.name for run in runs[3:5]] == ["base 10, large, seed 4", "base 2, small, seed 5"]
    assert runs[0].folder == "base_2_small-seed4"
    compared = study(equal={"within": "size"}).compared_with(runs[1])
    assert [run.name for run in compared] == ["base 2, large, seed 4", "base 10, large, seed 4"]


def test_values_and_options_of_evaluations_become_words(study):
    settings = {"data.blanks": {"rows": 1}, "data.task.digits_a": [1, 3], "data.transforms": None}
    [setting] = study(axes={}, set=settings).settings
    assert setting.name == "debug"
    assert setting.options == (
        '--data.blanks={"rows": 1}',
        "--data.task.digits_a=[1, 3]",
        "--data.transforms=null",
    )
    options = {"digits-a": "1..4", "digits_b": "2,4", "layers": True}
    words = ["--digits-a", "1..4", "--digits-b", "2,4", "--layers"]
    found = study(evaluate={"longer ones": options}, checkpoint="equal_loss")
    assert found.evaluations == {"longer_ones": words}
    options = found.settings[0].options  # of all validations
    assert "--checkpoint.save_top_k=-1" in options
    assert "--checkpoint.monitor=validation/loss" in options


def test_a_setting_may_have_its_own_config_share_and_evaluations(study):
    models = {
        "TRM": {"share": 2, "evaluate": ["longer ones"], "model.network.config.hidden_size": 8},
        "GPT": {"config": "gpt/small_rope_2d"},
    }
    evaluations = {"longer ones": {"digits-a": 9}, "short": {"digits-a": 1}}
    found = study(axes={"model": models}, evaluate=evaluations, export="bfloat16")
    trm, gpt = found.settings
    assert (trm.config, trm.share, gpt.config, gpt.share) == ("debug", 2, "gpt/small_rope_2d", 1)
    assert trm.options == ("--trainer.max_epochs=3", "--model.network.config.hidden_size=8")
    assert found.evaluations_of(trm) == {"longer_ones": ["--digits-a", "9"]}
    assert list(found.evaluations_of(gpt)) == ["longer_ones", "short"]
    assert found.export == "bfloat16"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"axes": {"x": {"y": {"share": 0}}}}, "axes: share: Input should be greater than 0"),
        ({"axes": {"x": {"y": {"evaluate": ["z"]}}}}, "axes: evaluate must be one of"),
        ({"export": "int8"}, "export: Input should be 'float32' or 'bfloat16'"),
        ({"axis": {}}, "axis: there is no such field. Did you mean axes?"),
        ({"axes": {"data.task.base": []}}, "data.task.base has no values"),
        ({"axes": {"data.task.base": [2, "2"]}}, "two settings are called base_2"),
        ({"axes": {"data.seed": [1, 2]}}, "data.seed is set by the study"),
        ({"set": {"trainer.logger": False}}, "trainer.logger is set by the study"),
        ({"set": {"max epochs": 3}}, "max epochs is not a key of a config"),
        ({"axes": {"a.init_args.b": [1], "x": {"y": {"a.b": 2}}}}, "two axes set a.b"),
        ({"equal": {"parameters": "trainer.max_epochs"}}, "is set by equal.parameters"),
        ({"seeds": [1, 1]}, "seeds are different numbers"),
        ({"equal": {"within": "sizes"}}, "equal.within is one axis of the study, not sizes"),
        ({"checkpoint": "equal_loss", "set": {"checkpoint.mode": "x"}}, "sets all of checkpoint"),
        ({"evaluate": {"x": {"output": "y"}}}, "output is set by the study"),
    ],
)
def test_a_mistake_is_named_with_the_file(study, wrong, told):
    with pytest.raises(ValueError, match=re.escape(told)) as raised:
        study(**wrong)
    assert "mine.yaml: " in str(raised.value)
    assert "\n" not in str(raised.value)
