"""Every hint follows by a local rule, as in a cellular automaton.

A rule sees what a small model does: the symbols of the canvas that it is given and the hints of the
cells around its own. Each rule is checked in every cell that has hints, and so is the digit that
they say is to be written.
"""

from collections.abc import Callable

import numpy as np
import pytest

from canvas import symbols
from canvas.addition import Addition
from canvas.hints import NONE, UNDEFINED, draw_hints
from canvas.layouts import ROW_KINDS
from canvas.multiplication import Multiplication
from canvas.render import draw_worked, row_step
from canvas.sampling import sample

GIVEN, PARTIAL, SUM, ANSWER, CARRIES = range(1, 1 + len(ROW_KINDS))
SIGNS = (symbols.TIMES, symbols.PLUS)
REACH = 2  # two layers of a model that sees 3 x 3 cells in each


class Near:
    """What is around one cell; what a rule has no business with raises."""

    def __init__(
        self, inputs: np.ndarray, hints: dict[str, np.ndarray], row: int, column: int, base: int
    ) -> None:
        self.inputs, self.hints, self.row, self.column, self.base = inputs, hints, row, column, base

    def _at(self, cells: np.ndarray, down: int, left: int, outside: int) -> int:
        assert max(abs(down), abs(left)) <= REACH, "not a neighbour"
        row, column = self.row + down, self.column - left
        inside = 0 <= row < cells.shape[0] and 0 <= column < cells.shape[1]
        return int(cells[row, column]) if inside else outside

    def symbol(self, down: int = 0, left: int = 0) -> int:
        return self._at(self.inputs, down, left, symbols.BLANK)

    def digit(self, down: int = 0, left: int = 0) -> int:
        """The class of the symbol's digit, none where it is no digit."""
        digit = self.symbol(down, left) - symbols.DIGIT_ZERO
        return 1 + digit if 0 <= digit < 10 else NONE

    def hint(self, name: str, down: int = 0, left: int = 0) -> int:
        return self._at(self.hints[name], down, left, NONE)

    def begins(self, name: str, down: int = 0, left: int = 0) -> bool:
        """Whether the digits of a hint begin here, from the right."""
        here, right = self.hint(name, down, left), self.hint(name, down, left - 1)
        return here != NONE and right == NONE

    def carried(self, *addends: int) -> int:
        """1 + the carry out of a column of classes."""
        return 1 + sum(max(one - 1, 0) for one in addends) // self.base

    def product(self, one: int, other: int) -> int:
        """Of two classes' digits, 0 without both."""
        return (one - 1) * (other - 1) if one and other else 0

    def added(self, *addends: int) -> int:
        """The class of the digit of a sum of classes, none where nothing is added or carried."""
        if not any(addends[:-1]) and addends[-1] <= 1:
            return NONE
        return 1 + sum(max(one - 1, 0) for one in addends) % self.base


def above(near: Near) -> int:
    return near.hint("row_kind", -1)


def same_row(near: Near, settled: int | None) -> int:
    """What is settled in this cell, or else what a neighbour in the row has."""
    if settled is not None:
        return settled
    return near.hint("row_kind", 0, 1) or near.hint("row_kind", 0, -1)


# What a rule says of a cell.


def row_kind_of_rows(near: Near, layout: str) -> int:
    """Of the layouts that write both operands on top."""
    if near.symbol() == symbols.TIMES or near.symbol(1) == symbols.TIMES:
        return GIVEN
    first, settled = near.hint("row_kind", -2) == above(near) == GIVEN, None
    straight = first or layout == "interleaved"
    # The column of the row's multiplier digit, and the digits of b there and on the left.
    working = first or above(near) not in (NONE, GIVEN)
    place = working and near.begins("multiplicand", -1, 0 if straight else -1)
    here, left = (near.hint("column_multiplier", -1, side) for side in (0, 1))
    if layout == "standard":
        settled = (PARTIAL if here else ANSWER) if place else None
    elif layout == "interleaved":
        settled = {
            GIVEN: PARTIAL if first else None,
            PARTIAL: (SUM if left else ANSWER) if place else None,
            SUM: PARTIAL,
        }.get(above(near))
    elif layout == "direct":
        settled = ANSWER if place else None
    elif layout == "accumulate" or above(near) == SUM:
        settled = (SUM if left else ANSWER) if place else None
    elif place:
        lone = near.begins("column_multiplier", -1, -1)  # b has one digit
        settled = PARTIAL if here else ANSWER if lone else SUM
    return same_row(near, settled)


def margin_digit(near: Near, down: int = 0) -> bool:
    beside = [(near.digit(down, -k), near.symbol(down, -k)) for k in (1, 2)]
    return bool(near.digit(down)) and not any(d or s in SIGNS for d, s in beside)


def row_kind_of_lattice(near: Near, layout: str) -> int:
    if near.symbol() == symbols.TIMES:
        return GIVEN
    settled = None
    if margin_digit(near):
        settled = SUM if margin_digit(near, 1) else ANSWER
    return same_row(near, settled)


def row_kind_of_column(near: Near, layout: str) -> int:
    settled = None
    if near.symbol() == symbols.PLUS or (near.digit() and near.hint("row_kind", 1) == GIVEN):
        settled = GIVEN
    elif near.symbol(-1) == symbols.PLUS:
        settled = CARRIES if layout == "column_carries" else ANSWER
    elif above(near) == CARRIES:
        settled = ANSWER
    return same_row(near, settled)


def column_multiplier(near: Near, layout: str) -> int:
    if near.hint("row_kind") == GIVEN:
        return near.digit() if above(near) == GIVEN else NONE
    return near.hint("column_multiplier", -1)


def column_multiplicand(near: Near, layout: str) -> int:
    if near.hint("row_kind") == GIVEN and above(near) != GIVEN:
        return near.digit()
    return near.hint("column_multiplicand", -1)


def diagonal(near: Near, layout: str) -> int:
    if near.symbol() == symbols.TIMES:
        return 1
    return int(near.hint("diagonal", -1, 1) and not near.hint("adding", -1, 1))


def adding(near: Near, layout: str) -> int:
    if not near.begins("column_multiplier", -1):
        return near.hint("adding", 0, -1)
    return 1 if near.hint("diagonal") else 2 if near.hint("adding", -1) else NONE


def multiplicand(near: Near, layout: str) -> int:
    kind = near.hint("row_kind")
    if kind == GIVEN and above(near) != GIVEN:
        return near.digit()
    if layout == "direct" and kind != GIVEN:
        return NONE
    if layout == "standard" and kind not in (GIVEN, PARTIAL):
        return NONE
    if layout == "running_sum" and above(near) == PARTIAL != kind:  # the first sum
        return near.hint("column_multiplicand", -1)
    straight = layout == "lattice" or (layout == "interleaved" and kind in (SUM, ANSWER))
    return near.hint("multiplicand", -1, 0 if straight or above(near) == GIVEN else -1)


def multiplies(near: Near, layout: str) -> bool:
    """Whether the row holds or adds a partial product."""
    return adds_product(near, layout) or near.hint("row_kind") == PARTIAL


def adds_product(near: Near, layout: str) -> bool:
    """Whether the row adds a partial product to the one above, in one go."""
    layouts = ("accumulate", "lattice", "running_sum")
    return layout in layouts and near.hint("row_kind") in (SUM, ANSWER)


def total_above(near: Near, layout: str, left: int = 0) -> int:
    """The class of the digit that such a row adds it to, here or in a cell beside."""
    if not adds_product(near, layout) or above(near) in (GIVEN, PARTIAL):
        return NONE
    return near.digit(-1, left + 1 if layout == "lattice" else left)


def multiplier(near: Near, layout: str) -> int:
    if not multiplies(near, layout):
        return NONE
    if layout == "lattice":
        return near.digit() if margin_digit(near) else near.hint("multiplier", 0, -1)
    if near.begins("multiplicand"):
        return near.hint("column_multiplier")
    return near.hint("multiplier", 0, -1)


def carry(near: Near, layout: str) -> int:
    """Out of the cell; in a lattice, where products are ready ahead, of the cell on the left."""
    if multiplies(near, layout):
        (digit, of_row), right = factors(near, layout), near.hint("carry", 0, -1)
        if not (right or digit):
            return NONE
        return 1 + (near.product(digit, of_row) + max(right - 1, 0)) // near.base
    kind, right = near.hint("row_kind"), near.hint("carry", 0, -1)
    if kind not in (SUM, ANSWER) or layout != "interleaved":
        return NONE
    if not (right or near.begins("column_multiplier")):
        return NONE
    return near.carried(near.hint("sum", -1), near.digit(-1), right)


def factors(near: Near, layout: str) -> tuple[int, int]:
    """The digits that meet here; in a lattice those that will meet in the cell on the left."""
    if layout == "lattice":
        multiplier = near.hint("multiplier", 0, -1) or near.digit(0, -1)
        return near.hint("multiplicand", -1, 1), multiplier
    return near.hint("multiplicand"), near.hint("multiplier")


def product(near: Near, layout: str) -> int:
    """The digit of the partial product here; in a lattice of that in the cell on the left."""
    if not adds_product(near, layout):
        return NONE
    (digit, of_row), right = factors(near, layout), near.hint("carry", 0, -1)
    if layout != "lattice" and of_row == 1:  # 0 has one digit
        return 1 if near.begins("multiplicand") else NONE
    if not digit and right <= 1:
        return NONE
    return 1 + (near.product(digit, of_row) + max(right - 1, 0)) % near.base


def product_here(near: Near, layout: str) -> int:
    """The digit of this cell's product; in a lattice the cell on the right has prepared it."""
    if layout == "running_sum":
        return product(near, layout)
    return near.hint("product", 0, -1 if layout == "lattice" else 0)


def total(near: Near, layout: str) -> int:
    """The digit of the sum of the row above and a product; that of the row above beside it."""
    if not adds_product(near, layout):
        return NONE
    here, digit = total_above(near, layout), product(near, layout)
    if near.hint("multiplier") == 1 and above(near) != PARTIAL:  # 0 adds no digit to a sum
        digit = NONE
    return near.added(here, digit, near.hint("sum_carry"))


def sum_carry_of_accumulated(near: Near, layout: str) -> int:
    """Out of the cell in a lattice; else into it, out of the cell on the right."""
    left = 0 if layout == "lattice" else -1
    right = near.hint("sum_carry", 0, -1)
    if not adds_product(near, layout) or not (right or near.begins("multiplicand", 0, left)):
        return NONE
    if layout == "running_sum":  # what the total on the right falls short of what it was added to
        due = max(total_above(near, layout, left) - 1, 0) + max(right - 1, 0)
        return 1 + (due > max(near.hint("total", 0, -1) - 1, 0))
    return near.carried(total_above(near, layout, left), near.hint("product", 0, -1), right)


def sum_of_products(near: Near, layout: str) -> int:
    if near.hint("row_kind") == GIVEN or above(near) == GIVEN:
        return NONE
    if above(near) == PARTIAL:
        carried = near.hint("carry" if layout == "interleaved" else "sum_carry", 0, -1)
        return near.added(near.hint("sum", -1), near.digit(-1), carried)
    return near.hint("sum", -1)


def sum_carry_of_products(near: Near, layout: str) -> int:
    if near.hint("row_kind") == GIVEN:
        return NONE
    right = near.hint("sum_carry", 0, -1)
    if not (right or near.begins("column_multiplier")):
        return NONE
    product = near.digit(-1) if above(near) == PARTIAL else NONE
    return near.carried(near.hint("sum", -1), product, right)


def sum_of_addends(near: Near, layout: str) -> int:
    if above(near) == GIVEN:
        return near.added(near.hint("sum", -1), near.digit(-1), near.hint("sum_carry", 0, -1))
    return near.hint("sum", -1) if above(near) == CARRIES else NONE


def sum_carry_of_addends(near: Near, layout: str) -> int:
    if above(near) != GIVEN:
        return NONE
    right = near.hint("sum_carry", 0, -1)
    if not right and (near.digit(-1, -1) or not near.digit(-1)):
        return NONE
    return near.carried(near.hint("sum", -1), near.digit(-1), right)


def carry_of_addends(near: Near, layout: str) -> int:
    if not near.hint("sum_carry"):
        return NONE
    return max(near.hint("sum_carry", 0, -1), 1) + max(near.hint("carry", -1) - 1, 0)


Rule = Callable[[Near, str], int]
OF_ROWS: dict[str, Rule] = {
    "row_kind": row_kind_of_rows,
    "multiplicand": multiplicand,
    "column_multiplier": column_multiplier,
    "multiplier": multiplier,
    "carry": carry,
    "sum": sum_of_products,
    "sum_carry": sum_carry_of_products,
    "product": product,
    "total": total,
    "column_multiplicand": column_multiplicand,
    "diagonal": diagonal,
    "adding": adding,
}
OF_ADDITION: dict[str, Rule] = {
    "row_kind": row_kind_of_column,
    "sum": sum_of_addends,
    "sum_carry": sum_carry_of_addends,
    "carry": carry_of_addends,
}


def rule(layout: str, name: str) -> Rule:
    if layout == "lattice" and name == "row_kind":
        return row_kind_of_lattice
    if layout in ("accumulate", "lattice", "running_sum") and name == "sum_carry":
        return sum_carry_of_accumulated
    return (OF_ADDITION if layout in Addition.layouts else OF_ROWS)[name]


def written(near: Near, layout: str) -> int:
    """The class of the digit that is to be written into a cell, if one is."""

    def hint(name: str, left: int = 0) -> int:
        return max(near.hint(name, 0, left) - 1, 0)

    kind = near.hint("row_kind")
    if layout in Addition.layouts:
        return 1 + hint("carry" if kind == CARRIES else "sum")
    if adds_product(near, layout):
        digit = product_here(near, layout)
        carried = near.hint("sum_carry", 0, -1 if layout == "lattice" else 0)
        total = total_above(near, layout), digit, carried
        return 1 + sum(max(one - 1, 0) for one in total) % near.base
    if multiplies(near, layout):
        return 1 + (near.product(*factors(near, layout)) + hint("carry", -1)) % near.base
    return 1 + hint("sum")


TASKS = [
    *(
        Multiplication(layout=layout, base=base, digits_a=(1, 4), digits_b=(1, 4))
        for layout in Multiplication.layouts
        for base in (2, 3, 10)
    ),
    *(
        Addition(layout=layout, base=base, digits=(1, 5), addends=(2, min(4, base)))
        for layout in Addition.layouts
        for base in (2, 3, 10)
    ),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.layout}-{task.base}")
def test_hints_and_the_digits_to_write_follow_from_the_neighbours(task):
    base = task.base
    zeros = [(0, 0), (0, base - 1), (base - 1, 0), (0, base**4 - base), (base**4 - base, 0)]
    drawn = sample(task, 0, "train", 0, np.arange(40)).to_ints()
    problems = task.problems([*drawn, *zeros])
    layout, name = task.rules, task.layout
    worked = layout.work(problems)
    draw = np.random.default_rng(0)
    height, width = int(worked.heights.max()) + 1, int(worked.widths.max()) + 2
    top = draw.integers(0, height - worked.heights + 1)
    left = draw.integers(0, width - worked.widths + 1)
    drawing = draw_worked(worked, height, width, top=top, left=left)
    steps = row_step(drawing, draw.integers(0, drawing.steps))
    hints = draw_hints(layout, problems, drawing, steps.step)
    checked = 0
    for i, operands in enumerate(problems.to_ints()):
        of_one = {hint: classes[i] for hint, classes in hints.items()}
        for row, column in np.argwhere(of_one["row_kind"] != UNDEFINED).tolist():
            near = Near(steps.inputs[i], of_one, row, column, task.base)
            where = f"of {operands}, step {steps.step[i]}, at {row}, {column}"
            for hint, classes in of_one.items():
                assert rule(name, hint)(near, name) == classes[row, column], f"{hint} {where}"
            truth = int(steps.labels[i, row, column]) - symbols.DIGIT_ZERO
            # Without any working, the product follows from no neighbours.
            if near.symbol() == symbols.MASK and 0 <= truth < 10 and name != "direct":
                assert written(near, name) == 1 + truth, f"symbol {where}"
            checked += 1
    assert checked > 500
