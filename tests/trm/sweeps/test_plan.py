import json
from dataclasses import replace

import pytest

from trm.sweeps import plan as planning
from trm.sweeps.plan import PLAN, config_of, make_plan, read_plan
from trm.sweeps.study import study_of
from trm.sweeps.trial import Trial, parameters_of

SIZE = "model.network.config.intermediate_size"


def quiet(name: str) -> None:
    pass


@pytest.fixture
def trials(monkeypatch) -> list:
    """What was tried out: 100 operations a sample of the small model, 200 of the large one."""
    tried = []

    def option(words, key: str, default: int) -> int:
        return next((int(w.partition("=")[2]) for w in words if w.startswith(f"--{key}=")), default)

    def parameters(words) -> int:
        return 1000 * option(words, "model.network.config.num_layers", 1) + 10 * option(
            words, SIZE, 30
        )

    def try_out(words, check) -> Trial:
        tried.append(tuple(words))
        batch = option(words, "data.batch_size", 16)
        large = option(words, "model.network.config.num_layers", 1) > 1
        flops = 100.0 * batch * (2 if large else 1)
        return Trial(parameters(words), 60, 6, 1, batch, flops, flops / 1000)

    monkeypatch.setattr(planning, "try_out", try_out)
    monkeypatch.setattr(planning, "parameters_of", parameters)
    return tried


def a_study(**more):
    held = {"config": "debug", "axes": {"model.network.config.num_layers": [1, 2]}, **more}
    return study_of(held)


def test_nothing_is_set_where_nothing_is_held_equal(trials):
    plan = make_plan(a_study(), None, quiet)
    assert [one.words for one in plan.settings] == [
        ("--model.network.config.num_layers=1",),
        ("--model.network.config.num_layers=2",),
    ]


@pytest.mark.parametrize("training", ["flops", "seconds"])
def test_runs_of_equal_cost_are_shorter_where_a_step_costs_more(trials, training):
    plan = make_plan(a_study(equal={"training": training}), None, quiet)
    small, large = plan.settings
    assert small.trial.steps == 60
    assert large.trial.steps == 30
    assert large.words[-1] == "--data.batches_per_epoch=5"  # six epochs, as before


def test_runs_of_equal_samples_are_shorter_where_batches_are_larger(trials):
    axes = {"data.batch_size": [16, 64]}
    plan = make_plan(a_study(axes=axes, equal={"training": "samples"}), None, quiet)
    assert [one.trial.steps * one.trial.samples for one in plan.settings] == [960, 960]


def test_a_key_makes_up_for_the_parameters(trials):
    held = {"axes": {"model.network.config.num_layers": [2, 1]}, "equal": {"parameters": SIZE}}
    plan = make_plan(a_study(**held), None, quiet)
    deep, flat = plan.settings
    assert deep.trial.parameters == flat.trial.parameters == 2300
    assert f"--{SIZE}=130" in flat.words


def test_settings_are_held_equal_within_each_value_of_an_axis(trials, tmp_path):
    size = {"narrow": {SIZE + "_of_another_part": 1}, "wide": {"data.batch_size": 64}}
    axes = {"size": size, "model.network.config.num_layers": [2, 1]}
    equal = {"training": "flops", "parameters": SIZE, "within": "size"}
    plan = make_plan(a_study(axes=axes, equal=equal), None, quiet)
    assert [(one.name, one.trial.steps) for one in plan.settings] == [
        ("narrow, num layers 2", 60),
        ("narrow, num layers 1", 120),
        ("wide, num layers 2", 60),
        ("wide, num layers 1", 120),
    ]
    assert plan.settings[2].words == ("--data.batch_size=64", "--model.network.config.num_layers=2")
    first, second, third, fourth = plan.points()
    assert plan.groups() == [[first, second], [third, fourth]]
    (tmp_path / "configs").mkdir()
    plan.write(tmp_path, a_study(axes=axes, equal=equal))
    assert read_plan(tmp_path) == plan


@pytest.mark.parametrize(
    ("many", "nearest"),  # to the 7,300 of the first setting
    [
        (lambda width: 10 * width, 7300),
        (lambda width: width**2, 85**2),
        (lambda width: 1000 * (width // 100), 7000),
        (lambda width: 7300, 7300),
    ],
)
def test_it_does_so_however_the_parameters_grow_with_it(trials, monkeypatch, many, nearest):
    def parameters_of(words) -> int:
        return many(int(words[-1].partition("=")[2]))

    monkeypatch.setattr(planning, "parameters_of", parameters_of)
    held = {"axes": {"model.network.config.num_layers": [7, 1]}, "equal": {"parameters": SIZE}}
    _, flat = make_plan(a_study(**held), None, quiet).settings
    [value] = [int(word.partition("=")[2]) for word in flat.words if SIZE in word]
    assert many(value) == nearest


def test_a_key_that_cannot_make_up_for_them_is_told(trials):
    with pytest.raises(ValueError, match=r"num layers 2: with .* 1 the model has 2,010 .* 1,300"):
        make_plan(a_study(equal={"parameters": SIZE}), None, quiet)


def test_a_plan_is_kept_and_more_seeds_and_values_try_out_only_what_is_new(trials, tmp_path):
    plan = make_plan(a_study(), None, quiet)
    plan.write(tmp_path, a_study())
    assert read_plan(tmp_path) == plan
    wider = a_study(axes={"model.network.config.num_layers": [1, 2, 3]}, seeds=[0, 1])
    told = []
    more = make_plan(wider, read_plan(tmp_path), told.append)
    assert told == ["num layers 3"]
    assert len(trials) == 3
    assert more.settings[:2] == plan.settings
    names = [point.name for point in more.points()]
    assert names[2:4] == ["num layers 3, seed 0", "num layers 1, seed 1"]


def test_a_config_that_has_changed_is_tried_out_again(trials, tmp_path, repository):
    mine = tmp_path / "mine.yaml"
    mine.write_text((repository / "configs/debug.yaml").read_text())
    study = a_study(config=str(mine))
    plan = make_plan(study, None, quiet)
    mine.write_text(mine.read_text() + "\n")
    again = make_plan(study, plan, quiet)
    assert len(trials) == 4
    assert again.settings[0].config != plan.settings[0].config


@pytest.mark.parametrize("content", ["", "{}", '{"format": 1}', '{"format": 9}', "[1]"])
def test_a_damaged_plan_is_told_and_kept(tmp_path, content):
    (tmp_path / PLAN).write_text(content)
    with pytest.raises(ValueError, match=r"study\.json is not what trm sweep writes"):
        read_plan(tmp_path)
    assert (tmp_path / PLAN).read_text() == content


def test_where_steps_end_a_run_they_are_what_is_set(trials, monkeypatch):
    def try_out(words, check) -> Trial:
        return Trial(10, 100, None, 1, 16, 50.0 if "--a.b=2" in words else 100.0, 1.0)

    monkeypatch.setattr(planning, "try_out", try_out)
    study = a_study(axes={"a.b": [1, 2]}, equal={"training": "flops"})
    assert make_plan(study, None, quiet).settings[1].words[-1] == "--trainer.max_steps=200"


def test_epochs_of_few_batches_give_way_to_steps(trials, monkeypatch):
    def try_out(words, check) -> Trial:  # 40 epochs of two batches, one of three of them too many
        return Trial(10, 80, 40, 1, 16, 400.0 if "--a.b=2" in words else 300.0, 1.0)

    monkeypatch.setattr(planning, "try_out", try_out)
    one = make_plan(a_study(axes={"a.b": [1, 2]}, equal={"training": "flops"}), None, quiet)
    assert one.settings[1].words[1:] == ("--trainer.max_epochs=-1", "--trainer.max_steps=60")
    assert one.settings[1].trial.steps == 60


def test_a_setting_that_comes_back_is_as_it_was(trials, tmp_path):
    values = {"model.network.config.num_layers": [1, 2, 3]}
    whole = make_plan(a_study(axes=values), None, quiet)
    part = make_plan(a_study(), whole, quiet)
    part.write(tmp_path, a_study())
    again = make_plan(a_study(axes=values), read_plan(tmp_path), quiet)
    assert again.settings == whole.settings
    assert len(trials) == 3


def test_runs_start_from_a_copy_of_their_config(trials, tmp_path, repository):
    plan = make_plan(a_study(), None, quiet)
    plan.write(tmp_path, a_study())
    [copy] = (tmp_path / "configs").iterdir()
    assert copy == config_of(tmp_path, plan.settings[0].config)
    assert copy.read_text() == (repository / "configs/debug.yaml").read_text()


def test_a_plan_is_plain_data(trials, tmp_path):
    plan = make_plan(a_study(), None, quiet)
    replace(plan, evaluations={"x": ["--battery"]}).write(tmp_path, a_study())
    held = json.loads((tmp_path / PLAN).read_text())
    assert held["format"] == 1
    assert held["evaluations"] == {"x": ["--battery"]}


def of_gpt(layers: int, width: int, inner: int) -> int:
    """Parameters of a GPT's blocks: four projections, two layer norms, an MLP of two matrices."""
    return layers * (4 * width**2 + 2 * width + 2 * width * inner)


def of_recursive(layers: int, width: int, inner: int) -> int:
    """The same of a TRM's: norms have no parameters, and a SwiGLU has three matrices."""
    return layers * (4 * width**2 + 3 * width * inner)


def even_gpt(share: float, width: int, inner: int) -> float:
    """The inner size f of L layers with the parameters of M layers of size g; share is M / L.

    L (4 d^2 + 2 d + 2 d f) = M (4 d^2 + 2 d + 2 d g), as in Petty et al. 2024, equation 1.
    """
    return share * (2 * width + 1 + inner) - (2 * width + 1)


def even_recursive(share: float, width: int, inner: int) -> float:
    """The same from L (4 d^2 + 3 d f) = M (4 d^2 + 3 d g)."""
    return share * (4 * width / 3 + inner) - 4 * width / 3


@pytest.mark.parametrize(
    ("config", "of_blocks", "even", "width", "inner", "layers"),
    [
        ("gpt/small_rope_2d", of_gpt, even_gpt, 16, 70, (2, 3)),
        ("debug", of_recursive, even_recursive, 16, 6, (3, 2)),
    ],
)
def test_the_size_that_keeps_the_parameters_is_that_of_the_closed_form(
    repository, config, of_blocks, even, width, inner, layers
):
    def words(layers: int, *more: str) -> list[str]:
        sizes = (f"hidden_size={width}", f"num_layers={layers}", *more)
        keys = [f"--model.network.config.{size}" for size in sizes]
        return [f"--config={repository / 'configs' / config}.yaml", *keys]

    first, other = layers
    wanted = parameters_of(words(first, f"intermediate_size={inner}"))
    found = planning._making_up(words(other), SIZE, wanted)
    assert abs(found - even(first / other, width, inner)) <= 0.5  # the nearest whole number
    apart = parameters_of(words(other, f"intermediate_size={found}")) - wanted
    assert apart == of_blocks(other, width, found) - of_blocks(first, width, inner)
