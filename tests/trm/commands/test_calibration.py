import json

import pytest
from PIL import Image


@pytest.fixture
def records(tmp_path):
    rows = [
        {"correct": i != 3, "confidence": 0.9 - i / 10, "agreement": 1 - i / 8, "error": None}
        for i in range(4)
    ]
    rows.append({"correct": None, "confidence": None, "agreement": None, "error": "bad"})
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_risks_are_told_and_drawn(command, records, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    ran = command("calibration", records, "--output", tmp_path / "out/trust.png")
    assert ran.code == 0, ran.err
    assert "answers: 75.0 % (3 of 4" in ran.out
    assert "calibration error 30.0 %" in ran.out
    rows = [line.replace("│", " ").split() for line in ran.out.splitlines() if " %" in line]
    assert ["50%", "0.00", "%", "0.00", "%"] in rows
    assert ["100%", "25.00", "%", "25.00", "%"] in rows
    assert ["mean", "6.25", "%", "6.25", "%"] in rows
    with Image.open(tmp_path / "out/trust.png") as picture:
        assert picture.size == (1100, 620)


def test_what_trm_solve_writes_is_read_in_both_formats(command, checkpoint, tmp_path):
    (tmp_path / "p.csv").write_text("a,b\n12,3\n7,8\nx,1\n9,9\n")
    told = []
    for name in ("o.jsonl", "o.csv"):
        words = ("--checkpoint", checkpoint, "--input", tmp_path / "p.csv")
        command("solve", *words, "--output", tmp_path / name)
        ran = command("calibration", tmp_path / name, "--output", tmp_path / "t.png")
        assert ran.code == 0, ran.err
        told.append(ran.out)
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("{}\n", (), "does not hold records"),
        ("nothing\n", (), "does not hold records"),
        ("[" * 100_000, (), "does not hold records"),
        ("", (), "holds no solved problem"),
        ("", ("--output", "x.txt"), "has to end in .png"),
    ],
)
def test_other_files_are_refused(command, tmp_path, content, words, message):
    (tmp_path / "x.jsonl").write_text(content)
    ran = command("calibration", "x.jsonl", "--output", "x.png", *words, folder=tmp_path)
    assert (ran.code, message in ran.err) == (2, True)
    assert "no file y" in command("calibration", "y", "--output", "x.png", folder=tmp_path).err
