import pytest

from trm.precision import BFLOAT16, FLOAT32, settle


@pytest.mark.parametrize("units", [True, False])
def test_bfloat16_is_settled_on_where_a_cpu_has_units_for_it(monkeypatch, units):
    monkeypatch.setattr("trm.precision.cpu_multiplies_bfloat16", lambda: units)
    assert settle(BFLOAT16, "cpu") == (BFLOAT16 if units else FLOAT32)
    assert settle(FLOAT32, "cpu") == FLOAT32
