"""A problem solved by a model: its canvas, its answer and the confidence in it.

A record is its form as plain data for JSON: in files, in the output of `trm predict`, and in
Python. Its numbers are text with the digits of the model's base, as JSON readers round large
numbers. docs/solve.md explains each of its `COLUMNS`.
"""

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from canvas.arithmetic import Numbers
from canvas.layouts import CellIndex
from canvas.picture import to_figure, to_svg, to_text
from trm.released import moved
from trm.solving.voting import Tally, Voting

# Keys of a record, in this order; unknown or unrequested values are None.
COLUMNS: tuple[str, ...]
COLUMNS = ("line", "problem", "operands", "answer", "correct", "exact", "in_range", "confidence")
COLUMNS += ("calibrated", "uncalibrated_reason", "agreement", "steps", "row_confidence")
COLUMNS += ("row_steps", "views", "views_asked", "rollouts", "votes", "view", "guess")
COLUMNS += ("readable_guess", "readable_answer", "canvas", "error")
VOTED = ("views", "views_asked", "rollouts", "votes")  # only set after a vote
# Only set if canvases are given in an unknown orientation.
GUESSED = ("view", "guess", "readable_guess", "readable_answer")


def unset_columns(voting: Voting | None) -> set[str]:
    """Return the columns that no record has a value in after a vote with these settings."""
    guessed = voting is not None and voting.orientation is not None
    return {*(() if voting else VOTED), *(() if guessed else GUESSED)}


@dataclass(frozen=True, repr=False)
class Solution:
    """One problem, solved free-running by a model."""

    problem: str  # as it is typed, with the digits of the model's base, like ``123 x 456``
    operands: tuple[int, ...]
    answer: int | None  # read from the canvas; None if no number can be read
    true_answer: int  # by exact arithmetic
    in_range: bool  # whether the operands have lengths that the model was trained on
    base: int  # of digits, where numbers are written
    canvas: np.ndarray  # uint8 [H, W], the model's
    given: np.ndarray  # bool [H, W], the cells given to the model
    rows: list[int]  # the canvas row of each row step
    row_confidence: list[float]  # probability that each row is correct; 0 in place of NaN
    row_steps: list[int]  # supervision steps of each row, by all views together, see `steps`
    truth: np.ndarray | None = None  # uint8 [H, W], the true solution; None: not computed
    answer_cells: tuple[CellIndex, ...] = ()  # of the answer's digits, lowest first, if any
    # Why the confidence is not calibrated: training had few rows of that kind.
    uncalibrated_reason: str = ""
    views: int = 1  # different views of the problem, or orders, see `Voting`
    views_asked: int = 1  # number requested; a small canvas may have fewer
    rollouts: int = 1  # of each view
    # Share of views that gave the answer, the lowest of voted rows; of guesses, of all confidence.
    agreement: float = 1.0
    # For each row, or for the solution. In an unknown orientation those of the guesses, then
    # those of both orders of the operands, if both are solved.
    votes: list[list[Tally]] = field(default_factory=list)
    # Most steps that the canvas can need, where all rows are filled in together; else None.
    longest_chain: int | None = None
    # Of a canvas in an unknown orientation, see `trm.solving.orientation`; else None.
    view: str | None = None  # the symmetry by which it was given turned
    guess: str | None = None  # the symmetry that the vote took it for
    readable: "Solution | None" = None  # the winner of the guesses that yield an answer
    # Supervision steps of other guesses of an orientation, and of the other order of the operands.
    other_steps: int = 0

    @property
    def correct(self) -> bool:
        """True if the answer is correct."""
        return self.answer == self.true_answer

    @property
    def exact(self) -> bool | None:
        """True if every cell is correct, not the answer alone; None: unknown."""
        return None if self.truth is None else bool((self.canvas == self.truth).all())

    @property
    def correct_rows(self) -> int:
        """Number of rows that are correct in every cell; needs the truth."""
        assert self.truth is not None
        return int((self.canvas == self.truth).all(axis=1)[self.rows].sum())

    @property
    def right_answer(self) -> int:
        """`true_answer`, by its released name."""
        return self.true_answer

    @property
    def rows_right(self) -> int:
        """`correct_rows`, by its released name."""
        return self.correct_rows

    @property
    def confidence(self) -> float:
        """Probability that the whole solution is correct: the product over its rows.

        It is 0 if no number can be read: such a solution cannot be correct, whatever the confidence
        in its rows.
        """
        return 0.0 if self.answer is None else float(np.prod(self.row_confidence))

    @property
    def steps(self) -> int:
        """Supervision steps in total, by all views, guesses and orders together.

        Rows that are filled in together share their steps. The steps of a row are then those after
        which neither it nor a row above it changed any more.
        """
        shared = self.longest_chain is not None
        return (max(self.row_steps) if shared else sum(self.row_steps)) + self.other_steps

    def steps_text(self, unit: str = "supervision steps") -> str:
        """Return the steps in words, row by row; empty without steps. ``unit`` is their name.

        Examples: ``supervision steps per row: 4, 6``; ``supervision steps per row, all views
        together: 4, 6, and 9 of the other order``; ``supervision steps in which rows or their
        messages last changed: 7, 9 (at most 12, the longest chain of cells)``, as a cell may pass
        on another class after its symbol has settled.
        """
        if not any(self.row_steps):
            return ""
        counts = ", ".join(map(str, self.row_steps))
        if self.guess is not None:
            orders = " and both orders" if len(self.votes) > 1 else ""
            return f"{unit}, all guesses{orders} together: {self.steps}"
        if self.longest_chain is None:
            views = ", all views together" if self.votes else ""
            more = f", and {self.other_steps} of the other order" if self.other_steps else ""
            return f"{unit} per row{views}: {counts}{more}"
        if self.votes:
            return f"supervision steps, all views together: {self.steps}"
        bound = f"at most {self.longest_chain}, the longest chain of cells"
        what = "supervision steps in which rows or their messages last changed"
        return f"{what}: {counts} ({bound})"

    @property
    def answer_text(self) -> str | None:
        """The answer's digits in the model's base."""
        return None if self.answer is None else self.write(self.answer)

    def write(self, number: int) -> str:
        """Return a number in the model's base."""
        return Numbers.from_ints([number], self.base).to_text()[0]

    def __str__(self) -> str:
        return f"{to_text(self.canvas)}\n{self.verdict}"

    def __repr__(self) -> str:
        return f"Solution({self.verdict})"

    @property
    def verdict(self) -> str:
        """Answer, its correctness and the confidence, in a line."""
        outcome = "correct" if self.correct else f"incorrect, it is {self._typed(self.true_answer)}"
        reason = self.uncalibrated_reason
        confidence = f"{self.confidence:.1%}" + (f", not calibrated: {reason}" if reason else "")
        answer = "no number" if self.answer is None else self._typed(self.answer)
        return f"{self.problem} = {answer} ({outcome}; confidence {confidence})"

    def _typed(self, answer: int) -> str:
        """Return an answer as it is typed: one that fills a block of cells has ``/`` between rows.

        Example: ``So%/%o%/%oG``, a maze.
        """
        text = self.write(answer)
        rows, columns = ({cell[axis] for cell in self.answer_cells} for axis in (0, 1))
        if min(len(rows), len(columns)) < 2 or len(text) != len(rows) * len(columns):
            return text
        starts = range(0, len(text), len(columns))
        return "/".join(text[start : start + len(columns)] for start in starts)

    def _repr_html_(self) -> str:
        """Return the canvas as a picture, for notebooks; marks incorrect cells if it can."""
        figure = to_figure(self.canvas, truth=self.truth, given=self.given, read=self.answer_cells)
        return f"<div>{to_svg(figure)}<p>{html.escape(self.verdict)}</p></div>"

    def record(self, line: int | None = None, canvas: bool = True) -> dict[str, Any]:
        """Return the solution as plain data; confidences are rounded to six digits."""
        votes = [
            [vote._asdict() | {"confidence": round(vote.confidence, 6)} for vote in votes]
            for votes in self.votes
        ]
        return dict.fromkeys(COLUMNS) | {
            "line": line,
            "problem": self.problem,
            "operands": [self.write(operand) for operand in self.operands],
            "answer": self.answer_text,
            "correct": self.correct,
            "exact": self.exact,
            "in_range": self.in_range,
            "confidence": round(self.confidence, 6),
            "calibrated": not self.uncalibrated_reason,
            "uncalibrated_reason": self.uncalibrated_reason or None,
            "agreement": round(self.agreement, 6),
            "steps": self.steps,
            "row_confidence": [round(sure, 6) for sure in self.row_confidence],
            "row_steps": self.row_steps,
            "views": self.views if votes else None,
            "views_asked": self.views_asked if votes else None,
            "rollouts": self.rollouts if votes else None,
            "votes": votes or None,
            "view": self.view,
            "guess": self.guess,
            "readable_guess": self.readable.guess if self.readable else None,
            "readable_answer": self.readable.answer_text if self.readable else None,
            "canvas": to_text(self.canvas) if canvas else None,
        }


__getattr__ = moved(__name__)
