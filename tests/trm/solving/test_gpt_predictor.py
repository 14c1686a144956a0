from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from drawings import PAIRS, drawn
from tiny import tiny_gpt

from augment.views import View
from canvas.drawing import WorkedDrawing, row_steps
from canvas.multiplication import Multiplication
from canvas.problems import Problems
from canvas.sequences import IGNORE, sequences, to_sequences, tokens_to_write
from canvas.symbols import BLANK, END, MASK, ROW_END, START, VOCAB_SIZE
from trm.models.gpt import GPT, Generated
from trm.solving.calibration import Calibration, fit_calibration
from trm.solving.gpt_predictor import GPTPredictor
from trm.solving.predictor import Sampling
from trm.solving.rows import fill_row_by_row
from trm.solving.solver import Solver
from trm.solving.teacher_forced import teacher_forced

HEIGHT, WIDTH = 10, 9


def drawing_of(layout: str, pairs: list[tuple[int, int]] = PAIRS) -> WorkedDrawing:
    return drawn(layout, pairs, HEIGHT, WIDTH, top=np.arange(len(pairs)) % 3, left=1)


class Knowing(torch.nn.Module):
    """Continues any sequence that begins like one of a drawing's as that one goes on.

    It gives token t a log-probability of minus t thousandths, and 0 to what follows an end.
    """

    def __init__(self, drawing: WorkedDrawing) -> None:
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.config = SimpleNamespace(vocab_size=VOCAB_SIZE, loops=1, halting=False)
        ids = to_sequences(drawing.truth)
        self.truth = np.concatenate([ids, np.full((len(ids), 1), END)], axis=1)
        self.asked: list[np.ndarray] = []

    def accepts(self, height: int, width: int) -> bool:
        return True

    def generate(self, forced, height, width, end, sampler):
        forced = forced.numpy()
        self.asked.append(forced.copy())
        truth = self.truth[:, : forced.shape[1]]
        ids = forced.copy()
        for i, one in enumerate(forced):
            [which] = {tuple(t) for t in truth if (t == one)[one >= 0].all()}  # no doubt is left
            ids[i] = which
        ended = np.cumsum(ids == end, axis=1) > 1
        log_probs = np.where((forced < 0) & ~ended, log_prob(np.arange(forced.shape[1])), 0.0)
        none = torch.zeros(ids.shape, dtype=torch.int64)
        of_tokens = torch.from_numpy(ids), torch.from_numpy(log_probs)
        return Generated(*of_tokens, none, none.bool())


def log_prob(tokens: np.ndarray) -> np.ndarray:
    return -0.001 * tokens


@pytest.mark.parametrize("layout", Multiplication.layouts)
def test_a_perfect_gpt_solves_all_from_the_given_cells(layout):
    drawing = drawing_of(layout)
    model = Knowing(drawing)
    rollout = GPTPredictor(model, Calibration()).free_running(drawing)
    [forced] = model.asked
    assert ((forced[:, 1:] < 0) == (sequences(drawing)[1] != IGNORE)).all()
    assert forced.shape[1] == HEIGHT * (WIDTH + 1) + 2
    assert (rollout.canvases == drawing.truth).all()
    right = drawing.correct_rows(rollout.canvases)
    present = np.arange(right.shape[1]) < drawing.num_rows[:, None]
    assert (right == present).all()
    assert (rollout.confidence[~present] == 1).all()
    assert (rollout.steps == 0).all()


def test_confidence_of_the_last_row_covers_all_that_remains():
    drawing = drawing_of("standard")
    rollout = GPTPredictor(Knowing(drawing), Calibration()).free_running(drawing)
    for i, steps in enumerate(drawing.num_rows):
        rows = drawing.canvas_row(0)[i] + np.arange(steps)
        ends = [1 + row * (WIDTH + 1) + WIDTH for row in rows]
        said = [log_prob(np.arange(end - WIDTH, end)).sum() for end in ends]
        assert rollout.confidence[i, : steps - 1] == pytest.approx(np.exp(said[:-1]), rel=1e-4)
        free = np.arange(1 + rows[0] * (WIDTH + 1), HEIGHT * (WIDTH + 1) + 2)
        rest = np.exp(log_prob(free).sum() - sum(said[:-1]))
        assert rollout.confidence[i, steps - 1] == pytest.approx(rest, rel=1e-4)


@pytest.mark.parametrize("layout", Multiplication.layouts)
def test_teacher_forced_rows_see_the_true_rows_above_alone(layout):
    drawing = drawing_of(layout)
    model = Knowing(drawing)
    assert teacher_forced(GPTPredictor(model, Calibration()), drawing).rows_exact.all()
    for prompt in model.asked:
        assert prompt[0, 0] == START
        free = np.flatnonzero((prompt < 0).any(axis=0))
        assert free[-1] == prompt.shape[1] - 1  # the row is the last of what is asked for
        assert free[-1] - free[0] < WIDTH


@pytest.mark.parametrize("layout", ["standard", "lattice"])
def test_decoding_at_once_equals_decoding_row_by_row(layout):
    drawing, model = drawing_of(layout), tiny_gpt(HEIGHT, WIDTH)
    predictor = GPTPredictor(model, Calibration())
    ids, *_ = model.generate(torch.from_numpy(with_row_ends(drawing)), HEIGHT, WIDTH, end=END)
    rows = fill_row_by_row(lambda inputs, *_: predictor(inputs), drawing)
    cells = ids[:, 1:-1].numpy().reshape(-1, HEIGHT, WIDTH + 1)[:, :, WIDTH - 1 :: -1]
    for i, steps in enumerate(drawing.num_rows):
        first = int(drawing.canvas_row(0)[i])
        written = slice(first, first + steps)
        np.testing.assert_array_equal(rows.canvases[i, written], cells[i, written])


def with_row_ends(drawing: WorkedDrawing) -> np.ndarray:
    ids, labels = sequences(drawing)
    forced = np.concatenate([ids, np.full((len(ids), 1), END)], axis=1)
    forced[:, 1:][labels != IGNORE] = -1
    forced[:, WIDTH + 1 :: WIDTH + 1] = ROW_END
    forced[:, -1] = END
    return forced


def test_confidence_is_the_calibrated_probability_of_the_symbols():
    drawing, model = drawing_of("standard"), tiny_gpt(HEIGHT, WIDTH)
    steps = row_steps(drawing)
    raw, seen = GPTPredictor(model, np.asarray)(steps.inputs), GPTPredictor(model, np.asarray)
    curves = seen.trace(steps.inputs, steps.labels).curves
    for sure, curve in zip(raw.confidence, curves, strict=True):
        assert sure == pytest.approx(np.log(curve.confidence).sum(), rel=1e-5)
    calibrated = GPTPredictor(model, Calibration(0.5, 1.0))(steps.inputs)
    np.testing.assert_allclose(calibrated.confidence, Calibration(0.5, 1.0)(raw.confidence))


def test_curves_of_a_row_begin_with_the_lowest_digit():
    drawing = drawing_of("standard", [(321, 654)])
    steps = row_steps(drawing)
    labels = steps.labels.copy()
    row = int(drawing.canvas_row(0)[0])
    labels[0, row, -1] = BLANK + 1  # the rightmost cell of the first row, not as labelled
    curves = GPTPredictor(Knowing(drawing), Calibration()).trace(steps.inputs, labels).curves
    assert curves[0].correct.tolist() == [False] + [True] * (WIDTH - 1)
    first = 1 + row * (WIDTH + 1)
    assert curves[0].confidence == pytest.approx(np.exp(log_prob(np.arange(first, first + WIDTH))))
    assert (curves[0].outcome, curves[1].outcome) == ("row incorrect", "row correct")


def test_symbols_after_the_end_are_incorrect_unless_blank():
    drawing = drawing_of("standard", [(321, 654)])
    model = Knowing(drawing)
    row = int(drawing.canvas_row(1)[0])
    model.truth[:, 1 + row * (WIDTH + 1) :] = END
    predictor = GPTPredictor(model, Calibration(1.0, 9.0))
    rollout = predictor.free_running(drawing)
    assert drawing.correct_rows(rollout.canvases).tolist() == [[True, False, False, False]]
    assert (rollout.canvases[0, row:] == BLANK).all()
    assert rollout.confidence[0, 0] > 0.9
    assert (rollout.confidence[0, 1:] == 0).all()
    assert predictor(row_steps(drawing).inputs[1:2]).confidence == 0
    drawing = drawing_of("standard", [(321, 654)])
    model = Knowing(drawing)
    last = int(drawing.canvas_row(3)[0])
    model.truth[:, 1 + (last + 1) * (WIDTH + 1) :] = END
    rollout = GPTPredictor(model, Calibration(1.0, 9.0)).free_running(drawing)
    assert drawing.correct_rows(rollout.canvases).all()
    assert (rollout.confidence > 0.5).all()


def test_a_watcher_sees_rows_masked_and_then_written():
    pairs, frames = [(321, 654), (7, 8)], []
    drawing = drawing_of("standard", pairs)
    predictor = GPTPredictor(Knowing(drawing), Calibration()).with_options(
        on_row=lambda step, canvases: frames.append((step, canvases.copy()))
    )
    solver = Solver(predictor, Multiplication("standard"))
    solver.solve_drawing(Problems.from_ints(pairs), drawing)
    assert [step for step, _ in frames] == [0, 0, 1, 1, 2, 2, 3, 3]
    for step, (before, after) in enumerate(zip(frames[::2], frames[1::2], strict=True)):
        masked = before[1] == MASK
        there = drawing.cells_of_row(step) & (drawing.num_rows > step)[:, None, None]
        assert (masked == there).all()
        assert (after[1][there] == drawing.truth[there]).all()
    assert (frames[-1][1] == drawing.truth).all()


def test_sampled_symbols_depend_on_seed_and_canvas_alone():
    drawing = drawing_of("standard")
    predictor = GPTPredictor(tiny_gpt(height=HEIGHT, width=WIDTH), Calibration())

    def solved(sampling, index=(0, 1, 2)):
        return (
            predictor.with_options(sampling=sampling)
            .free_running(drawing[np.array(index)])
            .canvases
        )

    first = solved(Sampling(5.0))
    assert (first == solved(Sampling(5.0))).all()
    assert (first[1:2] == solved(Sampling(5.0), (1,))).all()
    assert (first != solved(Sampling(5.0, seed=1))).any()
    assert (solved(None) == solved(Sampling(5.0, top_k=1))).all()


def test_a_shifted_view_decodes_the_shifted_canvas():
    drawing = drawing_of("standard")
    predictor = GPTPredictor(tiny_gpt(HEIGHT, WIDTH), Calibration())
    rollout = predictor.free_running(drawing, [View("e", 1, 0)] * len(drawing))
    canvases, given = (np.roll(part, 1, axis=1) for part in (drawing.canvases, drawing.given))
    below = replace(drawing, canvases=canvases, given=given, top=drawing.top + 1)
    shifted = predictor.free_running(below)
    np.testing.assert_array_equal(rollout.canvases, np.roll(shifted.canvases, -1, axis=1))
    np.testing.assert_allclose(rollout.confidence, shifted.confidence, rtol=1e-4)


def judged(scale: float, offset: float, n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Answers that are right as often as a calibration says."""
    rng = np.random.default_rng(0)
    log_probs = -rng.exponential(0.3, n)
    return log_probs, rng.random(n) < Calibration(scale, offset)(log_probs)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (0.4, -1.0), (2.0, 1.0)])
def test_a_calibration_recovers_known_probabilities(scale, offset):
    found = fit_calibration(*judged(scale, offset))
    assert found.scale == pytest.approx(scale, abs=0.1)
    assert found.offset == pytest.approx(offset, abs=0.2)


def test_a_calibration_is_low_for_doubtful_and_incorrect_rows():
    surely = np.log(1 - np.random.default_rng(0).exponential(1e-3, 1000).clip(max=0.5))
    for mistakes in (0, 1):
        right = np.full(1000, True)
        right[np.argsort(surely)[500:][:mistakes]] = False  # as sure of it as of most others
        confidence = fit_calibration(surely, right)(np.log([0.9999, 0.5, 0.01]))
        assert confidence[0] > 0.99 > 0.9 > confidence[1] > 0.2 > confidence[2]
    sure = np.log(np.linspace(0.3, 0.9, 300))
    assert (fit_calibration(sure, np.full(300, False))(sure) < 0.1).all()
    log_probs = np.linspace(-1, -0.01, 2000)
    found = fit_calibration(log_probs, log_probs < -0.5)
    assert found.scale == 0
    assert np.ptp(found(log_probs)) == 0
    assert Calibration(2.0, 50.0)(np.array([-np.inf])) == 0
    log_probs, right = judged(0.5, 0.0, 100)
    more = np.append(log_probs, -np.inf), np.append(right, False)
    assert fit_calibration(*more) == fit_calibration(log_probs, right)


def halting_gpt() -> GPT:
    model = tiny_gpt(HEIGHT, WIDTH, loops=6, halting=True)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    torch.nn.init.ones_(model.halt_head.bias)
    return model


def generated(model: GPT, drawing: WorkedDrawing) -> Generated:
    ids = np.pad(to_sequences(drawing.canvases), ((0, 0), (0, 1)))
    forced = torch.from_numpy(np.where(tokens_to_write(drawing), -1, ids))
    return model.generate(forced, HEIGHT, WIDTH, END)


def by_row(drawing: WorkedDrawing, of_tokens: torch.Tensor) -> list[list[list]]:
    """Values of the cells of each row to fill in, problem by problem, without row ends."""
    rows = of_tokens[:, 1:-1].reshape(len(drawing), HEIGHT, WIDTH + 1)[:, :, :WIDTH]
    firsts = zip(drawing.canvas_row(0), drawing.num_rows, strict=True)
    return [rows[i, first : first + n].tolist() for i, (first, n) in enumerate(firsts)]


@pytest.mark.parametrize("layout", ["standard", "lattice"])
def test_a_row_takes_the_most_loops_of_its_symbols(layout):
    drawing, model = drawing_of(layout), halting_gpt()
    found = generated(model, drawing)
    predictor = GPTPredictor(model, Calibration())
    rollout = predictor.free_running(drawing)
    loops, unsettled = (by_row(drawing, part) for part in (found.loops, found.unsettled))
    for i, n in enumerate(drawing.num_rows):
        assert rollout.steps[i, :n].tolist() == [max(row) for row in loops[i]]
        assert rollout.settled[i, :n].tolist() == [not any(row) for row in unsettled[i]]
    beyond = np.arange(rollout.steps.shape[1]) >= drawing.num_rows[:, None]
    assert (rollout.steps[beyond] == 0).all()
    assert rollout.settled[beyond].all()
    assert len(np.unique(rollout.steps)) > 2
    # All of a solution's confidence is the halting head's; there is none if it ends early.
    sure, early = rollout.confidence.prod(axis=1), (found.ids[:, :-1] == END).any(dim=1)
    expected = found.log_probs.sum(dim=1).exp().masked_fill(early, 0).numpy()
    np.testing.assert_allclose(sure, expected, rtol=1e-3, atol=1e-20)


def test_cells_have_the_last_loop_that_changed_their_symbol():
    drawing, model = drawing_of("standard"), halting_gpt()
    found = generated(model, drawing)
    changed = GPTPredictor(model, Calibration()).last_changes(drawing)
    assert (changed[~drawing.unknown] == 0).all()
    last, before = torch.zeros_like(found.ids), torch.full_like(found.ids[:, 1:], -1)
    for n in range(1, 7):  # the likeliest tokens of a GPT with so many loops
        fewer = copy(model)
        fewer.config = replace(model.config, loops=n)
        likeliest = fewer(found.ids[:, :-1], HEIGHT, WIDTH).argmax(dim=-1)
        last[:, 1:][(likeliest != before) & (n <= found.loops[:, 1:])] = n
        before = likeliest
    for i, rows in enumerate(by_row(drawing, last)):
        for row, expected in enumerate(rows, start=int(drawing.canvas_row(0)[i])):
            cells = drawing.unknown[i, row]
            assert changed[i, row, cells].tolist() == np.array(expected)[::-1][cells].tolist()
    assert len(np.unique(changed)) > 3


def test_single_rows_take_loops_too():
    drawing = drawing_of("standard")
    steps, predictor = row_steps(drawing), GPTPredictor(halting_gpt(), Calibration())
    filled = predictor(steps.inputs)
    assert set(np.unique(filled.steps)) <= {3, 4, 5, 6}
    assert len(np.unique(filled.steps)) > 1
    assert (filled.settled | (filled.steps == 6)).all()  # loops run out at the last alone
    assert not filled.settled.all()
    plain = GPTPredictor(tiny_gpt(HEIGHT, WIDTH, loops=6), Calibration())(steps.inputs)
    assert (plain.steps == 0).all()
    assert plain.settled.all()
