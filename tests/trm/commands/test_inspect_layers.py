"""`trm inspect --lens` and `--patch` on trained models."""

import re

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def effects(out: str) -> list[tuple[float, str]]:
    """What is printed of the strongest effects."""
    found = re.findall(r"^ +(-?\d\.\d\d)  (.+)$", out, re.MULTILINE)
    return [(float(effect), where) for effect, where in found]


def lens(out: str) -> list[tuple[str, int, int, float]]:
    """What is printed of each layer."""
    lines = re.findall(r"^  (\S.*?) +(\d+) of (\d+) +(-?\d+\.\d{3})$", out, re.MULTILINE)
    return [(site, int(right), int(of), float(mean)) for site, right, of, mean in lines]


def test_the_lens_of_the_shipped_model_ends_with_the_right_row(command, tmp_path):
    ran = command("inspect", "2539x839", "--row", "2", "--lens", "--output", tmp_path)
    assert ran.code == 0, ran.err
    (first, *_), (last, right, of, mean) = (found := lens(ran.out))[0], found[-1]
    assert (first, last) == ("layer 1", "layer 2")
    assert right == of == 7
    assert found[0][1] < of
    assert -0.01 < mean <= 0
    with Image.open(tmp_path / "lens.png") as picture:
        assert picture.size[0] > 300
    board = EventAccumulator(str(tmp_path)).Reload()
    assert "inspect/lens" in board.Tags()["images"]
    assert not (tmp_path / "patch.png").exists()
    assert command("inspect", "7x8", "--output", tmp_path).code == 0
    assert not (tmp_path / "lens.png").exists(), "a picture of another problem is not left there"


def test_a_model_that_takes_steps_is_read_in_each_of_them(command, checkpoint, tmp_path):
    ran = command("inspect", "--checkpoint", checkpoint, "12x3", "--lens", "--output", tmp_path)
    assert ran.code == 0, ran.err
    steps = int(re.search(r"row by row: (\d+)", ran.out)[1])
    sites = [site for site, *_ in lens(ran.out)]
    assert sites[0].startswith("step 1, ")
    assert sites[-1].startswith(f"step {steps}, ")


def test_one_digit_of_the_multiplicand_reaches_the_answer_by_its_own_cell(command, tmp_path):
    words = ["inspect", "2411x2", "--patch", "2431x2", "--output", tmp_path]
    ran = command(*words)
    assert ran.code == 0, ran.err
    assert "row 1 of 2411 × 2 with activations of 2431 × 2" in ran.out
    assert "(1 cell differs)" in ran.out
    assert (1.0, "input, cell 1,5 (1, in B 3)") in effects(ran.out)
    with Image.open(tmp_path / "patch.png") as picture:
        assert picture.size[0] > 300
    board = EventAccumulator(str(tmp_path)).Reload()
    assert "inspect/patch" in board.Tags()["images"]


@pytest.mark.parametrize(
    ("by", "place"),
    [("columns", "column 5"), ("heads", "layer 1, head")],
)
def test_each_thing_is_named_once(command, tmp_path, by, place):
    words = ["2411x2", "--patch", "2431x2", "--patch-by", by, "--output", tmp_path]
    ran = command("inspect", *words)
    assert ran.code == 0, ran.err
    found = effects(ran.out)
    assert any(place in where for _, where in found)
    assert len({where for _, where in found}) == len(found)
    sizes = [abs(effect) for effect, _ in found]
    assert sizes == sorted(sizes, reverse=True)


def test_the_state_after_the_last_step_is_all_that_the_answer_is_read_from(
    command, repository, tmp_path
):
    model = repository / "docs/models/decimal-seed0.safetensors"
    words = ["--checkpoint", model, "253x83", "--patch", "254x83", "--patch-by", "steps"]
    ran = command("inspect", *words, "--row", "2", "--output", tmp_path)
    assert ran.code == 0, ran.err
    steps = int(re.search(r"row by row: \d+, (\d+)", ran.out)[1])
    found = re.findall(r"^  step (\d+) +z_H +(\S+)  z_L +(\S+)  all +(\S+)$", ran.out, re.MULTILINE)
    assert [int(step) for step, *_ in found] == list(range(1, steps + 1))
    assert [float(effect) for effect in found[-1][1:]] == [1, 0, 1]
    assert float(found[0][3]) < 0.9  # the input, which is A's, is read again in every step
    assert (tmp_path / "patch.png").is_file()


def test_a_gpt_reads_an_addend_in_its_cell_and_writes_from_the_cell_on_the_right(
    command, repository, tmp_path
):
    model = repository / "docs/models/addition-gpt-seed0.safetensors"
    words = ["--checkpoint", model, "1212+5613", "--patch", "1212+5643", "--lens"]
    ran = command("inspect", *words, "--output", tmp_path)
    assert ran.code == 0, ran.err
    found = effects(ran.out)
    assert (1.0, "input, cell 3,6 (1, in B 4)") in found
    assert (1.0, "block 4, cell 4,7 (5)") in found  # the 5 on the right of the digit that differs
    assert [site for site, *_ in lens(ran.out)] == [f"block {i}" for i in (1, 2, 3, 4)]
    names = {path.name for path in tmp_path.glob("*.png")}
    assert names == {"rows.png", "lens.png", "patch.png"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--patch", "12x34"], "--patch 12x34: it has to lie in the same cells as 123x45"),
        (["--patch", "45x123"], "--patch 45x123: it has to lie in the same cells as 123x45"),
        (["--patch", "12"], "'12' is no problem; write it like 123x456"),
        (["--patch", "123+45"], "123+45"),
        (["--patch", "123x45"], "its row 2 reads as that of 123x45, so nothing can be measured"),
        (["--patch", "123x95", "--row", "1"], "Take a --row that differs: 2"),
        (["--patch-by", "heads"], "give it with --patch, like --patch 123x457"),
        (["--patch", "124x45", "--patch-by", "steps"], "takes no supervision steps here"),
        (["--patch", "124x45", "--patch-by", "layers"], "invalid choice: 'layers'"),
    ],
)
def test_what_cannot_be_patched_is_said_and_nothing_is_written(command, tmp_path, words, told):
    output = tmp_path / "glass"
    ran = command("inspect", "123x45", *words, "--output", output)
    assert ran.code == 2
    assert told in ran.err
    assert not output.exists()
