from dataclasses import replace

import pytest

from trm.evaluation.grid import Grid
from trm.evaluation.statistics import Share
from trm.extras.sweep import report
from trm.extras.sweep.runs import Jobs, State
from trm.extras.sweep.study import Setting, Study
from trm.io.files import write_json

COST = {"flops": 2e12, "samples": 960, "seconds": 120.0}


@pytest.fixture
def study() -> Study:
    settings = tuple(Setting(name, {}, "debug", (name,), 10, 60) for name in ("a_b", "c"))
    return Study(settings, (0, 1), checkpoint="last", evaluations={"near": []})


@pytest.fixture
def jobs(tmp_path, study, make_grid) -> Jobs:
    """A study of two settings and two seeds: one of the second setting's has failed."""
    found = Jobs(tmp_path, study)
    for run, right in zip(study.runs(), (1.0, 0.25, 0.5, None), strict=True):
        found.states[run] = State(error="out of *memory*")
        if right is not None:
            found.states[run] = State(trained=True, cost=COST, evaluated={"near": ["last"]})
            grid = make_grid({"m": lambda a, b, right=right: right}, [4], [2, 4])
            write_json(found.grid("near", run), grid)
    return found


def page(jobs: Jobs) -> str:
    report.write_report(jobs)
    return (jobs.output / report.PAGE).read_text()


def test_seeds_and_regions_stand_together(jobs, make_grid):
    grid = report.gathered(jobs)["near"]
    first, second = report.by_name(grid).values()
    assert report.columns_of(grid) == ["4 x 2 digits", "4 x 4 digits"]
    for column in report.columns_of(grid):
        assert report.shares_of(grid, first, column) == [Share(128, 128), Share(64, 128)]
    assert [seed["cost"] for seed in second] == [COST]
    assert [*report.costs_of(second).values()] == [2, 2, 12]  # of 4 x 2 and 4 x 4 digits, the mean
    for run in jobs.states:
        write_json(jobs.grid("near", run), make_grid({"m": lambda a, b: 1.0}, 5, 4))
    regions = ["in range", "first beyond", "second beyond", "both beyond"]
    assert report.columns_of(report.gathered(jobs)["near"]) == regions


def test_the_report_lists_finished_and_failed_runs(jobs, study):
    jobs.study = replace(study, evaluations={"near": ["--problems", "500"]})
    assert report.gathered(jobs) == {}
    text = page(jobs)
    assert "0 of 4 runs are done" in text
    assert "study.png" not in text
    jobs.study, jobs.stages = study, {list(jobs.states)[-1]: "training"}
    text = page(jobs)
    assert "3 of 4 runs are done" in text
    assert "- c, seed 1: out of \\*memory\\*" in text
    assert "- c, seed 1: training" in text
    assert "| a\\_b | 188,322 | 2 | 2 | 12 | 2 | 75.0 [50.0–100.0]" in text
    assert "| c | 10 | 60 |" in text
    assert "![Correct solutions](study.png)" in text
    assert "## Changes" not in text
    jobs.study = replace(study, evaluations={"far": []})  # the old picture is of another one
    text = page(jobs)
    assert "study.png" not in text
    assert "- no longer in the study, and left out of its report: " in text


@pytest.fixture
def studied(make_grid):
    """An evaluation of settings, each the shares of its seeds that are right."""

    def made(cost=COST, **rights: list[float]) -> Grid:
        seeds = [(name, right) for name, some in rights.items() for right in some]
        grids = [
            make_grid({name: lambda a, b, right=right: right}, [4], [3], problems=100, cost=cost)
            for name, right in seeds
        ]
        return Grid(grids[0], models=[grid.models[0] for grid in grids])

    return made


def test_the_picture_has_a_mark_per_seed_also_without_costs(studied):
    figure = report.study_figure({"near": studied(a=[1, 0.5], c=[0.25])})
    by_setting, training, minutes, solving = figure.axes
    assert [text.get_text() for text in by_setting.get_yticklabels()] == ["a", "c"]
    marks = [line for line in by_setting.lines if line.get_linestyle() == "None"]
    assert sorted(x for line in marks for x in line.get_xdata()) == [0.25, 0.5, 1]
    for axes, cost in ((training, 2.0), (minutes, 2.0), (solving, 12.0)):
        assert all(x == pytest.approx(cost) for line in axes.lines for x in line.get_xdata())
    without = report.study_figure({"near": studied(cost=None, a=[0.05])})
    assert len(without.axes) == 2  # no empty panel
    assert report.study_figure({}) is None
