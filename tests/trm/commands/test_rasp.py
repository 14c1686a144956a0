"""`trm rasp`: the program alone, and beside the heads of a model."""

import json
import re

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def rows(out: str) -> list[str]:
    """The digits of each row that is printed of a canvas."""
    lines = [line for line in out.splitlines() if re.fullmatch(r"[ ·×+\d]+", line)]
    return [found for line in lines if (found := re.sub(r"[ ·]", "", line))]


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["123x45", "--layout", "lattice"], ["123×", "6155", "5534"]),
        (["12x3"], ["12", "×3", "36", "36"]),
        (["87+604+9", "--layout", "column_carries"], ["87", "604", "+9", "12", "700"]),
        (["11x11", "--base", "2", "--layout", "accumulate"], ["11", "×11", "11", "1001"]),
    ],
)
def test_the_program_writes_the_rows(command, words, written):
    ran = command("rasp", *words)
    assert (ran.code, ran.err) == (0, "")
    assert rows(ran.out) == written
    number = len(written) - (1 if "lattice" in words else 2 + ("87+604+9" in words))
    assert f"rows right: {number} of {number}\n" in ran.out
    assert "selectors: same row, above, right" in ran.out


def test_figures_and_pictures_of_the_shipped_model(command, tmp_path):
    (tmp_path / "compared").mkdir()  # what an earlier comparison left is replaced
    (tmp_path / "compared/rasp.json").write_text('{"program_selectors": []}')
    (tmp_path / "compared/events.out.tfevents.0.trm-rasp").touch()
    words = ("2539x839", "--problems", 2, "--row", 2, "--output", tmp_path / "compared")
    ran = command("rasp", *words)
    assert (ran.code, ran.err) == (0, "")
    data = json.loads((tmp_path / "compared/rasp.json").read_text())
    assert data["program_selectors"] == ["above", "above left", "right", "same row"]
    (size,) = data["sizes"]
    assert (size["size"], size["problems"]) == ({"digits_a": 4, "digits_b": 4}, 2)
    assert len(size["heads"]) == 16
    best = size["heads"][7]["overlaps"][0]
    assert re.search(rf" 8 +above left \* +{best['overlap']:.2f} ±", ran.out)
    for name in ("heads", "overlap"):
        assert f"{name}.png" in ran.out
        with Image.open(tmp_path / f"compared/{name}.png") as picture:
            assert picture.size[0] > 300
    board = EventAccumulator(str(tmp_path / "compared"), size_guidance={"images": 0}).Reload()
    assert set(board.Tags()["images"]) == {"rasp/heads", "rasp/overlap"}
    assert len(list((tmp_path / "compared").glob("events*"))) == 1


def test_the_heads_of_a_gpt_stand_beside_what_it_has_read(command, repository, tmp_path):
    model = repository / "docs/models/addition-gpt-blanks-seed0.safetensors"
    words = ("4812+7935", "--checkpoint", model, "--problems", 2, "--output", tmp_path)
    ran = command("rasp", *words)
    assert (ran.code, ran.err) == (0, "")
    assert "* in the program of column, which writes 2 of these rows right" in ran.out
    (size,) = json.loads((tmp_path / "rasp.json").read_text())["sizes"]
    assert size["size"] == {"digits": 7, "addends": 2}
    assert [head["update"] for head in size["heads"]] == ["tokens"] * 16
    assert len(size["heads"][0]["overlaps"]) == len(size["untrained"][0]["overlaps"])
    with Image.open(tmp_path / "heads.png") as picture:
        assert picture.size[0] > 300


def test_several_sizes_have_a_table_and_a_picture_each(command, adder, tmp_path):
    words = ("--digits", "1,2", "--addends", 2, "--problems", 2, "--output", tmp_path, "-q")
    ran = command("rasp", "--checkpoint", adder, *words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("* in the program of column, which writes 2 of these rows right") == 2
    names = {path.name for path in tmp_path.glob("*.png")}
    assert names == {"heads.png", "overlap_1x2.png", "overlap_2x2.png"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name a problem for the program, like 123x45, or --output DIR"),
        (["12xy3"], "write it like 123x456"),
        (["12x3", "--layout", "latice"], "Did you mean lattice?"),
        (["1" * 60 + "x" + "1" * 60], "cells; this one has 65 x 121. Take shorter numbers"),
        (["12x3", "--problems", "2"], "--problems is of a comparison with a model: add --output"),
        (["12x3", "--checkpoint", "C"], "--checkpoint is of a comparison with a model"),
        (["--layout", "lattice", "--output", "D"], "--layout is the checkpoint's in a comparison"),
        (["12x3", "--row", "2", "--output", "D"], "--row 2: 12 x 3 has 1 rows to fill in"),
        (["--digits", "4", "--digits-b", "4", "--output", "D"], "are no sizes of the task"),
    ],
)
def test_a_wrong_call_is_answered_in_one_sentence(command, tmp_path, words, told):
    ran = command("rasp", *words, folder=tmp_path)
    assert ran.code == 2
    assert told in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["heads.png", "overlap_1x1.png"])
def test_files_of_others_are_left_alone(command, tmp_path, name):
    (tmp_path / name).write_text("a portrait")
    ran = command("rasp", "--problems", 1, "--output", tmp_path)
    assert ran.code == 2
    assert f"{name} is in the way, and trm rasp did not write it" in ran.err
    assert (tmp_path / name).read_text() == "a portrait"
