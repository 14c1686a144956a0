"""Cells worked out once each, in order, are what supervision steps without end lead to.

And whole canvases along a wavefront are those that are worked out row by row.
"""

import numpy as np
import pytest
import torch

from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import WorkedDrawing, draw_worked, row_steps
from canvas.symbols import BLANK, MASK
from trm.models.configs import LoopedConfig, UprightLoopedConfig
from trm.models.iterative import Loop
from trm.models.looped import LoopedTransformer
from trm.models.ordered import _Rows, work_in_order
from trm.models.upright import UprightLoopedTransformer
from trm.solving.iteration import hints_after
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.rollout import (
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
