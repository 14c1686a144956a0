"""The program that is read off: the network's answers, and Python's, on pages of any size."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from canvas.render import draw_worked
from canvas.symbols import MASK
from trm.models.local import work_in_order
from trm.proof.program import Program
from trm.proof.written import write_python

MODELS = ("ternary", "sums")


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


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_program_network_and_python_agree_on_pages_of_any_size(name, programs, request, data):
    trained = request.getfixturevalue(name)
    task, count = trained.task, trained.task.arity[0]
    number = st.integers(1, task.base**12)
    operands = data.draw(st.lists(st.tuples(*[number] * count), min_size=1, max_size=3))
    problems = task.problems(operands)
    worked = task.rules.work(problems)
    left, top = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 2))
    width = left + int(worked.widths.max()) + data.draw(st.integers(0, 3))
    drawing = draw_worked(worked, top + int(worked.heights.max()) + 1, width, top, left)
    tokens = drawing.masked
    solved = programs[name].solve(tokens)
    np.testing.assert_array_equal(solved, drawing.truth)
    in_order = work_in_order(trained.model, torch.from_numpy(tokens))
    np.testing.assert_array_equal(solved, in_order.tokens.numpy())


def test_products_of_a_hundred_digits(programs, ternary):
    task = ternary.task
    a, b = 3**99 + 3**50 - 1, 3**100 - 1
    problems = task.problems([(a, b)])
    worked = task.rules.work(problems)
    drawing = draw_worked(worked, int(worked.heights[0]), int(worked.widths[0]))
    assert (programs["ternary"].solve(drawing.masked) == drawing.truth).all()


def test_outputs_depend_on_few_inputs(programs):
    tables = programs["ternary"].tables
    assert set(tables["carry"].inputs) == {
        "right.carry",
        "right.multiplier",
        "above_left.multiplicand",
    }
    for table in tables.values():
        assert 0 < len(table.values) < 300
        assert len(np.unique(table.keys, axis=0)) == len(table.keys)


def test_a_saved_program_is_the_same(programs, tmp_path):
    file = tmp_path / "table.npz"
    programs["sums"].save(file)
    loaded = Program.load(tmp_path)
    assert loaded.messages == programs["sums"].messages
    for name, table in loaded.tables.items():
        assert table.inputs == programs["sums"].tables[name].inputs
        np.testing.assert_array_equal(table.values, programs["sums"].tables[name].values)
    assert file.stat().st_size < 10_000


def test_what_is_no_table_is_refused(programs, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no table .*table.npz"):
        Program.load(tmp_path)
    (tmp_path / "table.npz").write_text("no archive")
    with pytest.raises(ValueError, match=r"table.npz is no table of trm prove"):
        Program.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "operands", "answer"),
    [("ternary", ("21201", "1022"), "100222122"), ("sums", ("2101", "222", "12"), "10112")],
)
def test_the_written_program_runs_by_itself(name, operands, answer, programs, tmp_path):
    base = programs[name].base
    numbers = [int(one, base) for one in operands]
    right = sum(numbers) if name == "sums" else numbers[0] * numbers[1]
    assert int(answer, base) == right
    file = tmp_path / "program.py"
    file.write_text(write_python(programs[name]))
    assert len(file.read_text().splitlines()) < 200
    words = [sys.executable, "-I", file, *operands]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    page, _, last = ran.stdout.strip().rpartition("\n\n")
    assert last == answer
    assert operands[0] in page


def test_a_page_of_another_kind_has_no_entry(programs):
    page = np.full((1, 3, 6), MASK, dtype=np.uint8)
    page[0, 0] = 9  # a digit that base 3 does not have
    with pytest.raises(ValueError, match="the table has no entry for"):
        programs["ternary"].solve(page)
