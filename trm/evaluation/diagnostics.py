"""What is wrong with wrong rows: alignment apart from arithmetic, and where carries matter."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from canvas import symbols
from canvas.layouts import ROW_KINDS
from canvas.problems import Problems
from canvas.render import WorkedDrawing
from canvas.task import Task
from trm.evaluation.columns import columns_of

if TYPE_CHECKING:  # reports are read without PyTorch
    from trm.solving.rollout import TeacherForced

EMPTY, MISPLACED, MISALIGNED, DIGIT, LENGTH = FAULTS = (
    "empty",  # nothing written
    "misplaced",  # the right digits, all of them, in the wrong columns
    "misaligned",  # other digits, and their right end in the wrong column
    "wrong digit",  # the right end in place, and a wrong digit
    "wrong length",  # the right end in place, no wrong digit, but too few or too many of them
)
_CARRIED = ("total", "with_carry")


class WrongRow(NamedTuple):
    """How a row is wrong.

    Attributes:
        kind: one of `canvas.layouts.ROW_KINDS`.
        row: which of the rows that were worked out, from 0.
        fault: one of `FAULTS`; each wrong row has exactly one.
        place: of the first wrong digit from the right, counted from the true row's lowest one;
            None unless the row's right end is in place.
        carry: whether a carry enters that place in the true calculation; None where there is no
            place, or no digit there in the true row.
    """

    kind: str
    row: int
    fault: str
    place: int | None
    carry: bool | None


@dataclass(frozen=True)
class Diagnostics:
    """Wrong rows by how they are wrong, and what there was to get wrong; those of parts add up.

    Attributes:
        rows: how many there were of each kind, right and wrong.
        wrong: how many rows were wrong in each way.
        digits: digits of all rows, right and wrong: those of the true working.
        digits_with_carry: those of them that a carry enters.
        reached: digits up to the first wrong one from the right, of rows whose right end is in
            place: those that could become the first wrong one.
        reached_with_carry: those of them that a carry enters.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    wrong: Mapping[WrongRow, int] = field(default_factory=dict)
    digits: int = 0
    digits_with_carry: int = 0
    reached: int = 0
    reached_with_carry: int = 0

    def __add__(self, other: "Diagnostics") -> "Diagnostics":
        return Diagnostics(
            Counter(self.rows) + Counter(other.rows),
            Counter(self.wrong) + Counter(other.wrong),
            self.digits + other.digits,
            self.digits_with_carry + other.digits_with_carry,
            self.reached + other.reached,
            self.reached_with_carry + other.reached_with_carry,
        )

    def wrong_rows(self, kind: str | None = None) -> int:
        """Wrong rows of a kind, or of all kinds."""
        return sum(n for way, n in self.wrong.items() if kind in (None, way.kind))

    def faults(self) -> dict[str, int]:
        """Wrong rows by fault; together they are all wrong rows."""
        return {
            fault: sum(n for way, n in self.wrong.items() if way.fault == fault) for fault in FAULTS
        }

    @property
    def first_wrong_digits(self) -> tuple[int, int]:
        """How many digits are the first wrong one of their row, and how many of them get a carry.

        Only rows whose right end is in place are looked at; a digit too many is none of the row's.
        Errors sit on carries if the second over the first exceeds
        ``reached_with_carry`` over ``reached``. Of all digits more get a carry, for none enters a
        lowest digit, which errors reach first.
        """
        digits = sum(n for way, n in self.wrong.items() if way.carry is not None)
        return digits, sum(n for way, n in self.wrong.items() if way.carry)

    def to_json(self) -> dict[str, Any]:
        """Plain data; the totals are there for readers, `from_json` does without them."""
        first, first_with_carry = self.first_wrong_digits
        return {
            "rows": {
                kind: {"total": n, "wrong": self.wrong_rows(kind)} for kind, n in self.rows.items()
            },
            "faults": self.faults(),
            "first_wrong_digits": {"total": first, "with_carry": first_with_carry},
            "digits": {"total": self.digits, "with_carry": self.digits_with_carry},
            "reached": {"total": self.reached, "with_carry": self.reached_with_carry},
            "wrong": [
                {**way._asdict(), "count": n}
                for way, n in sorted(self.wrong.items(), key=lambda item: str(item[0]))
            ],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Diagnostics":
        """What `to_json` made."""
        return cls(
            {kind: n["total"] for kind, n in data["rows"].items()},
            {
                WrongRow(*(way[name] for name in WrongRow._fields)): way["count"]
                for way in data["wrong"]
            },
            *(data[name][count] for name in ("digits", "reached") for count in _CARRIED),
        )


def diagnose(
    task: Task, problems: Problems, drawing: WorkedDrawing, forced: "TeacherForced"
) -> Diagnostics:
    """What went wrong in rows that were each filled from the true rows before them.

    Args:
        task: layout and base.
        problems: B of them, as they were drawn.
        drawing: of the problems.
        forced: all rows of the drawing, as a model filled them.
    """
    steps = forced.steps
    N = len(steps.problem)
    at = np.arange(N), drawing.row_of_step(0)[steps.problem] + steps.step
    answer = steps.answer[at]  # [N, W]
    blank = np.uint8(symbols.BLANK)
    true, predicted = (
        np.where(answer, canvases[at], blank) for canvases in (steps.labels, forced.filled.canvases)
    )
    lowest = _rightmost(true != blank)
    lengths = (true != blank).sum(axis=1)
    carries = _carries(task, problems, lengths)
    kinds = drawing.kinds[steps.problem, drawing.first_step[steps.problem] + steps.step]
    first = lowest - _rightmost(true != predicted)
    aligned = (predicted != blank).any(axis=1) & (_rightmost(predicted != blank) == lowest)

    wrong: Counter[WrongRow] = Counter()
    reached = np.where(forced.rows_exact, lengths, np.where(aligned, first + 1, 0))
    for i in np.flatnonzero(~forced.rows_exact):
        digits, written = (row[i].tobytes().strip(blank.tobytes()) for row in (true, predicted))
        place, carry = None, None
        if aligned[i]:
            place = int(first[i])
            carry = bool(carries[i, place]) if place < lengths[i] else None
            ends_alike = digits.endswith(written) or written.endswith(digits)
            fault = LENGTH if ends_alike else DIGIT
        else:
            fault = EMPTY if not written else MISPLACED if written == digits else MISALIGNED
        wrong[WrongRow(ROW_KINDS[kinds[i]], int(steps.step[i]), fault, place, carry)] += 1
    places = np.arange(carries.shape[1])
    inside = places < lengths[:, None]
    reached_inside = inside & (places < reached[:, None])
    return Diagnostics(
        {name: n for k, name in enumerate(ROW_KINDS) if (n := int((kinds == k).sum()))},
        wrong,
        int(inside.sum()),
        int((carries & inside).sum()),
        int(reached_inside.sum()),
        int((carries & reached_inside).sum()),
    )


def _rightmost(cells: np.ndarray) -> np.ndarray:
    """The last True column of each row of ``bool [N, W]``."""
    return cells.shape[1] - 1 - cells[:, ::-1].argmax(axis=1)


def _carries(task: Task, problems: Problems, lengths: np.ndarray) -> np.ndarray:
    """Whether a carry enters each place of the true rows, ``bool [N, P]``, problem by problem.

    Args:
        task, problems: see `diagnose`.
        lengths: ``int64 [N]``, digits of each row.
    """
    carries = np.zeros((len(lengths), max(1, int(lengths.max()))), dtype=bool)
    columns = columns_of(task, problems)
    if columns is not None:
        assert len(columns.carry) == len(lengths), "a layout names the addends of each of its rows"
        width = min(carries.shape[1], columns.carry.shape[1])
        carries[:, :width] = columns.carry[:, :width] > 0
    return carries
