"""Weights go out to other code and come back the same; what does not fit is said in a sentence."""

import numpy as np
import pytest
import torch

from trm import load_solver, solve

TRM, GPT = "multiplication-trm-seed0", "multiplication-gpt-seed0"
PROBLEMS = ["--digits-a", "1..3", "--digits-b", "1..2"]
TO = ("--to", "safetensors")


def weights(path):
    solver = load_solver(path)
    return solver, solver.predictor.model.state_dict()


@pytest.mark.parametrize(
    ("name", "to", "settings", "layout", "note"),
    [
        (TRM, "trm", "--height 6 --width 6", "lattice", "arch.pos_encodings=rope arch.puzzle_emb"),
        (GPT, "nanogpt", "", "standard", "also needs pe=PositionEmbedding.ROPE_2D"),
    ],
)
def test_converted_weights_round_trip(command, tmp_path, name, to, settings, layout, note):
    ran = command("convert", name, tmp_path / "out", "--to", to)
    assert f"{tmp_path / 'out'}: " in ran.out
    assert note in ran.out
    assert "its canvases were cut" not in ran.out
    command("convert", name, tmp_path / "out", "--to", to, "-q")  # the same bytes again
    words = (*settings.split(), "--layout", layout, *PROBLEMS)
    back = tmp_path / "back.safetensors"
    command("convert", tmp_path / "out", back, *TO, *words)
    (solver, found), (first, expected) = weights(back), weights(name)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())
    if to == "nanogpt":  # whose files have no calibration
        assert "no validation has calibrated it" in solve("12x34", solver).uncalibrated_reason
    assert solver.task == type(first.task)(layout, digits_a=(1, 3), digits_b=(1, 2))
    if to == "nanogpt":
        assert solve(["12x34"], solver)[0].answer == 408
    ran = command("convert", tmp_path / "out", tmp_path / "again", "--to", to, *settings.split())
    assert (tmp_path / "again").read_bytes() == (tmp_path / "out").read_bytes()


def test_canvases_cut_to_the_problems_are_named(command, tmp_path):
    ran = command("convert", "addition-gpt-seed0", tmp_path / "out", "--to", "nanogpt")
    note = "its canvases were cut to the problems; those of the other code are all 20 x 20"
    assert note in " ".join(ran.out.split())


def test_the_published_names_are_of_its_training(command, tmp_path):
    command("convert", TRM, tmp_path / "step_1", "--to", "trm")
    state = torch.load(tmp_path / "step_1", weights_only=True)
    assert {name.rpartition("inner.")[0] for name in state} == {"_orig_mod.model."}
    assert state["_orig_mod.model.inner.puzzle_emb.weights"].shape == (1, 96)


def test_a_checkpoint_becomes_safetensors(command, tmp_path, trained):
    out = tmp_path / "out.safetensors"
    command("convert", trained, out, *TO)
    (_, found), (_, expected) = weights(out), weights(trained)
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def test_token_ids_of_the_note_are_converted(command, tmp_path):
    """A GPT with the ids of the note's code, made of a shipped one, writes the same answer."""
    command("convert", GPT, tmp_path / "ckpt.pt", "--to", "nanogpt")
    checkpoint = torch.load(tmp_path / "ckpt.pt", weights_only=True)
    ours = [*range(1, 11), 12, 11, 14, 15, 16]  # of 0 to 9 * _ # and start, end
    table = checkpoint["model"]["transformer.wte.weight"][ours]
    checkpoint["model"] |= dict.fromkeys(("transformer.wte.weight", "lm_head.weight"), table)
    checkpoint["model_args"]["vocab_size"] = 15
    torch.save(checkpoint, tmp_path / "note.pt")
    words = ("--layout", "standard", *PROBLEMS)
    ran = command("convert", tmp_path / "note.pt", tmp_path / "x.safetensors", *TO, *words, code=2)
    assert "has 15 token ids, and the problems need 17 in this package" in ran.err
    back = tmp_path / "back.safetensors"
    words += ("--symbols", "0123456789*_#^$")
    command("convert", tmp_path / "note.pt", back, *TO, *words)
    problems = ["12x34", "999x99", "7x8"]
    expected = solve(problems, load_solver(GPT))
    for found, first in zip(solve(problems, load_solver(back)), expected, strict=True):
        assert found.answer == first.answer
        assert np.array_equal(found.canvas, first.canvas)


@pytest.fixture(scope="module")
def folder(command, tmp_path_factory):
    """Files to convert: published weights, nanoGPT's, and some that are neither."""
    folder = tmp_path_factory.mktemp("convert")
    command("convert", TRM, folder / "trm", "--to", "trm")
    command("convert", GPT, folder / "gpt", "--to", "nanogpt")
    state = torch.load(folder / "gpt", weights_only=True)["model"]
    torch.save(state, folder / "state")
    del state["transformer.ln_f.weight"]
    torch.save(state, folder / "lacking")
    torch.save({"weight": torch.zeros(1)}, folder / "strange")
    (folder / "text").write_text("1x2")
    (folder / "cut").write_bytes((folder / "gpt").read_bytes()[:5000])
    checkpoint = torch.load(folder / "gpt", weights_only=True)
    for name, height in (("huge", 10**9), ("worded", "x")):
        checkpoint["model_args"]["height"] = height
        torch.save(checkpoint, folder / name)
    return folder


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("lattice out --to trm", "recursive transformer, which this model is not: convert one"),
        ("lattice out --to nanogpt", "nanoGPT is a GPT, which this model is not: convert one"),
        (f"{GPT} out --to trm", "the published TRM is a recursive transformer, which this"),
        (f"{TRM} out --to nanogpt", "nanoGPT is a GPT, which this model is not"),
        ("trm-quick-seed0 out --to trm", "the published TRM has no position relative_2d"),
        (f"{GPT} gpt.safetensors --to nanogpt", "OUT is no .safetensors in this format"),
        (f"{GPT} out --to safetensors", "OUT has to end in .safetensors, got out"),
        (f"{GPT} text --to nanogpt", "text exists already"),
        (f"{GPT} nowhere/out --to nanogpt", "there is no folder nowhere"),
        (f"{GPT} out --to nanogpt --height 6", "contains its settings: leave out --height"),
        (f"{GPT} out --to nanogpt --layout standard", "to know the problems: leave out --layout"),
        ("missing out --to trm", "there is no checkpoint missing"),
        ("missing out --to trm --height 6", "there is no checkpoint missing"),
        ("cut out --to trm --num-heads 2", "cut cannot be read as a checkpoint: it is damaged"),
        ("text out --to trm", "text cannot be read as a checkpoint"),
        ("cut out --to nanogpt", "cut cannot be read as a checkpoint: it is damaged"),
        ("huge out --to nanogpt", "its canvas has more than 12,000 cells"),
        ("worded out --to nanogpt", "the height in the weights' settings is no number"),
        ("trm out --to trm --height 12000 --width 12000", "a canvas has at most 12,000 cells"),
        ("strange out --to trm", "holds no model of this package, but weight"),
        ("trm o.safetensors --to safetensors", "name its height and width, by --height and"),
        ("trm out --to trm --height 6 --width 6 --num-heads 5", "multiple of num_heads"),
        ("gpt out --to nanogpt --H-cycles 2", "nanoGPT has no cycles"),
        ("gpt out --to trm", "the published TRM is a recursive transformer"),
        ("gpt out --to nanogpt --num-heads 3", "the weights have num_heads 4, not 3"),
        ("state out --to nanogpt", "do not contain their height: name it"),
        ("lacking out --to nanogpt --height 9 --width 9 --num-heads 4", 'key(s) in state_dict: "n'),
        ("gpt o.safetensors --to safetensors", "needs the layout of the worked solutions: name --"),
        ("gpt o.safetensors --to safetensors --layout standard", "name --digits-a and --digits-b"),
        (
            "gpt o.safetensors --to safetensors --layout standard --digits-a 1..9 --digits-b 1..9",
            "need a canvas of at least 12 x 18",
        ),
    ],
)
def test_impossible_conversions_are_refused(command, folder, call, sentence):
    ran = command("convert", *call.split(), folder=folder, code=2)
    assert sentence in ran.err
    assert ran.err.count("\n") <= 2
    assert not (folder / "out").exists()
    assert not (folder / "o.safetensors").exists()


def test_a_missing_option_lists_its_choices(command):
    error = command("convert", "in.pt", "out.pt", code=2).err
    assert "required: --to. --to is one of trm, nanogpt, safetensors\n" in error
    error = command("analyse", "-q", code=2).err
    assert "KIND is one of probe, gap, heads, induction, rasp, ranks" in error
