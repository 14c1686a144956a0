"""Rows that no step can change any more are left out, and nothing else changes by that."""

import numpy as np
import pytest
import torch

from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.render import WorkedDrawing, draw_worked, row_steps
from canvas.symbols import MASK
from trm.models.hints import UNDECIDED
from trm.models.iterative import Loop
from trm.models.looped import LoopedConfig, LoopedTransformer
from trm.models.rowwise import RowwiseLoop
from trm.models.upright import UprightLoopedConfig, UprightLoopedTransformer
from trm.solving.iterative_predictor import IterativePredictor
from trm.solving.memory import Memory
from trm.solving.rollout import Prediction, at_once, free_running, teacher_forced
from trm.solving.trace import trace
from trm.solving.turned import TurnedPredictor

SMALL = {"hidden_size": 32, "num_heads": 2, "num_layers": 2, "intermediate_size": 32}
SMALL |= {"halt_pool": "mask", "position": "relative_2d", "neighbourhood": "before", "radius": 1}
SMALL |= {"crop": True, "own_state": False, "hints": {"sum": 5, "carry": 4}, "decide": 0.4}
KINDS = {
    "others": {},
    "two loops": {"loops_per_step": 2, "num_layers": 1},
    "three layers": {"num_layers": 3},
    "near cells": {"neighbourhood": "just_before"},
    "all pairs": {"crop": False},
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
def test_every_step_is_that_of_a_plain_loop(changes):
    model, tokens = make(**changes), canvases(*PAGES)
    plain, quick = Loop(model, tokens), model.loop(tokens)
    assert isinstance(quick, RowwiseLoop)
    answers = set()
    for _ in range(90):
        plain.step()
        quick.step()
        for one, two in zip(plain.read(), quick.read(), strict=True):
            torch.testing.assert_close(one, two)
        answers.add(quick.read()[0].sum().item())
    assert len(answers) > 3  # decisions pass on from row to row
    assert quick.final.all()


@torch.no_grad()
@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_what_is_final_never_changes_again(changes):
    model, tokens = make(**changes), canvases(*PAGES)
    plain, quick = Loop(model, tokens), model.loop(tokens)
    ended: dict[int, torch.Tensor] = {}
    for step in range(90):
        plain.step()
        quick.step()
        logits = plain.read()[0]
        for i in quick.final.nonzero().flatten().tolist():
            ended.setdefault(i, logits[i])
            torch.testing.assert_close(logits[i], ended[i])
        assert step > 0 or not quick.final.any()
    assert len(ended) == len(tokens)


@torch.no_grad()
def test_samples_that_are_left_out_change_nothing_for_the_others():
    model, tokens = make(), canvases(*PAGES)
    whole, fewer = model.loop(tokens), model.loop(tokens)
    kept = torch.arange(len(tokens))
    for _ in range(12):
        whole.step()
        fewer.step()
        torch.testing.assert_close(whole.read()[0][kept], fewer.read()[0])
        left = torch.arange(len(kept)) % 5 != 1
        kept = kept[left]
        fewer.keep(left)


@torch.no_grad()
def test_finished_rows_are_not_worked_on(monkeypatch):
    model, tokens = make(), canvases((12, 34567))[-1:]
    loop, worked_on = model.loop(tokens), []
    network = model.network
    monkeypatch.setattr(
        model, "network", lambda x, *more: worked_on.append(x.shape[1]) or network(x, *more)
    )
    while not loop.final.all():
        loop.step()
    assert worked_on[0] == loop.context.inputs.shape[1]
    assert worked_on == sorted(worked_on, reverse=True)
    assert worked_on[-1] < worked_on[0] / 2


@torch.no_grad()
def test_a_predictor_stops_when_nothing_can_change_whatever_its_halting_head_says():
    model, inputs = make(), canvases(*PAGES).numpy()
    torch.nn.init.constant_(model.halt_head.bias, -9.0)
    filled, seen = IterativePredictor(model, 60)(inputs), trace(model, inputs, 60)
    assert filled.settled.all()
    assert filled.steps.max() < 60
    np.testing.assert_array_equal(seen.halts_at, filled.steps)
    np.testing.assert_array_equal(seen.answers, filled.canvases)
    assert (seen.canvases[-1] == filled.canvases)[inputs != 0].all()
    cut = IterativePredictor(model, 2)(inputs)
    assert not cut.settled.any()


@torch.no_grad()
@pytest.mark.parametrize("symmetry", ["e", "r90", "h"])
def test_what_is_remembered_of_rows_above_saves_steps_and_changes_nothing(symmetry):
    model = make(upright=symmetry != "e")
    predictor = IterativePredictor(model, 60)
    if symmetry != "e":
        predictor = TurnedPredictor(predictor, symmetry)
    page = drawing(*PAGES, size=(10, 10))
    cold = free_running(lambda inputs, *_: predictor(inputs), page)
    warm = predictor.free_running(page)
    np.testing.assert_array_equal(warm.canvases, cold.canvases)
    np.testing.assert_allclose(warm.confidence, cold.confidence, rtol=1e-4)
    assert warm.settled.all()
    assert (warm.steps[:, 0] == cold.steps[:, 0]).all()
    assert warm.steps[:, 1:].sum() < cold.steps[:, 1:].sum()
    cold, warm = (teacher_forced(p, page).filled for p in (predictor, predictor.remembering()))
    np.testing.assert_array_equal(warm.canvases, cold.canvases)


@torch.no_grad()
def test_a_canvas_that_is_not_remembered_starts_anew_beside_one_that_is():
    model, memory, steps = make(), Memory(), row_steps(drawing(PAGES[0]))
    predictor, rows = IterativePredictor(model, 60, memory=memory), steps.inputs
    filled = predictor(rows[1:2])
    written = np.where(steps.answer[1], filled.canvases, rows[1:2])
    following = np.where(steps.answer[2], np.uint8(MASK), written)
    both = np.concatenate([rows[3:4], following])
    cold, warm = IterativePredictor(model, 60)(both), predictor(both)
    answer = steps.answer[[3, 2]]
    np.testing.assert_array_equal(cold.canvases[answer], warm.canvases[answer])
    assert warm.steps[0] == cold.steps[0]
    assert warm.steps[1] < cold.steps[1]


@pytest.mark.parametrize("symmetry", ["e", "t"])
def test_more_canvases_are_filled_at_once_where_a_cell_sees_three_rows(symmetry):
    near, far = (
        TurnedPredictor(IterativePredictor(make(neighbourhood=n), 5), symmetry)
        for n in ("before", "all")
    )
    assert at_once(far, 15, 26) == 1
    assert at_once(near, 15, 26) == 2**18 // (15 * 26 * 3 * 26)
    assert IterativePredictor(make(crop=False), 5).pairs(15, 26) == (15 * 26) ** 2


def test_a_canvas_that_comes_again_is_not_worked_out_again(monkeypatch):
    predictor, inputs = IterativePredictor(make(), 60).remembering(), canvases(*PAGES).numpy()
    filled = predictor(inputs)
    shown = []
    fill = IterativePredictor._fill
    monkeypatch.setattr(
        IterativePredictor, "_fill", lambda self, x, *more: shown.append(len(x)) or fill(self, x)
    )
    other = canvases((987, 65)).numpy()
    order = [3, 0, 0, 5]
    again = predictor(np.concatenate([inputs[order], other, other]))
    assert shown == [len(other)]
    np.testing.assert_array_equal(again.canvases[:4], filled.canvases[order])
    np.testing.assert_array_equal(again.steps[:4], filled.steps[order])
    n = len(other)
    np.testing.assert_array_equal(again.canvases[4 : 4 + n], again.canvases[4 + n :])
    np.testing.assert_array_equal(
        again.canvases[4 + n :], IterativePredictor._fill(predictor, other).canvases
    )


def test_memory_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr("trm.solving.memory._MOST", 3)
    memory, inputs, asked = Memory(), canvases(*PAGES).numpy()[:5], []

    def fill(new: np.ndarray) -> Prediction:
        asked.append(len(new))
        return Prediction(new + 1, np.full(len(new), 0.5, np.float32), np.ones(len(new), int))

    for batch, new in [(inputs, 5), (inputs[2:], 0), (inputs[:3], 2), (inputs, 2)]:
        filled = memory.filled(batch, fill)
        np.testing.assert_array_equal(filled.canvases, batch + 1)
        assert (asked.pop() if asked else 0) == new


def test_noise_is_not_remembered():
    predictor = IterativePredictor(make(), 5, noise=0.5)
    assert predictor.remembering() is predictor


def test_decisions_in_cells_that_are_no_tokens_are_none():
    model, tokens = make(), canvases(PAGES[0])
    loop = model.loop(tokens)
    loop.step()
    cells = loop.decided_cells()
    assert cells.shape == (*tokens.shape, 2)
    assert (cells[:, -1] == UNDECIDED).all()  # below the page
    assert (cells != UNDECIDED).any()
    again = model.loop(tokens)
    again.go_on(cells, torch.ones(len(tokens), dtype=torch.bool))
    torch.testing.assert_close(again.decided_cells(), cells)


@pytest.mark.parametrize(
    "changes", [{"decide": 0.0}, {"neighbourhood": "local"}, {"own_state": True}]
)
def test_a_model_that_cannot_know_what_is_final_has_a_plain_loop(changes):
    model = LoopedTransformer(LoopedConfig(**(SMALL | changes)))
    loop = model.loop(canvases(PAGES[0]))
    assert type(loop) is Loop
    assert loop.final is None
