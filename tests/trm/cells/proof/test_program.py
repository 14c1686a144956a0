"""The program that is read off, as a Python file: the network's answers on pages of any size."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trm.cells.computing import run_wavefront
from trm.cells.proof.program import CellProgram, write_python

MODELS = ("ternary", "sums", "written")


@pytest.fixture(scope="module")
def programs(request):
    found = {}
    for name in MODELS:
        of = request.getfixturevalue(name)
        seen = of.comparison.numbers, of.comparison.decided
        found[name] = CellProgram.extract(of.task.layout, of.rule, *seen)
    return found


@pytest.mark.parametrize("name", MODELS)
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_program_and_network_agree_on_canvases_of_any_size(name, programs, request, work, data):
    trained = request.getfixturevalue(name)
    task, count = trained.task, trained.task.arity[0]
    number = st.integers(1, task.base**6)
    operands = data.draw(st.tuples(*[number] * count))
    problems = task.problems([operands])
    height, wide = task.canvas_layout.draw(problems).canvases.shape[1:]
    left = data.draw(st.integers(0, 3))
    width = left + wide + data.draw(st.integers(0, 3))
    drawing = task.canvas_layout.draw_worked(problems, height, width, 0, left)
    np.testing.assert_array_equal(work(programs[name], drawing.masked), drawing.truth)
    worked = run_wavefront(trained.model, torch.from_numpy(drawing.masked))
    np.testing.assert_array_equal(worked.tokens.numpy(), drawing.truth)


def test_outputs_depend_on_few_inputs(programs):
    tables = programs["ternary"].tables
    read = {"right.carry", "right.multiplier", "above_left.multiplicand"}
    assert set(tables["carry"].inputs) == read
    for table in tables.values():
        assert 0 < len(table.values) < 300
        assert len(np.unique(table.keys, axis=0)) == len(table.keys)


@pytest.mark.parametrize(
    ("name", "operands", "answer"),
    [
        ("ternary", ("21201", "1022"), "100222122"),
        ("ternary", ("2" * 100, "2" * 100), "2" * 99 + "1" + "0" * 99 + "1"),
        ("sums", ("2101", "222", "12"), "10112"),
    ],
)
def test_the_written_program_runs_by_itself(name, operands, answer, programs, tmp_path):
    base = programs[name].base
    numbers = [int(one, base) for one in operands]
    assert int(answer, base) == (sum(numbers) if name == "sums" else numbers[0] * numbers[1])
    file = tmp_path / "program.py"
    file.write_text(write_python(programs[name]))
    assert len(file.read_text().splitlines()) < 200
    words = [sys.executable, "-I", file, *operands]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    page, _, last = ran.stdout.strip().rpartition("\n\n")
    assert last == answer
    assert operands[0] in page
