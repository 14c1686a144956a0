"""Problems from files of CSV or JSON Lines, line by line, and records as such lines.

Whatever a line holds, it becomes one entry, and no line touches the next: what is not a problem
becomes an entry with an error, and nothing is lost or reordered. Cells are written as they came: a
spreadsheet takes those that begin with ``=``, ``+``, ``-`` or ``@`` for formulas.

Needs no framework: command lines are checked before one is imported.
"""

import csv
import io
import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json

from canvas.arithmetic import parse
from canvas.choices import shortened
from canvas.task import Task

FORMATS = ("csv", "jsonl")
PROBLEM, OPERANDS = "problem", "operands"  # columns that hold a whole problem
OTHER = "other"  # CSV column for what a JSON line holds beside the operands, in JSON
_METADATA = "metadata"  # of JSON, as `trm benchmark export` writes it: may hold the operands
_LETTERS = "abcdefghijklmnopqrstuvwxyz"  # columns of one operand each, in this order
_NOTHING = (None, "")

_LONGEST = 2**20  # bytes of a line
_LOOKAHEAD = 32  # lines that one quoted CSV field may span


@dataclass(frozen=True)
class Entry:
    """One problem of a file, or what stands in a problem's place."""

    line: int  # its first line, from 1
    operands: tuple[int, ...] | None = None  # None: see ``error``
    problem: str | None = None  # as it was written, where a column holds whole problems
    other: dict[str, Any] = field(default_factory=dict)  # all else, single operands among it
    error: str | None = None  # why it is no problem; None: it is one


def format_of(path: str) -> str | None:
    """The format of a file by its name without .gz; None: that does not tell."""
    known = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    return known.get(Path(path.lower().removesuffix(".gz")).suffix)


class Reader:
    """The entries of a binary file, each once and in order; empty lines at its end are none.

    The format is `csv` or `jsonl`; None finds out: a first line that begins with ``{`` is JSON. CSV
    has ``columns``; ValueError: its first line does not name those of the operands.
    """

    def __init__(self, file: BinaryIO, name: str, format: str | None, task: Task) -> None:
        self._file, self._task = file, task
        self._ahead, self._taken = deque[bytes](), 0
        first = self._peek()
        if format is None:
            format = "jsonl" if first is not None and first.lstrip().startswith(b"{") else "csv"
        self.columns = self._header(name) if format == "csv" else None

    def __iter__(self) -> Iterator[Entry]:
        empty = 0  # lines just before this one
        while (line := self._peek()) is not None:
            if not line.strip():
                self._take()
                empty += 1
                continue
            for number in range(self._taken - empty + 1, self._taken + 1):
                yield Entry(number, error="an empty line")
            empty = 0
            yield self._entry()

    def _entry(self) -> Entry:
        line, values, wholes = self._taken + 1, dict[str, Any](), dict[str, Any]()
        operands = error = None
        try:
            if self.columns is None:
                found = _from_json(text := _text(self._take()))
                if not isinstance(found, dict):
                    like = '{"a": 12, "b": 34}'
                    raise ValueError(f"not a JSON object like {like}: {shortened(text)}")
                values = found
            else:
                fields = self._fields(len(self.columns))
                values = dict(zip(self.columns, fields, strict=True))
            wholes = {name: values.pop(name, None) for name in (PROBLEM, OPERANDS)}
            if isinstance(below := values.get(_METADATA), dict):
                wholes[f"{_METADATA}.{OPERANDS}"] = below.get(OPERANDS)
            wholes = {name: whole for name, whole in wholes.items() if whole not in _NOTHING}
            operands = self._operands(values, wholes)
        except ValueError as wrong:
            error = str(wrong)
        return Entry(line, operands, next(map(str, wholes.values()), None), values, error)

    def _operands(self, values: dict[str, Any], wholes: dict[str, Any]) -> tuple[int, ...]:
        """The operands that a line holds, in columns of their own or as the whole problem."""
        found = {}
        for source, written in wholes.items():
            if isinstance(written, str) and written.startswith("["):
                written = _from_json(written)
            if isinstance(written, str):
                found[source] = self._task.parse(written)
            elif isinstance(written, list):
                named = [(f"operand {i + 1}", n) for i, n in enumerate(written)]
                found[source] = tuple(self._operand(*one) for one in named)
            else:
                raise ValueError(f"{shortened(json.dumps(written))} is no problem")
        fewest, most = self._task.arity
        letters = _LETTERS[:most]
        while letters and values.get(letters[-1]) in _NOTHING:
            letters = letters[:-1]
        if letters or not found:
            letters = _LETTERS[: max(fewest, len(letters))]
            operands = tuple(self._operand(name, values.get(name)) for name in letters)
            found[", ".join(letters)] = operands
            more = _LETTERS[most : most + 1]
            if more and str(values.get(more)).strip().isdecimal():
                raise ValueError(
                    f"{more} is {shortened(str(values[more]))}, and {self._task.name} takes {most} "
                    "operands: call the column otherwise"
                )
        for operands in found.values():
            self._task.problems([operands])
        if len(set(found.values())) > 1:
            raise ValueError(f"{' and '.join(found)} are not the same problem: leave one out")
        return operands

    def _operand(self, name: str, value: Any) -> int:
        if value in _NOTHING:
            raise ValueError(f"{name} is missing")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"{name} is {shortened(json.dumps(value))}, not a whole number")
        try:
            return parse(str(value), self._task.base)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _header(self, name: str) -> list[str]:
        if self._peek() is None:
            raise ValueError(f"{name} is empty: a CSV file begins with a line like a,b")
        try:
            columns = [column.strip() for column in self._fields(None)]
        except ValueError as error:
            raise ValueError(f"{name} has no header like a,b: {error}") from None

        whole = {PROBLEM, OPERANDS} & set(columns)
        missing = [column for column in "ab" if column not in columns and not whole]
        if missing or len(set(columns)) < len(columns):
            fault = f"no column {missing[0]!r}" if missing else "a column twice"
            raise ValueError(
                f"{name} has {fault}: its first line must name the columns, separated by commas, a "
                f"and b or problem among them, and is {shortened(','.join(columns))}"
            )
        return columns

    def _fields(self, number: int | None) -> list[str]:
        """The fields of the next row: a line, or several if a quoted field spans them.

        Of a row that cannot be read, or has another number of fields, the first line is used up.
        """
        first = text = _text(self._take())
        for ahead in range(_LOOKAHEAD + 1):
            try:
                fields = next(csv.reader([text], strict=True))
            except csv.Error as error:
                # An open quote may be closed further down, in a row that is complete then.
                following, reason = self._peek(ahead), str(error)
                if following is None or "unexpected end" not in reason:
                    break
                text += "\n" + following.decode("utf-8", "replace")
                continue
            if number in (None, len(fields)):
                for _ in range(ahead):
                    self._take()
                return fields
            if not ahead:
                raise ValueError(f"{len(fields)} fields, where the header names {number}")
            reason = "an open quote"  # what closed it belongs to another row
            break
        raise ValueError(f"not CSV ({reason}): {shortened(first)}")

    def _peek(self, ahead: int = 0) -> bytes | None:
        """A line that comes, without its end; None behind the last."""
        while len(self._ahead) <= ahead:
            line = self._file.readline(_LONGEST + 2)
            if not line:
                return None
            whole = line.endswith(b"\n")
            while not whole and (more := self._file.readline(_LONGEST)):
                whole = more.endswith(b"\n")  # what is too long is reported, not kept
            if self._taken == 0 and not self._ahead:
                line = line.removeprefix(b"\xef\xbb\xbf")
            self._ahead.append(line.removesuffix(b"\n").removesuffix(b"\r"))
        return self._ahead[ahead]

    def _take(self) -> bytes:
        self._taken += 1
        return self._ahead.popleft()


def _text(line: bytes) -> str:
    if len(line) > _LONGEST:
        raise ValueError(f"a line of more than {_LONGEST:,} bytes")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"not UTF-8 text: {shortened(line.decode('latin-1'))}") from None


def _from_json(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, times in Counter(name for name, _ in pairs).items():
            if times > 1:
                raise ValueError(f"{shortened(name)} stands there twice")
        return dict(pairs)

    try:
        from_json(text, allow_inf_nan=False)  # which refuses what is nested too deeply
        values = json.loads(text, object_pairs_hook=once)
        json.dumps(values, allow_nan=False)  # 1e999 is read as infinity, which cannot be written
    except ValueError as error:
        raise ValueError(f"not JSON ({error}): {shortened(text)}") from None
    return values


def carried_name(name: str, columns: Iterable[str]) -> str:
    """What a column of the input is called in records that have ``columns`` of their own.

    No two columns come to share a name: what is already called ``input_line`` makes way, too.
    """
    return f"input_{name}" if re.sub("^(input_)+", "", name) in columns else name


@dataclass(frozen=True)
class Writer:
    """Records as text."""

    format: str  # one of `FORMATS`
    columns: list[str]  # that every record has
    # The input's other columns; None: they differ, and CSV gathers them in `OTHER`, in JSON.
    carried: list[str] | None

    def head(self) -> str:
        """What comes before all records."""
        others = [OTHER] if self.carried is None else self.carried
        return "" if self.format == "jsonl" else self._row([*self.columns, *others])

    def line(self, record: dict[str, Any]) -> str:
        """One record, with its end of line."""
        if self.format == "jsonl":
            return _to_json(record) + "\n"
        cells = [record.get(column) for column in [*self.columns, *(self.carried or [])]]
        if self.carried is None:
            cells.append({k: v for k, v in record.items() if k not in self.columns} or None)
        return self._row(cells)

    @staticmethod
    def _row(cells: list[Any]) -> str:
        written = [c if isinstance(c, str) else "" if c is None else _to_json(c) for c in cells]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(written)
        return text.getvalue()


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
