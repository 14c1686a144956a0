"""`trm inspect` on trained models."""

import re

import pytest
import yaml
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


@pytest.fixture
def debug_looped(command, repository, tmp_path):
    """A run of the debug config with a looped transformer in its network's place."""
    held = yaml.safe_load((repository / "configs/debug.yaml").read_text())
    network = held["model"]["init_args"]["network"]
    network["class_path"] = "trm.models.LoopedTransformer"
    for name in ("H_cycles", "L_cycles"):
        del network["init_args"]["config"][name]
    (tmp_path / "looped.yaml").write_text(yaml.safe_dump(held))
    ran = command("fit", "--config", "looped.yaml", folder=tmp_path)
    assert ran.code == 0, ran.err
    return tmp_path / "runs"


def test_pictures_of_one_problem(command, checkpoint, tmp_path):
    ran = command("inspect", "--checkpoint", checkpoint, "12x3", "--output", tmp_path / "glass")
    assert ran.code == 0, ran.err
    steps = list(map(int, re.search(r"row by row: ([\d, ]+)", ran.out)[1].split(", ")))
    names = ("rows", "states", "attention")
    for name in names:
        with Image.open(tmp_path / f"glass/{name}.png") as picture:
            assert picture.size[0] > 300
    with Image.open(tmp_path / "glass/solving.gif") as film:
        assert film.n_frames > 1
    board = EventAccumulator(str(tmp_path / "glass"), size_guidance={"images": 0}).Reload()
    assert set(board.Tags()["images"]) == {f"inspect/{name}" for name in (*names, "solving")}
    # Each row masked and after each supervision step, and how the product is read off.
    assert len(board.Images("inspect/solving")) > sum(step + 1 for step in steps)


def test_once_more_leaves_one_page(command, checkpoint, tmp_path):
    for _ in range(2):
        command("inspect", "--checkpoint", checkpoint, "12x3", "--output", tmp_path)
    assert len(list(tmp_path.glob("events*"))) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["12x3", "--row", "2"], "--row 2: 12x3 has 1 rows to fill in"),
        (["12x3", "--cell", "40,1"], "--cell 40,1 is not on the canvas"),
        (["12x3", "--cell", "4"], "is no cell; write row and column, like 4,3"),
        (["12"], "write it like 123x456"),
    ],
)
def test_what_is_not_there_is_said_and_nothing_is_written(
    command, checkpoint, tmp_path, words, told
):
    output = tmp_path / "glass"
    ran = command("inspect", "--checkpoint", checkpoint, *words, "--output", output)
    assert ran.code == 2
    assert told in ran.err
    assert not output.exists()


def test_another_cell_is_another_map(command, checkpoint, tmp_path):
    maps = []
    for cell in ("2,2", "2,3"):
        command("inspect", "--checkpoint", checkpoint, "12x3", "--cell", cell, "--output", tmp_path)
        maps.append((tmp_path / "attention.png").read_bytes())
    assert maps[0] != maps[1]


def test_a_model_that_works_in_order_is_shown_as_it_writes(command, tmp_path):
    ran = command("inspect", "12x3", "--output", tmp_path / "glass")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("this model works out each cell once, in the order of writing\n")
    names = {path.name for path in (tmp_path / "glass").glob("*.png")}
    assert names == {"rows.png", "attention.png", "hints.png"}
    for name in ("multiplicand", "multiplier", "product", "carry", "sum_carry"):
        right, of = re.search(rf"  {name} +(\d+) of (\d+)\n", ran.out).groups()
        assert int(right) == int(of) > 0
    with Image.open(tmp_path / "glass/solving.gif") as film:
        assert film.n_frames > 5


def test_a_looped_transformer_has_one_state_to_look_at(command, debug_looped, tmp_path):
    ran = command("inspect", "--checkpoint", debug_looped, "12x3", "--output", tmp_path / "glass")
    assert ran.code == 0, ran.err
    assert "supervision steps, row by row" in ran.out
    names = {path.name for path in (tmp_path / "glass").glob("*.png")}
    assert names == {"rows.png", "states.png", "attention.png"}
