"""Tables of cells without an error, and entries that are against a law."""

from functools import cache
from typing import Any

import numpy as np

from canvas.cells.reachable import reachable_op_inputs
from canvas.rule110 import Rule110
from canvas.task import Task
from canvas.tasks import TASKS
from trm.cells.proof.program import CellProgram


def task_of(layout: str, base: int) -> Task:
    if layout == "generations":
        return Rule110()
    kind: Any = next(kind for kind in TASKS.values() if layout in kind.layouts)
    return kind(layout=layout, base=base)


@cache
def cell_inputs(layout: str, base: int) -> np.ndarray:
    return reachable_op_inputs(task_of(layout, base).local_rule())


@cache
def correct_table(layout: str, base: int) -> CellProgram:
    """Return the decisions of a network without an error."""
    rule, numbers = task_of(layout, base).local_rule(), cell_inputs(layout, base)
    return CellProgram.extract(layout, rule, numbers, rule.decide(numbers))


def changed(program: CellProgram, output: str, **parts: np.ndarray) -> CellProgram:
    """Return a program with other keys or values of an output."""
    table = program.tables[output]._replace(**parts)
    return program._replace(tables={**program.tables, output: table})


def with_entry(
    program: CellProgram, output: str, right: int, wrong: int, where: dict[str, int]
) -> CellProgram:
    """Change the first entry with a right value, and with some inputs, to a wrong value."""
    table = program.tables[output]
    fits = table.values == right
    for name, number in where.items():
        fits &= table.keys[:, table.inputs.index(name)] == number
    assert fits.any()
    values = table.values.copy()
    values[np.argmax(fits)] = wrong
    return changed(program, output, values=values)


# One entry of a right table is changed: law, layout, output, right and wrong value, and where.
# Classes in base 3: 0 none, 1 to 3 the digits 0 to 2, 4 `special`, 5 `padding`. Symbols: 1 is the
# digit 0, 11 a blank, 13 a cell that is to be filled in.
BEFORE, BELOW = {"own.row": 1, "own.arriving": 2}, {"own.number": 0, "own.multiplicand": 2}
LAW_CASES: tuple[tuple[str, str, str, int, int, dict[str, int]], ...] = (
    ("nothing_is_written", "lattice", "symbol", 11, 1, {}),
    ("a_starts_down", "lattice", "multiplicand", 2, 3, {"above_left": 0}),
    ("a_is_not_added", "lattice", "addend", 0, 1, {}),
    ("b_starts_left", "lattice", "multiplier", 2, 3, {"right.multiplier": 0}),
    ("no_sum_carry_enters", "lattice", "sum_carry", 0, 2, {"above_left.addend": 2}),
    ("b_goes_left", "lattice", "multiplier", 2, 3, {"right.multiplier": 2}),
    ("lattice_product", "lattice", "product", 2, 3, {}),
    ("lattice_product", "lattice", "carry", 1, 2, {}),
    ("lattice_sum", "lattice", "symbol", 2, 3, {}),
    ("lattice_sum", "lattice", "sum_carry", 2, 1, {}),
    ("lattice_form", "lattice", "symbol", 1, 11, {}),
    ("a_goes_down", "lattice", "multiplicand", 2, 3, {"above_left": 1}),
    ("digit_goes_down", "lattice", "addend", 2, 3, {}),
    ("column_sum", "column", "sum", 2, 3, {}),
    ("column_sum", "column_carries", "sum_carry", 2, 1, {}),
    ("column_form", "column", "sum", 1, 0, {}),
    ("addend_goes_down", "column", "addend", 2, 3, {}),
    ("nothing_is_added_twice", "column", "addend", 0, 1, {"token": 13}),
    ("sum_is_written", "column", "symbol", 2, 3, {}),
    ("carries_are_written", "column_carries", "symbol", 2, 1, {"above.row": 2}),
    ("minuend_starts", "difference", "minuend", 2, 3, {"token": 2}),
    ("minuend_goes_down", "difference", "minuend", 2, 3, {"token": 11}),
    ("subtrahend_starts", "difference", "subtrahend", 2, 3, {}),
    ("difference_of_digits", "difference", "borrow", 2, 1, {}),
    ("difference_of_digits", "difference", "symbol", 2, 3, {}),
    ("difference_form", "difference", "symbol", 1, 11, {}),
    ("no_borrow_enters", "difference", "borrow", 0, 2, {"right.borrow": 1, "above.minuend": 0}),
    ("dividend_starts", "restoring", "first", 1, 0, {"token": 1}),
    ("nothing_but_a_yet", "restoring", "second", 0, 2, {"token": 1}),
    ("no_trial_yet", "restoring", "new", 0, 1, {"above.remainder": 1, "own.divisor": 0}),
    ("remainder_passes_b", "restoring", "first", 0, 1, {"token": 2}),
    ("divisor_starts", "restoring", "second", 1, 0, {"token": 1}),
    ("nothing_outside_a", "restoring", "first", 0, 1, {"token": 13}),
    ("nothing_outside_a", "restoring", "borrow", 0, 2, {"right.borrow": 2, "own.mode": 0}),
    ("trial_is_decided", "restoring", "settle", 2, 1, {"own.inside": 0, "right.borrow": 1}),
    ("rows_of_trials", "restoring", "mode", 1, 0, {"right.mode": 0}),
    ("divisor_moves", "restoring", "divisor", 0, 1, {"own.inside": 1, "above_left.divisor": 1}),
    ("mark_moves", "restoring", "mark", 1, 0, {"own.mode": 1}),
    ("mark_moves", "restoring", "mark", 3, 2, {"own.quotient": 2}),
    ("trial_subtracts", "restoring", "new", 1, 2, {}),
    ("difference_waits", "restoring", "difference", 1, 2, {"own.new": 0}),
    ("remainder_is_chosen", "restoring", "remainder", 2, 1, {"above_left.settle": 2}),
    ("sign_moves_right", "restoring", "settle", 1, 0, {"above_left.settle": 1}),
    ("quotient_digit", "restoring", "quotient", 1, 2, {"above.mark": 1}),
    ("division_is_written", "restoring", "symbol", 1, 2, {"own.shown": 1}),
    ("factor_starts", "waves", "first", 1, 0, {"own.line": 1}),
    ("multiplier_starts", "waves", "second", 2, 1, {"own.line": 2}),
    ("modulus_starts", "waves", "third", 2, 1, {"own.line": 0}),
    ("no_wave_yet", "waves", "digit", 0, 1, {"own.value": 0, "own.change": 0, "own.after": 0}),
    ("sign_points_at_the_head", "waves", "points", 1, 0, {}),
    ("nothing_beside", "waves", "symbol", 11, 1, {"own.shown": 0}),
    ("phases_take_turns", "waves", "phase", 3, 4, {"above.phase": 1}),
    ("wave_moves_right", "waves", "wave", 3, 0, {"own.does": 3}),
    ("sum_is_complete", "waves", "sum", 1, 0, {}),
    ("digits_add_up", "waves", "digit", 2, 0, {"own.after": 0}),
    ("a_and_p_go_down", "waves", "p", 2, 1, {"above.p": 2, "own.after": 0}),
    ("b_moves_left", "waves", "next", 3, 2, {"own.adds": 1}),
    ("answer_moves_left", "waves", "answer", 1, 2, {"right.answer": 1, "own.end": 1}),
    ("answer_adds_up", "waves", "shown", 2, 1, {"own.added": 3}),
    ("digit_is_odd", "waves", "symbol", 2, 1, {"own.shown": 0}),
    ("tape_starts", "generations", "bit", 1, 0, {"own.given": 2}),
    ("nothing_outside_the_tape", "generations", "symbol", 11, 1, {"own.inside": 0}),
    ("step_of_rule_110", "generations", "new", 1, 0, {}),
    ("bit_is_written", "generations", "symbol", 1, 2, {"own.inside": 1}),
    ("margin_passes_nothing", "standard", "sum", 0, 1, {"right.sum_carry": 0}),
    ("no_sum_yet", "standard", "product", 0, 1, {"own.multiplier": 4, "own.multiplicand": 0}),
    ("digits_of_a_start", "standard", "column_multiplicand", 2, 3, {"own.multiplicand": 0}),
    ("end_of_a_is_passed", "standard", "diagonal", 4, 0, {"own.row": 1}),
    ("b_passes_nothing_yet", "standard", "column_multiplier", 0, 1, BEFORE),
    ("a_passes_b", "standard", "column_multiplicand", 4, 0, {"own.multiplicand": 4}),
    ("digits_of_b_start", "standard", "column_multiplier", 2, 3, {"own.row": 2}),
    ("digits_of_b_start", "accumulate", "column_multiplier", 1, 0, {"own.arriving": 3}),
    ("zero_is_detected", "standard", "zero", 1, 0, {"above.zero": 0}),
    ("nothing_moves_yet", "standard", "diagonal", 0, 1, {"own.row": 2, "own.arriving": 2}),
    ("row_has_its_digit_of_b", "standard", "multiplier", 2, 3, {"own.row": 3}),
    ("long_product", "standard", "product", 2, 3, {}),
    ("long_product", "standard", "carry", 1, 2, {}),
    ("carry_reaches_as_far_as_a", "standard", "carry", 1, 0, {}),
    ("product_form", "standard", "product", 1, 0, {}),
    ("product_form", "standard", "product", 4, 1, {}),
    ("long_sum", "standard", "sum", 2, 3, {}),
    ("long_sum", "interleaved", "sum_carry", 2, 1, {}),
    ("sum_form", "standard", "sum", 4, 1, {}),
    ("sum_carry_begins_in_column_0", "standard", "sum_carry", 1, 0, {}),
    ("product_or_sum_is_written", "standard", "symbol", 2, 3, {}),
    ("a_goes_straight_down", "standard", "column_multiplicand", 0, 1, BELOW),
    ("a_goes_straight_down", "interleaved", "column_multiplicand", 2, 0, {"own.row": 3}),
    ("b_goes_straight_down", "running_sum", "column_multiplier", 2, 0, {"own.row": 3}),
    ("a_moves_left", "standard", "passing", 2, 3, {"own.row": 3}),
    ("b_moves_right", "standard", "diagonal", 2, 0, {"own.row": 3}),
    ("zero_goes_down", "standard", "zero", 1, 0, {"above.zero": 1}),
)
