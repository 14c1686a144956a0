"""A problem that a model has worked out: its canvas, its answer, and how sure it is."""

import html
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from canvas.arithmetic import Numbers
from canvas.layouts import CellIndex
from canvas.picture import to_figure, to_svg, to_text
from trm.solving.record import Record, number_data


class Vote(NamedTuple):
    """One of the different answers that views gave.

    Attributes:
        answer: a row's symbols, or the product; None where no number can be read off the canvas.
        views: how many gave it.
        confidence: their mean confidence.
    """

    answer: str | None
    views: int
    confidence: float


@dataclass(frozen=True)
class Solution:
    """One problem, worked out by a model on its own rows.

    Attributes:
        problem: as it is typed, with the digits of the model's base, like ``123 x 456``.
        operands: the numbers.
        answer: what the canvas says; None where no number can be read off it.
        right_answer: by exact arithmetic.
        in_range: whether the operands are of lengths that the model was trained on.
        base: of digits, where numbers are written.
        canvas: ``uint8 [H, W]``, the model's.
        given: ``bool [H, W]``, the cells that the model was shown.
        rows: the canvas row of each step.
        row_confidence: the model's probability that each row is right; 0 where it is no number.
        row_steps: supervision steps spent on each row, by all samples together.
        truth: ``uint8 [H, W]``, how the finished canvas should look; None: not worked out.
        answer_cells: row and column of the answer's digits, lowest first; empty if there is none.
        doubt: why the confidence is not calibrated, as few rows of that kind were seen in
            training; empty where it is.
        views: samples of the problem, see `Voting`.
        agreement: the share of them that gave the answer; of rows that were voted on, that of the
            row least agreed upon.
        votes: what was voted on, rows or the solution, each with its different answers.
    """

    problem: str
    operands: tuple[int, ...]
    answer: int | None
    right_answer: int
    in_range: bool
    base: int
    canvas: np.ndarray
    given: np.ndarray
    rows: list[int]
    row_confidence: list[float]
    row_steps: list[int]
    truth: np.ndarray | None = None
    answer_cells: tuple[CellIndex, ...] = ()
    doubt: str = ""
    views: int = 1
    agreement: float = 1.0
    votes: list[list[Vote]] = field(default_factory=list)

    @property
    def correct(self) -> bool:
        """Whether the answer is right."""
        return self.answer == self.right_answer

    @property
    def exact(self) -> bool | None:
        """Whether every cell of the working is right, not the answer alone; None: not known."""
        return None if self.truth is None else bool((self.canvas == self.truth).all())

    @property
    def rows_right(self) -> int:
        """How many rows are right in every cell, where the truth is known."""
        assert self.truth is not None
        return int((self.canvas == self.truth).all(axis=1)[self.rows].sum())

    @property
    def confidence(self) -> float:
        """Probability that the whole solution is right: the product of its rows'."""
        return float(np.prod(self.row_confidence))

    @property
    def answer_text(self) -> str | None:
        """The answer's digits in the model's base."""
        return None if self.answer is None else self.write(self.answer)

    def write(self, number: int) -> str:
        """A number in the model's base."""
        return Numbers.from_ints([number], self.base).to_text()[0]

    def __str__(self) -> str:
        return f"{to_text(self.canvas)}\n{self.verdict}"

    @property
    def verdict(self) -> str:
        """The answer, whether it is right, and how sure the model is, in a line."""
        judged = "right" if self.correct else f"wrong, it is {self.write(self.right_answer)}"
        doubt = f", not calibrated: {self.doubt}" if self.doubt else ""
        answer = self.answer_text or "no number"
        return f"{self.problem} = {answer} ({judged}; confidence {self.confidence:.1%}{doubt})"

    def _repr_html_(self) -> str:
        """The canvas as a picture, for notebooks; wrong cells are marked where truth is known."""
        figure = to_figure(self.canvas, truth=self.truth, given=self.given, read=self.answer_cells)
        return f"<div>{to_svg(figure)}<p>{html.escape(self.verdict)}</p></div>"

    def record(self, line: int | None = None, canvas: bool = True) -> Record:
        """The solution as plain data; confidences are rounded to six digits."""
        votes = [
            [vote._asdict() | {"confidence": round(vote.confidence, 6)} for vote in votes]
            for votes in self.votes
        ]
        answer = self.answer_text
        return Record(
            line=line,
            problem=self.problem,
            operands=[number_data(self.write(number)) for number in self.operands],
            answer=None if answer is None else number_data(answer),
            correct=self.correct,
            exact=self.exact,
            in_range=self.in_range,
            confidence=round(self.confidence, 6),
            calibrated=not self.doubt,
            doubt=self.doubt or None,
            agreement=round(self.agreement, 6),
            steps=sum(self.row_steps),
            row_confidence=[round(sure, 6) for sure in self.row_confidence],
            row_steps=self.row_steps,
            views=self.views if votes else None,
            votes=votes or None,
            canvas=to_text(self.canvas) if canvas else None,
        )
