import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trm.checkpoints.loading import load_solver
from trm.evaluation import measure as cells
from trm.evaluation.measure import Settings, measure, measure_cell
from trm.evaluation.models import versions
from trm.files import replacing

AXES = ("digits_a", "digits_b")
SETTINGS = Settings(AXES, rows=(1, 3), columns=(1, 2), problems=4)


@pytest.fixture
def measured(monkeypatch) -> list[tuple[int, int]]:
    """The sizes of the cells that are measured, as they are."""
    done: list[tuple[int, int]] = []

    def watched(solver, axes, size, *more):
        done.append(size)
        return measure_cell(solver, axes, size, *more)

    monkeypatch.setattr(cells, "measure_cell", watched)
    return done


def evaluate(checkpoint, output, settings=SETTINGS, **more):
    return measure([checkpoint], settings, output, accelerator="cpu", **more)


def without_the_clock(cell: dict) -> dict:
    return {name: value for name, value in cell.items() if name != "seconds_per_problem"}


def test_a_grid_holds_every_cell_of_every_model_and_how_it_was_measured(checkpoint, twin, tmp_path):
    grid = measure([checkpoint, twin], SETTINGS, tmp_path, ["one", "two"], "cpu")
    assert json.loads((tmp_path / "grid.json").read_text()) == grid
    assert grid["format"] == 2
    assert grid["versions"] == versions()
    assert grid["settings"] == {
        "split": "test",
        "seed": 0,
        "problems": 4,
        "axes": ["digits_a", "digits_b"],
        "rows": [1, 3],
        "columns": [1, 2],
        "steps": None,
        "batch_size": 128,
        "devices": 1,
        "voting": None,
        "view": "e",
        "precision": "32-true",
    }
    one, two = grid["models"]
    assert (one["name"], two["name"]) == ("one", "two")
    assert one["cells"] == two["cells"]  # measured once
    sizes = [(cell["row"], cell["column"]) for cell in one["cells"]]
    assert sizes == [(1, 1), (1, 2), (3, 1), (3, 2)]
    solver = load_solver(checkpoint, device="cpu")
    expected = measure_cell(solver, AXES, (3, 1), problems=4)
    expected["computed_on"] = {"device": "cpu", "threads": 1}
    assert without_the_clock(one["cells"][2]) == without_the_clock(expected)


def test_large_cells_come_first(checkpoint, tmp_path, measured):
    evaluate(checkpoint, tmp_path)
    assert measured == [(3, 2), (3, 1), (1, 2), (1, 1)]


def test_finished_cells_are_not_measured_again(checkpoint, tmp_path, measured):
    first = evaluate(checkpoint, tmp_path)
    measured.clear()
    again = evaluate(checkpoint, tmp_path)
    assert not measured
    assert again["models"] == first["models"]
    evaluate(checkpoint, tmp_path, replace(SETTINGS, rows=(1, 2, 3)))
    assert measured == [(2, 2), (2, 1)]


@pytest.mark.parametrize("change", [{"seed": 1}, {"problems": 3}, {"steps": 1}, {"batch_size": 2}])
def test_other_settings_take_no_cell_of_earlier_ones(checkpoint, tmp_path, measured, change):
    settings = replace(SETTINGS, rows=(2,), columns=(1,))
    evaluate(checkpoint, tmp_path, settings)
    grid = evaluate(checkpoint, tmp_path, replace(settings, **change))
    assert measured == [(2, 1)] * 2
    assert change.items() <= grid["settings"].items()


def test_steps_are_those_that_a_row_gets(checkpoint, tmp_path):
    settings = Settings(AXES, (2,), (1,), problems=3, steps=1)
    assert evaluate(checkpoint, tmp_path, settings)["models"][0]["cells"][0]["steps"] == 1


def test_a_retrained_checkpoint_takes_no_cell_of_its_forerunner(twin, tmp_path, measured):
    settings = replace(SETTINGS, rows=(2,), columns=(1,))
    (first,) = evaluate(twin, tmp_path, settings)["models"]
    content = torch.load(twin, weights_only=True)
    for name, weight in content["state_dict"].items():
        content["state_dict"][name] = weight + 1
    torch.save(content, twin)
    (second,) = evaluate(twin, tmp_path, settings)["models"]
    assert measured == [(2, 1)] * 2
    assert first["cells"][0]["confidence"] != second["cells"][0]["confidence"]


def test_other_versions_and_other_devices_take_no_cell_of_earlier_ones(monkeypatch):
    before = SETTINGS.key("cpu")
    assert before == SETTINGS.key("cpu")
    assert SETTINGS.key("cuda") != before
    monkeypatch.setattr(cells, "versions", lambda: versions() | {"torch": "99"})
    assert SETTINGS.key("cpu") != before


def test_a_run_that_is_told_to_stop_goes_on_where_it_ended(
    checkpoint, tmp_path, measured, monkeypatch, capsys
):
    whole = evaluate(checkpoint, tmp_path / "whole")
    measured.clear()
    watched = cells.measure_cell

    def interrupted(*arguments):
        if len(measured) == 2:
            os.kill(os.getpid(), signal.SIGTERM)  # in the middle of a cell
        return watched(*arguments)

    monkeypatch.setattr(cells, "measure_cell", interrupted)
    with pytest.raises(SystemExit) as stop:
        evaluate(checkpoint, tmp_path / "halves")
    assert stop.value.code == 143
    assert measured == [(3, 2), (3, 1)]
    assert not (tmp_path / "halves/grid.json").exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    monkeypatch.setattr(cells, "measure_cell", watched)
    halves = evaluate(checkpoint, tmp_path / "halves")
    assert "2 of 4 cells are done already" in capsys.readouterr().out
    assert measured == [(3, 2), (3, 1), (1, 2), (1, 1)]
    for one, other in zip(whole["models"][0]["cells"], halves["models"][0]["cells"], strict=True):
        assert without_the_clock(one) == without_the_clock(other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:50],
        lambda text: "{}",
        lambda text: '{"solutions": 7}',
        lambda text: text.replace('"row": 3', '"row": 2'),
        lambda text: text.replace('"answers"', '"works"'),
        lambda text: "\0\1",
    ],
)
def test_a_damaged_cell_is_measured_again(checkpoint, tmp_path, measured, damage):
    evaluate(checkpoint, tmp_path)
    (file,) = tmp_path.glob("cells/*/3x1.json")
    file.write_text(damage(file.read_text()))
    measured.clear()
    assert evaluate(checkpoint, tmp_path)["models"][0]["cells"][2]["row"] == 3
    assert measured == [(3, 1)]


@pytest.mark.parametrize("name", ["grid.json", "grid.png", "grid.md"])
def test_files_of_others_are_left_alone(checkpoint, tmp_path, measured, name):
    (tmp_path / name).write_text("[1, 2, 3]")
    with pytest.raises(ValueError, match=rf"{name} is in the way, .* choose another --output"):
        evaluate(checkpoint, tmp_path)
    assert (tmp_path / name).read_text() == "[1, 2, 3]"
    assert not measured


@pytest.mark.parametrize("damage", [lambda file: file.write_text("{"), Path.unlink])
def test_a_damaged_or_missing_grid_is_gathered_again(checkpoint, tmp_path, measured, damage):
    first = evaluate(checkpoint, tmp_path)
    (tmp_path / "grid.png").touch()
    damage(tmp_path / "grid.json")
    measured.clear()
    assert evaluate(checkpoint, tmp_path)["models"] == first["models"]
    assert json.loads((tmp_path / "grid.json").read_text())["models"] == first["models"]
    assert not measured


@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/self", "/proc/self/below"])
def test_an_output_that_cannot_be_written_to_is_refused_first(tmp_path, measured, folder):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=rf"--output .*{folder} is no folder to write to \("):
        evaluate("no checkpoint", tmp_path / folder)


def test_what_a_killed_run_left_half_written_is_swept(checkpoint, tmp_path):
    settings = Settings(AXES, (1,), (1,), problems=2)
    evaluate(checkpoint, tmp_path, settings)
    (file,) = tmp_path.glob("cells/*/1x1.json")
    file.unlink()
    file.with_name(".1x1.json.17").touch()
    with replacing(file.with_name("2x1.json")) as part:  # as another process may be doing
        evaluate(checkpoint, tmp_path, settings)
        assert sorted(file.parent.iterdir()) == [part, file]
        part.touch()


def test_other_files_in_the_folder_do_not_matter(checkpoint, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    evaluate(checkpoint, tmp_path, Settings(AXES, (1,), (1,), problems=2))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_accelerator_that_lightning_cannot_give_is_refused(checkpoint, tmp_path):
    with pytest.raises(ValueError, match="tpus"):
        measure([checkpoint], SETTINGS, tmp_path, accelerator="tpus")
