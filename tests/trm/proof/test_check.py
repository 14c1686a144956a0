"""The checker, which knows nothing of the rest: right tables pass, wrong entries are seen."""

import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from canvas.closure import closure
from canvas.local_rules import (
    AccumulateRule,
    InterleavedRule,
    RunningSumRule,
    StandardRule,
)
from canvas.multiplication import Multiplication
from canvas.sampling import sample
from canvas.symbols import BLANK, DIGIT_IDS
from canvas.windows import SYMBOL
from trm.proof import check
from trm.proof.program import Program, Table
from trm.proof.search import pages

MODELS = ("binary", "ternary", "sums")
RULES = {
    "standard": StandardRule,
    "accumulate": AccumulateRule,
    "interleaved": InterleavedRule,
    "running_sum": RunningSumRule,
}


@pytest.fixture(scope="module")
def programs(request):
    found = {}
    for name in MODELS:
        trained = request.getfixturevalue(name)
        judged = trained.judged
        found[name] = Program.extract(
            trained.task.layout, trained.rule, judged.numbers, judged.outputs
        )
    return found


@cache
def written(layout: str) -> Program:
    """What a network that makes no error has learned of a layout that works in steps."""
    rule = RULES[layout](3)
    numbers = closure(rule)
    return Program.extract(layout, rule, numbers, rule.answers(rule.sights(numbers)))


@pytest.fixture
def checked(tmp_path, capsys):
    def run(program: Program) -> tuple[int, str]:
        program.save(tmp_path / "table.npz")
        code = check.main(tmp_path)
        return code, capsys.readouterr().out

    return run


def with_table(program: Program, name: str, table: Table) -> Program:
    return replace(program, tables={**program.tables, name: table})


@pytest.mark.parametrize("name", MODELS)
def test_a_right_table_is_proved_for_the_windows_of_the_closure(name, programs, request, checked):
    windows = len(request.getfixturevalue(name).judged.numbers)
    code, said = checked(programs[name])
    assert code == 0
    assert said.startswith("proved: ")
    assert f"all {windows:,} windows" in said


@pytest.mark.parametrize("name", MODELS)
def test_entries_that_are_wrong_are_noticed(name, programs, request, checked):
    """All but those of which nothing follows, as what the last row hands down."""
    task, program = request.getfixturevalue(name).task, programs[name]
    problems = sample(task, 0, "test", 0, np.arange(200))
    noticed = tried = 0
    for output, table in program.tables.items():
        for i in np.random.default_rng(0).permutation(len(table.values))[:8]:
            values = table.values.copy()
            values[i] = values[i] + 1 if values[i] < 2 else values[i] - 1
            spoilt = with_table(program, output, replace(table, values=values))
            code, said = checked(spoilt)
            noticed, tried = noticed + code, tried + 1
            if code == 1:
                assert "against '" in said
                continue
            assert output != SYMBOL
            for _, drawing in pages(task, problems):
                assert (spoilt.solve(drawing.masked) == drawing.truth).all()
    assert noticed > 0.8 * tried


@pytest.mark.parametrize("name", MODELS)
def test_every_entry_that_is_missing_is_noticed(name, programs, checked):
    for output, table in programs[name].tables.items():
        for i in {0, len(table.values) // 2, len(table.values) - 1}:
            keys, values = (np.delete(part, i, axis=0) for part in (table.keys, table.values))
            code, said = checked(
                with_table(programs[name], output, replace(table, keys=keys, values=values))
            )
            assert code == 1
            assert f"there is an entry of {output}" in said


def test_another_base_or_layout_is_noticed(programs, checked):
    assert checked(replace(programs["ternary"], base=2))[0] == 1
    assert checked(replace(programs["binary"], base=3))[0] == 1
    assert checked(replace(programs["binary"], layout="column"))[0] == 2


@pytest.mark.parametrize("layout", RULES)
def test_pages_that_are_worked_out_in_steps_are_proved(layout, checked):
    code, said = checked(written(layout))
    assert code == 0
    assert said.startswith(f"proved: {layout} in base 3, all ")


def solves(program: Program) -> bool:
    layout, base = program.layout, program.base
    task = Multiplication(layout=layout, base=base)
    drawn = [drawing for _, drawing in pages(task, sample(task, 0, "test", 0, np.arange(100)))]
    return all((program.solve(one.masked) == one.truth).all() for one in drawn)


@pytest.mark.parametrize("layout", RULES)
def test_a_wrong_entry_of_each_step_is_noticed(layout, checked):
    """But where nothing follows: of a carry that the last row hands on, or of a cell of b."""
    right, random, unnoticed = written(layout), np.random.default_rng(0), 0
    for output, table in right.tables.items():
        values, i = table.values.copy(), random.integers(len(table.values))
        choices = [*DIGIT_IDS[:3], BLANK] if output == SYMBOL else range(int(values.max()) + 2)
        values[i] = random.choice([one for one in choices if one != values[i]])
        spoilt = with_table(right, output, replace(table, values=values))
        code, said = checked(spoilt)
        assert "against '" in said if code == 1 else solves(spoilt), (output, table.keys[i])
        unnoticed += code != 1
    assert unnoticed <= (layout == "running_sum")


@pytest.mark.parametrize("layout", RULES)
def test_every_entry_of_each_step_is_needed(layout, checked):
    right, random = written(layout), np.random.default_rng(0)
    for output in random.choice([*right.tables], 6, replace=False):
        table = right.tables[output]
        i = random.integers(len(table.values))
        keys, values = (np.delete(part, i, axis=0) for part in (table.keys, table.values))
        code, said = checked(with_table(right, output, replace(table, keys=keys, values=values)))
        assert code == 1
        assert f"there is an entry of {output}" in said


def test_a_table_of_steps_that_is_damaged(tmp_path, capsys):
    file, right = tmp_path / "table.npz", written("standard")
    backwards = dict(reversed(right.tables.items()))  # reads what is not decided yet
    without = {name: table for name, table in right.tables.items() if name != "sum"}
    for tables in (backwards, without):
        replace(right, tables=tables).save(file)
        assert check.main(tmp_path) == 2
    right.save(file)
    file.write_bytes(file.read_bytes()[:-200])
    assert check.main(tmp_path) == 2
    assert "is no table that can be checked" in capsys.readouterr().err


def test_of_a_layout_that_is_not_known_nothing_is_proved(tmp_path, capsys):
    replace(written("standard"), layout="direct").save(tmp_path / "table.npz")
    assert check.main(tmp_path) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing is known of pages of the layout direct" in said.err


@pytest.mark.parametrize("layout", RULES)
def test_pages_of_another_layout_are_noticed(layout, checked):
    """A table is right for the pages of its own layout alone."""
    for other in {"standard", "accumulate", "interleaved"} - {layout}:
        assert checked(replace(written(layout), layout=other))[0] != 0


def test_it_needs_numpy_alone_and_few_lines(programs, tmp_path):
    source = Path(check.__file__)
    assert len(source.read_text().splitlines()) <= 335
    programs["binary"].save(tmp_path / "table.npz")
    alone = tmp_path / "check.py"
    alone.write_text(source.read_text())
    words = [sys.executable, "-I", alone, tmp_path]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "trm" not in source.read_text().replace("`trm", "")


def test_no_table_at_all(tmp_path, capsys):
    assert check.main(tmp_path) == 2
    assert (
        "is no table that can be checked: it is written of a model that is proved"
        in capsys.readouterr().err
    )
