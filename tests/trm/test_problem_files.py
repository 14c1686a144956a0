"""Lines of all kinds, and that none of them is lost, reordered or spoils another."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.task import Task
from trm.problem_files import FORMATS, Reader, Writer, carried_name, format_of

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
        (b"x,2", "a: 'x' is not a whole number from 0 up"),
        (b"-1,2", "not a whole number from 0 up"),
        (b"1,", "b is missing"),
        (b",2", "a is missing"),
        (b"", "0 fields"),
        (b"1", "1 fields, where the header names 2"),
        (b"1,2,3", "3 fields, where the header names 2"),
        (b'"1,2', "not CSV"),
        (b'1,"2"x', "not CSV"),
        (b"1,\xff", "not UTF-8 text"),
        (b"1,2" * 400_000, "a line of more than"),
        ("٣,2".encode(), "not a whole number from 0 up"),
        (b"1,2\x00", "not a whole number from 0 up"),
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
        ('{"a": -1, "b": 2}', "not a whole number from 0 up"),
        ('{"a": ' + "9" * 5000 + ', "b": 2}', "not JSON (number out of range"),
        ("[" * 100_000, "not JSON"),
        ('{"a": 1, "b": 2, "x": ' + "[" * 484 + "]" * 484 + "}", "recursion limit"),
        ('{"a": 1, "b": 2, "x": "\\ud800"}', "not JSON"),
        ('{"a": 1, "b": 2, "\\ud800": 1}', "not JSON"),
        ('{"a": 1, "b": 2, "x": 1e999}', "not JSON"),
        ('{"a": 1, "b": 2, "x": [-1e999]}', "not JSON"),
        ("", "not JSON"),
    ],
)
def test_a_bad_line_of_json_is_told_and_touches_no_other(line, error):
    entries = told(f'{{"a": 3, "b": 4}}\n{line}\n{{"b": "6", "a": 5}}', format="jsonl")
    assert [entry[:2] for entry in entries] == [(1, (3, 4)), (2, None), (3, (5, 6))]
    assert error in entries[1][2]
    assert len(entries[1][2]) < 200


LINES = st.one_of(
    st.binary(max_size=30), st.sampled_from([b"1,2", b'"1', b'2"', b'{"a": 1, "b": 2}'])
)


@given(lines=st.lists(LINES, max_size=8), format=st.sampled_from(["csv", "jsonl"]))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_whatever_lines_hold_each_is_in_one_entry_and_can_be_written_again(lines, format):
    data = b"\n".join(lines) + b"\n7,8\n" if format == "csv" else b"\n".join(lines)
    entries = read(b"a,b\n" + data if format == "csv" else data, format)
    numbers = [entry.line for entry in entries]
    assert numbers == sorted(set(numbers))
    assert all((entry.operands is None) != (entry.error is None) for entry in entries)
    for written in FORMATS:
        for entry in entries:
            assert json.loads(json.dumps(entry.other)) == entry.other
            assert Writer(written, ["error"], None).line({"error": entry.error} | entry.other)


def test_what_else_a_json_line_holds_comes_along_unchanged():
    other = {"id": 10**30, "tags": ["x", {"y": [1, 2.5, None, True]}], "text": "é\n"}
    (entry,) = read(json.dumps({"a": 1, "b": 2, **other}), format="jsonl")
    assert entry.other == {"a": 1, "b": 2} | other


def test_numbers_are_read_in_the_models_base():
    entries = told("a,b\n12,21\n13,1\n0,00\n", task=Multiplication(base=3))
    assert [entries[0][1], entries[2][1]] == [(5, 7), (0, 0)]
    assert "a: '13' is not a whole number from 0 up in base 3" in entries[1][2]


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
    lines = Writer("jsonl", list(record), ["name", "more"]).line(record | carried)
    assert json.loads(lines) == record | carried
    known = Writer("csv", list(record), ["name", "more"])
    rows = list(csv.DictReader(io.StringIO(known.head() + known.line(record | carried))))
    assert rows == [
        {
            "a": "12", "answer": "", "correct": "true", "votes": '[[{"views": 3}]]', "error": "",
            "name": 'x,"y"\nz', "more": "1",
        }
    ]  # fmt: skip
    unknown = Writer("csv", list(record), None)
    rows = list(csv.DictReader(io.StringIO(unknown.head() + unknown.line(record | carried))))
    assert json.loads(rows[0]["other"]) == carried


def test_no_two_columns_come_to_share_a_name():
    ours = ("line", "a", "b", "error")
    given = ("line", "input_line", "input_input_line", "input_name", "name", "error")
    assert [carried_name(name, ours) for name in given] == [
        *("input_line", "input_input_line", "input_input_input_line"),
        *("input_name", "name", "input_error"),
    ]


def test_sums_take_a_column_for_each_addend_as_many_as_a_line_fills():
    entries = told("a,b,c,d\n12,0,5,\n1,2,,\n1,2,3,4\n1,,3,\n,1,2,\n", task=ADDITION)
    assert [entry[:2] for entry in entries] == [
        (2, (12, 0, 5)), (3, (1, 2)), (4, (1, 2, 3, 4)), (5, None), (6, None)
    ]  # fmt: skip
    assert "b is missing" in entries[3][2]
    assert "a is missing" in entries[4][2]
    (entry,) = read("a,b,c\n12,3,x\n")  # a product has two
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
        ("12+3", "is no multiplication; write it like 123x456"),
        ("1x2x3", "takes 2 operands, not 3"),
        ("", "a is missing"),
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
    assert read('{"metadata": {"operands": ["12", "34"]}}', "jsonl", task)[0].operands == (12, 34)
    for bad, error in (
        ("[12]", "operand"),
        ("[12, null]", "operand 2 is missing"),
        ("[12, 1.5]", "operand 2 is '1.5', not a whole number"),
        ("3", "'3' is no problem"),
        ("true", "'true' is no problem"),
        ("null", "a is missing"),
        ("[]", "operands, not 0"),
        ('"12"', "'12' is no"),
        ('"[12, 34"', "not JSON"),
        ("[" * 20 + "]" * 20, "operand 1 is"),
    ):
        entries = read(f'{{"operands": {bad}}}\n{{"operands": [7, 8]}}', "jsonl", task)
        assert [e.operands for e in entries] == [None, (7, 8)], bad
        assert error in entries[0].error, bad


@pytest.mark.parametrize("nothing", ['"problem": null, ', '"problem": "", "operands": null, '])
def test_where_no_problem_is_written_columns_of_operands_count(nothing):
    (entry,) = read("{" + nothing + '"a": 1, "b": 2}', "jsonl")
    assert (entry.operands, entry.problem) == ((1, 2), None)
    (entry,) = read("problem,operands,a,b\n,,1,2\n")
    assert (entry.operands, entry.problem) == ((1, 2), None)


def test_a_problem_comes_before_its_operands_and_single_columns():
    (entry,) = read('{"a": 1, "b": 2, "operands": [3, 4], "problem": "5x6"}', "jsonl")
    assert (entry.operands, entry.other) == ((5, 6), {"a": 1, "b": 2})
    (entry,) = read('{"a": 1, "b": 2, "operands": [3, 4]}', "jsonl")
    assert (entry.operands, entry.other) == ((3, 4), {"a": 1, "b": 2})
