"""The table of a lattice, its laws and the theorem as SMT-LIB: multiplication, in any base.

In a lattice messages move diagonally, so a set of messages does not suffice: a cell reads two cells
of the row above, which have to be side by side. So there are three sets:

- *passes_down*: what a cell passes down.
- *side_by_side*: what two cells side by side pass down.
- *passes*: what a cell passes to the left, the message that it read from above left, and what it
  passes down. The cell on its left reads the second of these from above.

They are bounds, written by hand, that multiplication keeps to in any base: a carry is less than the
digit of b, and a row ends where a has ended. They have to be wide enough for all messages that
occur (*closed*), and tight enough that each cell has an entry in the table.

The theorem: row i is t_i = ⌊t_(i-1) / base⌋ + a * b_i, by an induction over columns from the left
end; what leaves the canvas there is 0; and the digits that the rows drop, with the last row, are
a * b, by an induction over rows from the last one. No two unknowns are multiplied: a digit of b is
one of few numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from trm.cells.proof import check
from trm.cells.proof.smt_writer import CLOSED, SAT, Query, Writer, all_of, any_of, define

if TYPE_CHECKING:
    from trm.cells.proof.program import CellProgram

_ROW_OF_A = "(= kind row.a)"
_COLUMNS = ("column", "left_column", "right_column")


def kinds_of_cells() -> Iterator[tuple[check.RowKind, str, check.ColumnKind, str]]:
    """Yield each kind of cell: row, row above, column, and name of the column on its left."""
    for row in check.LAYOUTS["lattice"]:
        for above, column in product(row.above, row.columns):
            for left in column.left:
                yield row, above, column, left


def place_of(row: check.RowKind, column: str) -> str:
    """Return the place of a column; beyond the left edge it is END."""
    return next((one.place for one in row.columns if one.name == column), check.END)


def on_the_right(row: check.RowKind, column: check.ColumnKind) -> Iterator[check.ColumnKind | None]:
    """Yield the columns that can be on the right of a column; None: it is the first."""
    if column.name in row.first_columns:
        yield None
    yield from (other for other in row.columns if column.name in other.left)


class LatticeFile(Writer):
    """The file for the table of a lattice."""

    where = ("kind", "above_kind", *_COLUMNS, "place")

    def __init__(self, program: CellProgram) -> None:
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
        """Yield the sets of what cells pass, by bounds that hold in every base."""
        yield "; Down: digits of a and of the row, in the columns of the number. a has a digit in"
        yield "; the units; nothing is added to the first row."
        yield self._passes_down()
        yield "; Two cells side by side: where a has ended there is no digit on the left. At the"
        yield "; left end of the canvas a has ended."
        yield self._side_by_side()
        yield "; To the left, in a row of b: the digit of b; the product of it and of the digit of"
        yield "; a that was read above left, plus a carry that is less than b, or 0; the carry of a"
        yield "; sum, which is 0 if b is. Nothing is carried into the first product and sum."
        yield self._passes()

    def _passes_down(self) -> str:
        there = f"(= there (ite (= place place.{check.END}) 0 1))"
        digits = [f"(<= 0 {signal} {self.base})" for signal in self.down]
        outside = f"(or {self._in_number} (= 0 addend multiplicand))"
        units = f"(=> {self._in(check.UNITS)} (> multiplicand 0))"
        first = f"(=> {_ROW_OF_A} (= addend 0))"
        body = all_of([there, *digits, outside, units, first])
        return define("passes_down", ["kind", "place", "there", *self.down], "Bool", body)

    def _side_by_side(self) -> str:
        left, own = self.of("left"), self.of("own")
        cells = [f"(passes_down kind place_left {' '.join(left)})"]
        cells.append(f"(passes_down kind place {' '.join(own)})")
        ended = f"(and {self._in_number} (= own.multiplicand 0))"
        nothing = f"(=> {ended} (= 0 left.addend left.multiplicand))"
        end = f"(=> (= place_left place.{check.END}) {ended})"
        names = ["kind", "place_left", "place", *left, *own]
        return define("side_by_side", names, "Bool", all_of([*cells, nothing, end]))

    def _passes(self) -> str:
        read, passed = self.of("read"), self.of("passed")
        down = f"(passes_down kind place {' '.join(passed)})"
        # In the row of a: which columns have a digit; and nothing is passed to the left.
        blank = [
            one.name for one in self.rows[0].columns if check.DIGIT_IDS[1] not in self._ids(one)
        ]
        no_digit = any_of([f"(= column column.{name})" for name in blank])
        of_a = f"(=> {_ROW_OF_A} (= (= passed.multiplicand 0) {no_digit}))"
        nothing = "(= 0 product carry sum_carry)"
        # In a row of b: the product.
        gap, most = self._in(check.GAP), "(ite (> multiplier 1) (value multiplier) 1)"
        times = "(times (value read.multiplicand) (value multiplier))"
        carried = f"(- (+ (* {self.base} (value carry)) (value product)) {times})"
        number = [f"(<= 0 product {self.base})", "(<= 1 carry)", f"(< (value carry) {most})"]
        number += [f"(<= 0 {carried})", f"(< {carried} (ite {gap} 1 {most}))"]
        number.append("(= (> product 0) (or (> read.multiplicand 0) (> product 1)))")
        # And the sum; and that there is neither where a has ended.
        sums = ["(<= 1 sum_carry 2)", "(=> (= sum_carry 2) (> multiplier 1))"]
        ended = "(and (= 0 read.multiplicand product) (= 1 carry sum_carry))"
        sums.append(f"(=> (= passed.multiplicand 0) {ended})")
        number.append(f"(ite {gap} (= sum_carry 0) {all_of(sums)})")
        of_b = f"(ite {self._in(check.SIGN)} {nothing} {all_of(number)})"
        of_b = f"(and (<= 1 multiplier {self.base}) {of_b})"
        without_b = f"(or {_ROW_OF_A} {self._in(check.MARGIN)})"
        left = f"(ite {without_b} (and (= multiplier 0) {nothing}) {of_b})"
        names = ["kind", "column", "place", *self.left, *read, *passed]
        return define("passes", names, "Bool", all_of([down, of_a, left]))

    def occurs(self) -> str:
        """Return the function that is true for the cells of canvases."""
        straight, above_left = self.of("above"), self.of("above_left")
        right = ["right", *(f"right.{name}" for name in self.left)]
        cases = []
        for row, above, column, left in kinds_of_cells():
            here = [f"(= kind row.{row.name})", f"(= above_kind row.{above})"]
            here += [f"(= column column.{column.name})", f"(= left_column column.{left})"]
            here += [f"(= place place.{column.place})"]
            here += [any_of([f"(= token {symbol})" for symbol in self._ids(column)])]
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
                kinds = f"row.{row.name} column.{other.name} place.{other.place}"
                message = " ".join([*right[1:], *straight, *self.of("beside")])
                is_there = ["(= right 1)", f"(= right_column column.{other.name})"]
                rights.append(all_of([*is_there, f"(passes {kinds} {message})"]))
            cases.append(all_of([*here, any_of(rights)]))
        return define("occurs", [*self.where, *self.inputs], "Bool", any_of(cases))

    def closed(self) -> Iterator[Query]:
        """Yield the questions if the messages that cells pass are in the sets."""
        out = [*(f"out.{name}" for name in self.left), *self.of("above_left"), *self.own]
        passed = f"(passes kind column place {' '.join(out)})"
        comment = f"{CLOSED} what a cell passes is in the set `passes`."
        yield Query("closed: a cell", comment, ("is_a_cell", f"(not {passed})"))
        comment = f"{CLOSED} what two cells side by side pass down is in `side_by_side`."
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

    def laws(self) -> Iterator[tuple[str, str, str]]:
        """Yield the laws of lattices: the name in `check`, where it holds, and what holds."""
        digits = self._in_number
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
        yield "lattice_product", multiplies, self._product
        adds = all_of([of_b, digits])
        yield "lattice_sum", adds, self._sum
        reaches = "(ite (= (value right.multiplier) 0) (> above_left.addend 0) "
        reaches += "(> above.multiplicand 0))"
        belongs = f"(or {self._in(check.UNITS)} (> written 1) {reaches})"
        yield "lattice_form", adds, f"(= (> written 0) {belongs})"
        yield "a_goes_down", adds, "(= out.multiplicand above.multiplicand)"
        yield "digit_goes_down", adds, "(= out.addend written)"

    @property
    def _product(self) -> str:
        """The law `lattice_product`."""
        both = f"(+ (* {self.base} (value out.carry)) (value out.product))"
        times = "(times (value above_left.multiplicand) (value right.multiplier))"
        return f"(= {both} (+ {times} (value right.carry)))"

    @property
    def _sum(self) -> str:
        """The law `lattice_sum`."""
        both = f"(+ (* {self.base} (value out.sum_carry)) (value written))"
        total = "(+ (value above_left.addend) (value right.product) (value right.sum_carry))"
        return f"(= {both} {total})"

    @property
    def _in_number(self) -> str:
        return self._in(check.UNITS, check.TENS, check.REST)

    def _ids(self, column: check.ColumnKind) -> list[int]:
        return check.symbol_ids(column.symbols, self.base)

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

    def theorem(self) -> Iterator[Query]:
        """Yield that rows multiply: each one, and all of them."""
        yield from self._row_theorem()
        yield from self._rows_theorem()

    def _row_theorem(self) -> Iterator[Query]:
        base, end = self.base, f"(= left_column column.{check.END})"
        of_b = "(= kind row.b)"
        digits = self._in_number
        own = " ".join(f"(value out.{name})" for name in ("product", "carry", "sum_carry"))
        read = " ".join(f"(value right.{name})" for name in ("product", "carry", "sum_carry"))
        b = "(value right.multiplier)"
        comment = "Theorem, left end: what leaves the canvas there is what is lost."
        left = "(+ (value out.sum_carry) (value out.product) "
        left += f"(* {base} (value out.carry)))"
        start = ("is_a_cell", of_b, digits, end, f"(= lost {left})")
        empty = f"(not (and (>= lost 0) (multiplies 1 lost 0 0 0 {b} {own})))"
        yield Query("a row multiplies, left end", comment, (*start, empty))
        comment = "Theorem, one column: by two of the laws, what holds on its left holds with it."
        longer = [f"(* {base} P)", f"(* {base} L)", f"(+ (* {base} R) (value written))"]
        longer.append(f"(+ (* {base} T) (value above_left.addend))")
        longer.append(f"(+ (* {base} A) (value above_left.multiplicand))")
        before = f"(multiplies P L R T A {b} {own})"
        after = f"(not (multiplies {' '.join(longer)} {b} {read}))"
        cell = ("is_a_cell", of_b, digits)
        steps = (*cell, self._product, self._sum, before)
        yield Query("a row multiplies, one column", comment, (*steps, after))
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
