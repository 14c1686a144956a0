"""`trm inspect` on trained models: pictures of one problem, the lens, patching, and export."""

import hashlib
import re
import shutil

import pytest
import torch
from PIL import Image

from trm.checkpoints import SHIPPED
from trm.checkpoints.content import unpack

CELL = ("--digits-a", "1..2", "--digits-b", "1", "--problems", "4", "--accelerator", "cpu")


def lens(out: str) -> list[tuple[str, int, int, float]]:
    """The printed line of each layer."""
    lines = re.findall(r"^ *(\S.*?) +(\d+) of (\d+) +(-?\d+\.\d{3}) *$", out, re.MULTILINE)
    return [(site, int(right), int(of), float(mean)) for site, right, of, mean in lines]


def pictures(folder) -> set[str]:
    return {path.name for path in folder.glob("*.png")}


def test_pictures_of_a_model_that_takes_steps(command, checkpoint, tmp_path):
    words = ("inspect", "--checkpoint", checkpoint, "12x3", "--output", tmp_path)
    ran = command(*words, "--cell", "2,3", "--lens", "--saliency")
    of_rows = re.search(r"supervision steps per row: ([\d, ]+)", ran.out)[1]
    steps = [int(step) for step in of_rows.split(", ")]
    drawn = {f"{name}.png" for name in ("rows", "settled", "attention", "lens", "saliency")}
    assert pictures(tmp_path) == drawn
    assert "in canvas row 2, column 3: logit less the mean logit" in ran.out
    with Image.open(tmp_path / "solving.gif") as film:
        # Each row masked and after each supervision step, and how the product is read off.
        assert film.n_frames > sum(step + 1 for step in steps)
    sites = [site for site, *_ in lens(ran.out)]
    assert sites[0].startswith("step 1, ")
    assert sites[-1].startswith(f"step {steps[0]}, ")
    command("inspect", "7x8", "--output", tmp_path)
    assert pictures(tmp_path) == {"rows.png", "settled.png", "signals.png"}  # no others are left


@pytest.mark.usefixtures("undrawn")
def test_a_cell_model_is_shown_step_by_step(command, tmp_path):
    ran = command("inspect", "253x83", "--row", "2", "--output", tmp_path)
    assert "or their messages last changed: 7, 7 (at most 11, the longest chain" in ran.out
    assert pictures(tmp_path) == {"rows.png", "settled.png", "signals.png"}
    for name in ("multiplicand", "multiplier", "product", "carry", "sum_carry"):
        right, of = re.search(rf"\b{name} +(\d+) of (\d+) *\n", ran.out).groups()
        assert int(right) == int(of) > 0
    ran = command("inspect", "253x83", "--steps", "3", "--output", tmp_path)
    assert "last changed: 3, 3 (at most 11" in ran.out


@pytest.mark.usefixtures("undrawn")
def test_a_gpt_is_patched_and_read_block_by_block(command, tmp_path):
    words = ["--checkpoint", "addition-gpt-seed0", "1212+5613", "--patch", "1212+5643"]
    words += ["--lens", "--saliency"]
    ran = command("inspect", *words, "--output", tmp_path)
    assert "row 1 of 1212 + 5613 with activations of 1212 + 5643" in ran.out
    assert "(1 cell differs)" in ran.out
    assert [site for site, *_ in lens(ran.out)] == [f"block {i}" for i in (1, 2, 3, 4)]
    assert pictures(tmp_path) == {"rows.png", "lens.png", "patch.png", "saliency.png"}
    ran = command("inspect", *words, "--cell", "1,1", "--output", tmp_path, code=2)
    assert "--saliency explains a cell that row 1 fills in" in ran.err


def export(command, checkpoint, file, *more, code=0):
    return command("inspect", "--checkpoint", checkpoint, "--export", file, *more, code=code)


def test_a_run_is_exported_and_untrained_weights_have_its_shapes(command, checkpoint, tmp_path):
    file, untrained = (tmp_path / f"{name}.safetensors" for name in ("model", "untrained"))
    ran = export(command, checkpoint, file)
    assert ran.err == ""
    assert f"{file}: 5,818 parameters" in ran.out
    words = ("solve", "12x3", "45x6", "--checkpoint")
    assert command(*words, file) == command(*words, checkpoint)
    written = file.read_bytes()
    export(command, checkpoint, file)  # what is the same can be written again
    ran = export(command, checkpoint, file, "--untrained", code=2)
    assert f"{file} exists already, with other content" in " ".join(ran.err.split())
    assert file.read_bytes() == written
    for _ in range(2):  # which are the same, or they would not be replaced
        export(command, checkpoint, untrained, "--untrained")
    learned, drawn = (unpack(file)["state_dict"] for file in (file, untrained))
    assert {k: v.shape for k, v in learned.items()} == {k: v.shape for k, v in drawn.items()}
    assert any(not torch.equal(learned[k], drawn[k]) for k in learned)
    assert unpack(untrained)["global_step"] == 0


def test_rounded_weights_keep_no_proof_and_no_figures(command, tmp_path):
    file, page = tmp_path / "rounded.safetensors", tmp_path / "page.html"
    ran = export(command, SHIPPED, file, "--dtype", "bfloat16")
    assert "50,853 parameters" in ran.out
    assert unpack(SHIPPED)["card"]["proof"]["verdict"] == "proved"
    assert unpack(file)["card"] == {}
    assert file.stat().st_size < 2 * 50_853 + 8_000
    ran = export(command, SHIPPED, file, "--dtype", "bfloat16", "--figures", tmp_path, code=2)
    told = " ".join(ran.err.split())
    assert "before rounding to bfloat16; evaluate the exported file" in told
    assert told.endswith("leave out --figures")
    ran = export(command, SHIPPED, page, "--dtype", "bfloat16", code=2)
    assert "--dtype applies to a file of weights" in ran.err


def test_a_web_page_shows_whether_its_weights_are_proved(command, tmp_path):
    page, untrained = tmp_path / "multiply.html", tmp_path / "untrained.html"
    export(command, SHIPPED, page)
    export(command, SHIPPED, untrained, "--untrained")
    proved = ['"verdict": "proved"' in file.read_text() for file in (page, untrained)]
    assert proved == [True, False]


@pytest.mark.usefixtures("undrawn")
def test_a_card_repeats_the_figures_of_its_own_checkpoint_alone(command, checkpoint, tmp_path):
    grid, file, other = tmp_path / "grid", tmp_path / "m.safetensors", tmp_path / "o.safetensors"
    checkpoint = shutil.copy(checkpoint, tmp_path / "best.ckpt")
    command("prove", "--checkpoint", checkpoint, "--search", 50, code=1)
    command("evaluate", *CELL, "--output", grid, "--checkpoint", checkpoint)
    ran = export(command, checkpoint, file, "--figures", grid)
    card = unpack(file)["card"]
    assert card["proof"]["verdict"] == "refuted"
    assert card["checkpoint_sha256"] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    axes = ["digits_a", "digits_b"]
    assert card["settings"] == {"split": "test", "seed": 0, "problems": 4, "axes": axes}
    assert [(cell["row"], cell["column"]) for cell in card["cells"]] == [(1, 1), (2, 1)]
    assert all(cell["solutions"]["total"] == 4 for cell in card["cells"])
    more, both = tmp_path / "more", tmp_path / "both.safetensors"
    longer = [*map(str, CELL)]
    longer[longer.index("--digits-a") + 1] = "3"
    command("evaluate", *longer, "--output", more, "--checkpoint", checkpoint)
    export(command, checkpoint, both, "--figures", more, grid)
    cells = [(cell["row"], cell["column"]) for cell in unpack(both)["card"]["cells"]]
    assert cells == [(1, 1), (2, 1), (3, 1)]
    again = tmp_path / "again.safetensors"
    export(command, file, again)
    assert again.read_bytes() == file.read_bytes(), "an exported file keeps its card"
    # The file is another one than the checkpoint that was measured.
    ran = export(command, file, other, "--figures", grid, code=2)
    assert "has no figures of" in " ".join(ran.err.split())
    assert not other.exists()
    # Figures of the file itself are added to those of its card.
    command("evaluate", *longer, "--output", tmp_path / "of-file", "--checkpoint", file)
    export(command, file, other, "--figures", tmp_path / "of-file")
    assert unpack(other)["card"]["cells"] == unpack(both)["card"]["cells"]


@pytest.mark.usefixtures("undrawn")
def test_a_latent_model_is_shown_while_it_solves(command, tmp_path):
    words = ("inspect", "--checkpoint", "untold-base2-seed0", "101x110")
    ran = command(*words, "--output", tmp_path)
    shares = re.findall(r"(multiplier|multiplicand|addend) +(\d+) of (\d+)", ran.out)
    assert len(shares) == 3
    assert all(right == of for _, right, of in shares)
    assert (tmp_path / "rows.png").is_file()


def test_a_web_page_of_several_models_shows_the_size_of_each(command, tmp_path):
    ran = export(command, SHIPPED, tmp_path / "m.html", "--beside", "tiny-seed0", "column-seed0")
    sizes = "lattice 50,853 parameters, tiny-seed0 8,314 parameters, column-seed0 46,588 parameters"
    size = (tmp_path / "m.html").stat().st_size
    assert " ".join(ran.out.split()) == f"{tmp_path / 'm.html'}: {sizes}; {size:,} bytes"
