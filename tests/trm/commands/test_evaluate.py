import argparse
import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trm.commands.evaluate import lengths

CELLS = ("--digits-a", "1..2,3", "--digits-b", "2", "--problems", 5, "--accelerator", "cpu")


def cells(folder: Path) -> list[dict]:
    """All cells of a grid, without what depends on the clock."""
    found = [
        cell for model in json.loads((folder / "grid.json").read_text())["models"]
        for cell in model["cells"]
    ]  # fmt: skip
    for cell in found:
        assert cell.pop("seconds_per_problem") > 0
    return found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("3", [3]),
        ("1..4", [1, 2, 3, 4]),
        ("1,2,5", [1, 2, 5]),
        ("1..4,8", [1, 2, 3, 4, 8]),
        ("8,1..2,2..3", [1, 2, 3, 8]),
        ("7..7", [7]),
        ("1-4,8", [1, 2, 3, 4, 8]),
    ],
)
def test_lengths_are_numbers_and_ranges(text, numbers):
    assert lengths(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "0", "0..3", "4..1", "1..2..3", "1-4-5", "three", "1,,2", "-2"]
)
def test_what_is_no_length_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"write it like 1\.\.10, or 1\.\.4,8"):
        lengths(text)


def test_so_many_lengths_are_refused_before_they_are_listed():
    assert len(lengths("1..1000")) == 1000
    with pytest.raises(argparse.ArgumentTypeError, match="range of more than 1,000 lengths"):
        lengths("1..99999999999999")


def test_an_evaluation_leaves_figures_a_picture_and_a_report(command, checkpoint, twin, tmp_path):
    output = tmp_path / "a new" / "grid"
    words = ("--checkpoint", checkpoint, twin, "--name", "one", "--name", "two")
    ran = command("evaluate", *words, *CELLS, "--output", output)
    assert ran.code == 0, ran.err
    grid = json.loads((output / "grid.json").read_text())
    assert [model["name"] for model in grid["models"]] == ["one", "two"]
    assert grid["settings"]["digits_a"] == [1, 2, 3]
    assert [cell["digits_a"] for cell in cells(output)] == [1, 2, 3] * 2
    report = (output / "grid.md").read_text(encoding="utf-8")
    assert "(grid.png)" in report
    for word in ("one", "two", "grid.json", "grid.png", "grid.md", f"--logdir {output}"):
        assert word in ran.out
    assert (output / "grid.png").is_file()
    events = EventAccumulator(str(output / "tensorboard/2_two")).Reload()
    (image,) = events.Images("evaluation/grid")
    assert image.width <= 1000
    assert set(events.Tags()["scalars"]) > {"all_cells/solutions", "by_digits_of_a/b_of_02_digits"}


def test_a_second_evaluation_replaces_the_first_ones_picture_on_tensorboard(
    command, checkpoint, tmp_path
):
    training = tmp_path / "tensorboard/events.out.tfevents.1.host.2.0"
    training.parent.mkdir()
    training.touch()
    for _ in range(2):
        ran = command("evaluate", "--checkpoint", checkpoint, *CELLS, "--output", tmp_path)
        assert ran.code == 0, ran.err
    assert training.exists()
    assert len(list(tmp_path.rglob("events.out.tfevents.*"))) == 2


def test_ctrl_c_is_told_in_a_line_and_exit_code_130(command, checkpoint, tmp_path, monkeypatch):
    def interrupted(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trm.evaluation.grid_run.measure_cell", interrupted)
    ran = command("evaluate", "--checkpoint", checkpoint, *CELLS, "--output", tmp_path)
    assert ran.code == 130
    goes_on = "the same command goes on with the cells that are not measured yet"
    assert ran.err == f"trm evaluate: stopped; {goes_on}\n"


def test_nothing_is_said_but_the_result(command, checkpoint, tmp_path):
    ran = command("evaluate", "--checkpoint", checkpoint, *CELLS, "--output", tmp_path)
    assert ran.err == ""
    for chatter in ("GPU", "TPU", "Tip", "arning"):
        assert chatter not in ran.out


def test_checkpoints_may_be_given_one_by_one_or_as_folders_of_runs(
    command, twin, trained, tmp_path
):
    words = ("--checkpoint", twin, "--checkpoint", trained)
    assert command("evaluate", *words, *CELLS, "--output", tmp_path).code == 0
    grid = json.loads((tmp_path / "grid.json").read_text())
    assert [model["checkpoint"] for model in grid["models"]] == [str(twin), str(trained)]
    assert len({model["name"] for model in grid["models"]}) == 2


def test_the_model_that_comes_with_the_package_is_the_default(command, tmp_path):
    words = ("--digits-a", "2-3", "--digits-b", 1, "--problems", 2, "--accelerator", "cpu")
    ran = command("evaluate", *words, "--output", tmp_path)
    assert ran.code == 0, ran.err
    grid = json.loads((tmp_path / "grid.json").read_text())
    assert [model["name"] for model in grid["models"]] == ["decimal"]
    assert grid["settings"]["digits_a"] == [2, 3]


def test_bad_input_gets_a_sentence_and_exit_code_2(command, checkpoint, tmp_path):
    (tmp_path / "file").touch()
    good = ("--checkpoint", checkpoint, "--output", tmp_path / "grid")
    for words, said in (
        ((*good, "--digits-a", "4..1"), "'4..1' is no range of lengths"),
        ((*good, "--digits-b", "0"), "'0' is no range of lengths"),
        ((*good, "--problems", 0), "--problems"),
        ((*good, "--devices", 0), "--devices"),
        ((*good, "--name", "a", "b"), "1 different names are wanted, not a, b"),
        (("--checkpoint", tmp_path, "--output", tmp_path), "there is no checkpoint below"),
        (("--checkpoint", checkpoint, "--output", tmp_path / "file"), "--output"),
        (("--checkpoint", checkpoint, checkpoint, "--output", tmp_path), "given more than once"),
        (("--checkpoint", checkpoint), "--output"),
    ):
        ran = command("evaluate", *words)
        assert ran.code == 2
        assert "trm evaluate: " in ran.err
        assert said in ran.err
        assert "Traceback" not in ran.err


def test_several_processes_measure_the_same_figures_as_one(command, process, checkpoint, tmp_path):
    words = ("evaluate", "--checkpoint", checkpoint, *CELLS, "--digits-a", "1,3")
    three = ("--devices", 3, "--oversubscribe", "--output", "three")  # one has nothing to do
    ran = process(*words, *three, folder=tmp_path)
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert ran.out.count("three/grid.json") == 1
    assert command(*words, "--output", tmp_path / "one").code == 0
    assert cells(tmp_path / "three") == cells(tmp_path / "one")
    assert json.loads((tmp_path / "three/grid.json").read_text())["settings"]["devices"] == 3


def test_many_views_are_asked_and_told(command, checkpoint, tmp_path):
    words = ("evaluate", "--checkpoint", checkpoint, "--digits-a", 2, "--digits-b", 1)
    words += ("--problems", 4, "--output", tmp_path / "grid", "--views", 3, "--vote", "weighted")
    ran = command(*words)
    assert ran.code == 0, ran.err
    grid = json.loads((tmp_path / "grid/grid.json").read_text())
    voting = grid["settings"]["voting"]
    assert (voting["views"], voting["vote"], voting["symmetries"]) == (3, "weighted", None)
    assert "differ by noise" in command(*words, "--rollouts", 2).err
