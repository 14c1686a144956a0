import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from canvas.problems import SPLITS, Problems, split_of


def right(a: int, b: int) -> float:
    return 1.0 if a <= 3 else 0.4


def wrong(a: int, b: int) -> float:
    return 0.1


def write(folder: Path, grid: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "grid.json").write_text(grid if isinstance(grid, str) else json.dumps(grid))
    return folder


def test_two_evaluations_become_pictures_and_a_report(command, make_grid, tmp_path):
    one = write(tmp_path / "one", make_grid({"small": right}, 3, 2))
    two = write(tmp_path / "two", make_grid({"gpt": wrong}, 2, [1, 2, 9], seed=1))
    output = tmp_path / "a new" / "folder"
    ran = command("report", one, two / "grid.json", "--output", output)
    report = (output / "grid.md").read_text(encoding="utf-8")
    for link in re.findall(r"!\[.*\]\((.*)\)", report):
        with Image.open(output / link) as picture:
            assert picture.width > 600
    for text in (ran.out, report):
        assert "NOT THE SAME PROBLEMS: seed 0 or 1." in text
    command("report", one, two, "--output", one, code=2)  # which holds an evaluation
    for word in ("small", "gpt", "in range", "grid.png", "grid.md"):
        assert word in ran.out


def test_risks_of_answers_are_printed_and_drawn(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    rows = [
        {"correct": i != 3, "confidence": 0.9 - i / 10, "agreement": 1 - i / 8, "error": None}
        for i in range(4)
    ]
    rows.append({"correct": None, "confidence": None, "agreement": None, "error": "bad"})
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = command("report", tmp_path / "answers.jsonl", "--output", tmp_path / "out")
    assert "answers: 75.0 % (3 of 4" in ran.out
    assert "calibration error 30.0 %" in ran.out
    rows = [line.replace("│", " ").split() for line in ran.out.splitlines() if " %" in line]
    found = {row[0]: " ".join(row[1:]) for row in rows}
    assert found["50%"] == "0.00 % (0 of 2) 0.00 % (0 of 2)"
    assert found["100%"] == "25.00 % (1 of 4) 25.00 % (1 of 4)"
    assert ["mean", "6.25", "%", "6.25", "%"] in rows
    with Image.open(tmp_path / "out/calibration.png") as picture:
        assert picture.size == (1650, 990)


@pytest.mark.usefixtures("undrawn")
def test_records_of_trm_solve_and_trm_predict_are_read(command, checkpoint, trained, tmp_path):
    shutil.copytree(trained / "runs", tmp_path / "runs")
    run = tmp_path / "runs/debug/version_0"
    words = ("--config", run / "config.yaml", "--ckpt_path", run / "checkpoints/best.ckpt")
    ran = command("predict", *words, folder=tmp_path)
    predicted = run / "predictions-0.jsonl"
    records = [json.loads(line) for line in predicted.read_text().splitlines()]
    assert len(records) == 16
    pairs = Problems.from_ints([[*map(int, record["operands"])] for record in records])
    assert {SPLITS[split] for split in split_of(pairs)} == {"test"}
    problems = tmp_path / "p.jsonl"
    problems.write_text("".join(json.dumps({"operands": r["operands"]}) + "\n" for r in records))
    file = tmp_path / "o.jsonl"
    words = ("--checkpoint", checkpoint, "--input", problems, "--output", file, "--canvases")
    command("solve", *words)
    ran = command("report", predicted, file, "--output", tmp_path / "t")
    correct = sum(record["correct"] for record in records)
    share = f"{100 * correct / len(records):.1f} % ({correct} of {len(records)};"
    assert f"predictions-0: {share}" in ran.out
    assert ran.out.count("calibration error") == 2
