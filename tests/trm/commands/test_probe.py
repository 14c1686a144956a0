"""`trm probe` on a tiny checkpoint."""

import json

import pytest
import torch
from PIL import Image

from canvas import task_data
from canvas.multiplication import Lattice, Multiplication
from trm.checkpoints import DATA_KEY
from trm.probing.results import read_study

WORDS = ("--problems", 3, "--train-problems", 16, "--accelerator", "cpu")


@pytest.fixture(scope="module")
def school(checkpoint, tmp_path_factory):
    """The checkpoint's network, said to multiply in the standard layout."""
    content = torch.load(checkpoint, weights_only=True)
    task = Multiplication("standard", digits_a=(1, 2), digits_b=(1, 2))
    content[DATA_KEY]["task"] = task_data(task)
    file = tmp_path_factory.mktemp("school") / "school.ckpt"
    torch.save(content, file)
    return file


def test_a_study_leaves_figures_and_a_picture(command, school, tmp_path):
    output = tmp_path / "a new" / "folder"
    words = ("--digits-a", "2,3", "--digits-b", 2, "--steps", "1..2", *WORDS)
    ran = command("probe", "--checkpoint", school, *words, "--output", output)
    assert (ran.code, ran.err) == (0, "")
    study = read_study(output)
    assert [size.size for size in study.sizes] == [
        {"digits_a": 2, "digits_b": 2}, {"digits_a": 3, "digits_b": 2}
    ]  # fmt: skip
    assert study.settings["steps"] == [1, 2]
    assert study.model["family"] == "iterative"
    assert study.model["checkpoint"] == str(school)
    assert study.versions["torch"]
    with Image.open(output / "probe.png") as picture:
        assert picture.size[0] > 1000
    for word in ("multiplicand", "selectivity", "compositionality", "is read worst"):
        assert word in ran.out
    for file in ("probe.json", "probe.png"):
        assert str(output / file) in ran.out


def test_once_more_replaces_it_with_the_same_figures(command, school, tmp_path):
    words = ("--digits-a", 2, *WORDS, "--output", tmp_path, "--quiet")
    found = []
    for _ in range(2):
        ran = command("probe", "--checkpoint", school, *words)
        assert ran.code == 0, ran.err
        data = json.loads((tmp_path / "probe.json").read_text())
        assert data.pop("created")
        found.append(data)
    assert found[0] == found[1]
    assert "reading" not in ran.out
    assert found[0]["sizes"][0]["size"] == {"digits_a": 2, "digits_b": 2}  # the longest
    assert found[0]["settings"]["steps"] == [1, 2]  # as many as the model solves with


def test_states_between_layers(command, school, tmp_path):
    words = ("--digits-a", 2, "--layers", "--steps", 1, *WORDS, "--output", tmp_path)
    ran = command("probe", "--checkpoint", school, *words)
    assert ran.code == 0, ran.err
    names = {reading.site for reading in read_study(tmp_path).sizes[0].readings}
    assert names == {"input", "z_H", "z_L", "z_H, layer 1", "z_L, layer 1"}


def test_bad_input_gets_a_sentence_and_exit_code_2(
    command, checkpoint, school, tmp_path, monkeypatch
):
    monkeypatch.setattr(Lattice, "hints", ())  # as a layout of one's own may be
    (tmp_path / "file").touch()
    other = tmp_path / "other"
    other.mkdir()
    (other / "probe.json").write_text("{}")
    good = ("--checkpoint", school, "--output", tmp_path / "probed", *WORDS)
    for words, said in (
        (("--checkpoint", checkpoint, *good[2:]), "the layout lattice has no hints"),
        ((*good, "--addends", 2), "--addends are no sizes of the task multiplication"),
        ((*good, "--digits-a", "0"), "'0' is no range of lengths"),
        ((*good, "--steps", "0"), "'0' is no range of lengths"),
        ((*good, "--problems", 0), "--problems"),
        ((*good, "--l2", -1), "--l2"),
        ((*good, "--devices", 2), "take --devices 1"),
        ((*good, "--digits-a", 900, "--digits-b", 900), "there is nothing to probe"),
        (("--checkpoint", school, "--output", tmp_path / "file"), "--output"),
        (("--checkpoint", school, "--output", other), "probe.json is in the way"),
        (("--checkpoint", tmp_path / "none.ckpt", "--output", other), "none.ckpt"),
        (("--checkpoint", school), "--output"),
    ):
        ran = command("probe", *words)
        assert ran.code == 2, words
        assert "trm probe: " in ran.err
        assert said in ran.err
        assert "Traceback" not in ran.err
