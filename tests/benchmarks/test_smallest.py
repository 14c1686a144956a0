"""The benchmark of small cell models: their incorrect inputs, and which of them are proved."""

import pytest


@pytest.fixture
def smallest(program):
    return program("smallest")


def test_saved_models_are_checked_on_all_reachable_inputs(smallest, tmp_path, monkeypatch, capsys):
    file = tmp_path / "smallest.png"
    words = "smallest.py --checkpoint lattice-base2-seed0 smallest-adder-seed0 --output"
    monkeypatch.setattr("sys.argv", [*words.split(), str(file)])
    smallest.main()
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[:3] for line in lines] == [
        ["lattice-base2-seed0", "lattice", "45,693"],
        ["smallest-adder-seed0", "column", "288"],
    ]
    assert lines[1][3:] == ["5,593", "0", "0.203", "float32"]
    assert file.read_bytes().startswith(b"\x89PNG")
