"""The checker, which knows nothing of the rest: right tables pass, wrong entries are seen."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from canvas.sampling import sample
from canvas.symbols import MASK
from canvas.windows import SYMBOL
from trm.proof import check
from trm.proof.program import Program, Table
from trm.proof.search import asked, pages

MODELS = ("binary", "ternary", "sums")


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
        for i in np.random.default_rng(0).permutation(len(table.values))[:12]:
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
                tokens = np.where(asked(drawing), np.uint8(MASK), drawing.canvases)
                assert (spoilt.solve(tokens) == drawing.truth).all()
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


def test_it_needs_numpy_alone_and_few_lines(programs, tmp_path):
    source = Path(check.__file__)
    assert len(source.read_text().splitlines()) <= 200
    programs["binary"].save(tmp_path / "table.npz")
    alone = tmp_path / "check.py"
    alone.write_text(source.read_text())
    words = [sys.executable, "-I", alone, tmp_path]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "trm" not in source.read_text().replace("`trm", "")


def test_no_table_at_all(tmp_path, capsys):
    assert check.main(tmp_path) == 2
    assert "is no table that can be checked" in capsys.readouterr().err
