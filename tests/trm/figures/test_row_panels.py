import numpy as np
from drawings import drawn
from matplotlib.figure import Figure

from canvas.drawing import RowSteps, row_steps
from canvas.picture import HIGHLIGHT, PAPER, WRONG_INK, pixels
from canvas.symbols import DIGIT_ZERO
from trm.figures.row_panels import sample_panels, steps_figure
from trm.solving.trace import ConfidenceCurve, Trace


def made_up(steps: RowSteps, right: list[list[bool]], *outcomes: str) -> Trace:
    """A trace whose rows are right, or wrong in every cell, as told for each [step][sample]."""
    wrong = np.full_like(steps.labels, DIGIT_ZERO)
    answers = np.where(np.array(right[-1])[:, None, None], steps.labels, wrong)
    curves = [
        ConfidenceCurve(np.full(len(right), 0.5), np.array(of), 0, outcome)
        for of, outcome in zip(zip(*right, strict=True), outcomes, strict=True)
    ]
    return Trace("confidence", answers, curves)


def markers(figure: Figure, sample: int, fill: str) -> list[float]:
    """The supervision steps marked with circles of that filling."""
    return [
        float(x)
        for line in figure.axes[4 * sample + 3].lines  # three canvases, then the curve
        if line.get_marker() == "o" and line.get_markerfacecolor() == fill
        for x in line.get_xdata()
    ]


def orange_pixels(steps: RowSteps, given: np.ndarray, seen: Trace) -> int:
    """Share that is drawn as wrong."""
    orange = np.array([int(WRONG_INK[i : i + 2], 16) for i in (1, 3, 5)])
    image = pixels(sample_panels(steps, given, seen, ["a sample"] * len(given)))
    return int((image == orange).all(axis=2).sum())


def test_panels_mark_correct_steps_and_the_halting_step():
    drawing = drawn("standard", [(123, 45), (67, 8)], 6, 7)
    steps = row_steps(drawing, np.array([0, 1]))
    right = [[True, True], [False, True], [False, True], [False, True]]
    seen = made_up(steps, right, "halts at step 4", "does not halt")
    figure = sample_panels(steps, drawing.given, seen, ["one", "two"])
    assert (markers(figure, 0, HIGHLIGHT), markers(figure, 0, PAPER)) == ([1], [2, 3, 4])
    assert (markers(figure, 1, HIGHLIGHT), markers(figure, 1, PAPER)) == ([1, 2, 3, 4], [])
    said = [text.get_text() for block in figure.subfigs for text in block.texts]
    said += [axes.get_title() for axes in figure.axes]
    outcomes = ("halts at step 4", "does not halt")
    for word in ("one", "two", "input", "label", "prediction", *outcomes):
        assert word in said


def test_symbols_beside_the_row_are_marked_as_incorrect():
    drawing = drawn("standard", [(12, 3)], 6, 20, left=15)
    steps = row_steps(drawing, np.array([0]))
    seen = made_up(steps, [[True]], "right")
    canvases = np.where(steps.answer & (np.arange(20) == 2), DIGIT_ZERO + 7, seen.answers)
    beside = seen._replace(answers=canvases)
    assert orange_pixels(steps, drawing.given, seen) == 0
    assert orange_pixels(steps, drawing.given, beside) > 50
    right = np.array([[False, False], [True, False], [True, True], [True, False]])
    [axes] = steps_figure(right).axes
    [curve] = axes.lines
    assert curve.get_xdata().tolist() == [1, 2, 3, 4]
    assert curve.get_ydata().tolist() == [0, 50, 100, 50]
