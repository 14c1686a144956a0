"""A rule as weights decides as the rule, and is proved without training."""

import numpy as np
import pytest
import torch

from canvas.addition import Addition
from canvas.cells.reachable import reachable_op_inputs
from canvas.multiplication import Multiplication
from trm.cells.proof.compare import compare


@pytest.fixture(scope="module")
def example(program):
    return program("program_to_weights")


@pytest.mark.parametrize(
    "task",
    [Addition("column", base=2), Addition("column", base=3), Multiplication("standard", base=2)],
    ids=["column, base 2", "column, base 3", "standard, base 2"],
)
def test_compiled_weights_decide_as_the_rule_on_all_inputs(example, task):
    rule = task.local_rule()
    ids = reachable_op_inputs(rule)
    model = example.compiled(task)
    found = compare(model, ids, rule.decide(ids), bounded=False)
    assert model.config.intermediate_size == len(ids)
    assert found.right.all()
    with torch.no_grad():
        model.layers[0].mlp.down.weight[:, 7] *= -1  # the unit of one op input
    found = compare(model, ids, rule.decide(ids), bounded=False)
    assert np.flatnonzero(~found.right).tolist() == [7]


def test_a_compiled_file_is_proved(example, command, tmp_path, monkeypatch):
    file = tmp_path / "compiled.safetensors"
    monkeypatch.setattr("sys.argv", ["program_to_weights.py", "--output", str(file)])
    example.main()
    ran = command("prove", "--checkpoint", file)
    assert "proved, in float64" in ran.out
    assert "correct on every problem of any length" in ran.out


def test_a_signal_in_two_directions_has_no_channels_of_its_own(example):
    with pytest.raises(ValueError, match="two directions"):
        example.compiled(Multiplication("lattice", base=2))
