import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trm.extras.benchmark.answers import read_canvas, read_number

WORKING = "__85\n*_47\n_595\n340_\n3995"


PAGE = (Path(__file__).parents[4] / "docs/benchmark.md").read_text()
EXAMPLES = re.findall(r"^\| `(.+)` \| (-?\d+|none) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("text", "number"), EXAMPLES)
def test_the_documented_examples_of_answers_are_read(text, number):
    assert len(EXAMPLES) >= 30
    assert (read_number(text.replace("⏎", "\n")) or "none") == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1\u202f234\u00a0567", "1234567"),
        (r"\boxed{5535", "5535"),
        (r"\boxed{1,\!234,\!567}", "1234567"),
        ("so …408", "408"),
        ("x = .408", None),
        ("12$34$", "34"),
        ("version 1.234.567.8", None),
        ("12-34", "34"),
        ("", None),
        ("\\boxed{}", None),
    ],
)
def test_numbers_are_read_in_other_texts(text, number):
    assert read_number(text) == number


@given(st.integers(0, 10**60), st.sampled_from(["", ",", "_", " ", "'", "\u2009", "{,}", r"\,"]))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_number_is_read_however_its_thousands_are_grouped(value, by):
    written = f"{value:,}".replace(",", by)
    assert read_number(f"So 12 × 34 is {written}.") == str(value)


def test_very_long_numbers_and_groups_are_read_in_linear_time():
    digits = "7" * 6000
    assert read_number(f"it is {digits}") == digits
    groups = "1" + ",234" * 200_000 + "5"
    assert read_number(groups) is None  # at once, and not in hours


@pytest.mark.parametrize(
    "text",
    [
        WORKING,
        f"Here it is:\n```\n{WORKING}\n```\nDone.",
        WORKING.replace("_", " "),
        WORKING.replace("_", "·").replace("*", "×"),
        "\n".join(f"__{row}_" for row in WORKING.split("\n")) + "\n_______",
        "\n".join(row.rstrip("_") for row in WORKING.split("\n")) + "\r\n",
    ],
)
def test_a_canvas_counts_wherever_it_stands(text):
    assert read_canvas(text) == WORKING


def test_blank_rows_are_rows_within_a_canvas_and_no_canvas_alone():
    text = "12_\n   \n_34"
    assert read_canvas(f"So:\n   \n{text}\n  \n") == "12_\n___\n_34"
    assert read_canvas("I cannot draw") is None
    assert read_canvas("____\n____") is None
