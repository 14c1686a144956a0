import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trm.benchmark.answers import is_right, read_answer, read_canvas, read_number

WORKING = "__85\n*_47\n_595\n340_\n3995"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5535", "5535"),
        ("123 * 45 = 5535.", "5535"),
        ("The answer is 5,535, I think.", "5535"),
        ("12 x 3 is 36. Answer: 36", "36"),
        ("Answer: see above, 36. There are 2 steps", "2"),
        ("first 12, then the answers: none", "12"),
        ("5_535", "5535"),
        ("1 234 567", "1234567"),
        ("1\u202f234\u00a0567", "1234567"),
        ("1’234’567", "1234567"),
        ("1,234_567", "567"),
        ("12,34", "34"),
        ("12\n345", "345"),
        (r"$123 \times 45 = \boxed{5{,}535}$", "5535"),
        (r"\boxed{12} no, \boxed{\text{5535}} as $7$ said", "5535"),
        (r"\boxed{5535", "5535"),
        (r"\(5\,535\)", "5535"),
        ("**5535**", "5535"),
        ("0005535", "5535"),
        ("5535.0", "5535"),
        ("5.5", None),
        ("1.2e6", None),
        ("= -5", "-5"),
        ("- 5", "5"),
        ("12-34", "34"),
        ("５５３５", "5535"),
        ("٥٥٣٥", "5535"),
        ("1.234.567.", "1234567"),
        ("version 1.234.567.8", None),
        (r"\boxed{1,\!234,\!567}", "1234567"),
        ("so …408", "408"),
        ("it is.408", "408"),
        ("x = .408", None),
        ("408¹", "408"),
        (r"\frac{408}{1}", "1"),
        ("12$34$", "34"),
        ("1.234.567,00", "1234567"),
        ("408,00", "408"),
        ("1~234~567", "1234567"),
        (r"1\thinspace 234", "1234"),
        ("1٬234٬567", "1234567"),
        ("no number", None),
        ("", None),
        ("\\boxed", None),
        ("\\boxed{}", None),
    ],
)
def test_the_number_of_a_text(text, number):
    assert read_number(text) == number


@given(st.integers(0, 10**60), st.sampled_from(["", ",", "_", " ", "'", "\u2009", "{,}", r"\,"]))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_number_is_read_however_its_thousands_are_grouped(value, by):
    written = f"{value:,}".replace(",", by)
    assert read_number(f"So 12 × 34 is {written}.") == str(value)


def test_numbers_longer_than_python_reads_are_read():
    digits = "7" * 6000
    assert read_number(f"it is {digits}") == digits


def test_groups_without_end_are_looked_at_once():
    assert read_number("1" + ",234" * 200_000 + "5") == "2345"  # at once, and not in hours


def test_to_the_letter_nothing_is_read():
    assert is_right(read_answer("5535", strict=True), "5535", strict=True)
    assert not is_right(read_answer(" 5535", strict=True), "5535", strict=True)
    assert is_right(read_answer(" 5535"), "5535")


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
    assert is_right(read_canvas(text), WORKING, canvas=True)


def test_a_row_of_blanks_written_as_spaces_is_a_row():
    text = "12_\n   \n_34"
    assert read_canvas(f"So:\n   \n{text}\n  \n") == "12_\n___\n_34"


def test_a_canvas_with_one_wrong_cell_is_wrong():
    for place, symbol in enumerate(WORKING):
        if symbol.isdigit():
            wrong = WORKING[:place] + str((int(symbol) + 1) % 10) + WORKING[place + 1 :]
            assert not is_right(read_canvas(wrong), WORKING, canvas=True)


def test_a_text_without_a_canvas_has_none():
    assert read_canvas("I cannot draw") is None
    assert read_canvas("____\n____") is None
