"""Parts of SMT-LIB files that all layouts have: formulas, the table, a cell, and questions.

A file of a layout is a subclass of `Writer`, in `smt_sums.py` and `smt_lattice.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from trm.cells.proof import check

if TYPE_CHECKING:
    from trm.cells.proof.program import CellProgram

UNSAT, SAT = "unsat", "sat"
NEXT = "left/"  # prefix for the cell on the left of a cell
DOCS = "docs/proof.md, 'Details: the lattice and sums'"
CLOSED = "docs/proof.md, premise *closed*:"

Message = tuple[int, ...]


@dataclass(frozen=True)
class Query:
    """A question to a solver.

    Attributes:
        name: of a law or of a step of the theorem.
        comment: what holds if the answer is as expected.
        asserted: what is asserted; for a law a cell that occurs, and that the law does not hold.
        expected: UNSAT, or SAT for a question that shows that cells occur at all.
    """

    name: str
    comment: str
    asserted: tuple[str, ...]
    expected: str = UNSAT


def all_of(parts: Sequence[str]) -> str:
    """Return that all parts hold."""
    return parts[0] if len(parts) == 1 else f"(and {' '.join(parts)})" if parts else "true"


def any_of(parts: Sequence[str]) -> str:
    """Return that one of the parts holds."""
    return parts[0] if len(parts) == 1 else f"(or {' '.join(parts)})" if parts else "false"


def define(name: str, arguments: Sequence[str], sort: str, body: str) -> str:
    """Return a function of integers."""
    declared = " ".join(f"({argument} Int)" for argument in arguments)
    return f"(define-fun {name} ({declared}) {sort}\n  {body})"


def choose(names: Sequence[str], entries: Mapping[Message, object], default: str) -> str:
    """Return a value chosen by several classes, as nested `ite`, the first name outermost.

    Example: names a and b, entries {(0, 1): 5} → (ite (= a 0) (ite (= b 1) 5 -1) -1).
    """
    if not names:
        return str(entries.get((), default))
    branches: dict[int, dict[Message, object]] = {}
    for key, value in sorted(entries.items()):
        branches.setdefault(key[0], {})[key[1:]] = value
    text = default
    for first, rest in reversed(branches.items()):
        text = f"(ite (= {names[0]} {first}) {choose(names[1:], rest, default)} {text})"
    return text


class Writer(ABC):
    """The parts of the file for one table.

    Attributes:
        where: names of constants that say where a cell is: the first two are the kinds of its row
            and of the row above, the last one is its place.
    """

    where: ClassVar[tuple[str, ...]]

    def __init__(self, program: CellProgram, inputs: Sequence[str]) -> None:
        self.program, self.rows = program, check.LAYOUTS[program.layout]
        self.base, self.inputs = program.base, inputs
        self.left, self.down = program.messages["left"], program.messages["down"]
        places = (column.place for row in self.rows for column in row.columns)
        self.places = list(dict.fromkeys(places))

    @abstractmethod
    def sets(self) -> Iterator[str]:
        """Yield the sets of messages that are passed."""

    @abstractmethod
    def occurs(self) -> str:
        """Return the function that is true for the cells of canvases."""

    @abstractmethod
    def constants(self) -> Iterator[str]:
        """Yield the numbers of the theorem."""

    @abstractmethod
    def closed(self) -> Iterator[Query]:
        """Yield the questions if the messages that cells pass are in the sets."""

    @abstractmethod
    def laws(self) -> Iterator[tuple[str, str, str]]:
        """Yield the laws: the name in `check`, where it holds, and what holds."""

    @abstractmethod
    def theorem(self) -> Iterator[Query]:
        """Yield the steps of the theorem."""

    def tables(self) -> Iterator[str]:
        """Yield for each output of the table that it belongs to the inputs.

        A relation, and not a function: solvers answer several times as fast without terms of
        thousands of cases.
        """
        for name, table in self.program.tables.items():
            keys, values = map(tuple, table.keys.tolist()), table.values.tolist()
            entries = {k: f"(= out {v})" for k, v in zip(keys, values, strict=True)}
            body = choose(table.inputs, entries, "(= out (- 1))")
            yield define(f"table.{name}", [*table.inputs, "out"], "Bool", body)

    def arithmetic(self) -> Iterator[str]:
        """Yield the digits of classes and symbols, and numbers for kinds of rows and places."""
        yield "; The digit of a class: 0 is none, 1 + d is the digit d. None counts as 0."
        yield define("value", ["class"], "Int", "(ite (> class 0) (- class 1) 0)")
        yield "; The class of the digit that a symbol shows; 0 for a blank or a sign."
        digits: dict[Message, int] = {
            (of,): 1 + i for i, of in enumerate(check.DIGIT_IDS[: self.base])
        }
        yield define("digit", ["symbol"], "Int", choose(["symbol"], digits, "0"))
        for i, name in enumerate([check.EDGE, *(row.name for row in self.rows)]):
            yield f"(define-fun row.{name} () Int {i})"
        for i, place in enumerate(self.places):
            yield f"(define-fun place.{place} () Int {i})"

    def cell(self, prefix: str = "") -> Iterator[str]:
        """Yield the inputs and outputs of a cell as constants, and that it is a cell.

        It is if its inputs occur and its outputs are those of the table.
        """
        for name in (*self.where, *self.inputs):
            yield f"(declare-const {prefix}{name} Int)"
        by_table = []
        for name, table in self.program.tables.items():
            yield f"(declare-const {prefix}out.{name} Int)"
            reads = [f"{prefix}{part.replace('own.', 'out.')}" for part in table.inputs]
            body = f"(table.{name} {' '.join([*reads, f'{prefix}out.{name}'])})"
            if name == check.SYMBOL:  # a given symbol stays
                given = f"(= {prefix}out.{name} {prefix}token)"
                body = f"(ite (= {prefix}token {check.ASKED_ID}) {body} {given})"
            by_table.append(body)
        yield define(f"{prefix}written", [], "Int", f"(digit {prefix}out.{check.SYMBOL})")
        inputs = " ".join(f"{prefix}{name}" for name in (*self.where, *self.inputs))
        yield define(f"{prefix}is_a_cell", [], "Bool", all_of([f"(occurs {inputs})", *by_table]))

    def in_rows(self, holds: Callable[[str], bool]) -> str:
        """Return that the row of the cell has a content for which something holds."""
        return any_of([f"(= kind row.{row.name})" for row in self.rows if holds(row.content)])

    def occurring(self) -> Iterator[Query]:
        """Yield questions that are to be *sat*: cells occur in each row and place."""
        comment = "Such cells occur, so that the laws say something of them."
        for row, place in product(self.rows, self.places):
            for above in row.above:
                name = f"cells in row {row.name} below {above}, {place}"
                yield Query(
                    name, comment, ("is_a_cell", *self.located(row.name, above, place)), SAT
                )

    def located(self, row: str, above: str, place: str) -> tuple[str, ...]:
        """Return that a cell is in a kind of row, below another one, and in a place."""
        return f"(= kind row.{row})", f"(= above_kind row.{above})", f"(= place place.{place})"

    def queries(self) -> Iterator[Query]:
        """Yield all questions: cells occur, the sets are closed, the laws, the theorem."""
        yield from self.occurring()
        entries = all_of([f"(>= out.{name} 0)" for name in self.program.tables])
        comment = f"{CLOSED} each cell that occurs has an entry in the table."
        yield Query("there is an entry", comment, ("is_a_cell", f"(not {entries})"))
        yield from self.closed()
        written = f"(or (> written 0) (= out.{check.SYMBOL} {check.BLANK_ID}))"
        asked = f"(= token {check.ASKED_ID})"
        comment = "A cell that is to be filled in shows a digit or a blank."
        yield Query("a digit or a blank", comment, ("is_a_cell", asked, f"(not {written})"))
        for name, where, law in self.laws():
            comment = (getattr(check, name).__doc__ or "").partition("\n")[0]
            yield Query(name, f"{DOCS}: {comment}", ("is_a_cell", where, f"(not {law})"))
        yield from self.theorem()

    def text(self) -> str:
        """Return the file."""
        lines = [
            f"; The table of {self.program.layout} in base {self.base}, its laws, and the theorem.",
            "; Each question is named, with the answer that is expected. See docs/proof.md.",
            "(set-logic QF_LIA)",
            "\n; 1. The table; -1: there is no entry.",
            *self.tables(),
            *self.arithmetic(),
            "\n; 2. The messages that a cell in a row and a place passes.",
            *self.sets(),
            "\n; 3. The cells that occur.",
            self.occurs(),
            "\n; A cell, and the cell on its left.",
            *self.cell(),
            *self.cell(NEXT),
            *self.constants(),
            "\n; 4. to 6. Cells occur; the sets are closed; the laws; the theorem.",
        ]
        for query in self.queries():
            lines += [f"\n; {query.comment}", f'(echo "{query.name}: expected {query.expected}")']
            lines += ["(push 1)", *(f"(assert {part})" for part in query.asserted)]
            lines += [f"(set-info :status {query.expected})", "(check-sat)", "(pop 1)"]
        return "\n".join(lines) + "\n"
