"""Problems from files of CSV, JSON Lines or plain text, line by line.

Every non-empty line becomes one entry, independent of all other lines. A line that is no problem
becomes an entry with an error. No line is lost or moved.

This module imports no framework, as command lines are checked before one is imported.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from canvas.arithmetic import parse
from canvas.choices import shortened
from canvas.task import Task
from trm.io.files import LONGEST, NO_UTF8

PROBLEM, OPERANDS = "problem", "operands"  # columns with a whole problem
_METADATA = "metadata"  # key in JSON of `trm benchmark export`; its object may have operands
_LETTERS = "abcdefghijklmnopqrstuvwxyz"  # columns of one operand each, in this order
_NOTHING = (None, "")
_DIGITS = 640  # that Python converts under any limit


@dataclass(frozen=True)
class Entry:
    """Problem of a file, or an error in its place."""

    line: int  # number of the line, from 1
    operands: tuple[int, ...] | None = None  # None: see ``error``
    problem: str | None = None  # the problem's text, where a column has whole problems
    other: dict[str, Any] = field(default_factory=dict)  # other columns, single operands included
    error: str | None = None  # reason why the line is no problem; None: it is one


def format_of(path: str) -> str | None:
    """Return the format of a file by its name without .gz; None: unknown, or plain text."""
    known = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    return known.get(Path(path.lower().removesuffix(".gz")).suffix)


def read_entries(
    lines: Iterator[tuple[int, bytes]], name: str, format: str | None, task: Task
) -> Iterator[Entry]:
    """Yield the entries of `trm.io.files.numbered_lines`, each once and in order.

    The format is `csv`, `jsonl`, or `text` with a problem in each line. None detects it by the
    first line: one that begins with ``{`` is JSON, and one that is no header, as ``12x34``, text.

    Examples: ``a,b`` and ``12,34`` → ``Entry(2, (12, 34), None, {"a": "12", "b": "34"})``;
    ``12x34`` → ``Entry(1, (12, 34), "12x34")``.

    Raises:
        ValueError: the first line of CSV does not name the columns of the operands, or there is no
            other line.
    """
    first = next(lines, None)
    if format is None:
        format = "csv" if first is None else _detected(first[1], task)
    columns = None
    if format == "csv":
        if first is None:
            raise ValueError(f"{name} is empty: a CSV file begins with a line like a,b")
        columns = _header(first[1], name, task)
    elif first is not None:
        lines = chain([first], lines)
    number = None
    for number, line in lines:
        yield _entry(number, line, format, columns, task)
    if number is None:
        raise ValueError(f"{name} holds no problem")


def _detected(line: bytes, task: Task) -> str:
    """Return the format of a file by its first line."""
    if line.lstrip().startswith(b"{"):
        return "jsonl"
    try:
        task.parse(_text(line))
    except ValueError:  # no problem: a header, or a mistyped problem
        header = b"," in line or not re.search(rb"\d", line)
        return "csv" if header else "text"
    return "text"


def _header(line: bytes, name: str, task: Task) -> list[str]:
    letters = _LETTERS[: min(2, task.arity[0])]
    try:
        columns = [column.strip() for column in _fields(_text(line))]
    except ValueError as error:
        raise ValueError(f"{name} has no header like {','.join(letters)}: {error}") from None
    whole = {PROBLEM, OPERANDS} & set(columns)
    missing = [column for column in letters if column not in columns and not whole]
    if missing or len(set(columns)) < len(columns):
        fault = f"no column {missing[0]!r}" if missing else "a column twice"
        raise ValueError(
            f"{name} has {fault}: its first line must name the columns, separated by commas, "
            f"{' and '.join(letters)} or problem among them, and is "
            f"{shortened(','.join(columns))}. A file with a problem in each line, like "
            f"{task.example}, needs no header: name it .txt"
        )
    return columns


def _entry(
    number: int, line: bytes, format: str, columns: Sequence[str] | None, task: Task
) -> Entry:
    values, wholes = dict[str, Any](), dict[str, Any]()
    operands = error = None
    try:
        text = _text(line)
        values = {PROBLEM: text.strip()} if format == "text" else _values(text, columns)
        wholes = {name: values.pop(name, None) for name in (PROBLEM, OPERANDS)}
        if isinstance(below := values.get(_METADATA), dict):
            wholes[f"{_METADATA}.{OPERANDS}"] = below.get(OPERANDS)
        wholes = {name: whole for name, whole in wholes.items() if whole not in _NOTHING}
        operands = _operands(values, wholes, task)
    except ValueError as wrong:
        error = str(wrong)
    return Entry(number, operands, next(map(str, wholes.values()), None), values, error)


def _values(text: str, columns: Sequence[str] | None) -> dict[str, Any]:
    """Return the values of a line of CSV with these columns, or of a line of JSON (None)."""
    if columns is None:
        found = _from_json(text)
        if not isinstance(found, dict):
            like = '{"a": 12, "b": 34}'
            raise ValueError(f"not a JSON object like {like}: {shortened(text)}")
        return found
    fields = _fields(text)
    if len(fields) != len(columns):
        raise ValueError(f"{len(fields)} fields, where the header names {len(columns)}")
    return dict(zip(columns, fields, strict=True))


def _operands(values: dict[str, Any], wholes: dict[str, Any], task: Task) -> tuple[int, ...]:
    """Return the operands of a line, from columns of their own or from the whole problem."""
    found = {}
    for source, written in wholes.items():
        if isinstance(written, str) and written.startswith("["):
            written = _from_json(written)
        if isinstance(written, str):
            found[source] = task.parse(written)
        elif isinstance(written, list):
            named = [(f"operand {i + 1}", n) for i, n in enumerate(written)]
            found[source] = tuple(_operand(*one, task.base) for one in named)
        else:
            raise ValueError(f"{shortened(json.dumps(written))} is no problem")
    fewest, most = task.arity
    letters = _LETTERS[:most]
    while letters and values.get(letters[-1]) in _NOTHING:
        letters = letters[:-1]
    if letters or not found:
        letters = _LETTERS[: max(fewest, len(letters))]
        operands = tuple(_operand(name, values.get(name), task.base) for name in letters)
        found[", ".join(letters)] = operands
        more = _LETTERS[most : most + 1]
        if more and str(values.get(more)).strip().isdecimal():
            raise ValueError(
                f"{more} is {shortened(str(values[more]))}, and {task.name} takes {most} "
                "operands: call the column otherwise"
            )
    for operands in found.values():
        task.problems([operands])
    if len(set(found.values())) > 1:
        raise ValueError(f"{' and '.join(found)} are not the same problem: leave one out")
    return operands


def _operand(name: str, value: Any, base: int) -> int:
    if value in _NOTHING:
        raise ValueError(f"{name} is missing")
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{name} is {shortened(json.dumps(value))}, not a whole number")
    try:
        return parse(str(value), base)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _fields(text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise ValueError(f"not CSV ({error}): {shortened(text)}") from None


def _text(line: bytes) -> str:
    if len(line) > LONGEST:
        raise ValueError(f"a line of more than {LONGEST:,} bytes")
    if b"\0" in line:
        raise ValueError(f"it {NO_UTF8}")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"not UTF-8 text: {shortened(line.decode('latin-1'))}") from None


def _from_json(text: str) -> Any:
    """Return the value of a text in JSON; numbers that Python does not print are strings."""
    from pydantic_core import from_json

    try:
        try:
            values = from_json(text, allow_inf_nan=False)  # refuses too deep nesting, too
        except ValueError as error:
            if "number out of range" not in str(error):  # a whole number of thousands of digits
                raise
            text = json.dumps(json.loads(text, parse_int=_long_int))
            values = from_json(text, allow_inf_nan=False)
        json.dumps(values, allow_nan=False)  # refuses 1e999, which is parsed as infinity
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error}): {shortened(text)}") from None
    return values


def _long_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= _DIGITS else digits


def carried_name(name: str, columns: Iterable[str]) -> str:
    """Return an input column's name in records that have ``columns`` of their own.

    No two columns get the same name, as names that already begin with ``input_`` change, too.

    Example: with the column ``line``, ``line`` → ``input_line`` and ``input_line`` →
    ``input_input_line``; ``note`` stays.
    """
    return f"input_{name}" if re.sub("^(input_)+", "", name) in columns else name
