import pytest
import torch

from trm.precision import BFLOAT16, FLOAT32, computing_in, on_cpu, settle


@pytest.mark.parametrize("units", [True, False])
def test_bfloat16_is_settled_on_where_a_cpu_has_units_for_it(monkeypatch, units):
    monkeypatch.setattr("trm.precision.cpu_multiplies_bfloat16", lambda: units)
    assert settle(BFLOAT16, "cpu") == (BFLOAT16 if units else FLOAT32)
    assert settle(FLOAT32, "cpu") == FLOAT32


def test_any_accelerator_but_the_cpu_is_none_of_it():
    assert on_cpu("cpu")
    assert not on_cpu("cuda")
    assert on_cpu("auto") is not torch.accelerator.is_available()


def test_matrix_products_are_of_the_precision_that_is_asked_for():
    matrix = torch.ones(2, 2)
    with computing_in(FLOAT32, "cpu"):
        assert (matrix @ matrix).dtype == torch.float32
    with computing_in(BFLOAT16, "cpu"):
        assert (matrix @ matrix).dtype == torch.bfloat16
