import json
import re

import pytest
import torch

from trm.models.recursive import TinyRecursiveModel


def test_answers_are_printed_with_confidence_and_correctness(command, checkpoint):
    ran = command("solve", "--checkpoint", checkpoint, "12x3", "7*8")
    assert ran.err == ""
    for problem in ("12 x 3 = ", "7 x 8 = "):
        assert ran.out.count(problem) == 1
    assert ran.out.count("confidence ") == 2
    assert ran.out.count("supervision steps per row: 2") == 2
    assert ran.out.count("(incorrect, it is") + ran.out.count("(correct;") == 2
    watched = command("solve", "--checkpoint", checkpoint, "12x3", "7*8", "--watch")
    assert watched.out == ran.out
    assert "--watch repaints a terminal" in watched.err
    ran = command("solve", "--checkpoint", checkpoint, "98765x4321")  # longer than in training
    assert ran.out.count("should be") == 4


def test_without_a_checkpoint_the_shipped_model_solves(command):
    ran = command("solve", "123x456", "98765x1234")
    told = "The shipped model: lattice, trained on 1 to 4 x 1 to 4 digits.\n"
    assert ran.err == ""
    assert ran.out.startswith(told)
    assert "✓ 123 x 456 = 56088 (correct" in ran.out
    assert "✓ 98765 x 1234 = 121876010 (correct" in ran.out  # longer than in training
    assert "supervision steps" not in ran.out  # it works in order
    assert "not calibrated" not in ran.out  # it is proved
    assert ran.out.count("confidence 100.0%") == 2


def test_sums_are_typed_with_a_plus_for_a_model_that_adds(command, adder):
    ran = command("solve", "--checkpoint", adder, "12+3", "12 + 3 + 40", "1+2+3+4")
    assert ran.err == ""
    for problem in ("12 + 3 = ", "12 + 3 + 40 = ", "1 + 2 + 3 + 4 = "):
        assert ran.out.count(problem) == 1
    doubts = [line for line in ran.out.splitlines() if "outside the lengths trained on" in line]
    assert len(doubts) == 1
    assert "(1 to 2 digits, 2 to 3 addends)" in doubts[0]


def test_numbers_are_typed_in_the_base_of_the_model(command):
    ran = command("solve", "--checkpoint", "lattice-hex-seed0", "FFxa0")
    assert "✓ FF x A0 = 9F60 (correct; confidence 100.0%)" in ran.out
    assert "the digits 0123456789 alone" in command("solve", "FFxa0", code=2).err


@pytest.mark.parametrize("units", [True, False])
def test_bfloat16_needs_units(command, checkpoint, tmp_path, monkeypatch, units):
    monkeypatch.setattr("trm.runtime.precision.cpu_multiplies_bfloat16", lambda: units)
    dtypes = set()
    step = TinyRecursiveModel.iterate

    def watched(*args, **more):
        dtypes.add(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
        return step(*args, **more)

    monkeypatch.setattr(TinyRecursiveModel, "iterate", watched)
    (tmp_path / "problems.csv").write_text("a,b\n12,3\n")
    words = ("solve", "--checkpoint", checkpoint, "--precision", "bf16-mixed")
    files = ("--input", "problems.csv", "--accelerator", "cpu")
    for more in (
        ("12x3", "--accelerator", "cpu"),
        (*files, "--output", "-"),
        (*files, "--output", "o.jsonl"),
    ):
        ran = command(*words, *more, folder=tmp_path)
        assert ("no bfloat16 units" in ran.err) is not units
        assert dtypes == {torch.bfloat16 if units else None}
        dtypes.clear()


def test_a_cell_model_reaches_the_proved_answer_from_noise(command):
    for more in (("--watch",), ("--steps", "99"), ("--views", "2", "--vote-per", "solution")):
        ran = command("solve", "123x456", "--start", "noise", *more)
        assert "✓ 123 x 456 = 56088" in ran.out
        assert "confidence 100.0%" in ran.out
        assert re.search(r"supervision steps.*: [\d, ]+", ran.out)
    ran = command("solve", "123x456", "--steps", "2")
    told = "confidence 0.0%, not calibrated: rows 1, 2, 3 did not settle"
    assert told in " ".join(ran.out.split())


def test_the_demo_ends_with_numbers_of_a_hundred_digits(command, tmp_path):
    ran = command("solve", "--demo", folder=tmp_path)
    assert not list(tmp_path.iterdir())
    assert ran.out.count("confidence ") == 3
    assert "correct in every cell" in ran.out


def test_a_note_explains_how_to_get_more_views(command, checkpoint, tmp_path):
    """The canvas of 12 x 3 leaves room for some shifts alone."""
    words = ("solve", "--checkpoint", checkpoint, "--views")
    ran = command(*words, 64, "12x3")
    (there,) = re.findall(r"agreement \d+% of (\d+) views \(64 were requested\)", ran.out)
    told = f"note: {there} views instead of the requested 64: the canvas has no room"
    assert told in ran.err
    assert "--symmetries" in ran.err
    assert "--height and --width" in ran.err
    assert command(*words, 64, "12x3", "--quiet").err == ""
    assert command(*words, 2, "12x3").err == ""
    more = command(*words, 64, "12x3", "--height", 12, "--width", 12)
    assert "agreement" in more.out
    assert more.err == ""
    (tmp_path / "p.csv").write_text("a,b\n12,3\n12,4\n")
    ran = command(*words, 64, "--input", "p.csv", "--output", "o.jsonl", folder=tmp_path)
    told = f"note: {there} views instead of the requested 64 at the fewest, fewer in 2 problems"
    assert told in ran.err
    records = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    found = [(r["views"], r["views_asked"], r["rollouts"]) for r in records]
    assert found == [(int(there), 64, 1)] * 2


def test_rollouts_with_noise_vote_and_are_recorded(command, checkpoint, tmp_path):
    words = ("solve", "--checkpoint", checkpoint, "--rollouts", 4, "--noise", 0.3, "--views", 2)
    (tmp_path / "p.csv").write_text("a,b\n12,3\n")
    found = []
    for per, vote in (("row", "weighted"), ("solution", "product"), ("solution", "product")):
        more = ("--vote", vote, "--vote-per", per, "--input", "p.csv", "--output", "-")
        (line,) = command(*words, *more, folder=tmp_path).out.splitlines()
        record = json.loads(line)
        assert (record["views"], record["rollouts"]) == (2, 4)
        assert sum(one["views"] for one in record["votes"][0]) == 8
        found.append(record)
    assert found[1] == found[2]
    assert "views x 4 rollouts" in command(*words, "12x3").out


def test_a_large_canvas_is_not_printed_and_its_answer_is_checked(command):
    a, b = "9" * 250, "7" * 250
    ran = command("solve", f"{a}x{b}")
    assert len(ran.out.splitlines()) < 60
    assert "cells, too large to print" in ran.out
    assert f"= {int(a) * int(b)} (correct; confidence 100.0%)" in ran.out.replace("\n", "")


def test_a_note_precedes_the_replacement_of_an_output(command, tmp_path):
    (tmp_path / "problems.csv").write_text("a,b\n12,34\n")
    words = ("solve", "--input", "problems.csv", "--output", "answers.jsonl")
    first = command(*words, folder=tmp_path)
    assert "exists" not in first.err
    again = command(*words, folder=tmp_path)
    assert "answers.jsonl exists" in again.err
    assert command(*words, "--quiet", folder=tmp_path).err == ""


def test_quiet_prints_the_answer_alone(command):
    ran = command("solve", "--quiet", "12x34", "7x8")
    sure = "(correct; confidence 100.0%)"
    assert ran.out.splitlines() == [f"12 x 34 = 408 {sure}", f"7 x 8 = 56 {sure}"]
    assert ran.err == ""


def test_a_turned_prompt_is_shown_as_given_and_recognised(command, tmp_path):
    words = ("solve", "--checkpoint", "lattice-base2-seed0", "--view")
    ran = command(*words, "r90", "110x101")
    given, solved = (
        ran.out.split("given, in an orientation that is unknown to the model:")[1]
        .split("recognised as r90, correctly: the most confident of 8 guesses")[0]
        .split("1  1  0  ·  ×")
    )
    assert "×  1  0  1" in given
    assert "✓ 110 x 101 = 11110 (correct; confidence 100.0%)" in solved
    problems, answers = tmp_path / "problems.csv", tmp_path / "answers.jsonl"
    problems.write_text("a,b\n111,110\n10,11\n1,101\n")
    command(*words, "random", "--input", problems, "--output", answers)
    records = [json.loads(line) for line in answers.read_text().splitlines()]
    assert all(record["guess"] == record["view"] for record in records)
    assert all(record["readable_answer"] == record["answer"] for record in records)
    assert len({record["view"] for record in records}) > 1
    for more in (("--watch",), ("--views", 4), ("--vote-per", "row")):
        err = command("solve", "1x2", "--view", "e", *more, code=2).err
        assert "leave out" in err or "--vote-per solution" in err
