import pytest

from trm.commands.arguments import Arguments, Parser


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
def test_what_is_no_number_of_devices_is_refused(text, capsys):
    with pytest.raises(SystemExit) as stop:
        parsed(f"--devices={text}")
    assert stop.value.code == 2
    assert "is neither a number of devices nor a list" in capsys.readouterr().err
