import argparse
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from canvas.sampling import FAMILIES
from trm.commands.arguments import lengths
from trm.evaluation.grid import BOTH

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
        with pytest.raises(argparse.ArgumentTypeError, match=r"write it like 1\.\.10, or 1\.\.4,8"):
            lengths(text)


def test_an_evaluation_leaves_figures_a_picture_and_a_report(command, checkpoint, twin, tmp_path):
    output = tmp_path / "a new" / "grid"
    training = output / "tensorboard/events.out.tfevents.1.host.2.0"
    training.parent.mkdir(parents=True)
    training.touch()
    words = ("--checkpoint", checkpoint, "--checkpoint", twin, "--name", "one", "--name", "two")
    for _ in range(2):  # the second one's TensorBoard page replaces the first one's
        ran = command("evaluate", *words, *CELLS, "--output", output)
        assert (ran.code, ran.err) == (0, "")
    assert training.exists()
    assert len(list(output.rglob("events.out.tfevents.*"))) == 3
    grid = json.loads((output / "grid.json").read_text())
    assert [model["name"] for model in grid["models"]] == ["one", "two"]
    assert [model["checkpoint"] for model in grid["models"]] == [str(checkpoint), str(twin)]
    assert settings(output)["axes"] == ["digits_a", "digits_b"]
    assert [cell["row"] for cell in cells(output)] == settings(output)["rows"] * 2 == [1, 2, 3] * 2
    assert f"--logdir {output}" in ran.out
    assert not any(chatter in ran.out for chatter in ("GPU", "TPU", "Tip", "arning"))
    assert len((output / "grid.csv").read_text().splitlines()) == 1 + 6
    for name in ("grid.png", "lengths.png"):
        assert f"({name})" in (output / "grid.md").read_text(encoding="utf-8")
        with Image.open(output / name) as picture:
            assert picture.width > 500
    events = EventAccumulator(str(output / "tensorboard/2_two")).Reload()
    (image,) = events.Images("evaluation/grid")
    assert image.width <= 1000
    assert set(events.Tags()["scalars"]) > {"all_cells/solutions", "by_digits_of_a/digits_of_b_02"}


@pytest.mark.usefixtures("undrawn")
def test_a_battery_asks_families_of_structured_problems(command, checkpoint, tmp_path):
    words = ("--battery", "--checkpoint", checkpoint, "--accelerator", "cpu", "--problems", 1)
    ran = command("evaluate", *words, "--digits", 3, "--output", tmp_path)
    assert ran.code == 0, ran.err
    asked = settings(tmp_path)
    assert (asked["axes"], asked["rows"]) == (["family", "digits"], list(FAMILIES))
    found = cells(tmp_path)
    assert [(cell["row"], cell["column"]) for cell in found] == [(name, 3) for name in FAMILIES]
    assert {cell["region"] for cell in found} == {BOTH}
    for text in ((tmp_path / "grid.md").read_text(encoding="utf-8"), ran.out):
        assert "10..01 and nines" in text
        assert "second beyond" not in text
    (tmp_path / "b").mkdir()
    shutil.copy(tmp_path / "grid.json", tmp_path / "b")
    both = command("report", tmp_path, tmp_path / "b", "--output", tmp_path / "compared")
    assert both.code == 0, both.err
    compared = (tmp_path / "compared/compare.md").read_text(encoding="utf-8")
    assert f"| both beyond | {len(found)} | 0 | 0 | {len(found)} |" in compared


@pytest.mark.usefixtures("undrawn")
def test_a_folder_of_runs_leads_to_a_checkpoint_that_is_named(command, trained, tmp_path):
    ran = command("evaluate", "--checkpoint", trained / "runs", *ONE, "--output", tmp_path / "a")
    assert ran.code == 0
    assert ran.err == f"checkpoint: {trained}/runs/debug/version_0/checkpoints/best.ckpt\n"
    for words in (("solve", "1x2"), ("inspect", "1x2"), ("analyse", "ranks")):
        output = () if words[0] == "solve" else ("--output", "x")
        more = ("--checkpoint", trained / "runs", "--accelerator", "mps", *output)
        ran = command(*words, *more, folder=tmp_path)
        assert not (tmp_path / "x").exists()
        assert "checkpoint: " in ran.err, ran.err


@pytest.mark.usefixtures("undrawn")
def test_the_evaluation_of_another_model_changes_nothing(command, checkpoint, tmp_path):
    words = ("evaluate", *ONE, "--output", tmp_path)
    assert command(*words).code == 0
    held = (tmp_path / "grid.json").read_bytes()
    ran = command(*words, "--checkpoint", checkpoint)
    assert ran.code == 2
    assert "holds the figures of another checkpoint, lattice (" in ran.err
    assert (tmp_path / "grid.json").read_bytes() == held


def test_ctrl_c_is_told_in_a_line_and_exit_code_130(command, checkpoint, tmp_path, monkeypatch):
    def interrupted(*_) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trm.evaluation.measure.measure_cell", interrupted)
    ran = command("evaluate", "--checkpoint", checkpoint, *ONE, "--output", tmp_path)
    assert ran.code == 130
    assert ran.err == "trm evaluate: stopped; the same command goes on where it was\n"


@pytest.mark.parametrize(
    ("words", "setting", "told"),
    [
        (
            ("--precision", "bf16-mixed"),
            {"precision": "bf16-mixed"},
            "How every model was asked: computed in bf16-mixed.",
        ),
        (("--view", "r180"), {"view": "r180"}, "was asked: in the view r180 alone."),
        (
            ("--views", 3, "--vote", "max_confidence"),
            {},
            "asked: 3 views, max confidence vote on each row.",
        ),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_how_models_are_asked_is_written_down(
    command, checkpoint, tmp_path, monkeypatch, words, setting, told
):
    monkeypatch.setattr("trm.precision.cpu_multiplies_bfloat16", lambda: True)
    ran = command("evaluate", "--checkpoint", checkpoint, *ONE, *words, "--output", tmp_path)
    assert ran.code == 0, ran.err
    held = settings(tmp_path)
    assert setting.items() <= held.items()
    assert told in " ".join(ran.out.split())
    assert told in (tmp_path / "grid.md").read_text()
    if not setting:
        voting = held["voting"]
        assert (voting["views"], voting["vote"], voting["symmetries"]) == (
            3,
            "max_confidence",
            None,
        )


@pytest.mark.parametrize(
    ("model", "words", "axes", "sizes"),
    [  # without sizes those of training and as many again
        ("checkpoint", (), ["digits_a", "digits_b"], ([1, 2, 3, 4], [1, 2])),
        ("adder", (), ["digits", "addends"], ([1, 2, 3, 4], [2, 3, 4, 5, 6])),
        ("adder", ("--digits-a", "1,3"), ["digits_a", "digits_b"], ([1, 3], [1, 2, 3, 4])),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_a_grid_has_the_sizes_of_its_task(command, request, tmp_path, model, words, axes, sizes):
    more = ("--problems", 1, "--accelerator", "cpu", "--output", tmp_path)
    ran = command("evaluate", "--checkpoint", request.getfixturevalue(model), *words, *more)
    assert ran.code == 0, ran.err
    held, found = settings(tmp_path), cells(tmp_path)
    assert (held["axes"], held["rows"], held["columns"]) == (axes, *sizes)
    asked = [(cell["row"], cell["column"]) for cell in found]
    assert asked == [(row, column) for row in sizes[0] for column in sizes[1]]
