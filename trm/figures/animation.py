"""Animation of a problem's solution, row by row, with the answer at the end."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from canvas.picture import DPI, GIVEN, GREY, HIGHLIGHT, INK, WRONG_INK, blank_figure, draw_canvas
from canvas.symbols import MASK
from trm.solving.solution import Solution
from trm.solving.watching import Moment

_CELLS = (16, 40)  # pixels of a cell, fewest and most
_CANVAS, _LINE = 640, 900  # largest width of a canvas and of the title, in pixels
_EDGE, _HEAD, _FOOT, _BESIDE = 20, 90, 52, 300  # pixels around the canvas
_TITLE, _TEXT = 24, 14  # pixels of the fonts
_MONO = 0.602  # width of a letter of DejaVu Sans Mono

_ROW, _STEP, _SETTLED = 0.5, 0.45, 0.8  # seconds: masked row, supervision step, last step of a row
_DIGIT, _READING, _LAST = 0.35, 3.0, 4.0  # seconds: a digit, at most the whole answer, the end


def animate(solution: Solution, moments: Sequence[Moment]) -> Iterator[tuple[Figure, float]]:
    """Yield the frames of a problem, all of one size, and the seconds for which each stays.

    ``solution`` includes the truth; ``moments`` are those of `trm.solving.watching.solve_watched`.
    """
    truth, beside = solution.truth, dict[int, tuple[float, str]]()
    assert truth is not None
    for moment, after in zip(moments, [*moments[1:], None], strict=True):
        last = after is None or after.number != moment.number
        row, confidence = moment.row, moment.confidence
        if not confidence and last and row is not None:
            confidence = {row: solution.row_confidence[moment.number - 1]}
        if last and row is None:
            confidence = dict(zip(solution.rows, solution.row_confidence, strict=True))
        for place, probability in confidence.items():
            taken = moment.step
            if last and row is None:
                taken = solution.row_steps[solution.rows.index(place)]
            beside[place] = probability, f"{taken} step{'s' if taken > 1 else ''}" if taken else ""
        # Rows that are not filled in yet are blank, and are not compared with the truth.
        below = np.arange(len(moment.canvas)) > (len(moment.canvas) if row is None else row)
        right = np.where(below[:, None] | (moment.canvas == MASK), moment.canvas, truth)
        text = moment.where(len(solution.rows))
        if moment.masked:
            text += ": masked, to be filled in"
        differ = moment.canvas != right
        if wrong := int(differ.sum() if row is None else differ[row].sum()):
            text += f": {wrong} cell{'s' if wrong > 1 else ''} incorrect"
        seconds = _ROW if moment.masked else _SETTLED if last else _STEP
        yield _frame(solution, moment.canvas, right, beside, text, row=row), seconds
    answer, cells = solution.answer_text, solution.answer_cells
    text = "the answer is in the dark cells, lowest digit first"
    if not answer:
        text, cells = "this canvas contains no answer", ()
    finished = partial(_frame, solution, solution.canvas, truth, beside, text)
    for n in range(1, len(cells)):
        yield finished(str(answer)[-n:], cells[:n]), min(_DIGIT, _READING / len(cells))
    yield finished(answer or "?", cells, end=True), _LAST


def _frame(
    solution: Solution,
    canvas: np.ndarray,
    truth: np.ndarray,
    beside: dict[int, tuple[float, str]],
    text: str,
    answer: str = "",
    read: Sequence[tuple[int, int]] = (),
    *,
    row: int | None = None,
    end: bool = False,
) -> Figure:
    """Draw one frame; ``beside`` has the confidence of each row, and the text next to it."""
    rows, columns = canvas.shape
    cell = int(np.clip(_CANVAS // columns, *_CELLS))
    problem = f"{solution.problem.replace('x', '×')} = "
    longest = f"{problem}{solution.answer_text or '?'}"
    size = float(np.clip(_LINE / (_MONO * len(longest)), _TEXT, _TITLE))
    verdict, colour = "✓ correct, checked by exact arithmetic", HIGHLIGHT
    if not solution.correct:
        exact = solution.write(solution.true_answer)
        verdict, colour = f"✗ incorrect: exact arithmetic gives {exact}", WRONG_INK
    verdict += f"; confidence {_percent(solution.confidence)}"
    needs = max(_MONO * size * len(longest), 0.58 * _TEXT * len(verdict), columns * cell + _BESIDE)
    width, height = int(needs) + 2 * _EDGE, _HEAD + rows * cell + _FOOT
    figure = blank_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    draw_canvas(axes, canvas, truth=truth, given=solution.given, highlight_row=row, read=read)
    # The axes fill the figure, in units of a cell; the texts below are placed by pixels.
    left, top = -0.5 - _EDGE / cell, -0.5 - _HEAD / cell
    axes.set(xlim=(left, left + width / cell), ylim=(top + height / cell, top))

    def write(x: float, y: float, text: str, size: float = _TEXT, **style: Any) -> None:
        plain: dict[str, Any] = {"size": size * 72 / DPI, "va": "center", "color": INK}
        axes.text(left + x / cell, top + y / cell, text, parse_math=False, **(plain | style))

    mono = {"family": "DejaVu Sans Mono", "weight": "bold"}
    write(_EDGE, 32, problem if answer else problem[:-3], size, **mono)
    answer_at = _EDGE + _MONO * size * (len(longest) - len(answer))
    write(answer_at, 32, answer, size, color=HIGHLIGHT, **mono)
    write(_EDGE, 64, text, color=GREY)
    if end:
        write(_EDGE, height - 0.6 * _FOOT, verdict, color=colour)
    bars = _EDGE + columns * cell + 30
    if beside:
        write(bars, _HEAD + (min(beside) - 0.2) * cell, "confidence", color=GREY)
    for number, (confidence, steps) in beside.items():
        for share, fill in ((1.0, GIVEN), (confidence, HIGHLIGHT)):
            corner = (left + bars / cell, number - 6 / cell)
            axes.add_patch(Rectangle(corner, 110 * share / cell, 12 / cell, color=fill))
        write(bars + 122, _HEAD + (number + 0.5) * cell, _percent(confidence))
        write(bars + 190, _HEAD + (number + 0.5) * cell, steps, _TEXT - 1, color=GREY)
    return figure


def _percent(share: float) -> str:
    """Format a probability; one below 1 is never rounded to 100 %."""
    return ">99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"
