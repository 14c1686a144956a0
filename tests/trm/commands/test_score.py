import gzip
import json
import subprocess
import sys
from math import prod
from random import Random

import pytest
from PIL import Image

from trm.benchmark.suites import SUITES, items
from trm.evaluation.statistics import Share

PART = {
    "multiply-v1": 2,
    "multiply-long-v1": 50,
    "structured-v1": 4,
    "addition-v1": 2,
    "canvas-v1": 2,
}


def predictions(file, lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return file


def perfect(name="multiply-v1"):
    suite = SUITES[name].within(PART[name])
    return [{"id": item.id, "prediction": item.answer} for item in items(suite)]


def scored(command, file, tmp_path, *more, suite="multiply-v1"):
    files = file if isinstance(file, list) else [file]
    ran = command(
        "score",
        *files,
        "--suite",
        suite,
        "--up-to",
        PART[suite],
        "--output",
        tmp_path / "out",
        *more,
    )
    grid = tmp_path / "out" / "grid.json"
    return ran, json.loads(grid.read_text()) if grid.exists() else None


@pytest.mark.parametrize("name", SUITES)
def test_what_is_exported_and_answered_is_all_right(command, tmp_path, name):
    part = ("--suite", name, "--up-to", PART[name])
    ran = command("benchmark", "export", *part, "--output", tmp_path / "suite")
    assert ran.code == 0, ran.err
    problems = [
        json.loads(line) for line in (tmp_path / "suite" / f"{name}.jsonl").read_text().splitlines()
    ]
    answers = [{"id": one["id"], "prediction": one["answer"]} for one in problems]
    ran, grid = scored(command, predictions(tmp_path / "p.jsonl", answers), tmp_path, suite=name)
    assert ran.code == 0, ran.err
    figure = "solutions" if name == "canvas-v1" else "answers"
    for cell in grid["models"][0]["cells"]:
        if cell["problems"]:
            assert cell[figure]["right"] == cell[figure]["total"] == cell["problems"]
    assert f"100.0 % ({len(answers)} of {len(answers)}" in ran.out
    with Image.open(tmp_path / "out" / "grid.png") as picture:
        assert picture.width > 300
    assert "| 100 (" in (tmp_path / "out" / "grid.md").read_text()


def test_plain_integers_solve_a_suite(command, tmp_path):
    lines = []
    for item in items(SUITES["multiply-v1"].within(2)):
        factors = [int(n) for n in item.question.removesuffix(" =").split(" * ")]
        lines.append({"id": item.id, "prediction": prod(factors)})
    ran, _ = scored(command, predictions(tmp_path / "p.jsonl", lines), tmp_path)
    assert "100.0 %" in ran.out


def test_cells_carry_what_is_right_of_them_with_wilsons_interval(command, tmp_path):
    lines, right = perfect(), {}
    for i, line in enumerate(lines):
        cell = line["id"].split("/")[1]
        if i % 3 == 0:
            line["prediction"] = "1"
        right.setdefault(cell, []).append(i % 3 != 0)
    _, grid = scored(command, predictions(tmp_path / "p.jsonl", lines), tmp_path)
    for cell in grid["models"][0]["cells"]:
        found = right[f"{cell['row']}x{cell['column']}"]
        assert cell["answers"] == Share(sum(found), len(found)).data()
        assert cell["answered"] == "".join("01"[one] for one in found)
        assert cell["solutions"] is None
    assert grid["settings"]["suite"]["name"] == "multiply-v1"


def test_missing_ones_are_wrong_and_told(command, tmp_path):
    lines = perfect()
    ran, grid = scored(command, predictions(tmp_path / "p.jsonl", lines[:-7]), tmp_path)
    assert "wrong for want of a prediction: 7" in ran.out
    assert sum(c["answers"]["right"] for c in grid["models"][0]["cells"]) == len(lines) - 7


def test_what_says_nothing_is_wrong_and_told(command, tmp_path):
    lines = perfect()
    lines[0]["prediction"], lines[1]["prediction"] = None, "I do not know"
    ran, _ = scored(command, predictions(tmp_path / "p.jsonl", lines), tmp_path)
    assert "predictions in which nothing could be read: 2" in ran.out


def test_texts_are_read_leniently_unless_to_the_letter(command, tmp_path):
    lines = [line | {"prediction": f"The answer is ${line['prediction']}$."} for line in perfect()]
    file = predictions(tmp_path / "p.jsonl.gz", lines)
    assert f"({len(lines)} of {len(lines)};" in scored(command, file, tmp_path)[0].out
    assert f"(0 of {len(lines)};" in scored(command, file, tmp_path, "--strict")[0].out


def test_a_model_of_which_little_is_known_says_so(command, tmp_path):
    file = predictions(tmp_path / "p.jsonl", perfect())
    _, grid = scored(command, file, tmp_path)
    model = grid["models"][0]
    assert model["name"] == "p"
    for known in ("family", "parameters", "ranges", "step", "cost", "config"):
        assert model[known] is None
    assert {cell["region"] for cell in model["cells"]} == {"range unknown"}
    more = ("--name", "stranger", "--parameters", "1,234", "--range", "1..1")
    _, grid = scored(command, file, tmp_path, *more)
    model = grid["models"][0]
    assert (model["name"], model["parameters"]) == ("stranger", 1234)
    assert model["ranges"] == {"digits_a": [1, 1], "digits_b": [1, 1]}
    regions = [cell["region"] for cell in model["cells"]]
    assert regions == ["in range", "second beyond", "first beyond", "both beyond"]


def test_files_given_together_are_compared_problem_by_problem(command, tmp_path):
    lines = perfect()
    worse = [line | {"prediction": "0"} if i < 12 else line for i, line in enumerate(lines)]
    files = [predictions(tmp_path / f"{n}.jsonl", part) for n, part in (("a", lines), ("b", worse))]
    ran, grid = scored(command, files, tmp_path, "--range", "1..2", "unknown")
    assert ran.code == 0, ran.err
    assert [model["name"] for model in grid["models"]] == ["a", "b"]
    report = (tmp_path / "out" / "compare.md").read_text()
    assert "Problem by problem, against a" in report
    assert f"| b | all | {len(lines)} |" in report
    assert "| 0 | 12 | 0.00049 |" in report  # McNemar: 2 / 2 ^ 12


def test_compare_lays_predictions_beside_an_evaluation(command, make_grid, tmp_path):
    (tmp_path / "ours").mkdir()
    ours = make_grid({"ours": lambda a, b: 0.5}, [1, 2], [1, 2])
    (tmp_path / "ours" / "grid.json").write_text(json.dumps(ours))
    scored(command, predictions(tmp_path / "p.jsonl", perfect()), tmp_path)
    for first, second in (("ours", "out"), ("out", "ours")):
        folders = (tmp_path / first, tmp_path / second)
        ran = command("compare", *folders, "--output", tmp_path / "compared")
        assert ran.code == 0, ran.err
        report = (tmp_path / "compared" / "compare.md").read_text()
        assert "Cells in which answers are right" in report


def test_our_own_models_take_a_suite(command, checkpoint, tmp_path):
    """The records of `trm solve` are predictions."""
    suite = tmp_path / "suite"
    command("benchmark", "export", "--suite", "multiply-v1", "--up-to", 2, "--output", suite)
    for ending in ("jsonl", "csv"):
        if ending == "csv":
            command(
                *("benchmark", "export", "--suite", "multiply-v1", "--up-to", 2),
                *("--format", "csv", "--output", tmp_path / "csv"),
            )
            suite = tmp_path / "csv"
        answers = tmp_path / f"{ending}.jsonl"
        ran = command(
            *("solve", "--checkpoint", checkpoint, "--input", suite / f"multiply-v1.{ending}"),
            *("--output", answers, "--accelerator", "cpu"),
        )
        assert ran.code == 0, ran.err
        right = sum(json.loads(line)["correct"] for line in answers.read_text().splitlines())
        small = tmp_path / "small.jsonl.gz"
        ran, grid = scored(command, answers, tmp_path, "--compact", small)
        assert f"({right} of " in ran.out
        assert all(0 <= cell["confidence"] <= 1 for cell in grid["models"][0]["cells"])
        ran, _ = scored(command, small, tmp_path)
        assert f"({right} of " in ran.out


ID = "multiply-v1/2x2/000"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            b'{"id": "%s", "prediction": 1}\n{"id": "%s", "prediction": 2}',
            "line 2: {ID} has a pred",
        ),
        (
            b'{"id": "multiply-v1/2x2/999", "prediction": 1}',
            "line 1: multiply-v1, as far as it is asked for, has no problem",
        ),
        (b'{"id": "addition-v1/2x2/000", "prediction": 1}', "is no problem of multiply-v1"),
        (b'{"id": "multiply-v1-secret-12345678/2x2/000", "prediction": 1}', "file by --secret"),
        (b'\n\n{"id": "%s", "prediction": }', "line 3: not JSON"),
        (b'{"id": "%s"}', "line 1: no prediction"),
        (b'{"prediction": "1"}', "line 1: no id"),
        (b'{"id": 5, "prediction": "1"}', "line 1: no id"),
        (b'["%s", 5]', "line 1: not an object"),
        (b'{"id": "%s", "prediction": {"a": 1}}', "not a text or a number"),
        (b'{"id": "%s", "prediction": true}', "not a text or a number"),
        (b'{"id": "%s", "prediction": 1, "confidence": 1.5}', "not a number from 0 to 1"),
        (b'{"id": "%s", "prediction": 1, "confidence": NaN}', "not a number from 0 to 1"),
        (b'{"id": "\xff"}', "line 1: not UTF-8"),
        (b"[" * 100_000, "line 1: not JSON"),
        (b'"' + b"x" * 2**21 + b'"', "more than 1,048,576 bytes"),
        (b"", "holds no prediction"),
        (gzip.compress(b'{"id": "%s", "prediction": 1}' * 50, mtime=0)[:-9], "is damaged"),
    ],
)
def test_broken_predictions_are_refused_with_their_line(command, tmp_path, lines, told):
    file = tmp_path / "p.jsonl"
    file.write_bytes(lines.replace(b"%s", ID.encode()))
    ran, grid = scored(command, file, tmp_path)
    assert ran.code == 2
    assert told.replace("{ID}", ID) in ran.err
    assert ran.err.count("\n") == 1
    assert grid is None


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--name", "a", "b"), "--name is wanted once for each file: 1, and not 2"),
        (("--range", "4..1"), "is no range"),
        (("--range", "1..4x1..2x1"), "is no range"),
        (("--parameters", "many"), "is no number, nor unknown"),
        (("--secret", "nowhere"), "nowhere: No such file"),
    ],
)
def test_a_wrong_call_is_answered_in_a_sentence(command, tmp_path, more, told):
    ran, _ = scored(command, predictions(tmp_path / "p.jsonl", perfect()), tmp_path, *more)
    assert ran.code == 2
    assert told in ran.err


def test_a_suite_with_a_secret_needs_it_and_does_not_tell_it(command, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("".join(Random(0).choices("0123456789abcdef", k=32)))
    part = ("--suite", "multiply-v1", "--up-to", 2, "--secret", secret)
    assert command("benchmark", "export", *part, "--output", tmp_path / "suite").code == 0
    (file,) = (tmp_path / "suite").glob("*.jsonl")
    problems = [json.loads(line) for line in file.read_text().splitlines()]
    lines = [{"id": one["id"], "prediction": one["answer"]} for one in problems]
    written = predictions(tmp_path / "p.jsonl", lines)
    ran, _ = scored(command, written, tmp_path)
    assert ran.code == 2
    assert "--secret" in ran.err
    ran, grid = scored(command, written, tmp_path, "--secret", secret)
    assert "100.0 %" in ran.out
    assert secret.read_text() not in json.dumps(grid)
    assert grid["settings"]["seed"].startswith("secret-")


def test_exporting_and_scoring_need_no_pytorch(tmp_path):
    predictions(tmp_path / "p.jsonl", perfect())
    part = ["--suite", "multiply-v1", "--up-to", "2", "--output"]
    lines = f"""
import sys
from trm import cli
assert cli.run(["benchmark", "export", *{part!r}, "suite", "--format", "trm"]) == 0
assert cli.run(["score", "p.jsonl", *{part!r}, "out"]) == 0
assert "torch" not in sys.modules
"""
    ran = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr


def test_files_of_others_are_left_alone(command, tmp_path):
    picture = tmp_path / "out" / "grid.png"
    picture.parent.mkdir()
    picture.write_text("a portrait")
    ran, grid = scored(command, predictions(tmp_path / "p.jsonl", perfect()), tmp_path)
    assert ran.code == 2
    assert "grid.png is in the way, and trm score did not write it" in ran.err
    assert grid is None
    assert picture.read_text() == "a portrait"


def test_an_earlier_comparison_goes_with_the_figures_it_was_of(command, tmp_path):
    files = [predictions(tmp_path / f"{name}.jsonl", perfect()) for name in "ab"]
    report = tmp_path / "out" / "compare.md"
    assert scored(command, files, tmp_path)[0].code == 0
    assert report.is_file()
    assert scored(command, files[0], tmp_path)[0].code == 0
    assert not report.exists()
    report.write_text("mine")
    (tmp_path / "out/grid.json").unlink()
    ran, _ = scored(command, files, tmp_path)
    assert ran.code == 2
    assert "trm score did not write it" in ran.err
    assert report.read_text() == "mine"


def test_compact_keeps_ids_and_answers_alone_and_replaces_only_its_own(command, tmp_path):
    said = [
        line | {"prediction": f"= {line['prediction']}", "confidence": 0.5} for line in perfect()
    ]
    file, small = predictions(tmp_path / "p.jsonl", said), tmp_path / "small.jsonl.gz"
    for _ in range(2):
        assert scored(command, file, tmp_path, "--compact", small)[0].code == 0
    with gzip.open(small, "rt") as lines:
        assert [json.loads(line) for line in lines] == perfect()
    before = file.read_bytes()
    ran, _ = scored(command, file, tmp_path, "--compact", file)
    assert "is the file that is scored" in ran.err
    assert file.read_bytes() == before
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    for place in (other, tmp_path):
        ran, _ = scored(command, file, tmp_path, "--compact", place)
        assert ran.code == 2
        assert "is in the way, and holds no predictions" in ran.err
    assert other.read_text() == "mine"
