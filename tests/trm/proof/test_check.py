"""The checker, which knows nothing of the rest: right tables pass, wrong entries are seen."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from canvas.addition import Addition
from canvas.cell_inputs import SYMBOL
from canvas.multiplication import Multiplication
from canvas.reachable import reachable_op_inputs
from canvas.render import WorkedDrawing
from canvas.sampling import sample
from canvas.symbols import BLANK, DIGIT_IDS
from canvas.task import Task
from trm.proof import check
from trm.proof.program import Program
from trm.proof.search import pages

# Layouts of which all is decided at once, and their bases; and those that are worked in steps.
WHOLE = {"lattice": 3, "column": 3, "column_carries": 3}
IN_STEPS = {"standard": 3, "accumulate": 2, "interleaved": 2, "running_sum": 2}
BASES = WHOLE | IN_STEPS


def task_of(layout: str) -> Task:
    kind = Addition if layout.startswith("column") else Multiplication
    return kind(layout=layout, base=BASES[layout])


@cache
def cell_inputs(layout: str) -> np.ndarray:
    return reachable_op_inputs(task_of(layout).local_rule())


@cache
def known(layout: str) -> Program:
    """What a network that makes no error has learned."""
    rule, numbers = task_of(layout).local_rule(), cell_inputs(layout)
    return Program.extract(layout, rule, numbers, rule.answers(numbers))


@pytest.fixture
def checked(tmp_path, capsys):
    def run(program: Program) -> tuple[int, str]:
        program.save(tmp_path / "table.npz")
        return check.main(tmp_path), capsys.readouterr().out

    return run


def changed(program: Program, output: str, **parts: np.ndarray) -> Program:
    table = program.tables[output]._replace(**parts)
    return program._replace(tables={**program.tables, output: table})


@cache
def drawn(layout: str) -> list[WorkedDrawing]:
    task = task_of(layout)
    return [drawing for _, drawing in pages(task, sample(task, 0, "train", 0, np.arange(100)))]


@pytest.mark.parametrize("layout", BASES)
def test_a_right_table_is_proved_for_all_windows(layout, checked):
    code, said = checked(known(layout))
    assert code == 0
    assert said.startswith(f"proved: {layout} in base {BASES[layout]}, all ")
    if layout in WHOLE:  # elsewhere it tries more than pages show
        assert f"all {len(cell_inputs(layout)):,} cell inputs" in said


@pytest.mark.parametrize("layout", BASES)
def test_wrong_entries_of_each_output_are_noticed(layout, checked, work):
    """But those of which nothing follows: what the last row hands down, or a cell of b."""
    right, random, noticed = known(layout), np.random.default_rng(0), []
    for output, table in right.tables.items():
        digits = DIGIT_IDS[: right.base] if output == SYMBOL else np.arange(right.base) + 1
        every = [*digits, BLANK] if output == SYMBOL else range(int(table.values.max()) + 2)
        order = random.permutation(len(table.values))
        digit = order[np.isin(table.values[order], digits)][:1]  # is another one afterwards
        for i in {*order[: 4 if layout in WHOLE else 1], *digit}:
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


@pytest.mark.parametrize("layout", BASES)
def test_every_entry_is_needed_and_other_pages_are_noticed(layout, checked):
    right, random = known(layout), np.random.default_rng(0)
    for output in random.permutation([*right.tables])[:5].tolist():
        table = right.tables[output]
        for i in (0, random.integers(len(table.values))):
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


def test_what_is_no_table_of_a_known_layout_proves_nothing(tmp_path, capsys):
    file, right = tmp_path / "table.npz", known("standard")
    backwards = dict(reversed(right.tables.items()))  # reads what is not decided yet
    without = {name: table for name, table in right.tables.items() if name != "sum"}
    right.save(file)
    damaged = file.read_bytes()[:-200]
    for program, why in (
        (None, "it is written of a model that is proved"),
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


def test_it_needs_nothing_of_this_package():
    """It is run alone in tests/trm/commands/test_prove.py."""
    source = Path(check.__file__).read_text()
    assert "trm" not in source.replace("`trm", "")
