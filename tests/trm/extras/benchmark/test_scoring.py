import gzip
import json
from dataclasses import replace

import pytest

from trm.evaluation.statistics import Share
from trm.extras.benchmark.scoring import Scored, grid_of, score
from trm.extras.benchmark.suites import SUITES

SUITE = SUITES["multiply-v1"].within(2)
ASKED = SUITE.items
ID = "multiply-v1/2x2/000"


def perfect() -> list[dict]:
    return [{"id": item.id, "prediction": item.answer} for item in ASKED]


def scored(folder, lines, suite=SUITE) -> Scored:
    file = folder / "p.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return score(file, suite, "ours")


def test_cells_contain_their_accuracy_with_wilsons_interval(tmp_path):
    lines, right = perfect(), {}
    for i, line in enumerate(lines):
        cell = line["id"].split("/")[1]
        if i % 3 == 0:
            line["prediction"] = "1"
        right.setdefault(cell, []).append(i % 3 != 0)
    found = scored(tmp_path, lines)
    for cell in found.model["cells"]:
        of_cell = right[f"{cell['row']}x{cell['column']}"]
        assert cell["answers"] == Share(sum(of_cell), len(of_cell)).data()
        assert cell["answered"] == "".join("01"[one] for one in of_cell)
        assert cell["solutions"] is None
        assert found.cells[cell["row"], cell["column"]] == Share(sum(of_cell), len(of_cell))
    assert grid_of(SUITE, found.model)["settings"]["suite"]["name"] == "multiply-v1"


def test_missing_and_unreadable_predictions_are_incorrect(tmp_path):
    lines = perfect()[:-7]
    lines[0]["prediction"], lines[1]["prediction"] = None, "I do not know"
    found = scored(tmp_path, lines)
    assert (found.missing, found.unread) == (7, 2)
    assert found.share == Share(len(ASKED) - 9, len(ASKED))
    text = f'{{"id": "{ID}", "prediction": {"7" * 6000}}}\n'
    (tmp_path / "p.jsonl").write_text(text)
    assert score(tmp_path / "p.jsonl", SUITE, "x").read[ID] == "7" * 6000


def test_a_prediction_is_a_text_a_number_or_lines_of_a_canvas(tmp_path):
    numbers = [line | {"prediction": int(line["prediction"])} for line in perfect()]
    assert scored(tmp_path, numbers).share.value == 1
    suite = replace(SUITES["canvas-v1"], cells=SUITES["canvas-v1"].cells[:2])
    lines = [{"id": item.id, "prediction": item.answer.split("\n")} for item in suite.items]
    found = scored(tmp_path, lines, suite)
    assert found.share.value == 1
    assert found.model["cells"][0]["answers"] is None


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (b'{"id": "%s", "prediction": 1}\n{"id": "%s", "prediction": 2}', "line 2: {ID} has a"),
        (b'{"id": "multiply-v1/2x2/999", "prediction": 1}', "line 1: .* is no problem of multip"),
        (b'{"id": "addition-v1/2x2/000", "prediction": 1}', "is no problem of multiply-v1"),
        (b'\n\n{"id": "%s", "prediction": }', "line 3: not JSON"),
        (b'{"id": "%s"}', "line 1: prediction: Field required"),
        (b'{"prediction": "1"}', "line 1: id: Field required"),
        (b'["%s", 5]', "line 1: Input should be a valid dict"),
        (b'{"id": "%s", "prediction": {"a": 1}}', r"line 1: prediction\.str: .* a valid string"),
        (b'{"id": "%s", "prediction": true}', r"line 1: prediction\.str: .* a valid string"),
        (b'{"id": "\xff"}', "line 1: not JSON"),
        (b"[" * 100_000, "line 1: not JSON"),
        (b'{"about": {}}', "line 1: model: Field required"),
        (b'{"about": {"model": "x"}}\n{"about": {}}', "line 2: id: Field required"),
        (b'"' + b"x" * 2**21 + b'"', "line 1: not JSON"),
        (b"", "holds no prediction"),
        (gzip.compress(b'{"id": "%s", "prediction": 1}' * 50, mtime=0)[:-9], "is damaged"),
    ],
)
def test_broken_predictions_are_refused_with_their_line(tmp_path, lines, told):
    file = tmp_path / "p.jsonl"
    file.write_bytes(lines.replace(b"%s", ID.encode()))
    with pytest.raises(ValueError, match=told.replace("{ID}", ID)) as raised:
        score(file, SUITE, "ours")
    assert "\n" not in str(raised.value)


def test_ranges_of_other_measures_are_refused(tmp_path):
    file = tmp_path / "p.jsonl"
    about = {"about": {"model": "x", "ranges": {"digits": [1, 2]}}}
    file.write_text("\n".join(map(json.dumps, (about, {"id": ID, "prediction": "1"}))))
    with pytest.raises(ValueError, match="digits_a and digits_b, not of digits"):
        score(file, SUITE, "y")
