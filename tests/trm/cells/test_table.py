"""Looking decisions up gives what the network gives: on all reachable inputs, and on canvases."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from canvas.cells.reachable import reachable_cell_inputs
from canvas.cells.spec import TOKEN, input_name
from canvas.sampling import sample
from canvas.symbols import BLANK, MASK
from trm.cells.cache import CellCache
from trm.cells.computing import run_wavefront
from trm.cells.predictor import CellPredictor
from trm.cells.table import CellTable, MemoTable, UnknownInputError, closed_table, passed_outputs
from trm.checkpoints.loading import load_solver
from trm.solving.solver import Solver

# Cells with one op, with several, and with latent codes.
NAMES = ("lattice-base2-seed0", "lattice-base3-seed0", "tiny-seed0", "untold-base2-seed0")


@pytest.fixture(scope="module", params=NAMES)
def solver(request: pytest.FixtureRequest) -> Solver:
    return load_solver(request.param, device="cpu")


@pytest.fixture(scope="module")
def base3() -> Solver:
    return load_solver("lattice-base3-seed0", device="cpu")


def closed(solver: Solver) -> tuple[CellTable, np.ndarray, torch.Tensor]:
    """The table of a model with one op, all ids of reachable inputs, and the network's classes."""
    model = solver.predictor.model
    ids = reachable_cell_inputs(solver.task.local_rule())
    with torch.no_grad():
        classes = CellCache(model)(torch.from_numpy(ids)).classes
    outputs = dict(zip(model.outputs, classes.numpy().T, strict=True))
    return closed_table(model.encoding, ids, outputs), ids, classes


def masked(solver: Solver, digits: tuple[int, int], problems: int = 4) -> np.ndarray:
    drawn = sample(solver.task, 0, "train", 0, np.arange(problems), digits)
    return solver.draw(drawn).masked


@pytest.mark.parametrize("name", ["lattice-base2-seed0", "lattice-base3-seed0"])
def test_table_decides_as_the_network_on_all_reachable_inputs(name: str) -> None:
    solver = load_solver(name, device="cpu")
    table, ids, classes = closed(solver)
    model, rule = solver.predictor.model, solver.task.local_rule()
    inputs, signals = rule.cell_inputs(ids), list(model.signals)
    neighbours = []
    for direction in table.directions:
        # Any state that passes the message of the input.
        sent = list(model.encoding.directions[direction])
        columns = [0, *(2 + signals.index(name) for name in sent)]
        wanted = np.stack([inputs[input_name(direction, name)] for name in ("", *sent)], axis=1)
        same = (table.decided[:, columns] == wanted[:, None]).all(axis=2)
        assert same.any(axis=1).all()
        neighbours.append(same.argmax(axis=1))
    states = table.look_up(inputs[TOKEN].astype(np.uint8), neighbours)
    np.testing.assert_array_equal(table.decided[states][:, 1:], classes.numpy())


def test_canvases_with_other_boxes_are_filled_each_in_its_own(solver: Solver) -> None:
    small, large = masked(solver, (2, 2), 1), masked(solver, (4, 3), 1)
    room = np.full((3, large.shape[1] + 3, large.shape[2] + 2), BLANK, dtype=np.uint8)
    room[0, 1 : 1 + small.shape[1], 2 : 2 + small.shape[2]] = small[0]
    room[1, 3:, 2:] = large[0]
    room[2] = room[0]
    room[2][room[2] == MASK] = BLANK  # nothing to fill in
    table = MemoTable(CellCache(solver.predictor.model))
    wanted = run_wavefront(solver.predictor.model, torch.from_numpy(room)).tokens.numpy()
    found = table.fill(room)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(found[2], room[2])


def test_written_table_is_read_again(base3: Solver, tmp_path: Path) -> None:
    table, _, _ = closed(base3)
    file = tmp_path / "model.decisions.npz"
    with file.open("wb") as sink:
        table.write(sink, digest="abc")
    again = CellTable.read(file, digest="abc")
    assert again is not None
    canvases = masked(base3, (7, 8))
    wanted = run_wavefront(base3.predictor.model, torch.from_numpy(canvases)).tokens.numpy()
    np.testing.assert_array_equal(table.fill(canvases), wanted)
    np.testing.assert_array_equal(again.fill(canvases), wanted)
    assert CellTable.read(file, digest="of another model") is None
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(ValueError, match="damaged: delete it, or write it again"):
        CellTable.read(file, digest="abc")
    table.arrays[-1][3, 1] = 30_000
    with file.open("wb") as sink:
        table.write(sink, digest="abc")
    with pytest.raises(ValueError, match="damaged"):
        CellTable.read(file, digest="abc")


def test_a_table_that_may_not_be_read_is_not_damaged(tmp_path: Path) -> None:
    file = tmp_path / "model.decisions.npz"
    refused = PermissionError(13, "Permission denied", str(file))
    with patch.object(Path, "open", side_effect=refused), pytest.raises(PermissionError) as raised:
        CellTable.read(file, digest="abc")
    assert raised.value is refused


def test_input_outside_of_a_closed_table_runs_the_network(base3: Solver, tmp_path: Path) -> None:
    table, _, _ = closed(base3)
    canvases = masked(base3, (3, 3), 1)
    canvases[0, 0, -1] = MASK  # a given digit is missing, as on no canvas of the layout
    with pytest.raises(UnknownInputError):
        table.fill(canvases)
    predictor = base3.predictor
    assert isinstance(predictor, CellPredictor)
    file = tmp_path / "model.decisions.npz"
    with file.open("wb") as sink:
        table.write(sink, digest="")
    predictor.read_table(file, "")
    wanted = run_wavefront(predictor.model, torch.from_numpy(canvases)).tokens.numpy()
    np.testing.assert_array_equal(predictor(canvases).canvases, wanted)


@pytest.mark.parametrize("limit", ["INPUTS", "IDS"])
def test_the_network_runs_where_a_memo_would_become_too_large(
    base3: Solver, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"trm.cells.table._MOST_{limit}", 100)
    model = base3.predictor.model
    predictor = CellPredictor(model, proved=True)
    assert predictor.looks_up
    canvases = masked(base3, (30, 30))
    with pytest.raises(UnknownInputError):
        MemoTable(CellCache(model)).fill(canvases)
    for some in (canvases, masked(base3, (3, 3))):
        wanted = run_wavefront(model, torch.from_numpy(some)).tokens.numpy()
        np.testing.assert_array_equal(predictor(some).canvases, wanted)


def test_a_table_of_several_ops_agrees_with_its_network(written) -> None:
    rule, cache = written.rule, CellCache(written.model)
    ids = reachable_cell_inputs(rule)
    outputs = passed_outputs(rule.encoding, cache.decide, rule.cell_inputs(ids))
    assert next(iter(outputs)) == "symbol"
    assert {"carry", "row", "diagonal"} < outputs.keys()
    assert "product" not in outputs  # it stays in its cell
    table = closed_table(rule.whole, ids, outputs)
    for digits in ((1, 1), (3, 7), (12, 9)):
        canvases = masked(Solver(CellPredictor(written.model), written.task), digits)
        wanted = run_wavefront(written.model, torch.from_numpy(canvases), cache).tokens
        np.testing.assert_array_equal(table.fill(canvases), wanted.numpy())
