"""A problem worked out before one's eyes: an animation that ends with the answer, read off."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from canvas.picture import GIVEN, HIGHLIGHT, WRONG_INK, CellIndex, to_sketch
from canvas.shapes import INK, Box, Label, Shape, Sketch, save_gif
from canvas.symbols import MASK
from trm.solving.solution import Solution
from trm.solving.watching import Moment

_CELLS = (16, 40)  # pixels of a cell, fewest and most
_CANVAS, _LINE = 640, 900  # pixels that a canvas and the title are to be wide at most
_EDGE = 20  # around everything
_TITLE, _TEXT = 24, 14  # pixels of the fonts
_HEAD = _EDGE + 62  # title and what is going on
_FOOT = 34 + _EDGE // 2  # the verdict
_BAR = (110, 12)  # pixels of a bar of confidence, width and height
_BESIDE = _BAR[0] + 150  # bar, percentage and steps, right of the canvas
_GREY = "#595959"

_ROW, _STEP, _SETTLED = 0.5, 0.45, 0.8  # seconds: masked, a supervision step, the last of a row
_CELL, _CELLS_OF_ROW = 0.25, 2.0  # a cell, and all of a row's, at most
_READING = 3.0  # seconds to read the answer off, at most
_DIGIT = 0.35  # a digit of it, at most
_LAST = 4.0


@dataclass(frozen=True)
class _Row:
    """What is text beside a row."""

    confidence: float | None
    text: str


class Animation:
    """The frames of a problem.

    Args:
        solution: how it ended.
        moments: how it went, as `trm.solving.watching.solve_watched` shows it.

    Attributes:
        frames: sketches of one size.
        seconds: how long each stays.
    """

    def __init__(self, solution: Solution, moments: Sequence[Moment]) -> None:
        self.solution = solution
        if solution.truth is None:
            raise ValueError("an animation judges each row: solve with_truth=True")
        self.truth = solution.truth
        self.problem = solution.problem.replace("x", "×")
        self.answer = solution.answer_text or ""
        self.verdict = _verdict(solution, solution.write(solution.right_answer))
        self.cell = int(np.clip(_CANVAS // solution.canvas.shape[1], *_CELLS))
        canvas = to_sketch(solution.canvas, cell=self.cell)
        self.high, self.beside = canvas.height, canvas.width + _EDGE // 2
        title = Label(0, 0, f"{self.problem} = {self.answer or '?'}", _TITLE, bold=True)
        title = replace(title, size=max(_TEXT, min(_TITLE, int(_TITLE * _LINE / title.width))))
        self.size, self.title_end = title.size, _EDGE + title.width
        end = max(self.title_end, *(label.x + label.width for label in self.verdict))
        self.width = max(_EDGE + self.beside + _BESIDE, int(end) + 1 + _EDGE)
        self.frames: list[Sketch] = []
        self.seconds: list[float] = []
        self._rows: dict[int, _Row] = {}
        for moment, after in zip(moments, [*moments[1:], None], strict=True):
            self._work(moment, after is None or after.number != moment.number)
        self._read_off()

    def save(self, path: str | Path) -> None:
        """Write as GIF."""
        save_gif(path, self.frames, self.seconds)

    def _work(self, moment: Moment, last: bool) -> None:
        """A row that is being worked on."""
        sure, step = moment.confidence, moment.step
        if sure is None and last:
            sure = self.solution.row_confidence[moment.number - 1]
        text = f"row {moment.number} of {len(self.solution.rows)}"
        beside = ""
        if moment.masked:
            text += ": masked, to be filled in"
        elif step:
            text += f", {moment.unit} {step}"
            if moment.unit != "cell":
                beside = f"{step} step{'s' if step > 1 else ''}"
        self._rows[moment.row] = _Row(sure, beside)
        # What is yet to come is blank, and not judged.
        below = np.arange(len(moment.canvas))[:, None] > moment.row
        truth = np.where(below | (moment.canvas == MASK), moment.canvas, self.truth)
        wrong = int((moment.canvas != truth)[moment.row].sum())
        if wrong:
            text += f": {wrong} cell{'s' if wrong > 1 else ''} wrong"
        on_the_way = _STEP
        if moment.unit == "cell":
            on_the_way = min(_CELL, _CELLS_OF_ROW / moment.canvas.shape[1])
        seconds = _ROW if moment.masked else _SETTLED if last else on_the_way
        self._add(seconds, moment.canvas, truth, text, row=moment.row)

    def _read_off(self) -> None:
        """The finished canvas, and the answer digit by digit."""
        answer, cells = self.answer, self.solution.answer_cells
        frame = (self.solution.canvas, self.truth)
        if not answer:
            self._add(_LAST, *frame, "no answer can be read off this canvas", "?", verdict=True)
            return
        text = "the answer is read off the dark cells, lowest digit first"
        for n in range(1, len(cells)):
            seconds = min(_DIGIT, _READING / len(cells))
            self._add(seconds, *frame, text, answer[-n:], cells[:n])
        self._add(_LAST, *frame, text, answer, cells, verdict=True)

    def _add(
        self,
        seconds: float,
        canvas: np.ndarray,
        truth: np.ndarray,
        text: str,
        answer: str = "",
        cells: Sequence[CellIndex] = (),
        row: int | None = None,
        verdict: bool = False,
    ) -> None:
        given = self.solution.given
        sketch = to_sketch(
            canvas, truth=truth, given=given, highlight_row=row, read=cells, cell=self.cell
        )
        left = _EDGE - self.cell // 2  # the grid begins at the edge
        shapes: list[Shape] = [shape.moved(left, _HEAD) for shape in sketch.shapes]
        title = f"{self.problem} =" if answer else self.problem
        shapes += [
            Label(_EDGE, _EDGE + 12, title, self.size, INK, "start", bold=True),
            Label(self.title_end, _EDGE + 12, answer, self.size, HIGHLIGHT, "end", bold=True),
            Label(_EDGE, _EDGE + 44, text, _TEXT, _GREY, "start"),
        ]
        if self._rows:
            x, y = left + self.beside, _HEAD + self.cell * (0.5 + min(self._rows)) - 4
            shapes.append(Label(x, y, "confidence", _TEXT, _GREY, "start"))
        for place, row_text in self._rows.items():
            shapes += self._beside(left + self.beside, place, row_text)
        if verdict:
            shapes += [label.moved(0, _HEAD + self.high + _FOOT / 2 - 6) for label in self.verdict]
        self.frames.append(Sketch(self.width, _HEAD + self.high + _FOOT, tuple(shapes)))
        self.seconds.append(seconds)

    def _beside(self, left: float, row: int, text: _Row) -> list[Shape]:
        """How sure the model is of a row, to its right."""
        if text.confidence is None:
            return []
        y = round(_HEAD + self.cell * (row + 1))
        wide, high = _BAR
        top, bottom = y - high // 2, y + high // 2
        end = left + round(wide * text.confidence)
        shapes: list[Shape] = [
            Box(left, top, left + wide, bottom, GIVEN),
            Box(left, top, end, bottom, HIGHLIGHT),
        ]
        x = left + wide
        shapes.append(Label(x + 68, y, _percent(text.confidence), _TEXT, INK, "end"))
        if text.text:
            shapes.append(Label(x + 80, y, text.text, _TEXT - 1, _GREY, "start"))
        return shapes


def _verdict(solution: Solution, right: str) -> list[Label]:
    """Whether the answer is right, and how that is known; ``y`` is 0."""
    sign, colour, text = "✓", HIGHLIGHT, "right, checked by exact arithmetic"
    if not solution.correct:
        sign, colour, text = "✗", WRONG_INK, f"wrong: exact arithmetic gives {right}"
    text += f"; confidence {_percent(solution.confidence)}"
    mark = Label(_EDGE, 0, sign, _TITLE - 4, colour, "start", bold=True)
    return [mark, Label(_EDGE + 24, 0, text, _TEXT + 1, INK, "start")]


def _percent(share: float) -> str:
    """A probability; 100 only where nothing is left."""
    return ">99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"
