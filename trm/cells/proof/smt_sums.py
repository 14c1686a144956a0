"""The table of a sum, its laws and the theorem as SMT-LIB: `column` and `column_carries`.

The theorem is an induction over columns from the left end, with unbounded integers: if a number is
X on the left of a column with the digit d, it is base * X + d from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from trm.cells.proof import check
from trm.cells.proof.smt_writer import (
    CLOSED,
    NEXT,
    Query,
    Writer,
    all_of,
    any_of,
    define,
)  # fmt: skip

if TYPE_CHECKING:
    from trm.cells.proof.program import CellProgram


class Sums(Writer):
    """The file for the table of a sum."""

    where = ("kind", "above_kind", "place")

    def __init__(self, program: CellProgram) -> None:
        left, down = program.messages["left"], program.messages["down"]
        inputs = ["token", "right", *(f"right.{name}" for name in left)]
        super().__init__(program, [*inputs, "above", *(f"above.{name}" for name in down)])

    # The table, the sets, and the cells that occur.

    def sets(self) -> Iterator[str]:
        """Yield the sets of what cells pass, by bounds that hold in every base."""
        margin, units = f"(= place place.{check.MARGIN})", f"(= place place.{check.UNITS})"
        rows = {row.name: row for row in self.rows}
        added = [name for name, row in rows.items() if row.content == check.ADDEND]
        first = [name for name in added if rows[name].above == (check.EDGE,)]
        sums = [name for name, row in rows.items() if check.EDGE not in row.above]
        yield "; To the left: the carry of a sum. It is 0 where less than two numbers are added."
        two = self._kind("above_kind", [name for name in added if name not in first])
        nothing = f"(or {margin} (= above_kind row.{check.EDGE}))"
        body = f"(ite {nothing} (= sum_carry 0) (<= 1 sum_carry (ite {two} 2 1)))"
        yield define("passes_left", [*self.where, *self.left], "Bool", body)
        yield "; Down: the digits of an addend, and of the sum of all rows above, with one in the"
        yield "; units; and the kind of row, if there is a signal for it."
        parts = [f"(<= 0 {digit} {self.base})" for digit in ("addend", "sum")]
        parts.append(f"(=> {margin} (= 0 addend sum))")
        is_added, is_sum = self._kind("kind", added), self._kind("kind", sums)
        parts.append(f"(or {is_added} (= addend 0))")
        parts += [f"(=> (= kind row.{name}) (= sum 0))" for name in first]
        parts.append(f"(=> (and {units} {is_added}) (> addend 0))")
        parts.append(f"(=> (and {units} {is_sum}) (> sum 0))")
        parts += ["(= row kind)"] * ("row" in self.down)
        yield define("passes_down", ["kind", "place", *self.down], "Bool", all_of(parts))

    def _kind(self, of: str, rows: list[str]) -> str:
        return any_of([f"(= {of} row.{name})" for name in rows])

    def occurs(self) -> str:
        """Return the function that is true for the cells of canvases."""
        cases = []
        for row in self.rows:
            for above, column in product(row.above, row.columns):
                symbols = check.symbol_ids(column.symbols, self.base)
                tokens = any_of([f"(= token {symbol})" for symbol in symbols])
                right, down = self._right(row, above, column), self._above(above, column)
                cases.append(
                    all_of([*self.located(row.name, above, column.place), tokens, right, down])
                )
        return define("occurs", [*self.where, *self.inputs], "Bool", any_of(cases))

    def _right(self, row: check.RowKind, above: str, column: check.ColumnKind) -> str:
        """Return what a cell can read from the right."""
        signals = [f"right.{name}" for name in self.left]
        cases = []
        if column.name in row.first_columns:
            cases.append(all_of(["(= right 0)", *(f"(= {name} 0)" for name in signals)]))
        for other in row.columns:
            if column.name in other.left:
                where = f"row.{row.name} row.{above} place.{other.place}"
                cases.append(f"(and (= right 1) (passes_left {where} {' '.join(signals)}))")
        return any_of(cases)

    def _above(self, above: str, column: check.ColumnKind) -> str:
        """Return what a cell can read from above."""
        signals = [f"above.{name}" for name in self.down]
        if above == check.EDGE:
            return all_of(["(= above 0)", *(f"(= {name} 0)" for name in signals)])
        message = f"(passes_down row.{above} place.{column.place} {' '.join(signals)})"
        return all_of(["(= above 1)", message])

    # The questions.

    def closed(self) -> Iterator[Query]:
        """Yield the questions if the messages that cells pass are in the sets."""
        passes = ("left", " ".join(self.where), self.left), ("down", "kind place", self.down)
        for direction, where, signals in passes:
            outputs = " ".join(f"out.{name}" for name in signals)
            passed = f"(passes_{direction} {where} {outputs})"
            comment = f"{CLOSED} messages {direction} are in the set."
            yield Query(f"closed: {direction}", comment, ("is_a_cell", f"(not {passed})"))

    def laws(self) -> Iterator[tuple[str, str, str]]:
        """Yield the laws of sums: the name in `check`, where it holds, and what holds."""
        carry, total = "(value right.sum_carry)", "(+ (value above.addend) (value above.sum)"
        done = f"(+ (* {self.base} (value out.sum_carry)) (value out.sum))"
        yield "column_sum", "true", f"(= {done} {total} {carry}))"
        reaches = f"(or (> above.addend 0) (> above.sum 0) (> {carry} 0))"
        yield "column_form", "true", f"(= (> out.sum 0) {reaches})"
        added = self.in_rows(lambda content: content == check.ADDEND)
        yield "addend_goes_down", added, "(= out.addend written)"
        yield "nothing_is_added_twice", f"(not {added})", "(= out.addend 0)"
        sums = self.in_rows(lambda content: content == check.SUM)
        yield "sum_is_written", sums, "(= written out.sum)"
        carries = self.in_rows(lambda content: content == check.CARRIES)
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
        body = all_of(["(<= 0 last 1)", "(>= P 1)", "(<= 0 X)", "(< X P)", equation])
        yield define("adds_up", ["P", "X", "Y", "Z", "carry"], "Bool", body)

    def theorem(self) -> Iterator[Query]:
        """Yield that rows add, and that the sum has no gap and no leading zero."""
        yield from self._row_theorem()
        yield from self._form_theorem()

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
        nothing = all_of(["(= written 0)", "(= out.sum 0)", "(= out.addend 0)"])
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
        pair = ["is_a_cell", f"{NEXT}is_a_cell", f"(= {NEXT}place place.rest)"]
        pair += [f"(= {NEXT}kind kind)", f"(= {NEXT}above_kind above_kind)"]
        pair += [f"(= {NEXT}right.{name} out.{name})" for name in self.left]
        above = ("above.addend", "above.sum")
        comment = "Theorem: the sum has a digit in the units, in each row below an addend."
        units = ("is_a_cell", "(= place place.units)", "(= above 1)", "(not (> out.sum 0))")
        yield Query("a digit in the units", comment, units)
        comment = "Theorem: no gap in a sum, if there is none in the row above."
        number = "(not (= place place.margin))"
        no_gap = [f"(=> (> {NEXT}{name} 0) (> {name} 0))" for name in above]
        claim = f"(not (=> (> {NEXT}out.sum 0) (> out.sum 0)))"
        yield Query("no gap", comment, (*pair, number, *no_gap, claim))
        comment = "Theorem: a 0 on the left of the units has a digit on its left, if so above."
        rest = "(= place place.rest)"
        goes_on = [f"(=> (= {name} 1) (> {NEXT}{name} 0))" for name in above]
        claim = f"(not (=> (= out.sum 1) (> {NEXT}out.sum 0)))"
        yield Query("no leading zero", comment, (*pair, rest, *goes_on, claim))
        comment = "Theorem: no 0 at the left end of the canvas, if there is none above it."
        ends = [f"(not (= {name} 1))" for name in above]
        fits = "(= (value out.sum_carry) 0)"
        edge = ("is_a_cell", rest, fits, *ends, "(= out.sum 1)")
        yield Query("no leading zero, left end", comment, edge)
