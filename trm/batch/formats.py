"""Problems from files, CSV or JSON Lines, line by line.

Whatever a line holds, it becomes one entry, and no line touches the next: what is not a problem
becomes an entry with an error, and nothing is lost or reordered.
"""

import csv
import json
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from canvas.arithmetic import parse
from canvas.choices import check_choice
from canvas.problems import MOST_DIGITS
from canvas.task import Task

FORMATS = ("csv", "jsonl")
PROBLEM, OPERANDS = "problem", "operands"  # columns that hold a whole problem
METADATA = "metadata"  # of JSON: may hold the operands
_LETTERS = "abcdefghijklmnopqrstuvwxyz"  # columns of one operand each, in this order

_LONGEST = 2**20  # bytes of a line
_LOOKAHEAD = 32  # lines that one quoted CSV field may span
_SHOWN = 60  # characters of a bad value that an error repeats
_DEEPEST = 64  # levels of nested JSON


@dataclass(frozen=True)
class Entry:
    """One problem of a file, or what stands in a problem's place.

    Attributes:
        line: its first line, from 1.
        operands: the numbers; None: see ``error``.
        problem: as it was written, where a column holds whole problems.
        other: everything else on the line, columns of single operands among it.
        error: why it is no problem; None: it is one.
    """

    line: int
    operands: tuple[int, ...] | None = None
    problem: str | None = None
    other: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


def format_of(path: str, wanted: str | None = None) -> str | None:
    """The format of a file: as wanted, or by its name; None: its name does not tell.

    Raises:
        ValueError: an unknown format is wanted.
    """
    if wanted is not None:
        check_choice("format", wanted, FORMATS)
        return wanted
    return {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(Path(path).suffix.lower())


def output_format(path: str, wanted: str | None = None) -> str:
    """As `format_of`, for a file that is to be written.

    Raises:
        ValueError: neither its name nor the call tells.
    """
    found = format_of(path, wanted)
    if found is None:
        raise ValueError(
            f"--output {path} does not say its format: name it .csv or .jsonl, or give "
            "--output-format"
        )
    return found


def check_source(path: Path) -> None:
    """Check that problems can be read from a path.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: it is a folder.
    """
    if path.is_dir():
        raise ValueError(f"--input {path} is a folder: name a file of problems in it")
    if not path.is_file():
        raise FileNotFoundError(f"--input {path}: there is no such file of problems")


class Reader:
    """Entries of a file.

    Args:
        file: binary, at its beginning.
        name: of the file, for messages.
        format: `csv` or `jsonl`; None finds out: a first line that begins with ``{`` is JSON.
        task: whose problems these are.

    Attributes:
        columns: of CSV, all of them in order; None for JSON Lines.

    Raises:
        ValueError: a CSV file whose header does not name the operands' columns, or no header.
    """

    def __init__(self, file: BinaryIO, name: str, format: str | None, task: Task) -> None:
        self._lines = _Lines(file)
        self._task = task
        first = self._lines.peek()
        if format is None:
            format = "jsonl" if first is not None and first.lstrip().startswith(b"{") else "csv"
        self.columns = self._header(name) if format == "csv" else None

    def __iter__(self) -> Iterator[Entry]:
        """Each entry once, in the order of the file."""
        read = self._json if self.columns is None else self._csv
        while self._lines.peek() is not None:
            line = self._lines.number + 1
            try:
                values = read()
                error = values.pop(None, None)
            except ValueError as problem:
                values, error = {}, str(problem)
            written = {name: values.pop(name) for name in (PROBLEM, OPERANDS) if name in values}
            if not written and "a" not in values:
                written = _below(values)
            filled = [name for name, value in written.items() if value not in (None, "")]
            name = next(iter(filled or written), None)
            whole = written[filled[0]] if filled else None
            operands = None
            if error is None:
                try:
                    operands = self._operands(values, name, whole)
                except ValueError as problem:
                    error = str(problem)
            yield Entry(line, operands, None if whole is None else str(whole), values, error)

    def _operands(self, values: dict[str, Any], name: str | None, written: Any) -> tuple[int, ...]:
        """The operands that a line holds, whole or one by one.

        Args:
            values: what else it holds.
            name: of the column for the whole problem; None: there is none.
            written: what stands there; None: nothing.

        Raises:
            ValueError: it holds no problem of the task.
        """
        if name == OPERANDS and isinstance(written, str):
            written = _listed(written)
        if isinstance(written, str):
            return self._task.parse(written)
        if written is None and name is not None and "a" not in values:
            raise ValueError(f"{name} is missing")
        if not isinstance(written, list | None):
            raise ValueError(f"{name} is {_short(written)}, not a problem")
        columns = [(f"operand {i + 1}", n) for i, n in enumerate(written or ())]
        if written is None:
            fewest, most = self._task.arity
            columns = [(name, values.get(name)) for name in _LETTERS[:most]]
            while len(columns) > fewest and columns[-1][1] in (None, ""):
                columns.pop()
        operands = tuple(_operand(name, value, self._task) for name, value in columns)
        self._task.problems([operands])
        return operands

    def _header(self, name: str) -> list[str]:
        if self._lines.peek() is None:
            raise ValueError(f"{name} is empty: a CSV file begins with a line like a,b")
        try:
            columns = [column.strip() for column in self._fields(None)]
        except ValueError as error:
            raise ValueError(
                f"{name} has no header, like a,b, in its first line: {error}"
            ) from None
        missing = [column for column in "ab" if column not in columns]
        missing = [] if {PROBLEM, OPERANDS} & set(columns) else missing
        if missing or len(set(columns)) < len(columns):
            fault = f"no column {missing[0]!r}" if missing else "a column twice"
            raise ValueError(
                f"{name} has {fault}: its first line must name the columns, a and b or problem "
                f"among them, and is {_short(','.join(columns))}"
            )
        return columns

    def _csv(self) -> dict[Any, Any]:
        """The next row; what is wrong with it stands at None."""
        assert self.columns is not None
        fields = self._fields(len(self.columns))
        values: dict[Any, Any] = dict(zip(self.columns, fields, strict=False))
        if len(fields) != len(self.columns):
            values[None] = f"{len(fields)} fields, where the header names {len(self.columns)}"
        return values

    def _fields(self, number: int | None) -> list[str]:
        """The fields of the next row: a line, or several if a quoted field spans them.

        Raises:
            ValueError: the row cannot be read; only its first line is used up.
        """
        first = _text(self._lines.take())
        if not first.strip():
            raise ValueError("an empty line")
        text, reason = first, ""
        for ahead in range(_LOOKAHEAD + 1):
            try:
                fields = next(csv.reader([text], strict=True))
            except csv.Error as error:
                reason = str(error)
                # An open quote may be closed further down, in a row that is complete then.
                following = self._lines.peek(ahead)
                if "unexpected end" not in reason or following is None:
                    break
                try:
                    text += "\n" + _text(following)
                except ValueError:
                    break
                continue
            if ahead and number is not None and len(fields) != number:
                break  # what closed the quote belongs to another row
            for _ in range(ahead):
                self._lines.take()
            return fields
        if "field larger" in reason:
            raise ValueError(f"a field that is too long: {_short(first)}")
        raise ValueError(f"broken quoting: {_short(first)}")

    def _json(self) -> dict[Any, Any]:
        text = _text(self._lines.take())
        if not text.strip():
            raise ValueError("an empty line")
        try:
            values = json.loads(text, parse_constant=_refuse, parse_int=_Digits)
        except (ValueError, RecursionError):
            raise ValueError(f"not JSON: {_short(text)}") from None
        if not isinstance(values, dict):
            raise ValueError(f'not a JSON object like {{"a": 12, "b": 34}}: {_short(text)}')
        return _plain(values, _DEEPEST)


class _Digits(str):
    """A whole number of JSON, which may be longer than Python reads at once."""


def _plain(value: Any, deepest: int) -> Any:
    """JSON data with whole numbers as such, but for those that Python is slow to read.

    Raises:
        ValueError: what could be read, but not be written as JSON in UTF-8 again.
    """
    if not deepest:
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    if isinstance(value, _Digits):
        return int(value) if len(value) < 4000 else str(value)
    if isinstance(value, dict):
        return {_plain(k, deepest): _plain(one, deepest - 1) for k, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, deepest - 1) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number too large for a float")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:  # half of a pair, like "\\ud800"
            raise ValueError(f"text that is not Unicode: {_short(ascii(value))}") from None
    return value


def _below(values: dict[str, Any]) -> dict[str, Any]:
    """The operands of a problem as `trm benchmark export` writes it, which stay where they are."""
    metadata = values.get(METADATA)
    if not isinstance(metadata, dict) or OPERANDS not in metadata:
        return {}
    return {OPERANDS: metadata[OPERANDS]}


def _listed(text: str) -> Any:
    """The operands in a cell of CSV, where they are a list as JSON has it; else the text."""
    try:
        found = json.loads(text, parse_constant=_refuse, parse_int=_Digits)
    except (ValueError, RecursionError):
        return text
    return _plain(found, _DEEPEST) if isinstance(found, list) else text


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity are no JSON


def _text(line: bytes) -> str:
    if len(line) > _LONGEST:
        raise ValueError(f"a line of more than {_LONGEST:,} bytes")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"not UTF-8 text: {_short(line.decode('latin-1'))}") from None


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def _operand(name: str, value: Any, task: Task) -> int:
    if value is None or value == "":
        raise ValueError(f"{name} is missing")
    if isinstance(value, bool | float | list | dict):
        raise ValueError(f"{name} is {_short(value)}, not a whole number")
    text = str(value)
    if len(text.strip()) > MOST_DIGITS:
        raise ValueError(
            f"{name} has {len(text.strip()):,} digits; at most {MOST_DIGITS:,} are read"
        )
    try:
        return parse(text, task.base, task.smallest)
    except ValueError:
        kind = "positive whole number" if task.smallest else "whole number from 0 up"
        kind += "" if task.base == 10 else f" in base {task.base}"
        raise ValueError(f"{name} is {_short(text)}, not a {kind}") from None


class _Lines:
    """Lines of a binary file, with a look ahead; none longer than it must be is kept whole.

    Attributes:
        number: lines taken.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._ahead = file, deque[bytes]()
        self.number = 0

    def peek(self, ahead: int = 0) -> bytes | None:
        """A line that comes, without its end; None behind the last."""
        while len(self._ahead) <= ahead:
            line = self._file.readline(_LONGEST + 2)
            if not line:
                return None
            whole = line.endswith(b"\n")
            while not whole and (more := self._file.readline(_LONGEST)):
                whole = more.endswith(b"\n")  # what is too long is reported, not kept
            if self.number == 0 and not self._ahead:
                line = line.removeprefix(b"\xef\xbb\xbf")
            self._ahead.append(line.removesuffix(b"\n").removesuffix(b"\r"))
        return self._ahead[ahead]

    def take(self) -> bytes:
        """The next line."""
        assert self.peek() is not None
        self.number += 1
        return self._ahead.popleft()
