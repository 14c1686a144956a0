"""Records as lines of CSV or JSON Lines.

Cells are written as they came: a spreadsheet takes those that begin with ``=``, ``+``, ``-`` or
``@`` for formulas.
"""

import csv
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from canvas.choices import check_choice
from trm.batch.formats import FORMATS

OTHER = "other"  # CSV column for what a JSON line holds beside the operands, in JSON


class Writer(Protocol):
    """Writes records as text."""

    def head(self) -> str:
        """What comes before all records."""

    def line(self, record: dict[str, Any]) -> str:
        """One record, with its end of line."""


class _JsonLines:
    def head(self) -> str:
        return ""

    def line(self, record: dict[str, Any]) -> str:
        return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class _Csv:
    columns: list[str]
    gathers: bool  # in one more column, what is in none of these

    def head(self) -> str:
        return self._row([*self.columns, *([OTHER] if self.gathers else [])])

    def line(self, record: dict[str, Any]) -> str:
        cells = [_cell(record.get(column)) for column in self.columns]
        if self.gathers:
            rest = {key: value for key, value in record.items() if key not in self.columns}
            cells.append(_cell(rest or None))
        return self._row(cells)

    @staticmethod
    def _row(cells: list[str]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def carried_name(name: str, columns: Iterable[str]) -> str:
    """What a column of the input is called in records that have ``columns`` of their own.

    No two columns come to share a name: what is already called ``input_line`` makes way, too.
    """
    return f"input_{name}" if re.sub("^(input_)+", "", name) in columns else name


def make_writer(format: str, columns: list[str], carried: list[str] | None) -> Writer:
    """A writer of records.

    Args:
        format: one of `FORMATS`.
        columns: that every record has.
        carried: of the input's other columns; None: they differ from line to line, and CSV gathers
            them, in JSON, in the column `OTHER`.
    """
    check_choice("format", format, FORMATS)
    if format == "jsonl":
        return _JsonLines()
    return _Csv([*columns, *(carried or [])], gathers=carried is None)
