"""The figure over epochs and settings of a study."""

import csv

import pytest


@pytest.fixture
def draws(program, monkeypatch):
    def run(*words):
        monkeypatch.setattr("sys.argv", ["learning_curves.py", *map(str, words)])
        program("learning_curves").main()

    return run


def written(folder, losses):
    folder.mkdir(parents=True)
    with (folder / "metrics.csv").open("w", newline="") as sink:
        rows = csv.DictWriter(sink, ["epoch", "train/loss", "validation/loss"])
        rows.writeheader()
        for epoch, loss in enumerate(losses):
            rows.writerow({"epoch": epoch, "train/loss": loss / 2})
            rows.writerow({"epoch": epoch, "validation/loss": loss})


def test_lowest_and_last_losses_of_each_run_in_order(draws, tmp_path, capsys):
    written(tmp_path / "runs/size_16-seed0/version_0", [3.0, 1.0, 2.0])
    written(tmp_path / "runs/size_4-seed0/version_0", [9.0, 9.0, 9.0])
    written(tmp_path / "runs/size_4-seed0/version_1", [3.0, 2.0, 1.5])  # the last version counts
    (tmp_path / "runs/size_32-seed0").mkdir()  # not begun
    draws(tmp_path, "--output", tmp_path / "curves.png")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:3] == [
        ["size_4", "0", "1.5", "3", "1.5", "1.000"],
        ["size_16", "0", "1", "2", "2", "1.333"],
    ]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_perplexity_is_the_exponential_of_the_loss(draws, tmp_path, capsys):
    written(tmp_path / "runs/size_4-seed0/version_0", [1.0, 0.0])
    draws(tmp_path, "--curve", "perplexity", "--output", tmp_path / "curves.png")
    assert capsys.readouterr().out.splitlines()[1].split()[2:] == ["1", "2", "1", "1.000"]


def test_a_folder_of_no_study_is_refused(draws, tmp_path):
    with pytest.raises(SystemExit, match="give a sweep's folder"):
        draws(tmp_path)
