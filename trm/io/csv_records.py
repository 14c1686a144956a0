"""Records as CSV: the values that fit a column, a line each.

Example: ``{"line": 2, "answer": "408", "correct": true, "row_steps": [1], "note": "a, b"}`` →
``line,answer,correct,note`` and ``2,408,true,"a, b"``.
"""

import csv
import json
from collections.abc import Callable, Iterable
from typing import IO, Any

# Columns of a record that are lists or canvases; only JSON Lines have them.
NESTED = ("operands", "row_confidence", "row_steps", "votes", "canvas")


def write_csv(sink: IO[str], records: Callable[[], Iterable[dict[str, Any]]]) -> None:
    """Write records as CSV, with the names of all their columns in the first line.

    A column is left out if it is one of `NESTED`, or a value of it is a list or an object. A value
    that is missing or null is empty, and true and false are written like that.

    Args:
        sink: text stream whose line ends are kept.
        records: returns the records, the same each time.
    """
    names, nested = dict[str, None](), set(NESTED)
    for record in records():
        names |= dict.fromkeys(record)
        nested |= {name for name, value in record.items() if isinstance(value, list | dict)}
    columns = [name for name in names if name not in nested]
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(columns)
    for record in records():
        writer.writerow([_field(record.get(name)) for name in columns])


def _field(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
