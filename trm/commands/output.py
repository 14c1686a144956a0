"""Output of commands: results, tables and notes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 1000  # characters of a line of a table


def results() -> Console:
    """Return a console that prints results without highlighting or markup."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False)


def print_table(
    columns: Iterable[str],
    rows: Sequence[Sequence[str]],
    title: str | None = None,
    wrap: bool = False,
) -> None:
    """Print results as a table; lines become longer than the terminal's unless cells ``wrap``."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=SIMPLE_HEAD, show_edge=False)
    table.padding = (0, 1, 0, 0)
    for column in columns:
        table.add_column(column, no_wrap=not wrap)
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(highlight=False)
    if not wrap:  # numbers that are cut mislead
        unlimited = console.options.update(max_width=_WIDEST)
        console.width = max(console.width, console.measure(table, options=unlimited).maximum)
    console.print(table)


def print_note(text: str) -> None:
    """Print a note to standard error; of several processes only the first does."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(text, file=sys.stderr)
