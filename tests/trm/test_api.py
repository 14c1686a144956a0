"""The package from Python, as the README calls it; the model is the shipped one."""

import csv
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

from canvas.problems import Problems
from trm import evaluate, load_solver, render, solve
from trm.solving.solution import Solution


def test_heavy_packages_are_imported_on_first_use(repository, tmp_path):
    lines = f"""
import sys, trm
heavy = {{"numpy", "yaml", "rich", "torch", "lightning", "trm.api"}}
assert not heavy & set(sys.modules)
assert set(dir(trm)) >= {{"evaluate", "load_solver", "render", "solve"}}
assert not heavy & set(sys.modules)
from trm import load_solver, solve
assert {{"torch", "trm.api"}} <= set(sys.modules)
assert solve is trm.solve is trm.api.solve
for model in ("decimal-seed0", "addition-gpt-seed0"):  # without PyTorch's compiler: seconds
    load_solver({str(repository / "docs/models")!r} + f"/{{model}}.safetensors", device="cpu")
assert not {{"torch._dynamo", "lightning"}} & set(sys.modules)
"""
    how = {"env": os.environ | {"OMP_NUM_THREADS": "1"}, "capture_output": True, "text": True}
    ran = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, **how)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("problem", ["123x45", "123 * 45", (123, 45), tuple(np.array([123, 45]))])
def test_one_problem_has_one_solution(shipped, problem):
    solution = solve(problem, shipped)
    assert isinstance(solution, Solution)
    assert solution.operands == (123, 45)
    assert solution.answer == 123 * 45
    assert solution.correct
    assert solution.in_range
    assert solution.exact  # the truth is known, for notebooks to mark what is wrong
    assert 0.5 < solution.confidence <= 1
    assert "<svg" in solution._repr_html_()
    assert repr(solution).startswith("Solution(123 x 45 = 5535 (correct; confidence ")
    assert repr(shipped).startswith("Solver(CellModel, lattice in base 10, trained on 1")


def test_several_problems_have_solutions_in_their_order(shipped, checkpoint):
    pairs = [(7, 8), (123, 45), (99, 99)]
    for several in (["7x8", (123, 45), "99 × 99"], tuple(pairs), Problems.from_ints(pairs)):
        solutions = solve(several, shipped)
        assert isinstance(solutions, list)
        *verdicts, right = repr(solutions).splitlines()
        assert verdicts == [solution.verdict for solution in solutions]
        assert right == "3 of 3 answers correct"
        assert solutions._repr_html_().count("<svg") == 3
        assert [solution.operands for solution in solutions] == pairs
        assert [solution.answer for solution in solutions] == [a * b for a, b in pairs]
    assert solve([], shipped) == solve(Problems.from_ints([]), shipped) == []
    solution = solve((3, 2), checkpoint)
    assert solution.operands == (3, 2)
    assert solution.truth is not None


def test_a_solution_is_drawn_shown_and_saved(tmp_path):
    picture = render("321x654")
    assert str(picture).splitlines() == ["___321", "_*_654", "__1284", "_1605_", "1926__", "209934"]
    assert str(render((321, 654))) == repr(render((321, 654))) == str(picture)
    assert picture.given[:2].all()
    assert not picture.given[2:].any()
    picture = render("12x3")
    assert ET.fromstring(picture._repr_html_()).tag == "{http://www.w3.org/2000/svg}svg"
    picture.save(tmp_path / "a.svg")
    ET.parse(tmp_path / "a.svg")
    picture.save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert np.asarray(image).std() > 0


def test_a_model_is_measured_on_a_grid(tmp_path, capsys):
    how = {"problems": 4, "output": tmp_path / "kept", "accelerator": "cpu"}
    grid = evaluate(digits_a=range(1, 3), digits_b=[2], **how)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""  # a progress bar is for terminals alone
    assert grid["settings"]["axes"] == ["digits_a", "digits_b"]
    assert (grid["settings"]["rows"], grid["settings"]["columns"]) == ([1, 2], [2])
    assert grid["settings"]["problems"] == 4
    (model,) = grid["models"]
    assert [(cell["row"], cell["column"]) for cell in model["cells"]] == [(1, 2), (2, 2)]
    for cell in model["cells"]:
        assert cell["problems"] == 4
        assert cell["answers"]["right"] == 4
    files = {"grid.json", "grid.csv", "lengths.png", "grid.png", "grid.md", "cells"}
    files |= {"compared.png", "calibration.png", "records.jsonl", "records.csv"}
    assert {path.name for path in (tmp_path / "kept").iterdir()} == files
    with (tmp_path / "kept/grid.csv").open(newline="") as lines:
        held = list(csv.DictReader(lines))
    texts = [{k: "" if v is None else str(v) for k, v in row.items()} for row in grid.rows]
    assert held == texts
    first = {"model": "lattice", "digits_a": 1, "digits_b": 2, "region": "in range", "answers": 1.0}
    assert first.items() <= grid.rows[0].items()
    assert (grid.rows[0]["answers_right"], grid.rows[0]["answers_total"]) == (4, 4)
    columns = list(grid.rows[0])  # scripts read them by name
    first = "model seed asked digits_a digits_b region applicable problems solutions"
    assert columns[:9] == first.split()
    assert columns[-1] == "reason"
    assert "answers" in repr(grid)
    assert "100.0 %" in repr(grid)
    assert {"<svg", "<pre>"} <= set(re.findall(r"<svg|<pre>", grid._repr_html_()))
    assert len(grid.figure().axes) == 1
    assert len(grid.figure(heat_map=True).axes) == 2  # and its colour bar


def test_without_the_true_canvas_the_answer_is_still_checked():
    solution = solve("123x45", with_truth=False)
    assert (solution.answer, solution.correct) == (5535, True)
    assert (solution.truth, solution.exact) == (None, None)
    several = solve(["2x3", (4, 5)], with_truth=False)
    assert [one.answer for one in several] == [6, 20]
    assert all(one.truth is None for one in several)
    assert solve("123x45").exact is True


@pytest.mark.parametrize("name", ["trm-quick-seed0", "untold-neighbours-seed0"])
def test_a_callers_autocast_is_the_precision_and_leaves_nothing(name):
    """Nothing that was computed and kept in bfloat16 is used in float32, or the reverse."""
    alone, other = (load_solver(name, device="cpu") for _ in range(2))

    def confidence(solver):
        return solve("12x34", solver).row_confidence

    expected = confidence(alone)
    for solver in (alone, other):
        with torch.autocast("cpu", torch.bfloat16):
            half = confidence(solver)
        assert half != expected
        assert confidence(solver) == expected
