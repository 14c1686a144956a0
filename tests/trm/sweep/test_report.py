from dataclasses import replace
from pathlib import Path

import pytest

from trm.evaluation.statistics import Share
from trm.figures.studies import by_name, columns_of, costs_of, shares_of
from trm.files import write_json
from trm.sweep.report import PAGE, gathered, write_report
from trm.sweep.runs import State, grid_of
from trm.sweep.study import Setting, Study

COST = {"flops": 2e12, "samples": 960, "seconds": 120.0}


@pytest.fixture
def study() -> Study:
    settings = tuple(Setting(name, {}, "debug", (name,), 10, 60) for name in ("a_b", "c"))
    return Study(settings, (0, 1), checkpoint="last", evaluations={"near": []})


@pytest.fixture
def states(tmp_path, study, make_grid) -> dict:
    """A study of two settings and two seeds: one of the second setting's has failed."""
    found = {}
    for run, right in zip(study.runs(), (1.0, 0.25, 0.5, None), strict=True):
        found[run] = State(error="out of *memory*")
        if right is not None:
            found[run] = State(trained=True, cost=COST, evaluated={"near": ["last"]})
            grid = make_grid({"m": lambda a, b, right=right: right}, [4], [2, 4])
            write_json(grid_of(tmp_path, "near", run), grid)
    return found


def page(output: Path, study, states, stages=None) -> str:
    write_report(output, study, states, stages or {})
    return (output / PAGE).read_text()


def test_seeds_and_regions_stand_together(tmp_path, study, states, make_grid):
    grid = gathered(tmp_path, study, states)["near"]
    first, second = by_name(grid).values()
    assert columns_of(grid) == ["4 x 2 digits", "4 x 4 digits"]
    for column in columns_of(grid):
        assert shares_of(grid, first, column) == [Share(128, 128), Share(64, 128)]
    assert [seed["cost"] for seed in second] == [COST]
    assert [*costs_of(second).values()] == [2, 2, 12]  # of 4 x 2 and 4 x 4 digits, the mean
    for run in states:
        write_json(grid_of(tmp_path, "near", run), make_grid({"m": lambda a, b: 1.0}, 5, 4))
    regions = ["in range", "first beyond", "second beyond", "both beyond"]
    assert columns_of(gathered(tmp_path, study, states)["near"]) == regions


def test_the_page_tells_what_is_done_by_these_options_and_what_failed(tmp_path, study, states):
    wider = replace(study, evaluations={"near": ["--problems", "500"]})
    assert gathered(tmp_path, wider, states) == {}
    text = page(tmp_path, wider, states)
    assert "0 of 4 runs are done" in text
    assert "study.png" not in text
    run = list(states)[-1]
    text = page(tmp_path, study, states, {run: "training"})
    assert "3 of 4 runs are done" in text
    assert "- c, seed 1: out of \\*memory\\*" in text
    assert "- c, seed 1: training" in text
    assert "| a\\_b | 188,322 | 2 | 2 | 12 | 2 | 75.0 [50.0–100.0]" in text
    assert "| c | 10 | 60 |" in text
    assert "![Whole solutions right](study.png)" in text
