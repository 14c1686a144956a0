"""The checker, which knows nothing of the rest: right tables pass, wrong entries are seen."""

import re
import subprocess
import sys
from functools import cache
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

from canvas.cells.reachable import reachable_op_inputs
from canvas.cells.spec import SYMBOL
from canvas.drawing import WorkedDrawing
from canvas.rule110 import Rule110
from canvas.sampling import sample
from canvas.symbols import BLANK, DIGIT_IDS
from canvas.task import Task
from canvas.tasks import TASKS
from trm.cells.proof import check
from trm.cells.proof.program import CellProgram
from trm.cells.proof.search import drawings

# Layouts of which all is decided at once, and their bases; and those that are worked in steps.
WHOLE = {"lattice": 3, "column": 3, "column_carries": 3, "difference": 3}
IN_STEPS = {"standard": 3, "accumulate": 2, "interleaved": 2, "running_sum": 2, "restoring": 3}
IN_STEPS |= {"generations": 3, "waves": 2}  # texts over 01; products modulo p
BASES = WHOLE | IN_STEPS
# Numbers of inputs that are tried in the latter: more than canvases have.
TRIED = {"standard": 989, "accumulate": 230, "interleaved": 361, "running_sum": 1007}
TRIED |= {"restoring": 3783, "generations": 31, "waves": 5561}


def task_of(layout: str) -> Task:
    if layout == "generations":
        return Rule110()
    kind = next(kind for kind in TASKS.values() if layout in kind.layouts)
    return kind(layout=layout, base=BASES[layout])


@cache
def cell_inputs(layout: str) -> np.ndarray:
    return reachable_op_inputs(task_of(layout).local_rule())


@cache
def known(layout: str) -> CellProgram:
    """The decisions of a network without an error."""
    rule, numbers = task_of(layout).local_rule(), cell_inputs(layout)
    return CellProgram.extract(layout, rule, numbers, rule.correct_outputs(numbers))


@pytest.fixture
def checked(tmp_path, capsys):
    def run(program: CellProgram) -> tuple[int, str]:
        program.save(tmp_path / "table.npz")
        return check.main(tmp_path), capsys.readouterr().out

    return run


def changed(program: CellProgram, output: str, **parts: np.ndarray) -> CellProgram:
    table = program.tables[output]._replace(**parts)
    return program._replace(tables={**program.tables, output: table})


@cache
def drawn(layout: str) -> list[WorkedDrawing]:
    task = task_of(layout)
    return [drawing for _, drawing in drawings(task, sample(task, 0, "train", 0, np.arange(30)))]


@pytest.mark.parametrize("layout", BASES)
def test_a_correct_table_is_proved_for_all_inputs(layout, checked):
    code, said = checked(known(layout))
    assert code == 0
    tried = f"{TRIED.get(layout) or len(cell_inputs(layout)):,} cell inputs of all canvases"
    assert said == f"proved: {layout} in base {BASES[layout]}, all {tried}\n"


@pytest.mark.parametrize("layout", BASES)
def test_incorrect_entries_of_each_output_are_noticed(layout, checked, work):
    """But those of which nothing follows: what the last row hands down, or a cell of b."""
    right, random, noticed = known(layout), np.random.default_rng(0), []
    outputs = [*right.tables]
    if layout in IN_STEPS and layout != "standard":  # as others, but for a few laws
        outputs = random.permutation(outputs)[:6].tolist()
    for output in outputs:
        table = right.tables[output]
        digits = DIGIT_IDS[: right.base] if output == SYMBOL else np.arange(right.base) + 1
        every = [*digits, BLANK] if output == SYMBOL else range(int(table.values.max()) + 2)
        order = random.permutation(len(table.values))
        digit = order[np.isin(table.values[order], digits)][:1]  # is another one afterwards
        one = digit if len(digit) else order[:1]
        for i in {*order[:2], *digit} if layout in WHOLE else one:
            values = table.values.copy()
            others = digits if values[i] in digits else every
            values[i] = random.choice([one for one in others if one != values[i]])
            spoilt = changed(right, output, values=values)
            code, said = checked(spoilt)
            noticed.append(code == 1)
            if noticed[-1]:
                assert "against '" in said
                continue
            for one in drawn(layout):
                assert (work(spoilt, one.masked) == one.truth).all(), (output, table.keys[i])
    assert np.mean(noticed) > 0.8


# One entry of a right table is changed: law, layout, output, right and wrong value, and where.
# Classes in base 3: 0 none, 1 to 3 the digits 0 to 2, 4 `special`, 5 `padding`. Symbols: 1 is the
# digit 0, 11 a blank, 13 a cell that is to be filled in.
BEFORE, BELOW = {"own.row": 1, "own.arriving": 2}, {"own.number": 0, "own.multiplicand": 2}
LAW_CASES = (
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
    ("dividend_starts", "restoring", "first", 1, 0, {"token": 1}),
    ("nothing_but_a_yet", "restoring", "second", 0, 2, {"token": 1}),
    ("no_trial_yet", "restoring", "new", 0, 1, {"above.remainder": 1, "own.divisor": 0}),
    ("remainder_passes_b", "restoring", "first", 0, 1, {"token": 2}),
    ("divisor_starts", "restoring", "second", 1, 0, {"token": 1}),
    ("nothing_outside_a", "restoring", "first", 0, 1, {"token": 13}),
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


@pytest.mark.parametrize(("law", "layout", "output", "right", "wrong", "where"), LAW_CASES)
def test_an_entry_against_a_law_is_refused_and_the_law_is_named(
    law, layout, output, right, wrong, where, checked
):
    program = known(layout)
    table = program.tables[output]
    fits = table.values == right
    for name, number in where.items():
        fits &= table.keys[:, table.inputs.index(name)] == number
    assert fits.any()
    values = table.values.copy()
    values[np.argmax(fits)] = wrong
    code, said = checked(changed(program, output, values=values))
    assert code == 1
    assert f"against '{law}: " in said


def names_of_laws() -> set[str]:
    return {
        law.__name__
        for layout, rows in check.LAYOUTS.items()
        for row in rows
        for place in check.PLACES
        for law in check.LAWS[layout][1](row, place)
    }


def test_every_law_is_tested():
    assert names_of_laws() == {law for law, *_ in LAW_CASES} | {
        "no_carry_enters",
        "no_borrow_enters",
    }


def test_docs_name_every_law_and_functions_that_exist():
    page = (Path(__file__).parents[4] / "docs/proof.md").read_text()
    assert [law for law in names_of_laws() if f"`{law}`" not in page] == []
    checker = page.split("\n## The checker\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\|.*\| (`.*`) \|.*\|$", checker, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    assert "Enumeration.run" in named
    for name in named:
        attrgetter(name)(check)


@pytest.mark.parametrize(
    ("law", "layout", "output"),
    [("no_carry_enters", "lattice", "carry"), ("no_borrow_enters", "difference", "borrow")],
)
def test_no_carry_and_no_borrow_enter_a_row(law, layout, output):
    """An entry that is against this law is also read in the row of a, and is refused there."""
    row, outputs = check.LAYOUTS[layout][1], {output: np.array([0, 1, 2])}
    cells = check.Cells(row, check.SIGN, 3, {}, outputs, np.array([1, 1, 1]))
    assert getattr(check, law)(cells).tolist() == [True, True, False]


@pytest.mark.parametrize("layout", BASES)
def test_every_entry_is_needed_and_other_canvases_are_noticed(layout, checked):
    right, random = known(layout), np.random.default_rng(0)
    for output in random.permutation([*right.tables])[: 5 if layout in WHOLE else 2].tolist():
        table = right.tables[output]
        for i in (0, random.integers(len(table.values))) if layout in WHOLE else (0,):
            keys, values = (np.delete(part, i, axis=0) for part in (table.keys, table.values))
            code, said = checked(changed(right, output, keys=keys, values=values))
            assert code == 1
            assert f"there is an entry of {output}" in said
    # A table is right for the pages of its own layout alone.
    others = {*WHOLE} if layout in WHOLE else {"standard", "accumulate", "interleaved"}
    for other in others - {layout}:
        assert checked(right._replace(layout=other))[0] != 0
    if layout in ("lattice", "accumulate"):
        assert checked(right._replace(base=5 - right.base))[0] == 1


def test_tables_of_unknown_layouts_prove_nothing(tmp_path, capsys):
    file, right = tmp_path / "table.npz", known("standard")
    backwards = dict(reversed(right.tables.items()))  # reads what is not decided yet
    without = {name: table for name, table in right.tables.items() if name != "sum"}
    right.save(file)
    damaged = file.read_bytes()[:-200]
    for program, why in (
        (None, "there is no such file. `trm prove --output` writes it"),
        (damaged, "damaged, or another file"),
        (right._replace(tables=backwards), "damaged, or another file"),
        (right._replace(tables=without), "damaged, or another file"),
        (right._replace(layout="direct"), "no rows and laws are known of the layout direct"),
    ):
        file.unlink(missing_ok=True)
        if isinstance(program, bytes):
            file.write_bytes(program)
        elif program is not None:
            program.save(file)
        assert check.main(tmp_path) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert f"is no table that can be checked: {why}" in said.err


def test_the_checker_without_a_folder_prints_its_usage():
    words = [sys.executable, check.__file__]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert ran.stderr == "usage: python check.py FOLDER, the folder of a proof\n"


def test_the_checker_imports_nothing_of_this_package():
    """It is run alone in tests/trm/commands/test_prove.py."""
    source = Path(check.__file__).read_text()
    assert "trm" not in source.replace("`trm", "")
