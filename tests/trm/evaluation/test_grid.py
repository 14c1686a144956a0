import json
import re

import pytest
from shares import right, short_only

from trm.evaluation.grid import pooled, read_grid
from trm.evaluation.grid_cells import BOTH, FIRST, INSIDE, SECOND, SHORTER, region
from trm.evaluation.grid_report import markdown
from trm.evaluation.statistics import Share

AXES = ("digits_a", "digits_b")
PAIRS = {"digits_a": (2, 3), "digits_b": (1, 2)}
SUMS = {"digits": (1, 3), "addends": (3, 4)}


@pytest.mark.parametrize(
    ("ranges", "axes", "size", "where"),
    [
        *((PAIRS, AXES, size, INSIDE) for size in ((2, 1), (3, 2))),
        *((PAIRS, AXES, size, FIRST) for size in ((4, 1), (4, 2))),
        *((PAIRS, AXES, size, SECOND) for size in ((2, 3), (1, 3))),
        (PAIRS, AXES, (4, 3), BOTH),
        (PAIRS, AXES, (1, 2), SHORTER),
        (SUMS, AXES, (1, 1), BOTH),  # of which training knows no range
        (SUMS, ("digits", "addends"), (4, 3), FIRST),
        (PAIRS, ("family", "digits"), ("nines", 2), INSIDE),
        (PAIRS, ("family", "digits"), ("nines", 3), BOTH),
    ],
)
def test_regions_depend_on_which_operand_is_longer(ranges, axes, size, where):
    assert region(ranges, axes, size) == where


def test_shares_are_pooled_by_problems_and_empty_cells_are_none(make_grid):
    (model,) = make_grid({"one": lambda a, b: 0.0 if b == 1 else 1.0}, 1, 2)["models"]
    assert pooled(model["cells"]) == Share(128, 136)  # of eight problems none, of 128 all
    (model,) = make_grid({"one": short_only}, 1, 3, problems=0)["models"]
    assert [pooled([cell]) for cell in model["cells"]] == [Share(0, 0)] * 3


def test_texts_have_only_the_regions_that_occur(make_grid):
    grid = make_grid({"one": short_only})
    assert grid.regions == ["in range", "first beyond", "second beyond", "both beyond"]
    for cell in grid.models[0]["cells"]:
        cell["region"] = INSIDE if cell["row"] == 1 else FIRST
    grid["settings"]["axes"] = ["length", "texts"]
    assert grid.regions == ["in range", "first beyond"]


def lacking(grid: dict) -> dict:
    del grid["models"][0]["cells"][3]["solutions"]
    return grid


def test_a_cost_with_that_of_earlier_weights_is_read_and_shown(make_grid, tmp_path):
    grid = make_grid({"one": short_only})
    earlier = {"steps": 10, "samples": 640, "seconds": 120.0}
    cost = {"flops": 1e12, "samples": 64, "seconds": 60.0, "before": earlier}
    grid.models[0]["cost"] = cost
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    read = read_grid(tmp_path)
    assert read.models[0]["cost"] == cost
    assert "1 TFLOP, 1 min, begun with weights of 2 min" in markdown(read)


def test_a_grid_is_read_as_it_was_written(make_grid, tmp_path):
    grid = make_grid({"one": short_only})
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    assert read_grid(tmp_path) == read_grid(tmp_path / "grid.json") == grid


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda grid: json.dumps(grid)[:500], "should be a valid dictionary"),
        (lambda grid: "\0\1\xff", "should be a valid dictionary"),
        (lambda grid: "[" * 100_000, "should be a valid dictionary"),
        (lambda grid: [1, 2], "should be a valid dictionary"),
        (lambda grid: grid | {"format": 9}, "format: Input should be 2"),
        (lacking, "models.0.cells.3.solutions: Field required"),
    ],
)
def test_files_of_another_kind_are_refused_in_a_sentence(make_grid, tmp_path, content, said):
    found = content(make_grid({"small": right}))
    text = found if isinstance(found, str) else json.dumps(found)
    (tmp_path / "grid.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=re.escape(said)):
        read_grid(tmp_path)
