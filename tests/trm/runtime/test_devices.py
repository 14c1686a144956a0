import pytest
import torch

import trm.runtime.devices
from trm.commands.arguments import Arguments
from trm.commands.parser import Parser
from trm.runtime.devices import OneProcess, check_devices, open_devices


def parsed(*words: str) -> Arguments:
    parser = Parser()
    parser.add_devices()
    return parser.parse_args(words, Arguments())


def test_devices_are_a_number_or_indices_and_one_has_a_name():
    assert parsed().devices == 1
    for text, devices in (("2", 2), ("1,", [1]), ("3,1,2", [3, 1, 2])):
        assert parsed("--devices", text).devices == devices
    for words, device in (
        ((), "auto"),
        (("--accelerator", "cuda"), "cuda"),
        (("--accelerator", "cuda", "--devices", "1,"), "cuda:1"),
        (("--devices", "1,"), "auto:1"),
    ):
        assert parsed(*words).one_device() == device


@pytest.mark.parametrize("text", ["0", "", "1,,2", "cuda:1", "1.5", "9" * 99])
def test_invalid_numbers_of_devices_are_refused(text, capsys):
    with pytest.raises(SystemExit) as stop:
        parsed(f"--devices={text}")
    assert stop.value.code == 2
    why = "is neither a number of devices nor a list" if text else "its value is empty"
    assert why in capsys.readouterr().err


def test_many_more_processes_than_cores_are_refused(monkeypatch):
    monkeypatch.setattr(trm.runtime.devices, "cores", lambda: 2)
    for devices in (8, "3", "auto", [0, 99], -1):
        check_devices("cpu", devices)
    with pytest.raises(ValueError, match=r"99 devices .* has 2 cores: take at most 8"):
        check_devices("cpu", 99)
    monkeypatch.setattr(trm.runtime.devices, "cores", lambda: 64)
    check_devices("cpu", "99")


@pytest.mark.parametrize(("name", "named"), [("gpu", "GPU"), ("cuda", "device 'cuda'")])
def test_a_missing_accelerator_is_named_before_loading(name, named, command, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("trm.checkpoints.loading.load_solver", None)
    for words in (
        ("evaluate", "--output", "D", "--accelerator", name),
        ("solve", "1x2", "--accelerator", name),
        ("fit", "--config", "debug", "--trainer.accelerator", name),
    ):
        ran = command(*words, folder=tmp_path, code=2)
        assert ran.err.endswith(f"there is no {named} to compute on: take cpu or auto\n")
    assert not list(tmp_path.iterdir())


def test_one_process_computes_like_a_fabric_of_one_device(monkeypatch):
    one = open_devices("cpu", 1, 1, "bf16-mixed")
    assert isinstance(one, OneProcess)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # torchrun has started this process
    fabric = open_devices("cpu", 1, 1, "bf16-mixed")
    assert not isinstance(fabric, OneProcess)
    for same in ("is_global_zero", "global_rank", "world_size", "device"):
        assert getattr(one, same) == getattr(fabric, same)
    x = torch.ones(2, 2)
    for some in (one, fabric):
        with some.autocast():
            assert (x @ x).dtype == torch.bfloat16
