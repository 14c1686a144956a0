import hashlib

import pytest
import torch

from trm.checkpoints.loading import unpack


def test_a_run_is_exported_and_every_command_takes_the_file(command, checkpoint, tmp_path):
    file = tmp_path / "model.safetensors"
    ran = command("export", "--checkpoint", checkpoint, "--output", file)
    assert (ran.code, ran.err) == (0, "")
    assert f"{file}: 5,818 parameters" in ran.out
    ours, theirs = (
        command("solve", "--checkpoint", path, "12x3", "45x6") for path in (file, checkpoint)
    )
    assert ours == theirs
    cell = ("--digits-a", "1", "--digits-b", "1", "--problems", "4", "--accelerator", "cpu")
    ran = command("evaluate", "--checkpoint", file, *cell, "--output", "grid", folder=tmp_path)
    assert ran.code == 0, ran.err
    ran = command("solve", "--checkpoint", file, "--demo", "3", "--output", tmp_path / "demo")
    assert ran.code == 0, ran.err


def test_a_card_repeats_the_figures_of_its_own_checkpoint_alone(command, checkpoint, tmp_path):
    cells = ("--digits-a", "1..2", "--digits-b", "1", "--problems", "4", "--accelerator", "cpu")
    grid, file = tmp_path / "grid", tmp_path / "model.safetensors"
    assert command("evaluate", "--checkpoint", checkpoint, *cells, "--output", grid).code == 0
    ran = command("export", "--checkpoint", checkpoint, "--output", file, "--figures", grid)
    assert ran.code == 0, ran.err
    card = unpack(file)["card"]
    assert card["checkpoint_sha256"] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert card["settings"] == {
        "split": "test",
        "seed": 0,
        "problems": 4,
        "axes": ["digits_a", "digits_b"],
    }
    assert [(cell["row"], cell["column"]) for cell in card["cells"]] == [(1, 1), (2, 1)]
    assert all(cell["solutions"]["total"] == 4 for cell in card["cells"])
    # The file is another one than the checkpoint that was measured.
    again = tmp_path / "again.safetensors"
    ran = command("export", "--checkpoint", file, "--output", again, "--figures", grid)
    assert ran.code == 2
    assert "has no figures of" in " ".join(ran.err.split())
    assert not again.exists()


def test_half_weights_are_measured_themselves(command, checkpoint, tmp_path):
    cell = ("--digits-a", "1", "--digits-b", "1", "--problems", "4", "--accelerator", "cpu")
    half, grid, carded = (tmp_path / name for name in ("h.safetensors", "grid", "c.safetensors"))
    whole = tmp_path / "whole"
    assert command("evaluate", "--checkpoint", checkpoint, *cell, "--output", whole).code == 0
    words = ("export", "--checkpoint", checkpoint, "--output", half, "--half")
    ran = command(*words, "--figures", whole)
    assert ran.code == 2
    assert "evaluate that file" in " ".join(ran.err.split())
    assert not half.exists()
    assert command(*words).code == 0
    assert command("evaluate", "--checkpoint", half, *cell, "--output", grid).code == 0
    again = ("export", "--checkpoint", half, "--output", carded, "--figures", grid)
    assert command(*again).code == 0
    measured = hashlib.sha256(half.read_bytes()).hexdigest()
    assert unpack(carded)["card"]["checkpoint_sha256"] == measured
    assert carded.stat().st_size < 0.6 * checkpoint.stat().st_size
    assert command("solve", "--checkpoint", carded, "--demo", "2", folder=tmp_path).code == 0


def test_untrained_weights_are_of_the_same_shapes_and_none_of_the_trained_ones(
    command, checkpoint, tmp_path
):
    trained, untrained, again = (tmp_path / f"{name}.safetensors" for name in "abc")
    assert command("export", "--checkpoint", checkpoint, "--output", trained).code == 0
    for file in (untrained, again):
        words = ("export", "--checkpoint", checkpoint, "--output", file, "--untrained")
        assert command(*words).code == 0
    assert untrained.read_bytes() == again.read_bytes()
    learned, drawn = (unpack(file)["state_dict"] for file in (trained, untrained))
    assert {k: v.shape for k, v in learned.items()} == {k: v.shape for k, v in drawn.items()}
    assert any(not torch.equal(learned[k], drawn[k]) for k in learned)
    assert unpack(untrained)["global_step"] == 0
    assert command("solve", "--checkpoint", untrained, "12x3").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--output model.safetensors --untrained --figures grid", "draws others: take one"),
        ("--output model.bin", "has to end in .safetensors"),
        ("--output nowhere/model.safetensors", "there is no folder nowhere"),
        ("--output model.safetensors --figures nowhere", "there is no nowhere"),
        ("", "the following arguments are required: --output"),
    ],
)
def test_bad_input_gets_a_sentence_and_leaves_nothing(
    command, checkpoint, tmp_path, words, sentence
):
    ran = command("export", "--checkpoint", checkpoint, *words.split(), folder=tmp_path)
    assert ran.code == 2
    assert sentence in " ".join(ran.err.split())
    assert list(tmp_path.iterdir()) == []
