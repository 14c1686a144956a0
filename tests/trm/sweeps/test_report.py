from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from trm.evaluation.statistics import Share
from trm.figures.studies import study_figure
from trm.figures.study_lines import study_lines
from trm.figures.study_map import study_maps
from trm.files import write_object
from trm.sweeps.board import write_board
from trm.sweeps.plan import Plan, Planned
from trm.sweeps.report import Found, Gathered, duration, gathered, numeric_axis, page
from trm.sweeps.running import State, folder_of, grid_of, state_of
from trm.sweeps.trial import Trial

TRIAL = Trial(10, 60, 6, 1, 16, 1e9, 0.1)
COST = {"flops": 2e12, "samples": 960, "seconds": 120.0}


@pytest.fixture
def plan() -> Plan:
    settings = tuple(Planned(name, {}, (name,), (name,), "sha", TRIAL) for name in ("a_b", "c"))
    return Plan(settings, (0, 1), "last", {"near": []})


@pytest.fixture
def output(tmp_path, plan, make_grid) -> Path:
    """A study of two settings and two seeds: one of the second setting's has failed."""
    rights = {"a_b, seed 0": 1.0, "a_b, seed 1": 0.5, "c, seed 0": 0.25}
    for point in plan.points():
        right = rights.get(point.name)
        if right is None:
            state = State(list(point.words), "sha", "failed", error="out of *memory*")
        else:
            state = State(
                list(point.words), "sha", "done", trained=True, evaluated={"near": ["last"]}
            )
            state.cost = COST
            grid = make_grid({"m": lambda a, b, right=right: right}, [4], [2, 4])
            write_object(grid_of(tmp_path, "near", point), grid)
        write_object(folder_of(tmp_path, point) / "point.json", vars(state))
    return tmp_path


def test_what_is_right_per_operation_is_the_mean_of_columns_and_of_seeds():
    def seed(tflop: float | None, *rights: int) -> Found:
        shares = {str(i): Share(right, 10) for i, right in enumerate(rights)}
        return Found(shares | {"none": Share(0, 0)}, tflop and {"flops": tflop * 1e12})

    setting = varied(width="48")
    assert Gathered(setting, (seed(2.0, 10, 5),)).right_per_tflop == pytest.approx(75 / 2)
    two = Gathered(setting, (seed(2.0, 10, 5), seed(1.0, 0, 1), seed(None, 10, 10)))
    assert two.right_per_tflop == pytest.approx((75 / 2 + 5) / 2)
    assert Gathered(setting, (seed(None, 10, 5), seed(1.0))).right_per_tflop is None


def forget_cost(output: Path, point) -> None:
    state = replace(state_of(output, point), cost=None)
    write_object(folder_of(output, point) / "point.json", vars(state))


def test_seeds_of_a_setting_stand_together(output, plan):
    first, second = gathered(output, plan, "near")
    assert first.setting.name == "a_b"
    for column in ("4 x 2 digits", "4 x 4 digits"):
        assert first.shares(column) == [Share(128, 128), Share(64, 128)]
    assert len(second.seeds) == 1
    assert (second.cost("flops"), second.cost("seconds")) == (2e12, 120.0)
    assert second.flops == 12e6  # of 4 x 2 and 4 x 4 digits, the mean


def test_of_many_cells_the_regions_are_told(output, plan, make_grid):
    for point in plan.points():
        grid = make_grid({"m": lambda a, b: 1.0}, 5, 4)
        write_object(grid_of(output, "near", point), grid)
        forget_cost(output, point)
    [first, _] = gathered(output, plan, "near")
    assert list(first.seeds[0].shares) == [
        "in range",
        "first beyond",
        "second beyond",
        "both beyond",
    ]
    assert first.cost("flops") is None  # of older checkpoints it is not known


def test_figures_of_other_options_are_not_shown_beside_these(output, plan):
    wider = replace(plan, evaluations={"near": ["--problems", "500"]})
    assert gathered(output, wider, "near") == []
    assert "0 of 4 runs are done" in page(output, wider)


def test_an_evaluation_that_is_being_made_is_not_counted(output, plan):
    point = next(plan.points())
    state = State(list(point.words), "sha", "evaluating", trained=True)
    write_object(folder_of(output, point) / "point.json", vars(state))
    assert len(gathered(output, plan, "near")[0].seeds) == 1


def test_the_page_tells_what_is_done_what_came_out_and_what_failed(output, plan):
    text = page(output, plan)
    assert "3 of 4 runs are done" in text
    assert "- c, seed 1: out of \\*memory\\*" in text
    assert "| a\\_b | 10 | 2 | 2 min | 12 | 37.5 | 2 | 75.0 [50.0–100.0]" in text
    assert "![Whole solutions right](study.png)" in text


def test_the_page_tells_what_runs_and_its_last_figures(output, plan):
    point = list(plan.points())[-1]
    write_object(folder_of(output, point) / "point.json", vars(State(stage="training")))
    (folder_of(output, point) / "log.txt").write_text("epoch 1, step 5: x\nepoch 2, step 9: y\n\n")
    assert "- c, seed 1: training, epoch 2, step 9: y" in page(output, plan)


def test_a_study_without_results_has_a_page_and_no_picture(tmp_path, plan):
    text = page(tmp_path, plan)
    assert "0 of 4 runs are done" in text
    assert "study.png" not in text
    assert study_figure({"near": gathered(tmp_path, plan, "near")}) is None


def test_the_picture_has_a_mark_for_every_seed(output, plan):
    figure = study_figure({"near": gathered(output, plan, "near"), "far": []})
    by_setting, training, minutes, solving, clock = figure.axes
    assert [text.get_text() for text in by_setting.get_yticklabels()] == ["a_b", "c"]
    marks = [line for line in by_setting.lines if line.get_linestyle() == "None"]
    assert sorted(x for line in marks for x in line.get_xdata()) == [0.25] * 2 + [0.5] * 2 + [1] * 2
    assert {x for line in training.lines for x in line.get_xdata()} == {2.0}
    assert {x for line in minutes.lines for x in line.get_xdata()} == {2.0}
    assert {x for line in solving.lines for x in line.get_xdata()} == {12.0}
    assert [x for line in clock.lines for x in line.get_xdata()] == pytest.approx(
        [12.0] * sum(len(line.get_xdata()) for line in clock.lines)
    )


def test_a_study_of_two_axes_is_a_map_of_them(output, plan):
    where = ({"size": "small", "base": "2"}, {"size": "large", "base": "10"})
    settings = tuple(replace(one, labels=at) for one, at in zip(plan.settings, where, strict=True))
    two = replace(plan, settings=settings)
    figure = study_maps(settings, {"near": gathered(output, two, "near"), "far": []})
    first, second = figure.axes
    assert [first.get_title(), second.get_title()] == ["4 x 2 digits", "4 x 4 digits"]
    assert [text.get_text() for text in first.get_yticklabels()] == ["small", "large"]
    assert [text.get_text() for text in first.get_xticklabels()] == ["2", "10"]
    told = {text.get_text(): text.get_position() for text in first.texts}
    assert told["75.0"][0] == 0  # column
    assert told["50–100"][0] == 0
    assert told["25.0"] == (1, 1)  # a single seed
    assert first.images[0].get_array().filled(-1).tolist() == [[75, -1], [-1, 25]]
    assert "study-map.png" in page(output, two)


def test_a_study_of_another_number_of_axes_has_no_map(output, plan):
    assert study_maps(plan.settings, {"near": gathered(output, plan, "near")}) is None
    assert study_maps(plan.settings, {"near": []}) is None
    assert "study-map.png" not in page(output, plan)


LAYERS, LR = "model.network.config.num_layers", "model.optimizer.lr"


def varied(**axes) -> Planned:
    """A setting with values of keys, and of axes whose values have names."""
    words = tuple(f"--{key}={value}" for key, value in axes.items() if "." in key)
    labels = {axis: f"{axis} {value}" for axis, value in axes.items()}
    return Planned(", ".join(labels.values()), labels, words, words, "sha", TRIAL)


def with_seeds(setting: Planned, *rights: int) -> Gathered:
    """Each seed's right solutions of 100, of one size."""
    shares = [{"4 x 4 digits": Share(right, 100)} for right in rights]
    return Gathered(setting, tuple(Found(some) for some in shares))


def depths(*layers: float | str, width: str = "48 channels") -> list[Planned]:
    return [varied(**{"width": width, LAYERS: n}) for n in layers]


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (([4], [1]), [4, 1]),
        ((["1e-3"], [0.01]), [0.001, 0.01]),  # YAML reads 1e-3 as text
        (([4], ["null"]), None),
        ((["true"], ["false"]), None),
        ((["[1, 2]"], ["[1, 3]"]), None),
        ((["nan"], ["inf"]), None),
        (([4], [4.0]), None),  # one value alone
        (([1, 0.1], [2, 0.1]), [1, 2]),
        (([1, 0.1], [2, 0.2]), [0.1, 0.2]),  # of several axes the last
    ],
)
def test_an_axis_of_numbers_is_one_whose_values_are_all_numbers(values, numbers):
    settings = [varied(**dict(zip((LAYERS, LR), some, strict=False))) for some in values]
    axis, found = numeric_axis(settings)
    assert list(found.values()) == (numbers or [])
    assert (axis is None) == (numbers is None)


def test_values_with_names_are_no_numbers():
    settings = [varied(blanks=name) for name in ("no blanks", "3")]
    assert numeric_axis(settings) == (None, {})
    assert numeric_axis([]) == (None, {})


def test_a_study_of_depths_has_a_line_for_each_width_through_the_means_of_the_seeds():
    narrow, wide = depths(4, 1, 8), depths(1, 4, 8, width="96 channels")
    held = [with_seeds(one, 20, 40) for one in narrow] + [with_seeds(wide[0], 90)]
    figure = study_lines(narrow + wide, {"near": held, "far": []})
    [axes] = figure.axes
    first, *_ = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert list(first.get_ydata()) == pytest.approx([0.3] * 3)
    assert list(first.get_xdata()) == pytest.approx([1, 4, 8], rel=0.1)  # in order, a little apart
    marks = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert sorted(y for line in marks for y in line.get_ydata()) == [0.2] * 3 + [0.4] * 3 + [0.9]
    intervals = [bar.get_segments()[0][:, 1].tolist() for bar in axes.collections]
    assert list(Share(90, 100).interval) in intervals
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "4", "8"]
    [legend] = figure.legends
    named = [text.get_text() for text in legend.get_texts()]
    assert named == ["width 48 channels", "width 96 channels"]


def test_numbers_that_are_near_each_other_stand_on_an_even_scale():
    settings = depths(3, 1, 2, 5)
    [axes] = study_lines(settings, {"near": [with_seeds(one, 50) for one in settings]}).axes
    assert axes.get_xscale() == "linear"
    assert list(axes.get_xticks()) == [1, 2, 3, 5]


def test_six_sizes_of_problems_stand_in_two_rows_of_panels():
    settings = depths(1, 2)
    shares = {f"{n} x 2 digits": Share(n, 10) for n in range(1, 7)}
    held = [Gathered(one, (Found(shares),)) for one in settings]
    figure = study_lines(settings, {"near": held})
    assert [axes.get_title("left") for axes in figure.axes] == list(shares)
    assert figure.axes[0].get_gridspec().get_geometry() == (2, 3)
    assert not figure.legends  # a single line


def test_the_page_of_a_study_of_numbers_has_its_lines(output, plan):
    settings = tuple(
        replace(one, labels={LR: one.name}, words=(f"--{LR}={value}",))
        for one, value in zip(plan.settings, (0.1, 0.2), strict=True)
    )
    assert study_lines(plan.settings, {"near": gathered(output, plan, "near")}) is None
    assert "study-lines.png" not in page(output, plan)
    assert study_lines(settings, {"near": []}) is None
    assert "![Whole solutions right](study-lines.png)" in page(
        output, replace(plan, settings=settings)
    )


def test_the_picture_does_without_costs(output, plan, make_grid):
    for point in plan.points():
        write_object(grid_of(output, "near", point), make_grid({"m": lambda a, b: 1.0}, [4], [2]))
        forget_cost(output, point)
    assert not study_figure({"near": gathered(output, plan, "near")}).axes[1].axison


@pytest.mark.parametrize(
    ("seconds", "words"), [(4, "4 s"), (89, "89 s"), (120, "2 min"), (7200, "2.0 h")]
)
def test_times_are_told_in_words(seconds, words):
    assert duration(seconds) == words


def test_settings_of_a_plan_are_told_with_what_they_take(plan, tmp_path):
    larger = replace(plan.settings[1], trial=replace(TRIAL, parameters=1234567))
    text = page(tmp_path, replace(plan, settings=(plan.settings[0], larger)))
    assert "| c | 1,234,567 | 60 | 960 | 0.06 | 6 s |" in text


def test_the_hparams_tab_has_what_is_varied_and_what_came_out(output, plan):
    labelled = tuple(replace(one, labels={"size": one.name}) for one in plan.settings)
    write_board(output, replace(plan, settings=labelled))
    write_board(output, replace(plan, settings=labelled))
    [file] = (output / "tensorboard/a_b-seed1").glob("events*")  # the second in place of the first
    events = EventAccumulator(str(file)).Reload()
    assert {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]} == {
        "near/4 x 2 digits": 0.5,
        "near/4 x 4 digits": 0.5,
        "training/TFLOP": 2.0,
        "training/minutes": 2.0,
    }
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    started = HParamsPluginData.FromString(content).session_start_info.hparams
    assert {key: value.string_value or value.number_value for key, value in started.items()} == {
        "size": "a_b",
        "seed": 1.0,
    }
