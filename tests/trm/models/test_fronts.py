"""Pages worked out along fronts are those that are worked out row by row."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import Drawing
from canvas.symbols import BLANK
from trm.models import ordered
from trm.models.configs import LoopedConfig
from trm.models.looped import LoopedTransformer
from trm.models.ordered import runs_along_fronts
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import Predictor, Rollout
from trm.solving.solver import Solver

SMALL = {"hidden_size": 32, "num_heads": 2, "num_layers": 2, "intermediate_size": 32}
SMALL |= {"halt_pool": "mask", "position": "relative_2d", "radius": 1, "crop": True}
SMALL |= {"neighbourhood": "just_before", "attend_self": False}
SMALL |= {"hints": {"sum": 5, "carry": 4}, "hint_threshold": 0.7}
KINDS = {
    "two layers": {},
    "three layers": {"num_layers": 3},
    "two loops": {"loops_per_step": 2, "num_layers": 1},
    "two loops of two layers": {"loops_per_step": 2},
    "a direction preferred": {"direction_bias": 4.0},
}
ALIKE = [(123, 456), (789, 120), (405, 689)]
OTHERS = [(1, 2), (1234, 5), (98, 765), (12, 3456), (7, 8), (10, 10)]
TASKS = {
    "lattice": Multiplication("lattice"),
    "standard": Multiplication("standard"),
    "carries": Addition("column_carries", digits=(1, 4), addends=(2, 4)),
}
SUMS = [(123, 4567, 9), (12, 3), (9, 9, 9, 9)]


def make(**changes) -> LoopedTransformer:
    """A model that decides some hints and not others, and whose decisions matter."""
    torch.manual_seed(3)
    model = LoopedTransformer(LoopedConfig(**SMALL | changes))
    with torch.no_grad():
        model.hint_heads.head.weight *= 4
        model.hint_heads.embed.weight *= 3
    return model.eval()


def near(**changes) -> IterativePredictor:
    return IterativePredictor(make(**changes), 64)


def same(one: Rollout, other: Rollout) -> bool:
    np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-5)
    return all(
        np.array_equal(getattr(one, part), getattr(other, part))
        for part in ("canvases", "steps", "settled")
    )


def drawn(task: str, pairs: list, margin: int = 2) -> Drawing:
    solver = Solver(near(), TASKS[task], Canvas(margin=margin))
    return solver.draw(TASKS[task].problems(pairs))


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """How many pages each call worked out along ordered."""
    pages = []
    work = ordered.work_along_fronts

    def watched(model, tokens, *more):
        pages.append(len(tokens))
        return work(model, tokens, *more)

    monkeypatch.setattr("trm.solving.iterative_predictor.work_along_fronts", watched)
    return pages


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("task", TASKS)
def test_pages_are_those_that_are_worked_out_row_by_row(task, changes, counted):
    predictor = near(**changes)
    for pairs in (SUMS,) if task == "carries" else (ALIKE, OTHERS):
        drawing = drawn(task, pairs)
        found = predictor.free_running(drawing)
        assert same(found, Predictor.free_running(predictor, drawing))
        assert (found.canvases[~drawing.given] != BLANK).any()  # there is something to compare
        assert sum(counted) == len(pairs)
        counted.clear()


def test_pages_whose_rows_lie_alike_go_together(counted):
    near().free_running(drawn("lattice", OTHERS))
    assert sorted(counted) == [1, 1, 1, 3]  # by the digits of the second number


def test_pages_that_are_too_many_for_once_are_split(monkeypatch):
    drawing = drawn("lattice", [(100 + i, 999 - i) for i in range(12)])
    predictor, sizes = near(), []
    at_once = predictor.free_running(drawing)
    work = ordered._Front.__init__

    def watched(self, model, lanes, tokens, answer):
        sizes.append(len(tokens))
        work(self, model, lanes, tokens, answer)

    monkeypatch.setattr(ordered._Front, "__init__", watched)
    monkeypatch.setattr(ordered, "_CELLS", 36)  # six lanes: the operand, two times two, and one
    assert same(predictor.free_running(drawing), at_once)
    assert sizes == [6, 6]


def test_who_watches_rows_or_cells_gets_them_one_by_one(counted):
    drawing, rows = drawn("lattice", ALIKE), []
    predictor = near()
    watched = predictor.free_running(drawing, lambda step, _: rows.append(step))
    cells = []
    shown = predictor.watched(lambda *told: cells.append(told[0])).free_running(drawing)
    assert rows == [0, 0, 1, 1, 2, 2]
    assert cells
    assert not counted
    assert same(predictor.free_running(drawing), watched)
    assert same(shown, watched)


@pytest.mark.parametrize(
    "changes",
    [{"neighbourhood": "before"}, {"radius": 2}, {"halt_pool": "first"}, {"attend_self": True}],
    ids=str,
)
def test_cells_that_depend_on_more_are_worked_out_otherwise(changes):
    assert runs_along_fronts(make())
    assert not runs_along_fronts(make(**changes))


def test_rows_of_problems_in_another_base_are_filled_in_too():
    task = Multiplication("lattice", base=2)
    predictor = near()
    drawing = Solver(predictor, task).draw(Problems.from_ints([(45, 54), (33, 63)], base=2))
    assert same(predictor.free_running(drawing), Predictor.free_running(predictor, drawing))


def test_half_precision_is_that_of_row_by_row():
    predictor, drawing = near(), drawn("lattice", ALIKE)
    with torch.autocast("cpu", torch.bfloat16):
        found = predictor.free_running(drawing)
        expected = Predictor.free_running(predictor, drawing)
    assert (found.canvases == expected.canvases).mean() > 0.95


class Waits(TorchDispatchMode):
    """Notes operations for which a program waits for the device, or copies to it."""

    NAMES = ("_local_scalar_dense", "nonzero", "lift_fresh", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        # By a bool, elements have to be counted before there is a place for them.
        chosen = args[1] if name in ("index", "index_put", "index_put_") else ()
        if name in self.NAMES or any(i is not None and i.dtype == torch.bool for i in chosen):
            self.noted.append(name)
        return func(*args, **(kwargs or {}))


def test_a_column_is_worked_out_without_waiting_for_the_device(monkeypatch):
    waits, work = Waits(), ordered._Front._work

    def watched(*args):
        with waits:
            work(*args)

    monkeypatch.setattr(ordered._Front, "_work", watched)
    near().free_running(drawn("lattice", ALIKE))
    assert waits.noted == []
    with waits:  # what would have been noted
        cells = torch.arange(3)
        assert len(cells[[0, 1]]) == len(cells[cells < 2]) == int(cells[2])
    assert waits.noted == ["lift_fresh", "index", "_local_scalar_dense"]
