"""Cells worked out once each, in order, are what supervision steps without end lead to.

And whole canvases along a wavefront are those that are worked out row by row.
"""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from canvas.addition import Addition
from canvas.canvas_size import Canvas
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import Drawing, WorkedDrawing, draw_worked, row_steps
from canvas.symbols import BLANK, MASK
from trm.models import ordered
from trm.models.configs import LoopedConfig, UprightLoopedConfig
from trm.models.iterative import Loop
from trm.models.looped import LoopedTransformer
from trm.models.ordered import _Rows, runs_along_fronts, work_in_order
from trm.models.upright import UprightLoopedTransformer
from trm.solving.iteration import hints_after
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import (
    Predictor,
    Rollout,
    free_running,
    teacher_forced,
)
from trm.solving.solver import Solver
from trm.solving.voting import TurnedPredictor

SMALL = {"hidden_size": 32, "num_heads": 2, "num_layers": 2, "intermediate_size": 32}
SMALL |= {"halt_pool": "mask", "position": "relative_2d", "neighbourhood": "before", "radius": 1}
SMALL |= {
    "crop": True,
    "attend_self": False,
    "hints": {"sum": 5, "carry": 4},
    "hint_threshold": 0.7,
}
KINDS = {
    "others": {},
    "two loops": {"loops_per_step": 2, "num_layers": 1},
    "three layers": {"num_layers": 3},
    "near cells": {"neighbourhood": "just_before"},
}


def make(upright: bool = False, **changes) -> LoopedTransformer:
    """A model that decides some hints and not others, and whose decisions matter."""
    torch.manual_seed(3)
    settings = SMALL | changes
    if upright:
        settings["hints"] = settings["hints"] | {"orientation": 8}
        model = UprightLoopedTransformer(UprightLoopedConfig(**settings))
    else:
        model = LoopedTransformer(LoopedConfig(**settings))
    with torch.no_grad():
        model.hint_heads.head.weight *= 4
        model.hint_heads.embed.weight *= 3
    return model.eval()


def drawing(*pairs: tuple[int, int], size: tuple[int, int] = (8, 10)) -> WorkedDrawing:
    rules = Multiplication("standard").rules
    return draw_worked(rules.work(Problems.from_ints(list(pairs))), *size)


def canvases(*pairs: tuple[int, int]) -> torch.Tensor:
    """Rows of problems, some of which are pages of fewer rows than others."""
    return torch.from_numpy(row_steps(drawing(*pairs)).inputs)


PAGES = [(123, 456), (789, 12), (405, 6), (98, 765)]


@torch.no_grad()
@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_every_cell_comes_out_as_after_supervision_steps_without_end(changes):
    model, tokens = make(**changes), canvases(*PAGES)
    loop, worked = Loop(model, tokens), work_in_order(model, tokens)
    for _ in range(100):
        loop.step()
    there = worked.context.places < tokens[0].numel()
    assert worked.state.shape == loop.state.shape
    torch.testing.assert_close(worked.state[there], loop.state[there])
    for one, two in zip(loop.read(), model.read(worked.state, worked.context), strict=True):
        torch.testing.assert_close(one, two)
    assert worked.above is None  # these pages have more and fewer rows


@torch.no_grad()
@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_a_page_goes_on_from_what_is_known_of_the_rows_above(changes):
    model, steps = make(**changes), row_steps(drawing(PAGES[0], PAGES[3]))
    second, third = (torch.from_numpy(steps.inputs[steps.step == n]) for n in (1, 2))
    above = work_in_order(model, second).above
    width = above.places.shape[1]
    assert above.seen.shape == (2, len(model.layers) * model.config.loops_per_step, width, 64)
    written = torch.from_numpy(steps.labels[steps.step == 1])
    assert (third.masked_fill(third == MASK, BLANK) == written).all()
    worked, anew = work_in_order(model, third, above), work_in_order(model, third)
    assert worked.state.shape[1] == 2 * width < anew.state.shape[1]
    torch.testing.assert_close(worked.state, anew.state[:, -2 * width :])
    torch.testing.assert_close(worked.above.seen, anew.above.seen)
    for one, two in zip(
        model.read(worked.state, worked.context), model.read(anew.state, anew.context), strict=True
    ):
        masked = third == MASK if one.ndim > 1 else slice(None)
        torch.testing.assert_close(one[masked], two[masked])


@torch.no_grad()
def test_what_is_known_of_another_place_is_not_trusted():
    model, steps = make(), row_steps(drawing(PAGES[0]))
    second, third = (torch.from_numpy(steps.inputs[steps.step == n]) for n in (1, 2))
    above = work_in_order(model, second).above
    anew = work_in_order(model, third).state
    torch.testing.assert_close(work_in_order(model, third.roll(1, 1), above).state, anew)
    fourth = torch.from_numpy(steps.inputs[steps.step == 3])
    later = work_in_order(model, fourth, above).state
    torch.testing.assert_close(later, work_in_order(model, fourth).state)


@torch.no_grad()
def test_pages_of_different_widths_are_not_worked_out_together():
    tokens = torch.full((2, 6, 8), BLANK)
    tokens[:, 1:3, 2:5] = 4
    tokens[1, 3, 1] = MASK
    assert work_in_order(make(), tokens) is None
    assert work_in_order(make(), tokens[1:]) is not None


@torch.no_grad()
def test_hints_are_those_that_were_decided_on_the_way():
    predictor, inputs = IterativePredictor(make(), 100), canvases(*PAGES).numpy()
    found, expected = (
        predictor.hints(inputs, np.ones(len(inputs), dtype=np.int64)),
        hints_after(predictor.model, inputs, np.full(len(inputs), 100)),
    )
    assert found.keys() == {"sum", "carry"}
    for name, classes in found.items():
        np.testing.assert_array_equal(classes, expected[name])


@torch.no_grad()
def test_a_predictor_works_in_order_unless_it_is_to_take_all_steps():
    model, inputs = make(), canvases(*PAGES).numpy()
    masked = inputs == MASK
    quick, slow = IterativePredictor(model, 1)(inputs), IterativePredictor(model, 100, halt=False)
    assert not quick.steps.any()
    assert quick.settled.all()
    filled = slow(inputs, log_probs=True)
    np.testing.assert_array_equal(quick.canvases[masked], filled.canvases[masked])
    np.testing.assert_allclose(quick.confidence, filled.confidence, rtol=1e-4)
    log_probs = IterativePredictor(model, 1)(inputs, log_probs=True).log_probs
    np.testing.assert_allclose(log_probs[masked], filled.log_probs[masked], atol=1e-4)
    numbers: list[int] = []
    slow.watched(lambda number, *_: numbers.append(number))(inputs)
    assert numbers == list(range(1, 101))


@torch.no_grad()
def test_a_model_that_works_in_order_is_watched_cell_by_cell_from_the_right():
    predictor, inputs = IterativePredictor(make(), 1), canvases(PAGES[0]).numpy()[1:3]
    filled, masked = predictor(inputs), inputs == MASK
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    predictor.watched(lambda _, samples, cells, sure: seen.append((cells, sure)))(inputs)
    assert len(seen) == masked.sum(axis=(1, 2)).max()
    for number, (cells, sure) in enumerate(seen, start=1):
        for canvas, mask, complete in zip(cells, masked, filled.canvases, strict=True):
            row = mask.any(axis=1).argmax()
            written = np.flatnonzero(mask[row])[::-1]
            there, to_come = written[:number], written[number:]
            np.testing.assert_array_equal(canvas[row, there], complete[row, there])
            assert (canvas[row, to_come] == MASK).all()
        assert np.isnan(sure).all() == (number < len(seen))
    np.testing.assert_array_equal(seen[-1][1], filled.confidence)


@torch.no_grad()
@pytest.mark.parametrize("symmetry", ["e", "r90", "h"])
def test_what_is_remembered_of_rows_above_saves_work_and_changes_nothing(symmetry, monkeypatch):
    model = make(upright=symmetry != "e")
    predictor = IterativePredictor(model, 60)
    if symmetry != "e":
        predictor = TurnedPredictor(predictor, symmetry)
    page, rows = drawing(*PAGES[:2], size=(10, 10)), []
    work = _Rows.__init__

    def watched(pages: _Rows, *more: object) -> None:
        work(pages, *more)
        rows.append(pages.rows)

    monkeypatch.setattr(_Rows, "__init__", watched)
    cold = free_running(lambda inputs, *_: predictor(inputs), page)
    warm = predictor.free_running(page)
    np.testing.assert_array_equal(warm.canvases, cold.canvases)
    np.testing.assert_allclose(warm.confidence, cold.confidence, rtol=1e-4)
    if symmetry == "e":  # else an untrained classifier turns each page in another way
        assert max(rows[: len(rows) // 2]) > 2
        assert max(rows[len(rows) // 2 + 1 :]) == 2  # but for the first row of all
    cold, warm = (teacher_forced(p, page).filled for p in (predictor, predictor.with_cache()))
    np.testing.assert_array_equal(warm.canvases, cold.canvases)


def test_the_cache_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr("trm.solving.iterative_predictor._MOST", 3)
    predictor, inputs = IterativePredictor(make(), 60).with_cache(), canvases(*PAGES).numpy()[:5]
    for canvas in inputs:
        predictor(canvas[None])
    assert len(predictor.cache._of) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"hint_threshold": 0.0},
        {"neighbourhood": "local_lines"},
        {"attend_self": True},
        {"crop": False},
    ],
)
def test_a_model_whose_cells_depend_on_later_ones_takes_steps(changes):
    class Louder(LoopedTransformer):
        def network(self, x, *more):
            return 2 * super().network(x, *more)

    assert make().in_order
    assert not LoopedTransformer(LoopedConfig(**SMALL | changes)).in_order
    assert not Louder(LoopedConfig(**SMALL)).in_order  # its step is another


def test_a_canvas_may_be_larger_where_cells_see_few_others():
    problem = Problems.from_ints([(10**129, 10**129)])
    task = Multiplication("lattice")
    solver = Solver(IterativePredictor(make(neighbourhood="just_before"), 5), task)
    assert solver.misfits(problem) == [None]
    assert solver.draw(problem).canvases.shape == (1, 132, 134)
    assert solver.for_lengths((130, 130)) is not None
    sees_all = Solver(IterativePredictor(make(neighbourhood="all"), 5), task)
    assert sees_all.for_lengths((130, 130)) is None
    with pytest.raises(ValueError, match="132 x 134 cells is more than 12,000 cells"):
        sees_all.draw(problem)


# Along a wavefront

NEAR = {"neighbourhood": "just_before"}
FRONT_KINDS = {
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


def near(**changes) -> IterativePredictor:
    return IterativePredictor(make(**NEAR | changes), 64)


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
    """How many pages each call worked out along a wavefront."""
    pages = []
    work = ordered.work_along_fronts

    def watched(model, tokens, *more):
        pages.append(len(tokens))
        return work(model, tokens, *more)

    monkeypatch.setattr("trm.solving.iterative_predictor.work_along_fronts", watched)
    return pages


@pytest.mark.parametrize("changes", FRONT_KINDS.values(), ids=FRONT_KINDS)
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
    assert runs_along_fronts(make(**NEAR))
    assert not runs_along_fronts(make(**NEAR | changes))


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
