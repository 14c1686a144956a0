import gzip
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from trm.extras.benchmark.suites import SUITES

PART = ("--suite", "multiply-v1", "--up-to", 2)


def predictions(file: Path, lines) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def perfect() -> list[dict]:
    asked = SUITES["multiply-v1"].within(2).items
    return [{"id": item.id, "prediction": item.answer} for item in asked]


def scored(command, folder, *words, part=PART, code=0):
    words = ("benchmark", "score", *words, *part, "--output", folder / "out")
    ran = command(*words, code=code)
    grid = folder / "out" / "grid.json"
    return ran, json.loads(grid.read_text()) if grid.exists() else None


@pytest.mark.parametrize(("name", "most"), [("canvas-v1", 2), ("structured-v1", 4)])
def test_correct_answers_to_an_exported_suite_score_100_percent(command, tmp_path, name, most):
    part = ("--suite", name, "--up-to", most)
    ran = command("benchmark", "export", *part, "--output", tmp_path / "suite")
    lines = (tmp_path / "suite" / f"{name}.jsonl").read_text().splitlines()
    problems = [json.loads(line) for line in lines]
    answers = [{"id": one["id"], "prediction": one["answer"]} for one in problems]
    ran, _ = scored(command, tmp_path, predictions(tmp_path / "p.jsonl", answers), part=part)
    assert f"100.0 % ({len(answers)} of {len(answers)}" in ran.out
    with Image.open(tmp_path / "out" / "grid.png") as picture:
        assert picture.width > 300
    assert "| 100 (" in (tmp_path / "out" / "grid.md").read_text()


@pytest.mark.usefixtures("undrawn")
def test_predictions_without_about_have_no_ranges_or_cost(command, tmp_path):
    file = predictions(tmp_path / "p.jsonl", perfect()[:-1])
    ran, grid = scored(command, tmp_path, file)
    assert "incorrect as predictions are missing: 1" in ran.out
    model = grid["models"][0]
    assert model["name"] == "p"
    for known in ("family", "parameters", "ranges", "step", "cost"):
        assert model[known] is None
    assert {cell["region"] for cell in model["cells"]} == {"range unknown"}
    ranges = {"digits_a": [1, 1], "digits_b": [1, 1]}
    about = {"about": {"model": "stranger", "parameters": 1234, "ranges": ranges}}
    _, grid = scored(command, tmp_path, predictions(file, [about, *perfect()]))
    model = grid["models"][0]
    assert (model["name"], model["parameters"]) == ("stranger", 1234)
    assert model["ranges"] == ranges
    regions = [cell["region"] for cell in model["cells"]]
    assert regions == ["in range", "second beyond", "first beyond", "both beyond"]


@pytest.mark.usefixtures("undrawn")
def test_records_of_trm_solve_are_predictions(command, checkpoint, tmp_path):
    command("benchmark", "export", *PART, "--output", tmp_path / "suite")
    answers, asked = tmp_path / "answers.jsonl", tmp_path / "suite/multiply-v1.jsonl"
    words = ("solve", "--checkpoint", checkpoint, "--accelerator", "cpu")
    ran = command(*words, "--input", asked, "--output", answers)
    right = sum(json.loads(line)["correct"] for line in answers.read_text().splitlines())
    ran, grid = scored(command, tmp_path, answers)
    assert f"({right} of " in ran.out
    small = shutil.copy(tmp_path / "out/predictions-multiply-v1.jsonl.gz", tmp_path)
    with gzip.open(small, "rt") as lines:  # what the model is, ids and answers alone
        first, *rest = (frozenset(json.loads(line)) for line in lines)
    assert (first, set(rest)) == ({"about"}, {frozenset(("id", "prediction"))})
    ran, grid = scored(command, tmp_path, small)
    assert (f"({right} of " in ran.out, grid["models"][0]["name"]) == (True, "answers")


@pytest.mark.usefixtures("undrawn")
def test_a_seeded_suite_requires_its_seed_and_does_not_store_it(command, tmp_path):
    part = (*PART, "--seed", 9146204175132267415)
    command("benchmark", "export", *part, "--output", tmp_path / "suite")
    (file,) = (tmp_path / "suite").glob("*.jsonl")
    problems = [json.loads(line) for line in file.read_text().splitlines()]
    lines = [{"id": one["id"], "prediction": one["answer"]} for one in problems]
    written = predictions(tmp_path / "p.jsonl", lines)
    ran, _ = scored(command, tmp_path, written, code=2)
    assert "--seed" in ran.err
    ran, grid = scored(command, tmp_path, written, part=part)
    assert "100.0 %" in ran.out
    assert "9146204175132267415" not in json.dumps(grid)
    assert grid["settings"]["seed"].startswith("seed-")


def test_the_board_is_written_from_its_folders(command, tmp_path):
    folder = tmp_path / "board" / "program"
    folder.mkdir(parents=True)
    card = 'name: P\nsuites: [multiply-long-v1]\ntrained: false\nparameters: 0\ngiven: "all"\n'
    (folder / "card.yaml").write_text(card + "code: p.py\nmade_with: python p.py\n")
    line = b'{"id": "multiply-long-v1/50x50/000", "prediction": "1"}'
    (folder / "predictions-multiply-long-v1.jsonl.gz").write_bytes(gzip.compress(line))
    (tmp_path / "docs").mkdir()
    command("benchmark", "board", folder=tmp_path)
    assert "[P](#p)" in (tmp_path / "docs/board.md").read_text()
    ran = command("benchmark", "board", folder=tmp_path / "docs", code=2)
    assert "there is no folder" in ran.err


def test_row_steps_are_exported_for_other_code(command, tmp_path):
    task = ["--layout", "lattice", "--digits-a", "1", "--digits-b", "1..2", "--seed", "5"]
    words = ("benchmark", "export", *task, "--problems", 20, "--test-problems", 10_000)
    ran = command(*words, "--format", "trm", "--output", tmp_path / "trm")
    assert f"{tmp_path / 'trm'}: train, 20 problems, " in ran.out
    assert "problems, all that there are, " in ran.out
    about = json.loads((tmp_path / "trm/train/dataset.json").read_text())
    assert about["total_groups"] == 20
    assert (tmp_path / "trm/test/all__inputs.npy").is_file()
    command(*words, "--format", "jsonl", "--output", tmp_path / "lines")
    lines = (tmp_path / "lines/train.jsonl").read_text().splitlines()
    assert len(lines) == about["total_puzzles"]
    other = (*words, "--format", "trm", "--base", 4, "--output", tmp_path / "trm")
    assert "exists already, with other content" in command(*other, code=2).err
    mixed = (*words, "--format", "jsonl", "--output", tmp_path / "trm")
    assert "exists already" in command(*mixed, code=2).err
    assert not (tmp_path / "trm/train.jsonl").exists()
    gaps = [*words, "--format", "trm", "--output", tmp_path / "gaps"]
    gaps[gaps.index("1..2")] = "1,3"
    assert "without gaps: write --digits-b 1..3" in command(*gaps, code=2).err
