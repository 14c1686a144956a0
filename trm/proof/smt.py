"""Write the table of a sum, its laws and the theorem as SMT-LIB: a second opinion on `check.py`.

    trm prove --checkpoint C --smt sum.smt2       # write the file
    z3 sum.smt2                                   # or cvc5 sum.smt2
    python -m trm.proof.smt sum.smt2              # with each solver that Python can import

SMT-LIB is the input language of SMT solvers. These programs decide if a formula over integers can
be true. For each law the file asks for a cell that is against it. The answer *unsat* means that
there is none. The parts of the file, in this order:

1. the table: a function for each output, which returns -1 where there is no entry;
2. the messages that can be passed to the left and down, as sets;
3. the cells that occur: what stands in them, and messages in these sets from the right and above;
4. *closed*: each such cell has an entry, and passes messages in the same sets;
5. the laws of `trm.proof.check`, written once more;
6. the theorem: a row adds, whatever its length; rows add, whatever their number; the form of a sum.

The sets of part 2 come from an exploration here. It need not be trusted: if a message was missing,
part 4 would be *sat*. The theorem is an induction over columns from the left end, with unbounded
integers: if a number is X on the left of a column with the digit d, it is base * X + d from there.

Layouts: `column` and `column_carries`. The others have messages that move diagonally.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

from trm.proof import check

if TYPE_CHECKING:
    from trm.proof.program import Program

LAYOUTS = ("column", "column_carries")
UNSAT, SAT = "unsat", "sat"
_NO_ENTRY = -1
_NEXT = "left/"  # prefix for the cell on the left of a cell
_DOCS = "docs/proof.md, 'Details: the lattice and sums'"

Message = tuple[int, ...]
Known = dict[str, int]


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


# ---------------------------------------------------------------------------------------------
# The messages that are passed
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Messages:
    """Messages that cells can pass.

    Attributes:
        left: by the names of the row, of the row above, and of the place.
        down: by the names of the row and of the place.
    """

    left: dict[tuple[str, ...], set[Message]]
    down: dict[tuple[str, ...], set[Message]]


def _cells(
    program: Program, found: Messages, row: check.Row, above: str, column: check.Column
) -> Iterator[Known]:
    """Yield the inputs of cells in one kind of column, with the messages found so far."""
    from_right, from_above = program.messages["left"], program.messages["down"]
    rights: set[Message | None] = set()
    if column.name in row.first_columns:
        rights.add(None)
    for other in row.columns:
        if column.name in other.left:
            rights |= found.left.get((row.name, above, other.place), set())
    downs: set[Message | None] = {*found.down.get((above, column.place), set())}
    if above == check.EDGE:
        downs.add(None)
    tokens = check.symbol_ids(column.symbols, program.base)
    for token, right, down in product(tokens, rights, downs):
        known = {"token": token, "right": int(right is not None), "above": int(down is not None)}
        for side, names, message in (("right", from_right, right), ("above", from_above, down)):
            for i, name in enumerate(names):
                known[f"{side}.{name}"] = message[i] if message else check.NONE
        yield known


def messages(program: Program) -> Messages:
    """Explore the messages that cells can pass, by the table; inputs without an entry end there."""
    entries = {
        name: dict(zip(map(tuple, table.keys.tolist()), table.values.tolist(), strict=True))
        for name, table in program.tables.items()
    }
    found = Messages({}, {})
    before, now = -1, 0
    while now != before:
        rows = check.LAYOUTS[program.layout]
        kinds = [
            (row, above, column) for row in rows for above in row.above for column in row.columns
        ]
        for row, above, column in kinds:
            left = found.left.setdefault((row.name, above, column.place), set())
            down = found.down.setdefault((row.name, column.place), set())
            for known in [*_cells(program, found, row, above, column)]:
                for name, table in program.tables.items():
                    key = tuple(known[part] for part in table.inputs)
                    known[f"own.{name}"] = entries[name].get(key, _NO_ENTRY)
                for direction, reached in (("left", left), ("down", down)):
                    message = tuple(known[f"own.{n}"] for n in program.messages[direction])
                    if _NO_ENTRY not in message:
                        reached.add(message)
        before, now = now, sum(map(len, [*found.left.values(), *found.down.values()]))
    return found


# ---------------------------------------------------------------------------------------------
# Formulas
# ---------------------------------------------------------------------------------------------


def _all(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"(and {' '.join(parts)})" if parts else "true"


def _any(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"(or {' '.join(parts)})" if parts else "false"


def _define(name: str, arguments: Sequence[str], sort: str, body: str) -> str:
    declared = " ".join(f"({argument} Int)" for argument in arguments)
    return f"(define-fun {name} ({declared}) {sort}\n  {body})"


def _choose(names: Sequence[str], entries: Mapping[Message, object], default: str) -> str:
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
        text = f"(ite (= {names[0]} {first}) {_choose(names[1:], rest, default)} {text})"
    return text


_WHERE = ("kind", "above_kind", "place")  # kinds of the row and of the row above, and the place


def _where(row: str, above: str, place: str) -> tuple[str, ...]:
    """Return that a cell is in a kind of row, below another one, and in a place."""
    return f"(= kind row.{row})", f"(= above_kind row.{above})", f"(= place place.{place})"


def _member(signals: Sequence[str], some: set[Message]) -> str:
    """Return that signals are one of some messages."""
    return _choose(signals, dict.fromkeys(some, "true"), "false")


class _File:
    """The parts of the file for one table."""

    def __init__(self, program: Program) -> None:
        demand_layout(program.layout)
        self.program, self.rows = program, check.LAYOUTS[program.layout]
        self.base = program.base
        self.left, self.down = program.messages["left"], program.messages["down"]
        self.inputs = ["token", "right", *(f"right.{name}" for name in self.left)]
        self.inputs += ["above", *(f"above.{name}" for name in self.down)]
        places = (column.place for row in self.rows for column in row.columns)
        self.places = list(dict.fromkeys(places))

    # The table, the sets, and the cells that occur.

    def tables(self) -> Iterator[str]:
        """Yield a function for each output of the table."""
        for name, table in self.program.tables.items():
            keys, values = map(tuple, table.keys.tolist()), table.values.tolist()
            body = _choose(table.inputs, dict(zip(keys, values, strict=True)), "(- 1)")
            yield _define(f"table.{name}", table.inputs, "Int", body)

    def arithmetic(self) -> Iterator[str]:
        """Yield the digits of classes and symbols, and numbers for kinds of rows and places."""
        yield "; The digit of a class: 0 is none, 1 + d is the digit d. None counts as 0."
        yield _define("value", ["class"], "Int", "(ite (> class 0) (- class 1) 0)")
        yield "; The class of the digit that a symbol shows; 0 for a blank or a sign."
        digits: dict[Message, int] = {
            (of,): 1 + i for i, of in enumerate(check.DIGIT_IDS[: self.base])
        }
        yield _define("digit", ["symbol"], "Int", _choose(["symbol"], digits, "0"))
        for i, name in enumerate([check.EDGE, *(row.name for row in self.rows)]):
            yield f"(define-fun row.{name} () Int {i})"
        for i, place in enumerate(self.places):
            yield f"(define-fun place.{place} () Int {i})"

    def sets(self) -> Iterator[str]:
        """Yield the sets of messages that are passed."""
        found = messages(self.program)
        cases = [
            _all([*_where(row, above, place), _member(self.left, some)])
            for (row, above, place), some in found.left.items()
        ]
        yield _define("passes_left", [*_WHERE, *self.left], "Bool", _any(cases))
        cases = [
            _all([f"(= kind row.{row})", f"(= place place.{place})", _member(self.down, some)])
            for (row, place), some in found.down.items()
        ]
        yield _define("passes_down", ["kind", "place", *self.down], "Bool", _any(cases))

    def occurs(self) -> str:
        """Return the function that is true for the cells of canvases."""
        cases = []
        for row in self.rows:
            for above, column in product(row.above, row.columns):
                symbols = check.symbol_ids(column.symbols, self.base)
                tokens = _any([f"(= token {symbol})" for symbol in symbols])
                right, down = self._right(row, above, column), self._above(above, column)
                cases.append(_all([*_where(row.name, above, column.place), tokens, right, down]))
        return _define("occurs", [*_WHERE, *self.inputs], "Bool", _any(cases))

    def _right(self, row: check.Row, above: str, column: check.Column) -> str:
        """Return what a cell can read from the right."""
        signals = [f"right.{name}" for name in self.left]
        cases = []
        if column.name in row.first_columns:
            cases.append(_all(["(= right 0)", *(f"(= {name} 0)" for name in signals)]))
        for other in row.columns:
            if column.name in other.left:
                where = f"row.{row.name} row.{above} place.{other.place}"
                cases.append(f"(and (= right 1) (passes_left {where} {' '.join(signals)}))")
        return _any(cases)

    def _above(self, above: str, column: check.Column) -> str:
        """Return what a cell can read from above."""
        signals = [f"above.{name}" for name in self.down]
        if above == check.EDGE:
            return _all(["(= above 0)", *(f"(= {name} 0)" for name in signals)])
        message = f"(passes_down row.{above} place.{column.place} {' '.join(signals)})"
        return _all(["(= above 1)", message])

    def cell(self, prefix: str = "") -> Iterator[str]:
        """Yield the inputs of a cell as constants, and its outputs by the table."""
        for name in (*_WHERE, *self.inputs):
            yield f"(declare-const {prefix}{name} Int)"
        for name, table in self.program.tables.items():
            reads = [f"{prefix}{part.replace('own.', 'out.')}" for part in table.inputs]
            body = f"(table.{name} {' '.join(reads)})" if reads else f"table.{name}"
            if name == check.SYMBOL:  # a given symbol stays
                body = f"(ite (= {prefix}token {check.ASKED_ID}) {body} {prefix}token)"
            yield _define(f"{prefix}out.{name}", [], "Int", body)
        yield _define(f"{prefix}written", [], "Int", f"(digit {prefix}out.{check.SYMBOL})")
        inputs = " ".join(f"{prefix}{name}" for name in (*_WHERE, *self.inputs))
        yield _define(f"{prefix}is_a_cell", [], "Bool", f"(occurs {inputs})")

    # The questions.

    def _in_rows(self, holds: Callable[[str], bool]) -> str:
        """Return that the row of the cell has a content for which something holds."""
        return _any([f"(= kind row.{row.name})" for row in self.rows if holds(row.content)])

    def queries(self) -> Iterator[Query]:
        """Yield all questions: cells occur, the set is closed, the laws, the theorem."""
        yield from self._occurring()
        yield from self._closed()
        for name, where, law in self._laws():
            comment = (getattr(check, name).__doc__ or "").partition("\n")[0]
            yield Query(name, f"{_DOCS}: {comment}", ("is_a_cell", where, f"(not {law})"))
        yield from self._row_theorem()
        yield from self._form_theorem()

    def _occurring(self) -> Iterator[Query]:
        comment = "Such cells occur, so that the laws say something of them."
        for row, place in product(self.rows, self.places):
            for above in row.above:
                name = f"cells in row {row.name} below {above}, {place}"
                yield Query(name, comment, ("is_a_cell", *_where(row.name, above, place)), SAT)

    def _closed(self) -> Iterator[Query]:
        entries = _all([f"(>= out.{name} 0)" for name in self.program.tables])
        comment = (
            "docs/proof.md, premise *closed*: each cell that occurs has an entry in the table."
        )
        yield Query("there is an entry", comment, ("is_a_cell", f"(not {entries})"))
        passes = ("left", " ".join(_WHERE), self.left), ("down", "kind place", self.down)
        for direction, where, signals in passes:
            outputs = " ".join(f"out.{name}" for name in signals)
            passed = f"(passes_{direction} {where} {outputs})"
            comment = f"docs/proof.md, premise *closed*: messages {direction} are in the set."
            yield Query(f"closed: {direction}", comment, ("is_a_cell", f"(not {passed})"))
        written = f"(or (> written 0) (= out.{check.SYMBOL} {check.BLANK_ID}))"
        asked = f"(= token {check.ASKED_ID})"
        comment = "A cell that is to be filled in shows a digit or a blank."
        yield Query("a digit or a blank", comment, ("is_a_cell", asked, f"(not {written})"))

    def _laws(self) -> Iterator[tuple[str, str, str]]:
        """Yield the laws of sums: the name in `check`, where it holds, and what holds."""
        carry, total = "(value right.sum_carry)", "(+ (value above.addend) (value above.sum)"
        done = f"(+ (* {self.base} (value out.sum_carry)) (value out.sum))"
        yield "column_sum", "true", f"(= {done} {total} {carry}))"
        reaches = f"(or (> above.addend 0) (> above.sum 0) (> {carry} 0))"
        yield "column_form", "true", f"(= (> out.sum 0) {reaches})"
        added = self._in_rows(lambda content: content == check.ADDEND)
        yield "addend_goes_down", added, "(= out.addend written)"
        yield "nothing_is_added_twice", f"(not {added})", "(= out.addend 0)"
        sums = self._in_rows(lambda content: content == check.SUM)
        yield "sum_is_written", sums, "(= written out.sum)"
        carries = self._in_rows(lambda content: content == check.CARRIES)
        if carries != "false":
            has_one = "(and (> out.sum 0) (= place place.rest))"
            law = f"(= written (ite {has_one} (+ 1 {carry}) 0))"
            yield "carries_are_written", carries, law

    def constants(self) -> Iterator[str]:
        """Yield the numbers of the theorem."""
        yield "; Of the columns from some column to the left end of a row: P is base to the power"
        yield "; of their number. X, Y and Z are the numbers of out.sum, above.addend, above.sum."
        yield "; last is the carry out of the left end. T is the sum of all numbers above."
        for name in ("P", "X", "Y", "Z", "last", "T"):
            yield f"(declare-const {name} Int)"
        equation = "(= (+ X (ite (= last 1) P 0)) (+ Y Z carry))"
        body = _all(["(<= 0 last 1)", "(>= P 1)", "(<= 0 X)", "(< X P)", equation])
        yield _define("adds_up", ["P", "X", "Y", "Z", "carry"], "Bool", body)

    def _row_theorem(self) -> Iterator[Query]:
        number = "(or (= place place.units) (= place place.rest))"
        comment = (
            "Theorem, left end: without a column all numbers are 0, and the carry is the last."
        )
        start = "(= last (value out.sum_carry))"
        empty = "(not (adds_up 1 0 0 0 (value out.sum_carry)))"
        yield Query("a row adds, left end", comment, ("is_a_cell", number, start, empty))
        comment = "Theorem, one column: what holds on its left holds with it."
        longer = [f"(* {self.base} P)"]
        for name, digit in (("X", "out.sum"), ("Y", "above.addend"), ("Z", "above.sum")):
            longer.append(f"(+ (* {self.base} {name}) (value {digit}))")
        before = "(adds_up P X Y Z (value out.sum_carry))"
        after = f"(not (adds_up {' '.join(longer)} (value right.sum_carry)))"
        yield Query("a row adds, one column", comment, ("is_a_cell", number, before, after))
        comment = "Theorem, right end: the sum of a row is exact if it fits into the canvas."
        fits = "(< (+ Y Z) P)"
        units = "(= place place.units)"
        row = "(adds_up P X Y Z (value right.sum_carry))"
        whole = ("is_a_cell", units, row, fits, "(not (and (= X (+ Y Z)) (= last 0)))")
        yield Query("a row adds, right end", comment, whole)
        comment = "Theorem: in the margin nothing is written, and nothing is passed that counts."
        nothing = _all(["(= written 0)", "(= out.sum 0)", "(= out.addend 0)"])
        margin = ("is_a_cell", "(= place place.margin)", f"(not {nothing})")
        yield Query("the margin is empty", comment, margin)
        comment = "Theorem, first row: there is nothing above it."
        edge = "(= above 0)", "(not (= 0 (value above.addend) (value above.sum)))"
        yield Query("rows add, first row", comment, ("is_a_cell", *edge))
        comment = "Theorem, one more row: what was the sum of all rows above is so with that row."
        yield Query(
            "rows add, one row", comment, ("(= Z T)", "(= X (+ Y Z))", "(not (= X (+ T Y)))")
        )

    def _form_theorem(self) -> Iterator[Query]:
        """Yield that a sum has no gap and no leading zero if the addends have none."""
        pair = ["is_a_cell", f"{_NEXT}is_a_cell", f"(= {_NEXT}place place.rest)"]
        pair += [f"(= {_NEXT}kind kind)", f"(= {_NEXT}above_kind above_kind)"]
        pair += [f"(= {_NEXT}right.{name} out.{name})" for name in self.left]
        above = ("above.addend", "above.sum")
        comment = "Theorem: the sum has a digit in the units, in each row below an addend."
        units = ("is_a_cell", "(= place place.units)", "(= above 1)", "(not (> out.sum 0))")
        yield Query("a digit in the units", comment, units)
        comment = "Theorem: no gap in a sum, if there is none in the row above."
        number = "(not (= place place.margin))"
        no_gap = [f"(=> (> {_NEXT}{name} 0) (> {name} 0))" for name in above]
        claim = f"(not (=> (> {_NEXT}out.sum 0) (> out.sum 0)))"
        yield Query("no gap", comment, (*pair, number, *no_gap, claim))
        comment = "Theorem: a 0 on the left of the units has a digit on its left, if so above."
        rest = "(= place place.rest)"
        goes_on = [f"(=> (= {name} 1) (> {_NEXT}{name} 0))" for name in above]
        claim = f"(not (=> (= out.sum 1) (> {_NEXT}out.sum 0)))"
        yield Query("no leading zero", comment, (*pair, rest, *goes_on, claim))
        comment = "Theorem: no 0 at the left end of the canvas, if there is none above it."
        ends = [f"(not (= {name} 1))" for name in above]
        fits = "(= (value out.sum_carry) 0)"
        edge = ("is_a_cell", rest, fits, *ends, "(= out.sum 1)")
        yield Query("no leading zero, left end", comment, edge)

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
            *self.cell(_NEXT),
            *self.constants(),
            "\n; 4. to 6. Cells occur; the sets are closed; the laws; the theorem.",
        ]
        for query in self.queries():
            lines += [f"\n; {query.comment}", f'(echo "{query.name}: expected {query.expected}")']
            lines += ["(push 1)", *(f"(assert {part})" for part in query.asserted)]
            lines += [f"(set-info :status {query.expected})", "(check-sat)", "(pop 1)"]
        return "\n".join(lines) + "\n"


def demand_layout(layout: str) -> None:
    """Raise ValueError for a layout that is not written."""
    if layout not in LAYOUTS:
        raise ValueError(
            f"no SMT-LIB is written for the layout {layout}, only for {' and '.join(LAYOUTS)}: "
            "`trm prove --check` checks the table of any layout"
        )


def to_smt(program: Program) -> str:
    """Return the table, the laws and the theorem of a sum as SMT-LIB.

    Raises:
        ValueError: the table is of another layout.
    """
    return _File(program).text()


# ---------------------------------------------------------------------------------------------
# Solvers
# ---------------------------------------------------------------------------------------------


def _z3(text: str) -> str:
    import z3

    context = z3.Context()  # one for each file: it keeps what was declared
    return z3.Z3_eval_smtlib2_string(context.ref(), text)


def _cvc5(text: str) -> str:
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("incremental", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "file")
    lines = []
    while not (command := parser.nextCommand()).isNull():
        lines.append(command.invoke(solver, parser.getSymbolManager()))
    return "".join(map(str, lines))


SOLVERS: dict[str, Callable[[str], str]] = {"z3": _z3, "cvc5": _cvc5}


def answers(text: str, solver: str) -> list[tuple[str, str, str]]:
    """Return name, expected answer and answer of each question, by an imported solver.

    Args:
        text: of `to_smt`.
        solver: a name in `SOLVERS`.

    Raises:
        ImportError: the solver is not installed.
        ValueError: the text is not of `to_smt`.
    """
    # A solver that compares its answers with the expected ones stops at the first difference.
    questions = re.sub(r"\(set-info :status \w+\)", "", text)
    try:
        lines = [line.strip('"') for line in SOLVERS[solver](questions).splitlines()]
    except ImportError:
        raise
    except Exception:  # solvers raise exceptions of their own kinds for a damaged file
        lines = []
    found = []
    for line, answer in pairwise(lines):
        name, is_name, expected = line.rpartition(": expected ")
        if is_name:
            found.append((name, expected, answer))
    if not found or len(found) != text.count("(check-sat)"):
        raise ValueError("it is no file of `trm prove --smt`, or damaged")
    return found


def main(path: str | Path) -> int:
    """Let each installed solver answer a file; return the exit code.

    0: all answers are as expected; 1: one is not, and is printed; 2: there is no solver or file.
    """
    try:
        text, code, installed = Path(path).read_text(encoding="utf-8"), 0, 0
        for solver in SOLVERS:
            start = time.perf_counter()
            try:
                found = answers(text, solver)
            except ImportError:
                continue
            installed += 1
            took = f"{time.perf_counter() - start:.1f} s"
            for name, expected, answer in found:
                if answer != expected:
                    code = 1
                    print(f"{solver}: {name}: {answer}, and {expected} is expected")
            correct = sum(answer == expected for _, expected, answer in found)
            print(f"{solver}: {correct} of {len(found)} answers are as expected, in {took}")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        print(f"{path} cannot be checked: {error}", file=sys.stderr)
        return 2
    if not installed:
        print("no solver is installed: pip install z3-solver, or cvc5", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m trm.proof.smt FILE.smt2, of trm prove --smt", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
