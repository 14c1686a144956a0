"""`trm ranks`: figures, picture and table."""

import json
import re

from PIL import Image


def test_models_stand_side_by_side(command, checkpoint, adder, tmp_path):
    words = ("--checkpoint", checkpoint, adder, "--problems", 2, "--step", 2, "--output", tmp_path)
    ran = command("ranks", *words)
    assert ran.code == 0
    data = json.loads((tmp_path / "ranks.json").read_text())
    assert data["settings"] == {"problems": 2, "seed": 0, "step": 2}
    assert len(data["effective_ranks"]) == 2
    for model in data["effective_ranks"]:
        assert {one["kind"] for one in model["ranks"]} == {"weights", "states"}
        assert model["name"] in ran.out
        one = model["ranks"][0]
        assert re.search(
            rf"{one['layer']} +{one['name']} +{one['rank']:.1f} +{one['full']} ", ran.out
        )
    with Image.open(tmp_path / "ranks.png") as picture:
        assert picture.size[0] > 400
    assert command("ranks", *words, "-q").err == ""  # its own files are replaced


def test_what_is_in_the_way_is_left_alone(command, checkpoint, tmp_path):
    (tmp_path / "ranks.json").write_text("{}")
    ran = command("ranks", "--checkpoint", checkpoint, "--output", tmp_path)
    assert ran.code == 2
    assert "ranks.json is in the way, and trm ranks did not write it" in ran.err
    assert (tmp_path / "ranks.json").read_text() == "{}"
