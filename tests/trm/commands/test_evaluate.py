import argparse
import json
from pathlib import Path

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas.sampling import FAMILIES
from trm.commands.evaluate import lengths
from trm.evaluation.grid_schema import BOTH, FIRST, INSIDE, SECOND

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
    assert grid["settings"]["rows"] == [1, 2, 3]
    assert grid["settings"]["axes"] == ["digits_a", "digits_b"]
    assert [cell["row"] for cell in cells(output)] == [1, 2, 3] * 2
    report = (output / "grid.md").read_text(encoding="utf-8")
    assert "(grid.png)" in report
    for word in ("one", "two", "grid.json", "grid.png", "grid.md", f"--logdir {output}"):
        assert word in ran.out
    assert (output / "grid.png").is_file()
    events = EventAccumulator(str(output / "tensorboard/2_two")).Reload()
    (image,) = events.Images("evaluation/grid")
    assert image.width <= 1000
    assert set(events.Tags()["scalars"]) > {"all_cells/solutions", "by_digits_of_a/digits_of_b_02"}


def test_a_battery_asks_families_of_structured_problems(command, checkpoint, tmp_path):
    words = ("--battery", "--checkpoint", checkpoint, "--accelerator", "cpu", "--output", tmp_path)
    ran = command("evaluate", *words, "--digits", "2,5", "--problems", 2)
    assert ran.code == 0, ran.err
    grid = json.loads((tmp_path / "grid.json").read_text())
    assert grid["settings"]["axes"] == ["family", "digits"]
    assert grid["settings"]["rows"] == list(FAMILIES)
    found = cells(tmp_path)
    assert [(cell["row"], cell["column"]) for cell in found] == [
        (family, digits) for family in FAMILIES for digits in (2, 5)
    ]
    assert {cell["region"] for cell in found} == {BOTH}
    report = (tmp_path / "grid.md").read_text(encoding="utf-8")
    for text in (report, ran.out):
        assert "10..01 and nines" in text
        assert "second beyond" not in text
    events = EventAccumulator(str(next((tmp_path / "tensorboard").iterdir()))).Reload()
    curve = events.Scalars("by_digits/10..01_and_nines")
    assert [point.step for point in curve][-1] == 5
    other = command("evaluate", *words[:-1], tmp_path / "b", "--digits", 5, "--problems", 2)
    assert other.code == 0, other.err
    both = command("compare", tmp_path, tmp_path / "b", "--output", tmp_path / "compared")
    assert both.code == 0, both.err
    compared = (tmp_path / "compared/compare.md").read_text(encoding="utf-8")
    assert f"| both beyond | {len(FAMILIES)} | 0 | 0 | {len(FAMILIES)} |" in compared


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


def test_contexts_are_shown_drawn_and_counted(command, checkpoint, tmp_path):
    words = ("evaluate", "--contexts", "--checkpoint", checkpoint, "--accelerator", "cpu")
    ran = command(*words, "--problems", 60, "--output", tmp_path / "met")
    assert ran.code == 0, ran.err
    held = json.loads((tmp_path / "met/contexts.json").read_text())
    number, right = len(held["contexts"]), held["columns"].index("right")
    assert ran.out.startswith(f"{number:,} contexts in 60 held-out problems, ")
    failing = sum(line[right] < line[right - 1] for line in held["contexts"])
    assert f"always right: {number - failing:,}; " in ran.out
    assert failing > 20  # some seconds of training teach nothing
    assert f"wrong ones, 20 of {failing:,}" in ran.out
    assert held["model"]["family"] == "iterative"
    with Image.open(tmp_path / "met/contexts.png") as picture:
        assert picture.size[0] > 1000
    again = command(*words, "--problems", 60, "--output", tmp_path / "met")
    assert again.out == ran.out
    (tmp_path / "other").mkdir()
    (tmp_path / "other/contexts.png").write_bytes(b"mine")
    refused = command(*words, "--problems", 60, "--output", tmp_path / "other")
    assert refused.code == 2
    assert "is in the way" in refused.err
    assert (tmp_path / "other/contexts.png").read_bytes() == b"mine"


def test_the_model_that_comes_with_the_package_is_the_default(command, tmp_path):
    words = ("--digits-a", "2-3", "--digits-b", 1, "--problems", 2, "--accelerator", "cpu")
    ran = command("evaluate", *words, "--output", tmp_path)
    assert ran.code == 0, ran.err
    grid = json.loads((tmp_path / "grid.json").read_text())
    assert [model["name"] for model in grid["models"]] == ["lattice"]
    assert (grid["settings"]["rows"], grid["settings"]["columns"]) == ([2, 3], [1])


def test_bad_input_gets_a_sentence_and_exit_code_2(command, checkpoint, tmp_path):
    (tmp_path / "file").touch()
    good = ("--checkpoint", checkpoint, "--output", tmp_path / "grid")
    for words, said in (
        ((*good, "--digits-a", "4..1"), "'4..1' is no range of lengths"),
        ((*good, "--digits-b", "0"), "'0' is no range of lengths"),
        (
            (*good, "--digits", 2),
            "--digits are no sizes of the task multiplication: take --digits-a",
        ),
        ((*good, "--digits-a", 2, "--addends", 2), "--digits-a and --addends are no sizes"),
        ((*good, "--problems", 0), "--problems"),
        ((*good, "--battery", "--digits-a", 3), "by the digits of its problems: --digits, not"),
        ((*good, "--contexts", "--battery"), "leave out --battery"),
        ((*good, "--contexts", "--digits-a", 3, "--views", 2), "leave out --digits-a, several"),
        (("--checkpoint", checkpoint, checkpoint, *good, "--contexts"), "leave out several check"),
        ((*good, "--devices", "0,x"), "'0,x' is no number of devices"),
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


def test_the_precision_that_is_computed_in_is_written_down(
    command, checkpoint, tmp_path, monkeypatch
):
    monkeypatch.setattr("trm.precision.cpu_multiplies_bfloat16", lambda: True)
    words = ("evaluate", "--checkpoint", checkpoint, *CELLS, "--output", tmp_path)
    for precision in ("32-true", "bf16-mixed"):
        ran = command(*words, "--precision", precision)
        assert ran.code == 0, ran.err
        assert (
            json.loads((tmp_path / "grid.json").read_text())["settings"]["precision"] == precision
        )
        assert ("Computed in bf16-mixed." in ran.out) is (precision == "bf16-mixed")
    assert len(list((tmp_path / "cells").iterdir())) == 2  # no figure of one stands for the other


def test_a_model_is_shown_every_page_in_one_view(command, checkpoint, tmp_path):
    words = ("--checkpoint", checkpoint, "--digits-a", "2", "--digits-b", "1", "--problems", 4)
    ran = command(
        "evaluate", *words, "--view", "r180", "--output", tmp_path, "--accelerator", "cpu"
    )
    assert ran.code == 0, ran.err
    grid = json.loads((tmp_path / "grid.json").read_text())
    assert grid["settings"]["view"] == "r180"
    told = "Every page was shown to the models in the view r180 alone."
    assert told in " ".join(ran.out.split())
    assert told in (tmp_path / "grid.md").read_text()
    ran = command("evaluate", *words, "--view", "r45", "--output", tmp_path)
    assert ran.code == 2
    assert "r45" in ran.err


def test_without_sizes_a_grid_has_those_of_training_and_as_many_again(
    command, checkpoint, tmp_path
):
    words = ("--problems", 2, "--accelerator", "cpu", "--output", tmp_path)
    ran = command("evaluate", "--checkpoint", checkpoint, *words)
    assert ran.code == 0, ran.err
    grid = json.loads((tmp_path / "grid.json").read_text())
    assert (grid["settings"]["rows"], grid["settings"]["columns"]) == ([1, 2, 3, 4], [1, 2])
    regions = {(cell["row"], cell["column"]): cell["region"] for cell in cells(tmp_path)}
    assert (regions[2, 1], regions[3, 1]) == (INSIDE, FIRST)
    assert (regions[1, 2], regions[4, 2]) == (SECOND, BOTH)


@pytest.mark.parametrize(
    ("words", "axes", "sizes"),
    [
        ((), ["digits", "addends"], ([1, 2, 3, 4], [2, 3, 4, 5, 6])),
        (("--addends", "2,4"), ["digits", "addends"], ([1, 2, 3, 4], [2, 4])),
        (("--digits", "3", "--addends", "4"), ["digits", "addends"], ([3], [4])),
        (("--digits-a", "1,3"), ["digits_a", "digits_b"], ([1, 3], [1, 2, 3, 4])),
        (("--digits-b", "2", "--digits-a", 1), ["digits_a", "digits_b"], ([1], [2])),
    ],
)
def test_addition_is_evaluated_by_either_kind_of_size(command, adder, tmp_path, words, axes, sizes):
    more = ("--problems", 2, "--accelerator", "cpu", "--output", tmp_path)
    ran = command("evaluate", "--checkpoint", adder, *words, *more)
    assert ran.code == 0, ran.err
    grid = json.loads((tmp_path / "grid.json").read_text())
    settings = grid["settings"]
    assert (settings["axes"], settings["rows"], settings["columns"]) == (axes, *sizes)
    assert grid["models"][0]["task"]["task"] == "addition"
    found = cells(tmp_path)
    assert [(cell["row"], cell["column"]) for cell in found] == [
        (row, column) for row in sizes[0] for column in sizes[1]
    ]
    assert all(cell["solutions"]["total"] == 2 for cell in found)
    report = (tmp_path / "grid.md").read_text(encoding="utf-8")
    named = "digits; columns: addends"
    assert (named in report) == (axes[0] == "digits")
    assert "1 to 2 digits, 2 to 3 addends" in report


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("--digits", 2, "--digits-a", 2), "--digits-a and --digits"),
        (("--digits-b", 2, "--addends", 2), "--digits-b and --addends"),
        (("--digits", 2, "--addends", 2, "--digits-a", 1), "--digits-a and --digits and --addends"),
    ],
)
def test_sizes_that_do_not_belong_together_get_a_sentence(command, adder, tmp_path, words, options):
    ran = command("evaluate", "--checkpoint", adder, "--output", tmp_path / "grid", *words)
    known = "take --digits and --addends; --digits-a and --digits-b"
    assert ran.code == 2
    assert ran.err == f"trm evaluate: {options} are no sizes of the task addition: {known}\n"
    assert not (tmp_path / "grid").exists()


def test_models_of_different_tasks_are_not_asked_together(command, checkpoint, adder, tmp_path):
    ran = command("evaluate", "--checkpoint", checkpoint, adder, "--output", tmp_path / "grid")
    assert ran.code == 2
    assert "models of different tasks or bases cannot be asked the same problems" in ran.err
    assert "debug: multiplication in base 10, adder: addition in base 10" in ran.err
