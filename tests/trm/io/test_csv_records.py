"""Records as CSV: what fits a column, as a reader of CSV gets it back."""

import csv
import io

from trm.io.csv_records import NESTED, write_csv
from trm.solving.solution import COLUMNS

LONG = "9" * 5000


def written(*records):
    sink = io.StringIO(newline="")
    write_csv(sink, lambda: iter(records))
    return sink.getvalue()


def test_values_that_fit_a_column_are_written():
    record = {"line": 2, "answer": "408", "correct": True, "row_steps": [1], "note": "a, b"}
    assert written(record) == 'line,answer,correct,note\n2,408,true,"a, b"\n'
    assert {*NESTED} < {*COLUMNS}
    none = dict.fromkeys(COLUMNS) | {"line": 3, "error": "not a problem"}
    header, row = written(none).splitlines()
    assert header.split(",") == [name for name in COLUMNS if name not in NESTED]
    found = dict(zip(header.split(","), row.split(","), strict=True))
    held = {name: value for name, value in found.items() if value}
    assert held == {"line": "3", "error": "not a problem"}


def test_quotes_line_ends_and_long_numbers_come_back():
    texts = ['say "x"', "two\nlines", "a\r\nb", "", "=1+1", "\u2028", "1e5", LONG, " a "]
    text = written(*({"answer": LONG, "text": one, "share": 0.1} for one in texts))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["text"] for row in rows] == texts
    assert {row["answer"] for row in rows} == {LONG}
    assert {row["share"] for row in rows} == {"0.1"}


def test_columns_are_of_all_records_without_nested_values():
    text = written({"a": 1, "list": None}, {"b": False, "list": [1]}, {"c": {"d": 1}, "a": None})
    assert text == "a,b\n1,\n,false\n,\n"
