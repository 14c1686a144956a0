import argparse
import json
import os
from pathlib import Path

import pytest
from forked import forked
from PIL import Image
from runs import events_of

from canvas.addition import Addition
from canvas.tasks import task_data
from trm import evaluate
from trm.checkpoints import DATA_KEY
from trm.commands import cli
from trm.commands.parser import lengths

CELLS = ("--digits-a", "1..2,3", "--digits-b", "2", "--problems", 5, "--accelerator", "cpu")
ONE = ("--digits-a", "2", "--digits-b", "1", "--problems", 2, "--accelerator", "cpu")


def settings(folder: Path) -> dict:
    return json.loads((folder / "grid.json").read_text())["settings"]


def cells(folder: Path) -> list[dict]:
    """All cells of a grid, without what depends on the clock."""
    models = json.loads((folder / "grid.json").read_text())["models"]
    found = [cell for model in models for cell in model["cells"]]
    for cell in found:
        assert cell.pop("seconds_per_problem") > 0
    return found


def test_lengths_are_numbers_and_ranges():
    for text, numbers in (
        ("3", [3]),
        ("1..4", [1, 2, 3, 4]),
        ("8,1..2,2..3", [1, 2, 3, 8]),
        ("7..7", [7]),
        ("1-4,8", [1, 2, 3, 4, 8]),
        ("1..1000", list(range(1, 1001))),
    ):
        assert lengths(text) == numbers
    for text in ("", "0", "0..3", "4..1", "1..2..3", "1-4-5", "three", "1,,2", "-2", "1..1001",
                 "1..9999999999"):  # fmt: skip
        with pytest.raises(argparse.ArgumentTypeError, match=r"Write it like 1\.\.10, or 1\.\.4,8"):
            lengths(text)


def test_an_evaluation_leaves_figures_pictures_and_a_report(command, checkpoint, changed, tmp_path):
    twin = changed(lambda content: None, "twin")
    output = tmp_path / "a new" / "grid"
    words = ("--checkpoint", checkpoint, "--checkpoint", twin)
    ran = command("evaluate", *words, *CELLS, "--output", output)
    assert ran.err == ""
    grid = json.loads((output / "grid.json").read_text())
    assert [model["name"] for model in grid["models"]] == ["debug", "twin"]
    assert [model["checkpoint"] for model in grid["models"]] == [str(checkpoint), str(twin)]
    assert settings(output)["axes"] == ["digits_a", "digits_b"]
    assert [cell["row"] for cell in cells(output)] == settings(output)["rows"] * 2 == [1, 2, 3] * 2
    assert not any(chatter in ran.out for chatter in ("GPU", "TPU", "Tip", "arning"))
    assert len((output / "grid.csv").read_text().splitlines()) == 1 + 6
    for name in ("grid.png", "lengths.png"):
        assert f"({name})" in (output / "grid.md").read_text(encoding="utf-8")
        with Image.open(output / name) as picture:
            assert picture.width > 500


@pytest.mark.usefixtures("undrawn")
def test_a_folder_of_runs_leads_to_its_checkpoint(command, trained, tmp_path):
    ran = command("evaluate", "--checkpoint", trained / "runs", *ONE, "--output", tmp_path / "a")
    assert ran.err == f"checkpoint: {trained}/runs/debug/version_0/checkpoints/best.ckpt\n"
    for words in (("solve", "1x2"), ("inspect", "1x2"), ("analyse", "ranks")):
        output = () if words[0] == "solve" else ("--output", "x")
        more = ("--checkpoint", trained / "runs", "--accelerator", "mps", *output)
        ran = command(*words, *more, folder=tmp_path, code=2)
        assert not (tmp_path / "x").exists()
        assert "checkpoint: " in ran.err, ran.err


@pytest.mark.usefixtures("undrawn")
def test_tensorboard_gets_pictures_and_accuracy_by_length(command, checkpoint, tmp_path):
    words = ("--view", "random", "--tensorboard", "--output", tmp_path)
    for _ in range(2):  # the second call replaces the events of the first
        ran = command("evaluate", "--checkpoint", checkpoint, *ONE, *words)
    assert "canvases given randomly turned, the surest of 8 guesses" in " ".join(ran.out.split())
    events = events_of(tmp_path / "tensorboard")
    pictures = {name.removeprefix("evaluation/") for name in events.Tags()["images"]}
    assert {"lengths", "grid", "compared", "calibration"} <= pictures
    (tag,) = events.Tags()["scalars"]
    assert tag == "evaluation/accuracy_by_length/debug"
    assert len(events.Scalars(tag)) == 1


@pytest.mark.usefixtures("undrawn")
def test_settings_of_an_evaluation_are_recorded(command, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr("trm.runtime.precision.cpu_multiplies_bfloat16", lambda: True)
    words = ("--views", 3, "--vote", "max_confidence", "--precision", "bf16-mixed")
    ran = command("evaluate", "--checkpoint", checkpoint, *ONE, *words, "--output", tmp_path)
    held = settings(tmp_path)
    asked = {"views": 3, "vote": "max_confidence", "symmetries": None}
    assert held["precision"] == "bf16-mixed"
    assert asked.items() <= held["voting"].items()
    told = "Settings of every model: 3 views (shifts alone), max confidence vote on each row, "
    told += "computed in bf16"
    assert told in " ".join(ran.out.split())
    assert told in (tmp_path / "grid.md").read_text()


@pytest.fixture
def adder(changed) -> Path:
    """The checkpoint's network, labelled as one that was trained on two digits to be added."""
    task = task_data(Addition("column", digits=(1, 1), addends=(2, 2)))
    return changed(lambda content: content[DATA_KEY].update(task=task), "adder")


@pytest.mark.parametrize(
    ("model", "words", "axes", "sizes"),
    [  # without sizes those of training and as many again
        ("checkpoint", (), ["digits_a", "digits_b"], ([1, 2, 3, 4], [1, 2])),
        ("adder", (), ["digits", "addends"], ([1, 2], [2, 3, 4])),
        ("adder", ("--digits-a", "1,3"), ["digits_a", "digits_b"], ([1, 3], [1, 2])),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_a_grid_has_the_sizes_of_its_task(command, request, tmp_path, model, words, axes, sizes):
    more = ("--problems", 1, "--accelerator", "cpu", "--output", tmp_path)
    command("evaluate", "--checkpoint", request.getfixturevalue(model), *words, *more)
    held, found = settings(tmp_path), cells(tmp_path)
    assert (held["axes"], held["rows"], held["columns"]) == (axes, *sizes)
    asked = [(cell["row"], cell["column"]) for cell in found]
    assert asked == [(row, column) for row in sizes[0] for column in sizes[1]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the two processes are forks")
@pytest.mark.usefixtures("undrawn")
def test_two_processes_measure_the_same_cells_as_one(tmp_path):
    """Each cell has three parts of at most eight problems."""
    sizes = ("--digits-a", "1,3", "--digits-b", "2", "--problems", "20", "--batch-size", "8")
    words = (*sizes, "--accelerator", "cpu", "--devices", "2", "--output", str(tmp_path / "two"))
    assert forked(lambda: cli.run(["evaluate", *words])) == [0, 0]
    two = json.loads((tmp_path / "two/grid.json").read_text())
    assert len({*(tmp_path / "two/cells").glob("*/3x2-*.json")}) == 3
    assert len((tmp_path / "two/records.jsonl").read_text().splitlines()) == 40
    one = evaluate(digits_a=[1, 3], digits_b=[2], problems=20, accelerator="cpu", progress=False)
    assert (two["settings"]["devices"], one["settings"]["devices"]) == (2, 1)
    for grid in (two, one):
        for cell in grid["models"][0]["cells"]:
            assert cell.pop("seconds_per_problem") > 0
            assert cell["answers"]["right"] == 20
    assert two["models"][0]["cells"] == one["models"][0]["cells"]
