"""Lines of all kinds, and that none of them is lost, reordered or spoils another."""

import csv
import io
import json

import pytest

from trm.batch.formats import MOST_DIGITS, Reader, carried_name, format_of, make_writer


def read(data: bytes | str, format: str | None = "csv", base: int = 10) -> list:
    data = data.encode() if isinstance(data, str) else data
    return list(Reader(io.BytesIO(data), "problems", format, base))


def told(data: bytes | str, **how) -> list[tuple]:
    return [(e.line, e.pair, e.error) for e in read(data, **how)]


def test_columns_may_come_in_any_order_and_others_are_carried_through():
    entries = read("name, b ,a\nfirst,34,12\n")
    assert [(e.line, e.pair, e.other) for e in entries] == [(2, (12, 34), {"name": "first"})]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_a_line_and_of_the_file_do_not_matter(end):
    assert told(f"a,b{end}1,2{end}3,4") == told(f"a,b{end}1,2{end}3,4{end}")
    assert [pair for _, pair, _ in told(f"\ufeffa,b{end}1,2")] == [(1, 2)]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"x,2", "a is 'x', not a positive whole number"),
        (b"1.5,2", "not a positive whole number"),
        (b"-1,2", "not a positive whole number"),
        (b"0,2", "not a positive whole number"),
        (b"1,", "b is missing"),
        (b",2", "a is missing"),
        (b"", "an empty line"),
        (b"   ", "an empty line"),
        (b"1", "1 fields, where the header names 2"),
        (b"1,2,3", "3 fields, where the header names 2"),
        (b'"1,2', "broken quoting"),
        (b'1,"2"x', "broken quoting"),
        (b"1,\xff", "not UTF-8 text"),
        (b"1,2" * 400_000, "a line of more than"),
        (b"1" * (MOST_DIGITS + 1) + b",2", "a has 1,001 digits"),
        ("٣,2".encode(), "not a positive whole number"),
        (b"1,2\x00", "not a positive whole number"),
    ],
)
@pytest.mark.parametrize("after", [b"5,6", b'"5","6"'])
def test_a_bad_line_is_told_with_its_number_and_touches_no_other(line, error, after):
    entries = told(b"a,b\n3,4\n" + line + b"\n" + after + b"\n")
    assert [entry[:2] for entry in entries] == [(2, (3, 4)), (3, None), (4, (5, 6))]
    assert error in entries[1][2]
    assert len(entries[1][2]) < 200


def test_a_quoted_field_may_span_lines():
    entries = read('a,b,note\n1,2,"one\ntwo"\n3,4,x\n')
    assert [(e.line, e.pair, e.other["note"]) for e in entries] == [
        (2, (1, 2), "one\ntwo"),
        (4, (3, 4), "x"),
    ]


def test_a_quote_that_nobody_closes_costs_one_line():
    lines = "\n".join(f"{n},{n}" for n in range(1, 101))
    entries = told(f'a,b\n"1,2\n{lines}\n')
    assert len(entries) == 101
    assert [pair for _, pair, _ in entries[1:]] == [(n, n) for n in range(1, 101)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        ("a;b\n1;2\n", "no column 'a'"),
        ("x,a\n1,2\n", "no column 'b'"),
        ("a,b,b\n1,2,3\n", "a column twice"),
        ('"a,b\n1,2\n', "has no header"),
    ],
)
def test_a_csv_file_without_the_columns_is_a_wrong_call(data, message):
    with pytest.raises(ValueError, match=message):
        read(data)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "not a JSON object"),
        ('{"a": 1}', "b is missing"),
        ('{"a": null, "b": 2}', "a is missing"),
        ('{"a": true, "b": 2}', "a is 'true', not a whole number"),
        ('{"a": 1.0, "b": 2}', "a is '1.0', not a whole number"),
        ('{"a": [1], "b": 2}', "a is '[1]', not a whole number"),
        ('{"a": 1, "b": NaN}', "not JSON"),
        ('{"a": -1, "b": 2}', "not a positive whole number"),
        ('{"a": ' + "9" * 5000 + ', "b": 2}', "a has 5,000 digits"),
        ("[" * 100_000, "not JSON"),
        ('{"a": 1, "b": 2, "x": ' + "[" * 484 + "]" * 484 + "}", "nested more than 64 levels"),
        ('{"a": 1, "b": 2, "x": "\\ud800"}', "text that is not Unicode"),
        ('{"a": 1, "b": 2, "\\ud800": 1}', "text that is not Unicode"),
        ('{"a": "\\ud800", "b": 2}', "text that is not Unicode"),
        ('{"a": 1, "b": 2, "x": 1e999}', "a number too large for a float"),
        ('{"a": 1, "b": 2, "x": [-1e999]}', "a number too large for a float"),
        ("", "an empty line"),
    ],
)
def test_a_bad_line_of_json_is_told_and_touches_no_other(line, error):
    entries = told(f'{{"a": 3, "b": 4}}\n{line}\n{{"b": "6", "a": 5}}', format="jsonl")
    assert [entry[:2] for entry in entries] == [(1, (3, 4)), (2, None), (3, (5, 6))]
    assert error in entries[1][2]


def test_what_else_a_json_line_holds_comes_along_unchanged():
    other = {"id": 10**30, "tags": ["x", {"y": [1, 2.5, None, True]}], "text": "é\n"}
    (entry,) = read(json.dumps({"a": 1, "b": 2, **other}), format="jsonl")
    assert entry.other == other


def test_numbers_are_read_in_the_models_base():
    entries = told("a,b\n12,21\n13,1\n", base=3)
    assert entries[0][1] == (5, 7)
    assert "a is '13', not a positive number in base 3" in entries[1][2]


def test_the_format_follows_from_the_name_or_the_first_line():
    assert [format_of(name) for name in ("x.csv", "x.JSONL", "x.ndjson", "x.txt")] == [
        *("csv", "jsonl", "jsonl", None)
    ]
    assert format_of("x.csv", "jsonl") == "jsonl"
    assert read('{"a": 1, "b": 2}', format=None)[0].pair == (1, 2)
    assert read("a,b\n1,2", format=None)[0].pair == (1, 2)


def test_records_come_back_from_either_format():
    record = {"a": 12, "answer": None, "correct": True, "votes": [[{"views": 3}]], "error": None}
    carried = {"name": 'x,"y"\nz', "more": 1}
    lines = make_writer("jsonl", list(record), ["name", "more"]).line(record | carried)
    assert json.loads(lines) == record | carried
    known = make_writer("csv", list(record), ["name", "more"])
    rows = list(csv.DictReader(io.StringIO(known.head() + known.line(record | carried))))
    assert rows == [
        {
            "a": "12", "answer": "", "correct": "true", "votes": '[[{"views": 3}]]', "error": "",
            "name": 'x,"y"\nz', "more": "1",
        }
    ]  # fmt: skip
    unknown = make_writer("csv", list(record), None)
    rows = list(csv.DictReader(io.StringIO(unknown.head() + unknown.line(record | carried))))
    assert json.loads(rows[0]["other"]) == carried


def test_no_two_columns_come_to_share_a_name():
    ours = ("line", "a", "b", "error")
    given = ("line", "input_line", "input_input_line", "input_name", "name", "error")
    assert [carried_name(name, ours) for name in given] == [
        *("input_line", "input_input_line", "input_input_input_line"),
        *("input_name", "name", "input_error"),
    ]


def test_a_column_called_other_is_one_like_any_other():
    writer = make_writer("csv", ["a"], ["other"])
    rows = csv.DictReader(io.StringIO(writer.head() + writer.line({"a": 1, "other": "mine"})))
    assert list(rows) == [{"a": "1", "other": "mine"}]
    writer = make_writer("csv", ["a"], None)
    rows = csv.DictReader(io.StringIO(writer.head() + writer.line({"a": 1, "other": "mine"})))
    assert json.loads(next(rows)["other"]) == {"other": "mine"}


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_what_is_no_json_is_never_written(format):
    with pytest.raises(ValueError, match="not JSON compliant"):
        make_writer(format, ["a", "x"], None).line({"a": 1, "x": [float("nan")]})
