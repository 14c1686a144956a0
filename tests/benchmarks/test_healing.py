"""The benchmark of states that heal: few small problems, of a cell model and of a transformer."""

import numpy as np
import pytest
import torch

from trm.models.recursive import RecursiveState


@pytest.fixture(scope="module")
def healing(program):
    return program("healing")


def test_steps_of_a_proved_model_stay_below_the_longest_chain(
    healing, tmp_path, monkeypatch, capsys
):
    file = tmp_path / "healing.png"
    words = "healing.py cells --problems 2 --starts 2 --sizes 2 3 --checkpoint lattice --output"
    monkeypatch.setattr("sys.argv", [*words.split(), str(file)])
    healing.main()
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[:3] for line in lines] == [
        ["lattice", digits, start] for digits in "23" for start in ("blank", "noise")
    ]
    assert [line[3] for line in lines] == ["2 of 2", "4 of 4"] * 2
    # Of 2 x 2 digits 3 rows and 6 columns: 2 * 2 + 6 steps.
    assert [line[5] for line in lines] == ["10", "10", "13", "13"]
    assert all(float(line[4].split()[0]) <= float(line[5]) for line in lines)
    assert file.read_bytes().startswith(b"\x89PNG")


def test_transformer_rows_settle_from_three_kinds_of_states(healing, monkeypatch, capsys):
    words = "healing.py starts --checkpoint trm-quick-seed0 --digits 1 1 --problems 2 --starts 2"
    monkeypatch.setattr("sys.argv", [*words.split(), "--steps", "12"])
    healing.main()
    found = capsys.readouterr().out
    assert "trm-quick-seed0, 1 x 1 digits, 2 problems\n2 rows, 2 starts of each, 12 steps" in found
    always = "100.0 % (34.2 to 100.0) | 100.0 % (34.2 to 100.0)"
    for start, ends in (("own", 2), ("noise", 4), ("half", 4)):
        assert f"| {start} | {ends} | {always} | 0.0 % (0.0 to 65.8) |" in found
    assert "whole solutions, own: 2 of 2, 100.0 % (34.2 to 100.0); 2 from every start" in found
    assert "whole solutions, noise: 4 of 4" in found


def test_half_of_the_cells_get_noise_in_all_parts_of_the_state(healing):
    state, noise = (
        RecursiveState(*(torch.full((3, 40, 2), x) for _ in range(2))) for x in (0.0, 1.0)
    )
    mixed = healing.halves(state, noise, torch.Generator().manual_seed(0))
    assert torch.equal(mixed.z_H, mixed.z_L)
    cells = mixed.z_H[..., 0]
    assert torch.equal(cells, mixed.z_H[..., 1])
    assert 40 < cells.sum() < 80


def test_intervals_are_over_problems(healing):
    hits, problem = np.array([[True, False, True, True]] * 2), np.array([0, 0, 1, 1])
    assert healing.share(hits, problem) == "75.0 % (50.0 to 100.0)"
    assert healing.share(hits | True, problem) == "100.0 % (34.2 to 100.0)"
