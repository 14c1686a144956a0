"""A solution as text, as a picture, and as plain data."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from canvas.symbols import encode
from trm.solving.solution import COLUMNS, Solution
from trm.solving.voting import Tally

ROWS = ["_12", "*_3", "_36", "_36"]
GIVEN = np.repeat(np.array([True, True, False, False])[:, None], 3, axis=1)


def canvas_of(rows: list[str]) -> np.ndarray:
    return np.stack([encode(row) for row in rows])


def solution(**changes) -> Solution:
    known = {"problem": "12 x 3", "operands": (12, 3), "answer": 36, "true_answer": 36}
    known |= {"in_range": True, "base": 10, "canvas": canvas_of(ROWS), "given": GIVEN}
    known |= {"rows": [2, 3], "row_confidence": [0.9, 0.87654321], "row_steps": [3, 4]}
    known |= {"answer_cells": ((3, 2), (3, 1))}
    return Solution(**known | changes)


WRONG = {"answer": 37, "canvas": canvas_of([*ROWS[:3], "_37"])}


def test_a_solution_is_printed_as_its_canvas_and_a_verdict():
    assert str(solution()) == "\n".join([*ROWS, "12 x 3 = 36 (correct; confidence 78.9%)"])
    wrong = solution(**WRONG, uncalibrated_reason="row 2 is open")
    verdict = "12 x 3 = 37 (incorrect, it is 36; confidence 78.9%, not calibrated: row 2 is open)"
    assert str(wrong) == "\n".join([*ROWS[:3], "_37", verdict])
    assert wrong.verdict == verdict


@pytest.mark.parametrize("known", [True, False])
def test_a_notebook_shows_a_picture_and_the_verdict(known):
    shown = solution(**WRONG, truth=canvas_of(ROWS) if known else None)
    html = shown._repr_html_()
    root = ET.fromstring(html)  # well-formed
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 1
    assert root.find("p").text == shown.verdict
    # Where the truth is known, the wrong cell is framed, with what it should be beside what it is.
    assert ("#c04f00" in html) == known


def test_solutions_in_notebooks_are_escaped():
    odd = solution(uncalibrated_reason="<script>alert('&')</script>", problem="<i>12</i> x 3")
    html = odd._repr_html_()
    assert "<script" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in html
    assert ET.fromstring(html).find("p").text == odd.verdict


def test_a_record_contains_all_of_a_solution():
    held = {"line": 7, "problem": "12 x 3", "operands": ["12", "3"], "answer": "36", "steps": 7}
    held |= {"correct": True, "in_range": True, "calibrated": True, "agreement": 1.0}
    held |= {"confidence": round(0.9 * 0.87654321, 6), "row_confidence": [0.9, 0.876543]}
    held |= {"row_steps": [3, 4], "canvas": "\n".join(ROWS)}
    assert solution().record(line=7) == dict.fromkeys(COLUMNS) | held


def test_a_record_is_json_with_votes_and_numbers_of_any_length():
    votes = [[Tally("36", 3, 0.81234567), Tally(None, 1, 0.5)]]
    data = solution(answer=10**4200, views=4, agreement=2 / 3, votes=votes).record()
    assert tuple(data) == COLUMNS
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["answer"] == "1" + "0" * 4200
    assert (data["views"], data["agreement"]) == (4, 0.666667)
    kept = {"answer": "36", "views": 3, "confidence": 0.812346}
    assert data["votes"] == [[kept, {"answer": None, "views": 1, "confidence": 0.5}]]


def test_a_solution_without_a_number_has_confidence_0():
    none = solution(answer=None, row_confidence=[0.999, 1.0])
    assert none.verdict == "12 x 3 = no number (incorrect, it is 36; confidence 0.0%)"
    record = none.record()
    assert (record["confidence"], record["row_confidence"]) == (0, [0.999, 1.0])
