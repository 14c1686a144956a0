"""The table of a lattice, its laws and the theorem as SMT-LIB: multiplication, in a small base.

In a lattice messages move diagonally, so a set of messages does not suffice: a cell reads two cells
of the row above, which have to be side by side. So there are two sets:

- *passes*: what a cell passes to the left, the message that it read from above left, and what it
  passes down. The cell on its left reads the second of these from above.
- *beside*: what two cells side by side pass down.

They have some 200 and 120 members in base 2. In base 10 there are too many: `check.py` has
outlines for that.

The theorem: row i is t_i = ⌊t_(i-1) / base⌋ + a * b_i, by an induction over columns from the left
end; what leaves the canvas there is 0; and the digits that the rows drop, with the last row, are
a * b, by an induction over rows from the last one. No two unknowns are multiplied: a digit of b is
one of few numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from trm.proof import check
from trm.proof.smt_writer import (
    NO_ENTRY,
    SAT,
    Known,
    Message,
    Query,
    Writer,
    all_of,
    any_of,
    define,
    member,
)

if TYPE_CHECKING:
    from trm.proof.program import Program

MOST_IN_BASE = 3  # largest base: the sets are written out
_NOTHING: Message = (0, 0, 0)  # no cell is there: 0, and no signals
_COLUMNS = ("column", "left_column", "right_column")


@dataclass
class Reached:
    """Messages of cells; one from above is 0 or 1 (a cell is there) and its signals.

    Attributes:
        passes: by the names of the row, of the row above, of the column and of that on its left:
            the message to the left, that from above left, and that which is passed down.
        beside: by the name of the row, the place on the left and the own place: the messages that
            two cells side by side pass down, with 0 or 1 in front.
    """

    passes: dict[tuple[str, ...], set[tuple[Message, Message, Message]]] = field(
        default_factory=dict
    )
    beside: dict[tuple[str, ...], set[tuple[Message, Message]]] = field(default_factory=dict)

    def __len__(self) -> int:
        passes = sum(len(some) for some in self.passes.values())
        return passes + sum(len(some) for some in self.beside.values())


def kinds_of_cells() -> Iterator[tuple[check.Row, str, check.Column, str]]:
    """Yield each kind of cell: row, row above, column, and name of the column on its left."""
    for row in check.LAYOUTS["lattice"]:
        for above, column in product(row.above, row.columns):
            for left in column.left:
                yield row, above, column, left


def place_of(row: check.Row, column: str) -> str:
    """Return the place of a column; beyond the left edge it is END."""
    return next((one.place for one in row.columns if one.name == column), check.END)


def on_the_right(row: check.Row, column: check.Column) -> Iterator[check.Column | None]:
    """Yield the columns that can be on the right of a column; None: it is the first."""
    if column.name in row.first_columns:
        yield None
    yield from (other for other in row.columns if column.name in other.left)


def reached(program: Program) -> Reached:
    """Explore what cells can pass, by the table; inputs without an entry end there."""
    entries = {
        name: dict(zip(map(tuple, table.keys.tolist()), table.values.tolist(), strict=True))
        for name, table in program.tables.items()
    }
    left, down = program.messages["left"], program.messages["down"]
    found, before = Reached(), -1
    while len(found) != before:
        before = len(found)
        for row, above, column, next_left in kinds_of_cells():
            place, place_left = column.place, place_of(row, next_left)
            pairs: set[tuple[Message, Message]] = {(_NOTHING, _NOTHING)}
            if above != check.EDGE:
                pairs = set(found.beside.get((above, place_left, place), ()))
            passed = found.passes.setdefault((row.name, above, column.name, next_left), set())
            tokens = check.symbol_ids(column.symbols, program.base)
            for other in on_the_right(row, column):
                rights: set[tuple[Message, Message, Message] | None] = {None}
                if other is not None:
                    key = row.name, above, other.name, column.name
                    rights = {*found.passes.get(key, ())}
                for right, (above_left, straight), token in product(rights, pairs, tokens):
                    if right is not None and right[1] != straight:
                        continue
                    known: Known = {"token": token, "right": int(right is not None)}
                    known |= {"above": straight[0], "above_left": above_left[0]}
                    for side, names, message in (
                        ("right", left, right[0] if right else (0,) * len(left)),
                        ("above", down, straight[1:]),
                        ("above_left", down, above_left[1:]),
                    ):
                        known |= {f"{side}.{n}": m for n, m in zip(names, message, strict=True)}
                    for name, table in program.tables.items():
                        key_ = tuple(known[part] for part in table.inputs)
                        known[f"own.{name}"] = entries[name].get(key_, NO_ENTRY)
                    own = (1, *(known[f"own.{name}"] for name in down))
                    message = tuple(known[f"own.{name}"] for name in left)
                    if NO_ENTRY in own or NO_ENTRY in message:
                        continue
                    passed.add((message, above_left, own))
                    if right is not None and other is not None:
                        places = row.name, place, other.place
                        found.beside.setdefault(places, set()).add((own, right[2]))
                    if next_left == check.END:
                        places = row.name, check.END, place
                        found.beside.setdefault(places, set()).add((_NOTHING, own))
    return found


class Lattice(Writer):
    """The file for the table of a lattice."""

    where = ("kind", "above_kind", *_COLUMNS, "place")

    def __init__(self, program: Program) -> None:
        left, down = program.messages["left"], program.messages["down"]
        sides = [("right", left), ("above", down), ("above_left", down), ("beside", down)]
        inputs = ["token"]
        for side, names in sides:
            inputs += [side, *(f"{side}.{name}" for name in names)]
        super().__init__(program, inputs)
        every = [column.name for row in self.rows for column in row.columns]
        self.columns = [check.END, *dict.fromkeys(every)]

    def of(self, side: str) -> list[str]:
        """Return the names of a message from above, or of the cell on the right: its parts."""
        return [side, *(f"{side}.{name}" for name in self.down)]

    @property
    def own(self) -> list[str]:
        """Parts of the message that the cell passes down."""
        return ["1", *(f"out.{name}" for name in self.down)]

    def arithmetic(self) -> Iterator[str]:
        """Yield those of all layouts, numbers of columns, and the product with a digit."""
        yield from super().arithmetic()
        yield f"(define-fun place.{check.END} () Int {len(self.places)})"
        for i, column in enumerate(self.columns):
            yield f"(define-fun column.{column} () Int {i})"
        yield "; A number times a digit: no two unknowns are multiplied."
        body = "0"
        for digit in range(1, self.base):
            body = f"(ite (= digit {digit}) (* {digit} number) {body})"
        yield define("times", ["number", "digit"], "Int", body)

    def sets(self) -> Iterator[str]:
        """Yield the sets of what cells pass."""
        found = reached(self.program)
        above_left, passed, beside = (self.of(s) for s in ("read", "passed", "other"))
        signals = [*self.left, *above_left, *passed]
        cases = []
        for (row, above, column, left), some in found.passes.items():
            here = [f"(= kind row.{row})", f"(= above_kind row.{above})"]
            here += [f"(= column column.{column})", f"(= left_column column.{left})"]
            flat = {(*one, *two, *three) for one, two, three in some}
            cases.append(all_of([*here, member(signals, flat)]))
        names = ["kind", "above_kind", "column", "left_column", *signals]
        yield define("passes", names, "Bool", any_of(cases))
        cases = []
        for (row, place_left, place), pairs in found.beside.items():
            here = [f"(= kind row.{row})", f"(= place_left place.{place_left})"]
            flat = {(*one, *two) for one, two in pairs}
            cases.append(
                all_of([*here, f"(= place place.{place})", member([*passed, *beside], flat)])
            )
        names = ["kind", "place_left", "place", *passed, *beside]
        yield define("side_by_side", names, "Bool", any_of(cases))

    def occurs(self) -> str:
        """Return the function that is true for the cells of canvases."""
        straight, above_left = self.of("above"), self.of("above_left")
        right = ["right", *(f"right.{name}" for name in self.left)]
        cases = []
        for row, above, column, left in kinds_of_cells():
            symbols = check.symbol_ids(column.symbols, self.base)
            here = [f"(= kind row.{row.name})", f"(= above_kind row.{above})"]
            here += [f"(= column column.{column.name})", f"(= left_column column.{left})"]
            here += [f"(= place place.{column.place})"]
            here += [any_of([f"(= token {symbol})" for symbol in symbols])]
            if above == check.EDGE:
                here += [f"(= {name} 0)" for name in (*straight, *above_left)]
            else:
                places = f"row.{above} place.{place_of(row, left)} place.{column.place}"
                here.append(f"(side_by_side {places} {' '.join([*above_left, *straight])})")
            rights = []
            for other in on_the_right(row, column):
                if other is None:
                    none = [f"(= {name} 0)" for name in (*right, *self.of("beside"))]
                    rights.append(all_of([*none, f"(= right_column column.{check.END})"]))
                    continue
                kinds = f"row.{row.name} row.{above} column.{other.name} column.{column.name}"
                message = " ".join([*right[1:], *straight, *self.of("beside")])
                is_there = ["(= right 1)", f"(= right_column column.{other.name})"]
                rights.append(all_of([*is_there, f"(passes {kinds} {message})"]))
            cases.append(all_of([*here, any_of(rights)]))
        return define("occurs", [*self.where, *self.inputs], "Bool", any_of(cases))

    def queries(self) -> Iterator[Query]:
        """Yield all questions: cells occur, the sets are closed, the laws, the theorem."""
        yield from self.occurring()
        yield from self._closed()
        yield from self.lawful(self._laws())
        yield from self._row_theorem()
        yield from self._rows_theorem()

    def _closed(self) -> Iterator[Query]:
        entries = all_of([f"(>= out.{name} 0)" for name in self.program.tables])
        premise = "docs/proof.md, premise *closed*:"
        comment = f"{premise} each cell that occurs has an entry in the table."
        yield Query("there is an entry", comment, ("is_a_cell", f"(not {entries})"))
        out = [*(f"out.{name}" for name in self.left), *self.of("above_left"), *self.own]
        passed = f"(passes kind above_kind column left_column {' '.join(out)})"
        comment = f"{premise} what a cell passes is in the set."
        yield Query("closed: a cell", comment, ("is_a_cell", f"(not {passed})"))
        comment = f"{premise} what two cells side by side pass down is in the set."
        for row in self.rows:
            for column in row.columns:
                places = f"place place.{column.place}"
                pair = f"(side_by_side kind {places} {' '.join([*self.own, *self.of('beside')])})"
                here = f"(= kind row.{row.name})", f"(= right_column column.{column.name})"
                name = f"closed: two cells, {row.name}, left of {column.name}"
                yield Query(name, comment, ("is_a_cell", *here, f"(not {pair})"))
        nothing = ["0"] * len(self.own)
        pair = f"(side_by_side kind place.{check.END} place {' '.join([*nothing, *self.own])})"
        end = f"(= left_column column.{check.END})"
        yield Query("closed: left end", comment, ("is_a_cell", end, f"(not {pair})"))
        written = f"(or (> written 0) (= out.{check.SYMBOL} {check.BLANK_ID}))"
        asked = f"(= token {check.ASKED_ID})"
        comment = "A cell that is to be filled in shows a digit or a blank."
        yield Query("a digit or a blank", comment, ("is_a_cell", asked, f"(not {written})"))

    def _laws(self) -> Iterator[tuple[str, str, str]]:
        """Yield the laws of lattices: the name in `check`, where it holds, and what holds."""
        digits = self._in(check.UNITS, check.TENS, check.REST)
        of_a = self.in_rows(lambda content: content == check.A)
        of_b = f"(not {of_a})"
        yield "nothing_is_written", self._in(check.MARGIN, check.GAP), "(= written 0)"
        yield "a_starts_down", of_a, "(= out.multiplicand written)"
        yield "a_is_not_added", of_a, "(= out.addend 0)"
        sign = all_of([of_b, self._in(check.SIGN)])
        yield "b_starts_left", sign, "(= out.multiplier written)"
        yield "no_carry_enters", sign, "(= (value out.carry) 0)"
        gap = all_of([of_b, self._in(check.GAP)])
        yield "no_sum_carry_enters", gap, "(= (value out.sum_carry) 0)"
        multiplies = all_of([of_b, f"(or {digits} {self._in(check.GAP)})"])
        yield "b_goes_left", multiplies, "(= out.multiplier right.multiplier)"
        both = f"(+ (* {self.base} (value out.carry)) (value out.product))"
        times = "(times (value above_left.multiplicand) (value right.multiplier))"
        yield "lattice_product", multiplies, f"(= {both} (+ {times} (value right.carry)))"
        adds = all_of([of_b, digits])
        both = f"(+ (* {self.base} (value out.sum_carry)) (value written))"
        total = "(+ (value above_left.addend) (value right.product) (value right.sum_carry))"
        yield "lattice_sum", adds, f"(= {both} {total})"
        reaches = "(ite (= (value right.multiplier) 0) (> above_left.addend 0) "
        reaches += "(> above.multiplicand 0))"
        belongs = f"(or {self._in(check.UNITS)} (> written 1) {reaches})"
        yield "lattice_form", adds, f"(= (> written 0) {belongs})"
        yield "a_goes_down", adds, "(= out.multiplicand above.multiplicand)"
        yield "digit_goes_down", adds, "(= out.addend written)"

    def _in(self, *places: str) -> str:
        return any_of([f"(= place place.{place})" for place in places])

    def constants(self) -> Iterator[str]:
        """Yield the numbers of the theorem."""
        yield "; Of the columns on the left of a cell in a row of b: P is base to the power of"
        yield "; their number. R, T and A are the numbers of the digits written, of those above"
        yield "; left, and of a, one column further. lost leaves the canvas at the left end; as"
        yield "; a digit on the left of all columns it counts L = P * lost."
        yield "; U is the row above, u its last digit; W is a, up to the column of the cell."
        yield "; M is a times the number of the digits of b further down, F the answer from there."
        for name in ("P", "R", "T", "A", "L", "lost", "U", "u", "W", "M", "F", "value_of_b"):
            yield f"(declare-const {name} Int)"
        moved = f"(+ T sum_carry product (* {self.base} (+ carry (times A b))))"
        body = all_of(["(>= P 1)", "(<= 0 R)", "(< R P)", f"(= (+ R L) {moved})"])
        names = ["P", "L", "R", "T", "A", "b", "product", "carry", "sum_carry"]
        yield define("multiplies", names, "Bool", body)

    def _row_theorem(self) -> Iterator[Query]:
        base, end = self.base, f"(= left_column column.{check.END})"
        of_b = "(= kind row.b)"
        digits = self._in(check.UNITS, check.TENS, check.REST)
        own = " ".join(f"(value out.{name})" for name in ("product", "carry", "sum_carry"))
        read = " ".join(f"(value right.{name})" for name in ("product", "carry", "sum_carry"))
        b = "(value right.multiplier)"
        comment = "Theorem, left end: what leaves the canvas there is what is lost."
        left = "(+ (value out.sum_carry) (value out.product) "
        left += f"(* {base} (value out.carry)))"
        start = ("is_a_cell", of_b, digits, end, f"(= lost {left})")
        empty = f"(not (and (>= lost 0) (multiplies 1 lost 0 0 0 {b} {own})))"
        yield Query("a row multiplies, left end", comment, (*start, empty))
        comment = "Theorem, one column: what holds on its left holds with it."
        longer = [f"(* {base} P)", f"(* {base} L)", f"(+ (* {base} R) (value written))"]
        longer.append(f"(+ (* {base} T) (value above_left.addend))")
        longer.append(f"(+ (* {base} A) (value above_left.multiplicand))")
        before = f"(multiplies P L R T A {b} {own})"
        after = f"(not (multiplies {' '.join(longer)} {b} {read}))"
        cell = ("is_a_cell", of_b, digits)
        yield Query("a row multiplies, one column", comment, (*cell, before, after))
        comment = "Theorem: a does not reach the left end of the canvas."
        reaches = f"(not (<= (+ (* {base} (value above.multiplicand)) {base}) {base}))"
        yield Query("a is shorter, left end", comment, (*cell, end, reaches))
        fits = f"(<= (+ (* {base} W) {base}) P)"
        more = f"(+ (* {base} W) (value above.multiplicand))"
        more = f"(not (<= (+ (* {base} {more}) {base}) (* {base} P)))"
        yield Query("a is shorter, one column", comment, (*cell, fits, more))
        comment = "Theorem, first row: nothing is added to it."
        first = ("is_a_cell", "(= above_kind row.a)", "(not (= 0 (value above_left.addend)))")
        yield Query("the first row adds nothing", comment, first)
        comment = "Theorem, right end: row i is t_i, nothing is lost, and t_i < base * a or 0."
        whole = f"(= W (+ (* {base} A) (value above_left.multiplicand)))"
        right = ("is_a_cell", of_b, self._in(check.GAP), f"(multiplies P L R T A {b} {own})")
        # L is lost * P: 0, or at least P.
        lost = ("(or (= L 0) (>= L P))", whole, "(>= A 0)", fits)
        above = (f"(= U (+ (* {base} T) u))", f"(<= 0 u {base - 1})", "(>= T 0)")
        bound = f"(or (= U 0) (< U (* {base} W)))"
        claim = f"(and (= L 0) (= R (+ T (times W {b}))) (or (= R 0) (< R (* {base} W))))"
        asserted = (*right, *lost, *above, bound, f"(not {claim})")
        yield Query("a row multiplies, right end", comment, asserted)
        yield Query("a row multiplies, it is so", comment, (*right, *lost, *above, bound), SAT)

    def _rows_theorem(self) -> Iterator[Query]:
        base, digit = self.base, f"(<= 0 u {self.base - 1})"
        b = f"(and (<= 0 value_of_b {base - 1}) (>= W 0))"
        comment = "Theorem, last row: the answer from there is what comes from above, plus a * b_i."
        row = "(= R (+ T (times W value_of_b)))"
        claim = "(not (= F (+ T (times W value_of_b))))"
        yield Query("rows multiply, last row", comment, (row, b, "(= F R)", claim))
        comment = "Theorem, one row more: with its last digit, as a * (b_i + base * B) is in parts."
        below = f"(= R (+ (* {base} U) u))", digit, "(= F (+ U M))"
        product_ = f"(+ (times W value_of_b) (* {base} M))"
        claim = f"(not (= (+ u (* {base} F)) (+ T {product_})))"
        yield Query("rows multiply, one row more", comment, (row, b, *below, claim))
