"""The checker, which knows nothing of the rest: right tables pass, wrong entries are seen."""

import re
import subprocess
import sys
from functools import cache
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from tables import LAW_CASES, cell_inputs, changed, correct_table, task_of, with_entry

from canvas.cells.reachable import reachable_op_inputs
from canvas.cells.spec import SYMBOL, TOKEN
from canvas.division import RestoringRule
from canvas.drawing import WorkedDrawing
from canvas.sampling import sample
from canvas.subtraction import DifferenceRule
from canvas.symbols import BLANK, DIGIT_IDS, MASK
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


def known(layout: str) -> CellProgram:
    return correct_table(layout, BASES[layout])


@pytest.fixture
def checked(tmp_path, capsys):
    def run(program: CellProgram) -> tuple[int, str]:
        program.save(tmp_path / "table.npz")
        return check.main(tmp_path), capsys.readouterr().out

    return run


@cache
def drawn(layout: str) -> list[WorkedDrawing]:
    task = task_of(layout, BASES[layout])
    return [drawing for _, drawing in drawings(task, sample(task, 0, "train", 0, np.arange(30)))]


@pytest.mark.parametrize("layout", BASES)
def test_a_correct_table_is_proved_for_all_inputs(layout, checked):
    code, said = checked(known(layout))
    assert code == 0
    base = BASES[layout]
    tried = TRIED.get(layout) or len(cell_inputs(layout, base))
    assert said == f"proved: {layout} in base {base}, all {tried:,} cell inputs of all canvases\n"


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


@pytest.mark.parametrize(("law", "layout", "output", "right", "wrong", "where"), LAW_CASES)
def test_an_entry_against_a_law_is_refused_and_the_law_is_named(
    law, layout, output, right, wrong, where, checked
):
    code, said = checked(with_entry(known(layout), output, right, wrong, where))
    assert code == 1
    assert f"against '{law}: " in said


class BorrowsFromTheMargin(RestoringRule):
    def _new(self, inputs):
        new, borrow = super()._new(inputs)
        outside = (inputs["own.mode"] == 0) & (inputs["above.remainder"] == 0)
        return new, np.where(outside & (inputs["own.divisor"] == 0), 2, borrow)


class WritesBeyondTheNumbers(DifferenceRule):
    def cell(self, outputs, inputs):
        found, token = super().cell(outputs, inputs), inputs[TOKEN]
        beyond = (token == MASK) & (inputs["above.minuend"] == 0)
        borrow = beyond * inputs["right.borrow"]
        found["borrow"] = np.where(borrow == 1, 2, found["borrow"])
        found[SYMBOL] = np.where(borrow == 2, DIGIT_IDS[1], found[SYMBOL])
        return found


@pytest.mark.parametrize(
    ("layout", "spoilt", "law"),
    [
        ("restoring", BorrowsFromTheMargin, "nothing_outside_a"),
        ("difference", WritesBeyondTheNumbers, "no_borrow_enters"),
    ],
)
def test_other_rules_that_add_up_in_most_cells_are_refused(layout, spoilt, law, checked):
    """Rules that solve problems wrongly, and obey all laws but this one, which once had a gap."""
    rule = spoilt(BASES[layout])
    numbers = reachable_op_inputs(rule)
    program = CellProgram.extract(layout, rule, numbers, rule.decide(numbers))
    code, said = checked(program)
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


def test_no_answer_enters_and_no_carry_in_the_last_row():
    """Two cells of a product modulo p, that are in order, and the same with one output more."""
    rule, row = task_of("waves", 2).local_rule(), check.LAYOUTS["waves"][3]
    names = [*rule.cell_inputs(np.zeros(1, dtype=np.int64))]
    for law, place, output, inputs in (
        (check.nothing_beside, check.MARGIN, "answer", {}),
        (check.digits_add_up, check.REST, "carry", {"right.answer": 1}),
        (check.digits_add_up, check.REST, "carry", {"above_left.wave": 9, "right.answer": 1}),
    ):
        reads = {name: np.full(2, inputs.get(name, 0)) for name in names}
        outputs = dict.fromkeys(rule.signals, np.zeros(2, dtype=int)) | {output: np.array([0, 1])}
        cells = check.WaveCells(row, place, 2, reads, outputs, np.zeros(2, dtype=int))
        assert law(cells).tolist() == [True, False]


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
