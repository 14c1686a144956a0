import pytest

from trm import devices
from trm.devices import make_trainer


class AskedError(Exception):
    """Carries what Lightning was asked for."""


@pytest.fixture
def asked(monkeypatch):
    """What `make_trainer` asks Lightning for."""

    def trainer(accelerator, devices, **_):
        raise AskedError(accelerator, devices)

    def ask(*words) -> tuple:
        with pytest.raises(AskedError) as told:
            make_trainer(*words, [])
        return told.value.args

    monkeypatch.setattr(devices.L, "Trainer", trainer)
    return ask


def test_one_device_can_be_named(asked):
    assert asked("cuda:1", 1, 1) == ("cuda", [1])
    assert asked("cuda", 2, 1) == ("cuda", 2)
    assert asked("cpu:0", 1, 1) == ("cpu", 1)


@pytest.mark.parametrize(("name", "number"), [("cuda:1", 2), ("cuda:x", 1)])
def test_a_device_that_is_none_or_several_is_refused(name, number):
    with pytest.raises(ValueError, match="cuda"):
        make_trainer(name, number, 1, [])


def test_more_processes_than_cores_are_refused_without_a_word_of_insistence(monkeypatch):
    monkeypatch.setattr(devices, "cores", lambda: 4)
    assert make_trainer("cpu", 4, 1, []).num_devices == 4
    with pytest.raises(ValueError, match=r"40 processes on 4 CPU cores .* --oversubscribe"):
        make_trainer("cpu", 40, 1, [])
    assert make_trainer("cpu", 40, 1, [], oversubscribe=True).num_devices == 40
