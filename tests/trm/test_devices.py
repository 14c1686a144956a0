import argparse

import pytest
import torch

from trm import devices
from trm.commands.arguments import add_devices, one_device
from trm.devices import make_trainer


class AskedError(Exception):
    """Carries what Lightning was asked for."""


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_devices(parser)
    return parser.parse_args(words)


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


@pytest.mark.parametrize(
    ("words", "devices"),
    [
        ((), 1),
        (("--devices", "2"), 2),
        (("--devices", "1,"), [1]),
        (("--devices", "0,"), [0]),
        (("--devices", "0,2"), [0, 2]),
        (("--devices=3,1,2",), [3, 1, 2]),
    ],
)
def test_devices_are_a_number_or_a_list_of_indices(asked, words, devices):
    args = parsed(*words, "--accelerator", "cuda")
    assert args.devices == devices
    assert asked(args.accelerator, args.devices, 1) == ("cuda", devices)


@pytest.mark.parametrize(
    "text", ["0", "00", "-1", "", ",", ",1", "1,,2", "1,x", "all", "cuda:1", "1.5", "1 2", "9" * 99]
)
def test_what_is_no_number_of_devices_is_refused(text, capsys):
    with pytest.raises(SystemExit) as stop:
        parsed(f"--devices={text}")
    assert stop.value.code == 2
    assert (
        "is no number of devices, nor a list of their indices like 0,2" in capsys.readouterr().err
    )


def test_an_accelerator_has_no_index_and_processes_on_a_cpu_have_none():
    with pytest.raises(ValueError, match="cuda:1"):
        make_trainer("cuda:1", 1, 1, [])
    with pytest.raises(ValueError, match="processes on a CPU have no indices: give --devices"):
        make_trainer("cpu", [1], 1, [])


@pytest.mark.parametrize(
    ("words", "device"),
    [
        ((), "auto"),
        (("--accelerator", "cpu"), "cpu"),
        (("--accelerator", "cpu", "--devices", "0,"), "cpu"),
        (("--accelerator", "cuda"), "cuda"),
        (("--accelerator", "cuda", "--devices", "1,"), "cuda:1"),
        (("--accelerator", "mps", "--devices", "1"), "mps"),
    ],
)
def test_one_device_is_named_as_pytorch_does(words, device):
    assert one_device(parsed(*words)) == device


@pytest.mark.parametrize("there", [True, False])
def test_a_gpu_is_what_the_machine_has(monkeypatch, there):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: there)
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda *_: torch.device("cuda") if there else None
    )
    gpu, auto = (parsed("--accelerator", name, "--devices", "1,") for name in ("gpu", "auto"))
    assert one_device(auto) == ("cuda:1" if there else "cpu")
    if there:
        assert one_device(gpu) == "cuda:1"
        assert one_device(parsed("--accelerator", "gpu")) == "cuda"
    else:
        with pytest.raises(ValueError, match=r"there is no GPU .* --accelerator cpu or auto"):
            one_device(gpu)


@pytest.mark.parametrize("text", ["2", "0,1", "17"])
def test_several_devices_are_none_for_one_problem_after_the_other(text):
    with pytest.raises(ValueError, match="on one device: take --devices 1"):
        one_device(parsed("--accelerator", "cuda", "--devices", text))
