import json
import shutil

import pytest
from PIL import Image

from canvas.problems import Problems
from trm.checkpoints.loading import load_solver
from trm.solving.record import COLUMNS


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


@pytest.fixture(scope="module")
def predicted(command, trained, tmp_path_factory):
    """What `trm predict` writes."""
    folder = tmp_path_factory.mktemp("predicted")
    shutil.copytree(trained / "runs", folder / "runs")
    run = folder / "runs/debug/version_0"
    words = ("--config", run / "config.yaml", "--ckpt_path", run / "checkpoints/best.ckpt")
    ran = command("predict", *words, folder=folder)
    assert ran.code == 0, ran.err
    return run / "predictions-0.jsonl"


def test_what_trm_predict_writes_is_read_as_well(command, predicted, tmp_path):
    records = [json.loads(line) for line in predicted.read_text().splitlines()]
    right = sum(record["correct"] for record in records)
    ran = command("calibration", predicted, "--output", tmp_path / "t.png")
    assert ran.code == 0, ran.err
    assert (
        f"predictions-0: {100 * right / len(records):.1f} % ({right} of {len(records)};" in ran.out
    )
    (tmp_path / "p.jsonl").write_text(predicted.read_text())
    words = ("--input", tmp_path / "p.jsonl", "--output", tmp_path / "again.jsonl")
    assert command("solve", *words).code == 0  # which reads them, too, and is the better model
    ran = command(
        "calibration", predicted, tmp_path / "again.jsonl", "--output", tmp_path / "t.png"
    )
    assert ran.code == 0, ran.err
    assert "again: 100.0 %" in ran.out


def test_a_record_of_trm_predict_has_the_same_fields_as_those_of_files_and_of_python(
    command, predicted, checkpoint, tmp_path
):
    records = [json.loads(line) for line in predicted.read_text().splitlines()]
    problems = [record["operands"] for record in records]
    lines = (json.dumps({"operands": operands}) for operands in problems)
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    words = ("--input", tmp_path / "p.jsonl", "--output", tmp_path / "o.jsonl", "--canvases")
    assert command("solve", "--checkpoint", checkpoint, *words).code == 0
    from_files = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    solver = load_solver(checkpoint)
    for one, file in zip(records, from_files, strict=True):
        (solution,) = solver.solve(Problems.from_ints([one["operands"]]), with_truth=True)
        python = solution.record().data()
        assert list(one) == list(python) == list(COLUMNS)
        assert list(file) == [name for name in COLUMNS if name not in ("exact", "views", "votes")]
        for name in set(file) - {"line"}:
            near = pytest.approx(python[name], abs=1e-5) if "confidence" in name else python[name]
            assert file[name] == near, name
        # In a validation canvases are larger, which a model of some steps may feel.
        for name in ("problem", "operands", "in_range", "error"):
            assert one[name] == python[name], name
        assert one["correct"] == (one["answer"] == one["operands"][0] * one["operands"][1])
        assert len(one["row_confidence"]) == len(one["row_steps"]) == len(python["row_steps"])
        assert [type(one[name]) for name in ("exact", "calibrated", "canvas")] == [bool, bool, str]
