import re
from pathlib import Path

import pytest

from trm.sweeps.study import check_settings, read_study, study_of

STUDIES = sorted((Path(__file__).parents[3] / "configs/studies").glob("*.yaml"))


def a_study(**more) -> dict:
    return {
        "config": "debug",
        "set": {"trainer.max_epochs": 3},
        "axes": {
            "data.task.base": [2, 10],
            "size": {"small": {"model.network.config.hidden_size": 8}, "large": {}},
        },
        "seeds": [4, 5],
        **more,
    }


def test_every_combination_of_the_axes_is_a_setting_named_by_what_is_varied():
    study = study_of(a_study())
    assert [setting.name for setting in study.settings] == [
        "base 2, small",
        "base 2, large",
        "base 10, small",
        "base 10, large",
    ]
    assert study.settings[2].labels == {"data.task.base": "base 10", "size": "small"}
    assert study.settings[2].keys == {
        "trainer.max_epochs": 3,
        "data.task.base": 10,
        "model.network.config.hidden_size": 8,
    }
    assert study.seeds == (4, 5)
    assert study.with_seed(7).seeds == (7, 8)


def test_a_label_without_keys_sets_nothing():
    study = study_of(a_study(axes={"size": {"as it is": None, "large": {"a.b": 2}}}))
    assert [len(setting.keys) for setting in study.settings] == [1, 2]


def test_words_are_those_of_trm_fit_with_values_of_any_kind():
    settings = {"model.hints": {"all": 1.0}, "data.task.digits_a": [1, 3], "data.transforms": None}
    [setting] = study_of(a_study(axes={}, set=settings)).settings
    assert setting.name == "debug"
    assert setting.options() == [
        '--model.hints={"all": 1.0}',
        "--data.task.digits_a=[1, 3]",
        "--data.transforms=null",
    ]


def test_configs_can_be_an_axis_of_their_own():
    study = study_of({"axes": {"config": ["gpt/small_learned", "quickstart"]}})
    assert [setting.name for setting in study.settings] == ["gpt/small_learned", "quickstart"]
    assert [setting.config for setting in study.settings] == ["gpt/small_learned", "quickstart"]


def test_options_of_an_evaluation_become_words():
    options = {"digits-a": "1..4", "digits_b": [2, 4], "battery": True, "views": False}
    study = study_of(a_study(evaluate={"longer ones": options}))
    assert study.evaluations == {
        "longer_ones": ["--digits-a", "1..4", "--digits-b", "2,4", "--battery"]
    }


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"axis": {}}, "no key axis. Did you mean axes?"),
        ({"config": None}, "begins with a config"),
        ({"axes": {"data.task.base": 3}}, "data.task.base is a list of values"),
        ({"axes": {"data.task.base": []}}, "data.task.base has no values"),
        ({"axes": {"data.task.base": [2, "2"]}}, "two settings are called base_2"),
        ({"axes": {"data.seed": [1, 2]}}, "data.seed is set by seeds of the study"),
        ({"set": {"trainer.logger": False}}, "trainer.logger is set by the study"),
        ({"set": {"max epochs": 3}}, "max epochs is no key of a config"),
        ({"set": [3]}, "set and axes hold keys and values"),
        ({"axes": {"a.init_args.b": [1], "x": {"y": {"a.b": 2}}}}, "two axes set a.b"),
        ({"equal": {"parameters": "trainer.max_epochs"}}, "set it nowhere else"),
        ({"set": {"trainer.devices": 2}}, "trainer.devices is set by the study"),
        ({"seeds": [1, 1]}, "seeds are different whole numbers"),
        ({"seeds": [-1]}, "seeds are different whole numbers"),
        ({"seeds": list(range(9000))}, "36,000 runs are more than"),
        ({"equal": {"training": "time"}}, "one of samples, flops, seconds, not time"),
        ({"equal": {"flops": True}}, "equal has no key flops"),
        (
            {"equal": {"within": "sizes"}},
            "equal.within is one axis of the study (data.task.base, size)",
        ),
        ({"equal": {"within": ["size"]}}, "equal.within is one axis of the study"),
        ({"equal": {"within": "size"}}, "equal.within needs something to hold equal"),
        (
            {"checkpoint": "equal_loss", "set": {"checkpoint.monitor": "x"}},
            "checkpoint.monitor is set by checkpoint: equal_loss",
        ),
        ({"checkpoint": "newest"}, "checkpoint is one of best, last"),
        ({"evaluate": {"x": 3}}, "evaluate holds names"),
        ({"evaluate": {"x": {"output": "y"}}}, "output is set by the study"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(wrong, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        study_of(a_study(**wrong))


def test_an_error_names_the_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("config: debug\nseed: [1]\n")
    with pytest.raises(
        ValueError, match=r"mine\.yaml: a study has no key seed. Did you mean seeds"
    ):
        read_study(file)


def test_a_key_that_stands_twice_is_refused(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("config: debug\naxes:\n  data.task.base: [2]\n  data.task.base: [3]\n")
    with pytest.raises(
        ValueError, match=r"mine\.yaml, line 4: data\.task\.base stands there twice"
    ):
        read_study(file)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"model.network.config.hiden_size": 8},
            "there is no setting model.network.config.hiden_size. "
            "Did you mean model.network.config.hidden_size?",
        ),
        ({"model.network.config.hidden_size": 7}, "hidden_size must be a multiple of num_heads"),
        ({"data.task.digits_a": [4, 1]}, "digits_a is [fewest, most] from 1 to 1000"),
        (
            {"trainr.max_epochs": 3},
            "there is no setting trainr.max_epochs. Did you mean trainer.max_epochs?",
        ),
        (
            {"checkpoint.monitr": "validation/loss"},
            "there is no setting checkpoint.monitr. Did you mean checkpoint.monitor?",
        ),
    ],
)
def test_a_mistake_in_any_setting_is_found_before_one_is_tried_out(wrong, told):
    study = study_of({"config": "debug", "axes": {"size": {"as it is": {}, "last": wrong}}})
    with pytest.raises(ValueError, match=f"^last: .*{re.escape(told)}"):
        check_settings(study)


def test_the_config_of_a_study_is_no_study():
    with pytest.raises(ValueError, match=r"depth\.yaml is a study, of many runs"):
        check_settings(study_of({"config": "studies/depth"}))
