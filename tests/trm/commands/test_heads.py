"""`trm heads`: figures, picture and table."""

import json
import re

import pytest
from PIL import Image


def test_figures_picture_and_table_of_the_shipped_model(command, tmp_path):
    size = ("--digits-a", 3, "--digits-b", 1)
    words = (*size, "--pairs", 2, "--kinds", "factor,digit", "--output", tmp_path)
    ran = command("heads", *words)
    assert (ran.code, ran.err) == (0, "")
    data = json.loads((tmp_path / "heads.json").read_text())
    assert data["settings"] == {"pairs": 2, "seed": 0, "size": {"digits_a": 3, "digits_b": 1}}
    factor, digit = data["head_effects"]
    assert (factor["kind"], digit["kind"]) == ("factor", "digit")
    assert len(factor["pairs"]) == 2
    ends = (f"{factor[name][0][2]:.2f}" for name in ("mean", "low", "high"))
    mean, low, high = (end.replace("-0.00", "0.00").replace("-", "−") for end in ends)
    assert re.search(rf" 3 +{re.escape(f'{mean} ({low}–{high})')} ", ran.out)
    assert "digit: another digit of the multiplicand, 2 pairs\n" in ran.out
    with Image.open(tmp_path / "heads.png") as picture:
        assert picture.size[0] > 300
    assert command("heads", *words, "-q").err == ""  # its own files are replaced


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--kinds", "digt"], "'digt' is no kind of pair; there are digit, factor, carry, total"),
        (["--pairs", "1"], "not a whole number from 2"),
        (["--digits", "4"], "--digits are no sizes of the task multiplication"),
        (["--addends", "2"], "--addends are no sizes of the task multiplication"),
    ],
)
def test_a_wrong_call_is_answered_in_one_sentence(command, tmp_path, words, told):
    ran = command("heads", *words, "--output", tmp_path / "heads")
    assert ran.code == 2
    assert told in ran.err
    assert not (tmp_path / "heads").exists()


def test_files_of_others_are_left_alone(command, tmp_path):
    (tmp_path / "heads.png").write_text("a portrait")
    ran = command("heads", "--output", tmp_path)
    assert ran.code == 2
    assert "heads.png is in the way, and trm heads did not write it" in ran.err
    assert (tmp_path / "heads.png").read_text() == "a portrait"
