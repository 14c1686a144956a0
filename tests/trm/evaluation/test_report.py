import io
import json
import re

import pytest
from rich.console import Console
from shares import right, short_only

from trm.evaluation.comparison import shared_problems
from trm.evaluation.grid import errors, read_grid
from trm.evaluation.grid_cells import BOTH, FIRST, INSIDE, SECOND, SHORTER
from trm.evaluation.grid_report import markdown, print_summary
from trm.evaluation.statistics import Share
from trm.figures.grids import grid_figure, lengths_figure


def summary(grid: dict, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_summary(console, grid)
    return console.file.getvalue()


def table(text: str, *headings: str) -> list[list[str]]:
    """The cells of the first Markdown table below these headings, without the line of dashes."""
    for heading in headings:
        text = text.split(f"{heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)[0].splitlines()
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert len({len(line) for line in cells}) == 1
    return [cells[0], *cells[2:]]


def said_of(grid: dict, name: str) -> dict[str, list[str]]:
    """The lines of a model in the summary, by what they are about; that of an empty name heads."""
    return {row[0]: row[1:] for row in table(markdown(grid), "## Summary", f"**{name}**")}


def test_summary_pools_solutions_by_region_with_intervals(make_grid):
    said = said_of(make_grid({"one": right}), "one")
    assert said[""] == [INSIDE, FIRST, SECOND, BOTH]
    shares = "100.0 % (99.4–100.0), 50.0 % (45.7–54.3), 25.0 % (22.1–28.2), 25.0 % (21.4–28.9)"
    assert said["solutions"] == shares.split(", ")
    assert said["problems"] == ["648", "512", "768", "512"]
    assert said["mean confidence"] == ["1.000", "0.750", "0.625", "0.625"]
    assert said["seconds a problem"][1] == f"{0.001 * (4 + 8 + 5 + 10) / 4:.3g}"
    for line in ("answers", "teacher-forced rows"):
        assert all(re.fullmatch(r"\d+\.\d % \(.*–.*\)", word) for word in said[line])


def test_the_summary_fits_a_terminal_of_eighty_columns(make_grid):
    name = "a-long-name-of-a-run/version_12 [bold] (2)"
    grid = make_grid({name: short_only, "two": right})
    shown = summary(grid)
    written = markdown(grid).split("## Summary")[1].split("## By length")[0]
    for figure in re.findall(r"\d+\.\d %|\(\d+\.\d–\d+\.\d\)", written):
        assert figure in shown
    lines = summary(grid, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)


def test_differences_between_evaluations_are_named(make_grid):
    grid = make_grid({"one": short_only, "two": right})
    assert said_of(grid, "one")["solutions"][2:] == ["n/a", "n/a"]
    for text in (markdown(grid), " ".join(summary(grid).split())):
        assert "one: 10 of 20 cells are not applicable and left out; the first: a canvas" in text
        assert "pooled figures cover different cells" in text
    grid = make_grid({"one": right, "two": right})
    assert "All models have the same problems." in markdown(grid)
    settings = grid["settings"] | {"seed": 3, "problems": 64}
    grid["models"][1] |= {"settings": settings}
    for text in (markdown(grid), summary(grid)):
        assert "NOT THE SAME PROBLEMS: seed 0 or 3; problems 128 or 64." in text
        assert "128 or 64 problems a cell" in text


def test_cells_have_intervals_and_shorter_lengths_a_column(make_grid):
    said = said_of(make_grid({"one": right}, 3, 2, ((2, 3), (1, 2))), "one")
    assert said[""] == [INSIDE, FIRST, SECOND, BOTH, SHORTER]
    assert said["problems"] == ["512", "–", "–", "–", "136"]
    head, *rows = table(markdown(make_grid({"one": short_only})), "### one")
    assert head[1:] == ["1", "2", "3", "4"]
    assert rows[0] == ["1", "**100 (68–100)**", "**100 (97–100)**", "n/a", "n/a"]
    assert rows[4] == ["5", "50 (41–59)", "50 (41–59)", "n/a", "n/a"]
    text = markdown(make_grid({"a|b*c_d`e": right}))
    assert table(text, "## Models")[1][0] == r"a\|b\*c\_d\`e"
    assert "one [red]" in summary(make_grid({"one [red]": right}))


def test_report_lists_what_identifies_each_checkpoint(make_grid):
    cost = {"flops": 3.21e14, "samples": 9600, "seconds": 720.0}
    grid = make_grid({"one": right}, seed=5, cost=cost)
    text = markdown(grid)
    (row,) = table(text, "## Models")[1:]
    digest = grid["models"][0]["sha256"][:12]
    who = ["one", "recursive", "lattice", "188,322"]
    cost = ["1 to 3 x 1 to 2 digits", "3,500", "321 TFLOP, 12 min"]
    assert row == [*who, *cost, f"`{digest}`", "in one view"]
    for word in ("(grid.png)", "test split, seed 5", "torch 2.13.0"):
        assert word in text


SHORT = {"steps": 3, "precision": "bf16-mixed"}
VOTED = {
    **{"views": 4, "symmetries": ["e", "h"], "vote": "max_confidence", "per": "row"},
    **{"seed": 0, "orders": 2},
}


def test_different_settings_are_named_beside_all_figures(make_grid):
    grid = make_grid({"one": right, "two": right, "three": right})
    for model, more in zip(grid["models"], ({}, SHORT, {"voting": VOTED}), strict=True):
        model["settings"] = grid["settings"] | more
    ways = [
        "in one view",
        "at most 3 supervision steps a row, computed in bf16-mixed",
        "4 views of e,h, orders 2, max confidence vote on each row",
    ]
    text = markdown(grid)
    assert [row[-1] for row in table(text, "## Models")[1:]] == ways
    shown = " ".join(grid_figure(grid).legends[0].get_title().get_text().split())
    below = " ".join(lengths_figure(grid).get_supxlabel().split())
    for name, way in zip(("one", "two", "three"), ways, strict=True):
        for told in (text, shown, below, " ".join(summary(grid).split())):
            assert "DIFFERENT SETTINGS: " in told
            assert f"{name}: {way}" in told
    grid["models"] = [model | {"settings": grid["settings"] | SHORT} for model in grid["models"]]
    assert f"- Settings of every model: {ways[1]}." in markdown(grid)
    assert "ALIKE" not in markdown(grid)


def test_numbers_of_rollouts_and_views_are_printed(make_grid):
    grid = make_grid({"one": right})
    more = {"views": 16, "symmetries": None, "orders": 1, "rollouts": 8, "noise": 0.25}
    grid["settings"]["voting"] = VOTED | more
    (model,) = grid["models"]
    rest = "8 rollouts with noise 0.25, max confidence vote on each row"
    assert grid.settings_in_words(model) == f"16 views, {rest}"
    for cell, views in zip(model["cells"], (4.0, 7.5, *[16.0] * 99), strict=False):
        cell["views"] = views
    assert grid.settings_in_words(model) == f"16 views requested, 4 to 16 available, {rest}"
    assert grid.rows[1]["views"] == 7.5


def test_seeds_of_a_setting_are_printed_together(make_grid):
    names = ("b-seed0", *(f"a [wide] lattice_1-seed{seed}" for seed in (0, 1)))
    shares = zip(names, (0.25, 1.0, 0.5), strict=True)
    grid = make_grid({name: lambda a, b, share=share: share for name, share in shares}, [2], [1])
    text = markdown(grid)
    told = "75.0 [50.0–100.0] (66.8–81.7)"
    named = r"a \[wide\] lattice\_1, 2 seeds"
    (row,) = table(text, "**Seeds together**")[1:]  # b has one seed
    assert row == [named, told, "–", "–", "–"]
    pairs = table(text, "## Problem by problem, against b-seed0")
    assert pairs[1][:3] == [r"a \[wide\] lattice\_1", "in range", "128"]
    assert pairs[1][3].startswith("+50.0 (")
    assert pairs[1][4:] == ["–", "–", "–"]  # McNemar's test is of one seed each
    lines = summary(grid, width=80).split("Seeds together")[1].splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join(re.split(r"[│\s]+", line)) for line in lines)
    assert "[50.0–100.0]" in words
    assert "the mean, the lowest and the highest in brackets" in words


def test_models_are_compared_on_problems_that_they_share(make_grid):
    grid = make_grid({"one": lambda a, b: 0.5, "other": lambda a, b: 0.75}, [2], [1])
    text = markdown(grid)
    assert "Seeds together" not in text
    rows = table(text, "## Problem by problem, against one")
    assert rows[1][4:6] == ["32", "0"]
    assert float(rows[1][6]) == pytest.approx(2 / 2**32, rel=0.1)
    assert rows[-1][1] == "all"
    grid, other = (make_grid({str(seed): lambda a, b: 0.5}, [2], [1], seed=seed) for seed in (0, 1))
    grid["models"][0]["settings"] = grid["settings"]
    grid["models"].append(other["models"][0] | {"settings": other["settings"]})
    assert "Problem by problem" not in markdown(grid)


def model(*cells: tuple[int, str, str | None]) -> dict:
    return {"cells": [{"row": n, "column": 1, "region": r, "solved": s} for n, r, s in cells]}


def test_cells_measured_for_one_model_alone_are_left_out():
    mine = model((1, "in range", "1111"), (2, "first beyond", "10"), (3, "first beyond", "11"))
    theirs = model((1, "in range", "1000"), (2, "first beyond", "01"))
    assert shared_problems([mine], [theirs]).problems == 6
    assert shared_problems([mine], [theirs], "in range").alone == (3, 0)
    assert shared_problems([mine], [theirs], "both beyond") is None
    unknown = model((1, "in range", None))
    assert shared_problems([unknown], [unknown]) is None


def diagnosed(counts: dict[str, int], chance: float) -> dict[str, dict]:
    total = sum(counts.values())
    found = {kind: Share(n, total).data() | {"chance": None} for kind, n in counts.items()}
    return {kind: part | ({"chance": chance} if total else {}) for kind, part in found.items()}


def test_kinds_of_errors_are_listed_by_region_and_cell(make_grid):
    grid = make_grid({"one": right, "two": right}, [3, 4], [2], problems=20)
    inside, beyond = grid["models"][0]["cells"]
    inside["errors"] = diagnosed({"carry": 0, "mine": 0, "other": 0}, 0.0)
    beyond["errors"] = diagnosed({"carry": 6, "mine": 1, "other": 3}, 0.25)
    text = markdown(grid)
    assert "(errors.png)" in text
    assert "- *carry*: a carry is dropped" in text
    head, carry, mine, other, wrong = table(text, "## Errors", "**one**")
    assert (head[1:3], head[-1]) == ([INSIDE, FIRST], "by chance")
    assert (carry[:3], carry[-1]) == (["carry", "–", "60.0 % (31.3–83.2)"], "25.0 %")
    assert (mine[2], other[2]) == ("10.0 % (1.8–40.4)", "30.0 % (10.8–60.3)")
    assert wrong[:3] == ["incorrect", "0 of 20", "10 of 20"]
    assert table(text, "### By cell (a x b)") == [
        ["size", "incorrect", "carry", "mine", "other"],
        ["4 x 2", "10 of 20", "60 (31–83)", "10 (2–40)", "30 (11–60)"],
    ]
    for word in ("First wrong cells", "31.3–83.2", "by chance"):
        assert word in summary(grid)
    assert [row["errors_carry"] for row in grid.rows] == [0, 6, None, None]
    assert [row["errors_carry_chance"] for row in grid.rows] == [None, 0.25, None, None]
    assert grid.kinds == ["carry", "mine", "other"]
    share, chance = errors([inside, beyond, beyond])["carry"]
    assert (share, chance) == (Share(12, 20), 0.25)


def test_a_terminal_shows_the_most_frequent_errors(make_grid):
    grid = make_grid({"one": right, "two": right}, [4], [2], problems=100)
    for model, first in zip(grid.models, (9, 1), strict=True):
        (cell,) = model["cells"]
        cell["errors"] = diagnosed({f"kind{n}": n and first + n for n in range(8)}, 0.0)
    text = summary(grid)  # nine are 10 to 16 and 6 to 8; kind0 never fits
    assert [text.count(f"kind{n} ") for n in range(8)] == [0, 1, 1, 1, 1, 2, 2, 2]
    assert "The most frequent explanations; 4 others." in text
    assert markdown(grid).count("| kind0 |") == 4  # by region and by size, of each model


def test_a_grid_without_kinds_of_errors_has_no_section(make_grid, tmp_path):
    grid = make_grid({"one": right}, 2, 2)
    for cell in grid["models"][0]["cells"]:
        del cell["errors"]  # as older versions wrote it
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    assert read_grid(tmp_path) == grid
    for text in (markdown(grid), summary(grid)):
        assert "First wrong" not in text
        assert "Errors" not in text
