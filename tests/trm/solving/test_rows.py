import numpy as np
import pytest
import torch
from drawings import PAIRS, drawn
from oracle import Oracle, Page
from tiny import tiny_trm

from canvas.drawing import WorkedDrawing, row_steps
from canvas.multiplication import Multiplication
from canvas.symbols import BLANK, DIGIT_ZERO, MASK
from trm.models.iterative import Loop
from trm.models.recursive import TinyRecursiveModel
from trm.models.settling import UNCHANGED_STEPS, Settling
from trm.solving.calibration import Calibration
from trm.solving.iterative_predictor import AfterStep, IterativePredictor
from trm.solving.rows import fill_row_by_row
from trm.solving.teacher_forced import teacher_forced


def drawing_of(layout: str, pairs: list[tuple[int, int]] = PAIRS) -> WorkedDrawing:
    return drawn(layout, pairs, 10, 9, top=1, left=1)


def slip(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
    """Puts a 7 into every cell of each problem's first row, and leaves all others right."""
    if (shown[page.first] == MASK).any():
        filled[page.first] = DIGIT_ZERO + 7


def scribble(page: Page, shown: np.ndarray, filled: np.ndarray) -> None:
    filled[shown != MASK] = DIGIT_ZERO + 9


@pytest.mark.parametrize("layout", Multiplication.layouts)
def test_an_oracle_for_single_masked_rows_solves_every_layout(layout):
    drawing = drawing_of(layout)
    for predictor in (Oracle(drawing), Oracle(drawing, fault=scribble)):
        written = fill_row_by_row(predictor, drawing)
        assert (written.canvases == drawing.truth).all()
        assert (drawing.correct_rows(written.canvases).sum(axis=1) == drawing.num_rows).all()
    for step, inputs in enumerate(predictor.seen):
        for canvas in inputs:  # the mask covers a row but its givens, and nothing below is shown
            page = predictor.page(canvas)
            row, expected = page.first + step, np.zeros(canvas.shape, dtype=bool)
            expected[row] = ~page.given[row]
            assert ((canvas == MASK) == expected).all()
            assert (canvas[row + 1 :] == BLANK)[~page.given[row + 1 :]].all()


@pytest.mark.parametrize("layout", Multiplication.layouts)
def test_later_rows_build_on_an_incorrect_row(layout):
    drawing = drawing_of(layout)
    predictor = Oracle(drawing, fault=slip)
    assert not drawing.correct_rows(fill_row_by_row(predictor, drawing).canvases)[:, 0].any()
    for inputs in predictor.seen[1:]:
        for canvas in inputs:
            page = predictor.page(canvas)
            assert (canvas[page.first] == DIGIT_ZERO + 7)[~page.given[page.first]].all()


@pytest.mark.parametrize("layout", Multiplication.layouts)
def test_teacher_forcing_never_shows_a_model_its_own_row(layout):
    drawing = drawing_of(layout)
    predictor = Oracle(drawing, fault=slip)
    forced = teacher_forced(predictor, drawing)
    steps = row_steps(drawing)
    first_rows_first = steps.row.argsort(kind="stable")
    assert (np.concatenate(predictor.seen) == steps.inputs[first_rows_first]).all()
    assert max(map(len, predictor.seen)) == len(drawing)  # no more rows at once than problems
    assert (forced.rows.inputs == steps.inputs).all()
    assert (forced.rows_exact == (forced.rows.row > 0)).all()  # only the first rows are wrong


def test_a_row_with_one_incorrect_cell_is_not_exact():
    drawing = drawing_of("standard", [(12, 3)])
    oracle = Oracle(drawing)
    oracle.pages[0].truth[oracle.pages[0].first, 0] = DIGIT_ZERO
    forced = teacher_forced(oracle, drawing)
    assert forced.rows_exact.tolist() == [False, True]
    assert forced.cell_accuracy.tolist() == [8 / 9, 1.0]


def test_a_finished_problem_is_not_shown_again():
    drawing = drawing_of("standard")
    predictor = Oracle(drawing)
    written = fill_row_by_row(predictor, drawing)
    beyond = np.arange(drawing.num_rows.max()) >= drawing.num_rows[:, None]
    assert [len(inputs) for inputs in predictor.seen] == (~beyond).sum(axis=0).tolist()
    assert (written.steps == np.where(beyond, 0, 2)).all()
    assert (written.confidence == np.where(beyond, 1, 0.5)).all()
    assert not drawing.correct_rows(written.canvases)[beyond].any()


@pytest.mark.parametrize("fault", [{}, {"fault": slip}])
def test_rows_below_correct_ones_are_taken_from_the_free_run(fault):
    drawing = drawing_of("standard")
    model, asked = Oracle(drawing, **fault), Oracle(drawing, **fault)
    written = fill_row_by_row(model, drawing)
    found, expected = teacher_forced(asked, drawing, written), teacher_forced(model, drawing)
    assert (found.filled.canvases == expected.filled.canvases)[found.steps.answer].all()
    for part in ("confidence", "steps", "settled"):
        assert (getattr(found.filled, part) == getattr(expected.filled, part)).all()
    assert (found.rows_exact == expected.rows_exact).all()
    # A slip in each first row leaves all rows below it to be worked out.
    left = len(found.rows_exact) - len(drawing) if fault else 0
    assert sum(map(len, asked.seen)) == left


def sometimes_halting() -> tuple[TinyRecursiveModel, np.ndarray]:
    """A model that halts on some rows earlier than on others, and the rows."""
    inputs, model = row_steps(drawing_of("lattice")).inputs, tiny_trm(halt_pool="mask")
    with torch.no_grad():  # two symbols to choose between: cells change less often than under 17
        weight = model.lm_head.weight
        one = weight[DIGIT_ZERO].clone()
        weight.zero_()
        weight[DIGIT_ZERO], weight[DIGIT_ZERO + 1] = one, -one
    loop, canvases, halt_logits = Loop(model, torch.from_numpy(inputs)), [], []
    for _ in range(6):
        loop.step()
        logits, halt = loop.read()
        canvases.append(logits.argmax(dim=-1).byte().numpy())
        halt_logits.append(halt.detach().numpy())
    stayed = np.array(canvases[1:]) == np.array(canvases[:-1])
    same = (stayed | (inputs != MASK)).all(axis=(2, 3))
    assert UNCHANGED_STEPS == 2  # rows have stayed the same for the last two steps
    trust = np.where(same[1:] & same[:-1], np.stack(halt_logits)[2:], -np.inf)
    with torch.no_grad():
        model.halt_head.bias -= float(np.median(trust.max(axis=0))) + 1e-3
    return model, inputs


def test_a_row_is_the_output_of_the_step_at_which_it_halts():
    model, inputs = sometimes_halting()
    filled = IterativePredictor(model, max_steps=6)(inputs)
    assert len(set(filled.steps.tolist())) > 1
    late = IterativePredictor(model, max_steps=6).with_options(halt=False)(inputs)
    assert (late.steps == 6).all()
    seen = IterativePredictor(model, 6).trace(inputs, late.canvases)  # which goes on beyond
    assert all(len(curve.confidence) == 6 and curve.correct[-1] for curve in seen.curves)
    assert 0 < sum(curve.halt > 0 for curve in seen.curves) < len(inputs)
    assert (seen.answers == filled.canvases).all()
    assert [curve.halt or 6 for curve in seen.curves] == filled.steps.tolist()
    stopped = [c.confidence[n - 1] for c, n in zip(seen.curves, filled.steps, strict=True)]
    np.testing.assert_allclose(stopped, filled.confidence, rtol=1e-4)
    for canvas, cells, confidence, steps in zip(
        inputs, filled.canvases, filled.confidence, filled.steps, strict=True
    ):
        with torch.no_grad():
            logits, halt = model(torch.from_numpy(canvas[None]), steps=int(steps))
        assert (logits.argmax(dim=-1)[0].numpy() == cells).all()
        np.testing.assert_allclose(confidence, halt.sigmoid().numpy()[0], atol=1e-5)


@pytest.mark.parametrize("trust", [0, 100], ids=["doubted", "trusted"])
def test_confidence_by_cells_is_that_of_the_least_certain(trust):
    model, inputs = sometimes_halting()
    with torch.no_grad():
        model.halt_head.bias += trust
    by_head = IterativePredictor(model, 6)(inputs)
    by_cells = IterativePredictor(model, 6, calibration=Calibration())(inputs)
    assert (by_cells.canvases == by_head.canvases).all()
    assert (by_cells.steps == by_head.steps).all()  # rows stop by the head
    least = []
    for canvas, steps in zip(inputs, by_head.steps.tolist(), strict=True):
        with torch.no_grad():
            logits, _ = model(torch.from_numpy(canvas[None]), steps=steps)
        filled = logits[0][torch.from_numpy(canvas == MASK)].softmax(dim=-1)
        least.append(float(filled.amax(dim=-1).min()))
    np.testing.assert_allclose(
        by_cells.confidence, np.minimum(by_head.confidence, least), atol=1e-5
    )
    assert ((by_cells.confidence < by_head.confidence - 1e-3).any()) == bool(trust)
    doubt = Calibration(1, -3)
    doubting = IterativePredictor(model, 6, calibration=doubt)(inputs)
    expected = np.minimum(by_head.confidence, doubt(np.log(least)))
    np.testing.assert_allclose(doubting.confidence, expected, atol=1e-5)


def test_patience_stops_a_distrusted_row_once_it_is_unchanged():
    model, inputs = sometimes_halting()
    with torch.no_grad():
        model.halt_head.bias -= 100  # holds every row incorrect
    never = IterativePredictor(model, max_steps=6)(inputs)
    assert (never.steps == 6).all()
    assert not never.settled.any()
    filled = IterativePredictor(model, max_steps=6).with_options(patience=2)(inputs)
    assert filled.settled.any()
    assert (filled.steps[filled.settled] <= 6).all()
    assert (filled.steps[~filled.settled] == 6).all()
    assert 3 <= filled.steps.min() < 6
    assert (filled.confidence < 0.5).all()


def halts(canvases: np.ndarray, trust: list, masked: list, patience: int | None = None) -> list:
    """The step, from 1, at which each sample stops; 0: at none."""
    settling = Settling(torch.tensor(masked), patience)
    steps = zip(torch.from_numpy(canvases), torch.tensor(trust).float(), strict=True)
    stops = torch.stack([settling.update(*step) for step in steps]).int()
    return torch.where(stops.any(dim=0), stops.argmax(dim=0) + 1, 0).tolist()


def test_a_sample_halts_when_trusted_and_unchanged_for_two_steps():
    rows = [[7, 7, 7, 7, 7], [4, 5, 5, 5, 5], [4, 5, 5, 6, 6], [3, 3, 3, 3, 3], [1, 1, 2, 2, 2]]
    trust = [[-1, -1, -1, 2, 2], [1] * 5, [3] * 5, [-1, -1, -1, -1, 0], [1, 1, 1, 1, -1]]
    canvases = np.array(rows, dtype=np.uint8).T.reshape(5, 5, 1, 1)  # 5 steps of 5 samples
    trust = [*zip(*trust, strict=True)]
    assert halts(canvases, trust, [[[True]]] * 5) == [4, 4, 0, 0, 0]
    assert halts(canvases, trust, [[[True]]] * 5, patience=3) == [4, 4, 0, 4, 0]
    canvases = np.array([[[[1, 5]]], [[[2, 5]]], [[[3, 5]]]], dtype=np.uint8)
    assert halts(canvases, [[1e6]] * 3, [[[False, True]]]) == [3]
    assert halts(canvases, [[1e6]] * 3, [[[True, False]]]) == [0]


def test_a_row_is_correct_once_all_its_masked_cells_are(monkeypatch):
    steps = row_steps(drawing_of("standard"))
    almost = steps.labels.copy()
    for canvas, answer in zip(almost, steps.answer, strict=True):
        row, column = np.argwhere(answer)[0]
        canvas[row, column] = MASK
    outside_wrong = np.where(steps.answer, steps.labels, np.uint8(MASK))
    canvases, still = (steps.inputs, almost, outside_wrong, steps.labels), len(steps.inputs)
    zeros = torch.zeros(still)
    made = [
        AfterStep(n, torch.arange(still), zeros, zeros, torch.from_numpy(cells), settled, settled)
        for n, cells in enumerate(canvases, start=1)
        for settled in [torch.arange(still) + n == 3]  # the first at the third, the second before
    ]
    predictor = IterativePredictor(tiny_trm(), 4)
    monkeypatch.setattr(predictor, "_steps", lambda *_, **__: iter(made))
    seen = predictor.trace(steps.inputs, steps.labels)
    assert all(curve.correct.tolist() == [False, False, True, True] for curve in seen.curves)
    first, *_, last = [curve.outcome for curve in seen.curves]
    assert first == "halts at step 3, row correct"
    assert last == "does not halt in 4 steps, row correct"
    assert seen.curves[1].outcome == "halts at step 2, row incorrect"
    assert (seen.answers[1] == almost[1]).all()
