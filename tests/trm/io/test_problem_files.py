"""Lines of all kinds, and that none of them is lost, reordered or spoils another."""

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canvas.addition import Addition
from canvas.multiplication import Multiplication
from canvas.task import Task
from trm.io.files import numbered_lines
from trm.io.problem_files import Entry, carried_name, format_of, read_entries

MULTIPLICATION, ADDITION = Multiplication(), Addition()


def read(data: bytes | str, format: str | None = "csv", task: Task = MULTIPLICATION) -> list[Entry]:
    data = data.encode() if isinstance(data, str) else data
    lines = numbered_lines(Path("problems"), io.BytesIO(data))
    return list(read_entries(lines, "problems", format, task))


def told(data: bytes | str, **how) -> list[tuple]:
    return [(e.line, e.operands, e.error) for e in read(data, **how)]


def test_columns_come_in_any_order_and_others_are_kept():
    (entry,) = read("name, b ,a\nfirst,34,12\n")
    assert (entry.line, entry.operands, entry.problem) == (2, (12, 34), None)
    assert list(entry.other.items()) == [("name", "first"), ("b", "34"), ("a", "12")]
    other = {"id": 10**30, "tags": ["x", {"y": [1, 2.5, None, True]}], "text": "é\n"}
    (entry,) = read(json.dumps({"a": 1, "b": 2, **other}), "jsonl")
    assert entry.other == {"a": 1, "b": 2} | other
    ours = ("line", "a", "b", "error")
    given = ("line", "input_line", "input_input_line", "input_name", "name", "error")
    names = ["input_line", "input_input_line", "input_input_input_line"]
    names += ["input_name", "name", "input_error"]
    assert [carried_name(name, ours) for name in given] == names


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_a_line_and_of_the_file_do_not_matter(end):
    whole = told(f"a,b{end}1,2{end}3,4")
    for rest in (end, end * 3, f"{end}  {end}\t"):
        assert told(f"a,b{end}1,2{end}3,4{rest}") == whole
        assert told('{"a": 1, "b": 2}' + rest, format="jsonl") == [(1, (1, 2), None)]
    assert [operands for _, operands, _ in told(f"\ufeffa,b{end}1,2")] == [(1, 2)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12x34\n7 * 8", [(1, (12, 34)), (2, (7, 8))]),
        ("12y34\n7*8", [(1, None), (2, (7, 8))]),  # a mistyped first line is no header
        ("FFxA0", [(1, None)]),  # of base 16
        ("a,b\n12,34", [(2, (12, 34))]),
        ("problem\n12x34", [(2, (12, 34))]),
        ('{"a": 12, "b": 34}', [(1, (12, 34))]),
    ],
)
def test_without_an_ending_the_first_line_decides_the_format(text, found):
    assert [(line, operands) for line, operands, _ in told(text, format=None)] == found
    hexadecimal = Multiplication(base=16)
    assert told("FFxA0", format=None, task=hexadecimal) == [(1, (255, 160), None)]


DEEP = b"[" * 484 + b"]" * 484
LINES_OF_JSON = [  # and the operands that they hold, or what is wrong
    (b'{"a": "01", "b": 2}', (1, 2)),
    (b'{"a": 1, "b": 2, "c": "red"}', (1, 2)),  # the rest of a line is anybody's
    (b'{"problem": "1x2", "c": 3}', (1, 2)),
    (b'{"problem": null, "a": 1, "b": 2}', (1, 2)),
    (b'{"problem": "1x2", "operands": ["1", "2"], "a": 1, "b": 2, "input_a": 7}', (1, 2)),
    (b'{"metadata": {"operands": ["1", 2]}}', (1, 2)),
    (b'{"metadata": {"operands": [1, 2]}, "a": 1, "b": 2}', (1, 2)),
    (b'{"operands": [1, "2"]}', (1, 2)),
    (b'{"operands": "[1, 2]"}', (1, 2)),
    (b'{"problem": " 1 * 2 "}', (1, 2)),
    (b'{"problem": "5x6", "a": 1, "b": 2}', "problem and a, b are not the same problem"),
    (b'{"problem": "5x6", "operands": [1, 2]}', "problem and operands are not the same"),
    (b'{"metadata": {"operands": [3, 4]}, "a": 1, "b": 2}', "metadata.operands and a, b are"),
    (b'{"a": 1, "b": 2, "c": 3}', "c is '3', and multiplication takes 2 operands"),
    (b'{"problem": "1x2", "a": 1}', "b is missing"),
    (b'{"problem": ""}', "a is missing"),
    (b'{"problem": "1+2"}', "no multiplication"),
    (b'{"a": true, "b": 2}', "a is 'true', not a whole number"),
    (b'{"operands": []}', "operands, not 0"),
    (b'{"operands": [1, null]}', "operand 2 is missing"),
    (b'{"operands": [[], 2]}', "operand 1 is"),
    (b'{"operands": 3}', "'3' is no problem"),
    (b'{"operands": null}', "a is missing"),
    (b'{"operands": "[1, 2"}', "not JSON"),
    (b"{", "not JSON"),
    (b"[1, 2]", "not a JSON object"),
    (b'{"a": 1, "b": NaN}', "not JSON"),
    (b'{"a": ' + b"9" * 5000 + b', "b": 2}', (10**5000 - 1, 2)),
    (b'{"a": -' + b"9" * 5000 + b', "b": 2}', "is not a whole number from 0 up"),
    (b'{"a": ' + b"9" * 5000 + b', "b": NaN}', "not JSON"),
    (b'{"a": ' + b"9" * 5000 + b', "b": 2, "x": ' + DEEP + b"}", "not JSON"),
    (b'{"operands": [1' + b"0" * 4999 + b", 2]}", (10**4999, 2)),
    (b"[" * 100_000, "not JSON"),
    (b'{"a": 1, "b": 2, "x": ' + DEEP + b"}", "recursion limit"),
    (b'{"a": 1, "b": 2, "x": "\\ud800"}', "not JSON"),
    (b'{"a": 1, "b": 2, "x": 1e999}', "not JSON"),
]
LINES_OF_CSV = [
    (b"1,2", (1, 2)),
    (b'"1","2"', (1, 2)),
    (b"x,2", "a: 'x' is not a whole number from 0 up"),
    (b"1,", "b is missing"),
    (b'"1,2', "not CSV"),
    (b"1,\xff", "not UTF-8 text"),
    (b"1,2" * 400_000, "a line of more than"),
]


@pytest.mark.parametrize(("line", "found"), LINES_OF_JSON + LINES_OF_CSV)
def test_an_invalid_line_is_named_and_affects_no_other(line, found):
    if (line, found) in LINES_OF_JSON:
        entries = read(b'{"a": 3, "b": 4}\n' + line + b'\n{"b": "6", "a": 5}', "jsonl")
    else:
        entries = read(b"a,b\n3,4\n" + line + b"\n5,6\n")
    first, entry, last = entries
    assert (first.operands, last.operands) == ((3, 4), (5, 6))
    assert (first.line, entry.line, last.line) == (*range(first.line, first.line + 3),)
    if isinstance(found, str):
        assert entry.operands is None
        assert found in entry.error
        assert len(entry.error) < 200
    else:
        assert (entry.operands, entry.error) == (found, None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        ("a,b\n \n", "holds no problem"),
        ("\n1,2\n", "no column 'a'"),
        ("x,a\n1,2\n", "no column 'b'"),
        ("a,b,b\n1,2,3\n", "a column twice"),
        ('"a,b\n1,2\n', "has no header"),
        ("12x34\n7x8", r"needs no header: name it \.txt"),
        ("a;b\n1;2\n", "separated by commas, a and b or problem among them, and is 'a;b'"),
    ],
)
def test_a_csv_file_without_the_columns_is_a_wrong_call(data, message):
    with pytest.raises(ValueError, match=message):
        read(data)


LINES = st.one_of(
    st.binary(max_size=30), st.sampled_from([b"1,2", b'"1', b'2"', b"", b'{"a": 1, "b": 2}'])
)


@given(lines=st.lists(LINES, max_size=8), format=st.sampled_from(["csv", "jsonl"]))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_every_line_is_in_exactly_one_entry(lines, format):
    data = b"\n".join([*lines, b"7,8", b""])
    entries = read(b"a,b\n" + data if format == "csv" else data, format)
    numbers = [entry.line for entry in entries]
    filled = [n for n, line in enumerate(data.split(b"\n"), 1 + (format == "csv")) if line.strip()]
    assert numbers == filled
    assert all((entry.operands is None) != (entry.error is None) for entry in entries)
    assert all(json.loads(json.dumps(entry.other)) == entry.other for entry in entries)


def test_numbers_are_in_the_base_of_the_model():
    entries = told("a,b\n12,21\n13,1\n0,00\n", task=Multiplication(base=3))
    assert [entries[0][1], entries[2][1]] == [(5, 7), (0, 0)]
    assert "a: '13' is not a whole number from 0 up in base 3" in entries[1][2]
    assert told("a,b\n0,7\n")[0][1] == told('{"problem": "0x7"}', format="jsonl")[0][1] == (0, 7)
    csv, jsonl = ("x.csv", "x.csv.gz"), ("x.JSONL", "x.ndjson", "x.jsonl.GZ")
    for names, expected in ((csv, "csv"), (jsonl, "jsonl"), (("x.txt", "x.gz"), None)):
        assert {format_of(name) for name in names} == {expected}
    assert read('{"a": 1, "b": 2}', format=None)[0].operands == (1, 2)
    assert read("a,b\n1,2", format=None)[0].operands == (1, 2)


def test_sums_have_a_column_per_addend():
    entries = told("a,b,c,d\n12,0,5,\n1,2,,\n1,2,3,4\n1,,3,\n,1,2,\n", task=ADDITION)
    assert [entry[:2] for entry in entries] == [
        (2, (12, 0, 5)), (3, (1, 2)), (4, (1, 2, 3, 4)), (5, None), (6, None)
    ]  # fmt: skip
    assert "b is missing" in entries[3][2]
    assert "a is missing" in entries[4][2]


@pytest.mark.parametrize(
    ("written", "task", "operands"),
    [
        (" 12 * 34 ", MULTIPLICATION, (12, 34)),
        ("12 + 34 + 0", ADDITION, (12, 34, 0)),
        ("12x34", Multiplication(base=5), (7, 19)),
        ('"[12, 34]"', ADDITION, (12, 34)),
    ],
)
def test_a_column_may_hold_the_whole_problem(written, task, operands):
    column = "operands" if "[" in written else "problem"
    (entry,) = read(f"id,{column}\n7,{written}\n", task=task)
    assert (entry.operands, entry.error, entry.other) == (operands, None, {"id": "7"})
    assert entry.problem == written.strip('"')


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_powershell_writes_utf16_and_it_is_read(tmp_path, encoding, packed):
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    for text, format in (("a,b,n\r\n12,34,é\r\n", "csv"), ('{"a":12,"b":34,"n":"é"}\r\n', "jsonl")):
        data = (mark + text).encode(encoding)
        source = io.BufferedReader(io.BytesIO(gzip.compress(data) if packed else data))
        lines = numbered_lines(Path("problems"), source)
        (entry,) = read_entries(lines, "problems", format, MULTIPLICATION)
        assert (entry.operands, entry.other["n"], entry.error) == ((12, 34), "é", None)
        assert not source.closed


def test_utf16_without_a_mark_is_refused_by_its_name():
    with pytest.raises(ValueError, match="no text in UTF-8, perhaps UTF"):
        read("a,b\n1,2\n".encode("utf-16-le"))
    (entry, _) = read('{"a":1,"b":2}\n'.encode("utf-16-le"), "jsonl")
    assert "no text in UTF-8, perhaps UTF-16" in entry.error
