"""Lines of all kinds, and that none of them is lost, reordered or spoils another."""

import csv
import io
import json

import pytest

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.problems import MOST_DIGITS
from canvas.task import Task
from trm.batch.formats import Reader, format_of
from trm.batch.writers import carried_name, make_writer

MULTIPLICATION, ADDITION = Multiplication(), Addition()


def read(data: bytes | str, format: str | None = "csv", task: Task = MULTIPLICATION) -> list:
    data = data.encode() if isinstance(data, str) else data
    return list(Reader(io.BytesIO(data), "problems", format, task))


def told(data: bytes | str, **how) -> list[tuple]:
    return [(e.line, e.operands, e.error) for e in read(data, **how)]


def test_columns_may_come_in_any_order_and_others_are_carried_through():
    entries = read("name, b ,a\nfirst,34,12\n")
    assert [(e.line, e.operands, e.problem) for e in entries] == [(2, (12, 34), None)]
    assert list(entries[0].other.items()) == [("name", "first"), ("b", "34"), ("a", "12")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_a_line_and_of_the_file_do_not_matter(end):
    assert told(f"a,b{end}1,2{end}3,4") == told(f"a,b{end}1,2{end}3,4{end}")
    assert [operands for _, operands, _ in told(f"\ufeffa,b{end}1,2")] == [(1, 2)]


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
    assert [(e.line, e.operands, e.other["note"]) for e in entries] == [
        (2, (1, 2), "one\ntwo"),
        (4, (3, 4), "x"),
    ]


def test_a_quote_that_nobody_closes_costs_one_line():
    lines = "\n".join(f"{n},{n}" for n in range(1, 101))
    entries = told(f'a,b\n"1,2\n{lines}\n')
    assert len(entries) == 101
    assert [operands for _, operands, _ in entries[1:]] == [(n, n) for n in range(1, 101)]


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
    assert entry.other == {"a": 1, "b": 2} | other


def test_numbers_are_read_in_the_models_base():
    entries = told("a,b\n12,21\n13,1\n", task=Multiplication(base=3))
    assert entries[0][1] == (5, 7)
    assert "a is '13', not a positive whole number in base 3" in entries[1][2]


def test_the_format_follows_from_the_name_or_the_first_line():
    assert [format_of(name) for name in ("x.csv", "x.JSONL", "x.ndjson", "x.txt")] == [
        *("csv", "jsonl", "jsonl", None)
    ]
    assert format_of("x.csv", "jsonl") == "jsonl"
    assert read('{"a": 1, "b": 2}', format=None)[0].operands == (1, 2)
    assert read("a,b\n1,2", format=None)[0].operands == (1, 2)


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


def test_sums_take_a_column_for_each_addend_as_many_as_a_line_fills():
    entries = told("a,b,c,d\n12,0,5,\n1,2,,\n1,2,3,4\n1,,3,\n,1,2,\n", task=ADDITION)
    assert [entry[:2] for entry in entries] == [
        (2, (12, 0, 5)), (3, (1, 2)), (4, (1, 2, 3, 4)), (5, None), (6, None)
    ]  # fmt: skip
    assert "b is missing" in entries[3][2]
    assert "a is missing" in entries[4][2]
    lines = '{"a": 12, "b": 0, "c": 5}\n{"b": "2", "a": "1"}\n{"a": 1, "b": -2}\n{"a": 1}'
    entries = told(lines, format="jsonl", task=ADDITION)
    assert [entry[1] for entry in entries] == [(12, 0, 5), (1, 2), None, None]
    assert "b is '-2', not a whole number from 0 up" in entries[2][2]
    assert "b is missing" in entries[3][2]


def test_columns_of_addends_are_no_operands_of_a_product():
    (entry,) = read("a,b,c\n12,3,x\n")
    assert (entry.operands, entry.error, entry.other["c"]) == ((12, 3), None, "x")


@pytest.mark.parametrize(
    ("written", "task", "operands"),
    [
        ("12x34", MULTIPLICATION, (12, 34)),
        (" 12 * 34 ", MULTIPLICATION, (12, 34)),
        ("12 + 34 + 0", ADDITION, (12, 34, 0)),
        ("12x34", Multiplication(base=5), (7, 19)),
    ],
)
def test_a_column_may_hold_the_whole_problem_in_either_format(written, task, operands):
    line = json.dumps({"id": 7, "problem": written})
    for entries, other in (
        (read(f"id,problem\n7,{written}\n", task=task), {"id": "7"}),
        (read(line, "jsonl", task), {"id": 7}),
    ):
        assert [(e.operands, e.problem, e.other, e.error) for e in entries] == [
            (operands, written, other, None)
        ]


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("12", "is no multiplication; write it like 123x456"),
        ("12+3", "is no multiplication; write it like 123x456"),
        ("1x2x3", "takes 2 operands, not 3"),
        ("0x3", "'0' is not a positive whole number"),
        ("1x" + "9" * 2000, "a number of 2,000 digits"),
        ("", "problem is missing"),
    ],
)
def test_a_whole_problem_that_is_none_is_told_and_kept(written, error):
    for entries in (
        read(f"problem,id\n{written},1\n7x8,2\n"),
        read(f'{{"problem": "{written}"}}\n{{"problem": "7x8"}}', "jsonl"),
    ):
        assert [e.operands for e in entries] == [None, (7, 8)]
        assert entries[0].problem == (written or None)
        assert error in entries[0].error
        assert len(entries[0].error) < 200


@pytest.mark.parametrize("task", [MULTIPLICATION, ADDITION])
def test_operands_may_be_a_list(task):
    assert read('{"operands": [12, "34"]}', "jsonl", task)[0].operands == (12, 34)
    assert read('operands\n"[12, 34]"\n', task=task)[0].operands == (12, 34)
    for bad, error in (
        ("[12]", "operand"),
        ("[12, null]", "operand 2 is missing"),
        ("[12, 1.5]", "operand 2 is '1.5', not a whole number"),
        ("[12, -3]", "operand 2 is '-3', not a"),
        ("3", "operands is '3', not a problem"),
        ("{}", "operands is '{}', not a problem"),
        ("true", "operands is 'true', not a problem"),
        ("null", "operands is missing"),
        ("[]", "operands, not 0"),
        ('"12"', "'12' is no"),
        ("[" * 20 + "]" * 20, "operand 1 is"),
    ):
        entries = read(f'{{"operands": {bad}}}\n{{"operands": [7, 8]}}', "jsonl", task)
        assert [e.operands for e in entries] == [None, (7, 8)], bad
        assert error in entries[0].error, bad


@pytest.mark.parametrize("cell", ["[" * 900 + "]" * 900, "[12, 34", "[NaN, 1]", "[12; 34]", "12"])
def test_a_broken_list_costs_one_line(cell):
    entries = read(f'operands\n"{cell}"\n"[7, 8]"\n')
    assert [e.operands for e in entries] == [None, (7, 8)]
    assert len(entries[0].error) < 200


@pytest.mark.parametrize("nothing", ['"problem": null, ', '"problem": "", "operands": null, '])
def test_where_no_problem_is_written_columns_of_operands_count(nothing):
    (entry,) = read("{" + nothing + '"a": 1, "b": 2}', "jsonl")
    assert (entry.operands, entry.problem) == ((1, 2), None)
    (entry,) = read("problem,operands,a,b\n,,1,2\n")
    assert (entry.operands, entry.problem) == ((1, 2), None)
    (entry,) = read('{"problem": 3, "a": 1, "b": 2}', "jsonl")
    assert entry.error == "problem is '3', not a problem"


def test_a_problem_comes_before_its_operands_and_single_columns():
    (entry,) = read('{"a": 1, "b": 2, "operands": [3, 4], "problem": "5x6"}', "jsonl")
    assert (entry.operands, entry.other) == ((5, 6), {"a": 1, "b": 2})
    (entry,) = read('{"a": 1, "b": 2, "operands": [3, 4]}', "jsonl")
    assert (entry.operands, entry.other) == ((3, 4), {"a": 1, "b": 2})
