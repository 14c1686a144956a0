"""The one form of a solved problem as plain data: in files, of `trm predict`, and in Python."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

_READ_AS_INT = 4000  # digits up to which a number is one in JSON, too: Python reads no more


@dataclass(frozen=True)
class Record:
    """A solved problem, or what stands in a problem's place. Numbers are in the model's base.

    Attributes:
        line: of the file that it came from, or its place among the problems, from 1.
        problem: as it is typed, like ``123 x 456``.
        operands: the numbers.
        answer: what the canvas says; None where no number can be read off it.
        correct: whether that is right, by exact arithmetic.
        exact: whether every cell of the working is right; None where only the answer was checked.
        in_range: whether the operands are of lengths that the model was trained on.
        confidence: in the whole working, 0 to 1.
        calibrated: whether the confidence is a probability that can be relied on.
        doubt: why it is not.
        agreement: the share of samples that gave the answer, see `trm.solving.solution.Solution`.
        steps: supervision steps over all rows and samples.
        row_confidence, row_steps: the same row by row.
        views, votes: how many samples there were, and their answers; None: one.
        canvas: the worked canvas as text; None: not wanted.
        error: why it is no problem; None: it is one.
    """

    line: int | None = None
    problem: str | None = None
    operands: list[int | str] | None = None
    answer: int | str | None = None
    correct: bool | None = None
    exact: bool | None = None
    in_range: bool | None = None
    confidence: float | None = None
    calibrated: bool | None = None
    doubt: str | None = None
    agreement: float | None = None
    steps: int | None = None
    row_confidence: list[float] | None = None
    row_steps: list[int] | None = None
    views: int | None = None
    votes: list[list[dict[str, Any]]] | None = None
    canvas: str | None = None
    error: str | None = None
    other: dict[str, Any] = field(default_factory=dict, repr=False)  # what else its line held

    def data(self, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
        """The record as plain data, fit for JSON, without ``other``."""
        data = asdict(self)
        return {name: data[name] for name in COLUMNS if name not in leave_out}


COLUMNS = tuple(entry.name for entry in fields(Record) if entry.name != "other")


def number_data(digits: str) -> int | str:
    """A number as its digits, for JSON: as a number where readers can be expected to take it."""
    return int(digits) if len(digits) < _READ_AS_INT else digits
