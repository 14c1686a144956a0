"""`trm analyse`: files, pictures and tables of each kind."""

import json
import re
from functools import partial

import pytest
import torch
from PIL import Image

from canvas.multiplication import Multiplication
from canvas.tasks import task_data
from trm.checkpoints import DATA_KEY, SHIPPED
from trm.commands.cli import parser_of
from trm.extras.analysis.probe import fit

LATTICE = "docs/models/decimal-seed0.safetensors"
QUICK = ("--problems", 3, "--train-problems", 16, "--accelerator", "cpu")


def wide(picture) -> int:
    with Image.open(picture) as image:
        return image.size[0]


@pytest.mark.usefixtures("undrawn")
def test_probes_leave_figures_and_a_picture(command, changed, tmp_path, monkeypatch):
    task = task_data(Multiplication("standard", digits_a=(1, 2), digits_b=(1, 2)))
    school = changed(lambda content: content[DATA_KEY].update(task=task), "school")
    monkeypatch.setattr("trm.extras.analysis.probe.fit", partial(fit, iterations=3))  # of 60
    output = tmp_path / "a new" / "folder"
    words = ("--checkpoint", school, "--digits-a", "2,3", "--digits-b", 2, *QUICK)
    ran = command("analyse", "probe", *words, "--steps", 1, "--output", output)
    assert ran.err == ""
    study = json.loads((output / "probe.json").read_text())
    assert study["sizes"] == {"2 x 2 digits": "in range", "3 x 2 digits": "first beyond"}
    assert study["settings"]["steps"] == [1]
    assert {reading["site"] for reading in study["readings"]} == {"input", "z_H", "z_L"}
    reading = study["readings"][-1]
    probe = reading["probe"]
    assert probe["low"] <= probe["right"] / probe["total"] <= probe["high"]
    assert (study["model"]["family"], study["model"]["checkpoint"]) == ("iterative", str(school))
    assert study["versions"]["torch"]
    assert (output / "probe.png").exists()
    assert f"{reading['subtask']} " in ran.out
    assert "majority" in ran.out
    for file in ("probe.json", "probe.png"):
        assert str(output / file) in ran.out
    # Once more: it is replaced. By default sizes are training's longest, steps those of solving.
    ran = command("analyse", "-q", "probe", *words[:2], "--digits-a", 2, *QUICK, "--output", output)
    assert "reading" not in ran.out
    study = json.loads((output / "probe.json").read_text())
    assert list(study["sizes"]) == ["2 x 2 digits"]
    assert study["settings"]["steps"] == [1, 2]


@pytest.mark.usefixtures("undrawn")
def test_gaps_of_models_are_tables_of_their_own(command, changed, tmp_path, monkeypatch):
    task = task_data(Multiplication("standard", digits_a=(1, 2), digits_b=(1, 2)))

    def trained_with_heads(content):
        content[DATA_KEY].update(task=task)
        width = content["state_dict"]["model.lm_head.weight"].shape[1]
        for name, classes in (("carry", 10), ("multiplier", 12)):
            content["state_dict"][f"auxiliary.{name}_head.weight"] = torch.zeros(classes, width)
            content["state_dict"][f"auxiliary.{name}_head.bias"] = torch.zeros(classes)

    plain = changed(lambda content: content[DATA_KEY].update(task=task), "plain")
    headed = changed(trained_with_heads, "headed")
    monkeypatch.setattr("trm.extras.analysis.gap.fit", partial(fit, iterations=3))  # of 60
    sizes = ("--digits-a", "2,3", "--digits-b", 2, "--heads", *QUICK, "--output", tmp_path)
    ran = command("analyse", "gap", "--checkpoint", plain, headed, *sizes)
    assert "plain has no auxiliary heads: probes read all sub-tasks" in ran.out
    data = json.loads((tmp_path / "gap.json").read_text())
    first, second = data["models"]
    kinds = {name: reader["kind"] for name, reader in second["readers"].items()}
    heads = dict.fromkeys(("multiplier", "carry"), "auxiliary head")
    assert kinds == {"multiplicand": "probe"} | heads
    assert {reader["kind"] for reader in first["readers"].values()} == {"probe"}
    assert [one["size"] for one in first["gaps"]] == ["2 x 2 digits", "3 x 2 digits"]
    text = (tmp_path / "gap.md").read_text()
    assert text.count("| size | all sub-tasks | solved | gap | not solved, of") == 2
    one = first["gaps"][0]
    ends = f"{100 * one['gap']:.1f} ({100 * one['low']:.1f} to {100 * one['high']:.1f})"
    assert ends in text
    assert ends in ran.out
    assert "- `carry`: auxiliary head (z\\_H, step 2)" in text
    assert (tmp_path / "gap.png").exists()


@pytest.mark.parametrize("option", ["--steps", "--read-steps"])
def test_steps_of_gaps_have_two_names(option):
    args = parser_of("analyse").parse_args(["gap", option, "1..3,8", "--output", "gaps"])
    assert args.read_steps == [1, 2, 3, 8]
    assert getattr(args, "steps", None) is None, "the model's own stay as they are"


def test_effects_of_heads_of_a_lattice(command, repository, tmp_path):
    size = ("--digits-a", 3, "--digits-b", 1)
    words = ("heads", *size, "--pairs", 2, "--kinds", "factor,digit", "--output", tmp_path)
    ran = command("analyse", *words, "--checkpoint", repository / LATTICE)
    assert ran.err == ""
    data = json.loads((tmp_path / "heads.json").read_text())
    assert data["settings"] == {"pairs": 2, "seed": 0, "size": {"digits_a": 3, "digits_b": 1}}
    factor, digit = data["head_effects"]
    assert (factor["kind"], digit["kind"]) == ("factor", "digit")
    assert len(factor["pairs"]) == 2
    ends = (f"{factor[name][0][2]:.2f}" for name in ("mean", "low", "high"))
    mean, low, high = (end.replace("-0.00", "0.00").replace("-", "−") for end in ends)
    assert re.search(rf" 3 +{re.escape(f'{mean} ({low}–{high})')} ", ran.out)
    assert "digit: another digit of the multiplicand, 2 pairs\n" in ran.out
    assert wide(tmp_path / "heads.png") > 300


@pytest.mark.usefixtures("undrawn")
def test_induction_scores_of_a_gpt_are_a_table(command, repository, tmp_path):
    words = ("induction", "--sequences", 4, "--output", tmp_path)
    gpt = repository / "docs/models/addition-gpt-seed0.safetensors"
    ran = command("analyse", *words, "--checkpoint", gpt)
    assert ran.err == ""
    data = json.loads((tmp_path / "induction.json").read_text())
    assert data["settings"] == {"sequences": 4, "seed": 0}
    assert len(data["heads"]) == 16
    one = data["heads"][5]
    assert (one["block"], one["head"]) == (2, 2)
    assert re.search(rf" 2 +{one['score']:.2f} +{one['control']:.2f} ", ran.out)
    assert (tmp_path / "induction.png").exists()
    ran = command("analyse", *words, "--checkpoint", repository / LATTICE, code=2)
    assert "give --checkpoint a GPT" in ran.err


def test_ranks_of_models_stand_side_by_side(command, checkpoint, adder, tmp_path):
    words = ("--checkpoint", checkpoint, adder, SHIPPED, "--problems", 2, "--output", tmp_path)
    ran = command("analyse", "ranks", *words)
    data = json.loads((tmp_path / "ranks.json").read_text())
    assert data["settings"] == {"problems": 2, "seed": 0, "step": 8}
    *_, local = data["effective_ranks"]
    assert len(data["effective_ranks"]) == 3
    for model in data["effective_ranks"]:
        kinds = {"weights"} if model is local else {"weights", "states"}
        assert {one["kind"] for one in model["ranks"]} == kinds
        assert model["name"] in ran.out
        one = model["ranks"][0]
        line = rf"{one['layer']} +{one['name']} +{one['rank']:.1f} +{one['full']} "
        assert re.search(line, ran.out)
    assert wide(tmp_path / "ranks.png") > 400
    assert wide(tmp_path / "spectra.png") > 400


@pytest.mark.usefixtures("undrawn")
def test_heads_of_a_lattice_beside_its_program(command, repository, tmp_path):
    (tmp_path / "rasp.json").write_text('{"format": 1}')  # of an earlier comparison
    (tmp_path / "overlap_9x9.png").touch()
    words = ("rasp", "--problems", 2, "--digits-a", "3,4", "--digits-b", 4, "--output", tmp_path)
    ran = command("analyse", *words, "--checkpoint", repository / LATTICE)
    assert ran.err == ""
    _, size = json.loads((tmp_path / "rasp.json").read_text())["sizes"]
    assert (size["size"], size["problems"]) == ({"digits_a": 4, "digits_b": 4}, 2)
    assert len(size["heads"]) == 32
    best = size["heads"][7]["overlaps"][0]
    assert re.search(rf"layer 1, head 8 +above left \* +{best['overlap']:.2f} \(", ran.out)
    assert {path.name for path in tmp_path.glob("*.png")} == {"overlap_3x4.png", "overlap_4x4.png"}
    assert ran.out.count("* in the program of lattice, which writes 8 of these rows correctly") == 2
