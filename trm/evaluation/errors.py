"""What is wrong with wrong rows: alignment apart from arithmetic, and where carries matter."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from canvas import symbols
from canvas.arithmetic import Numbers
from canvas.layouts import ROW_KINDS
from canvas.problems import Problems
from canvas.render import WorkedDrawing
from canvas.task import Task

if TYPE_CHECKING:  # reports are read without PyTorch
    from trm.solving.rollout import TeacherForced

EMPTY, MISPLACED, MISALIGNED, DIGIT, LENGTH = FAULTS = (
    "empty",  # nothing written
    "misplaced",  # the right digits, all of them, in the wrong columns
    "misaligned",  # other digits, and their right end in the wrong column
    "wrong digit",  # the right end in place, and a wrong digit
    "wrong length",  # the right end in place, no wrong digit, but too few or too many of them
)


def carries_of(task: Task, problems: Problems) -> np.ndarray | None:
    """What is carried into each column of all rows that have to be worked out, problem by problem.

    ``int64 [N, P]``, columns from the right; None where the layout does not say of what rows are
    sums, see `canvas.layouts.Layout.addends`.
    """
    rows = [
        row
        for operands in problems.to_ints()
        for row in task.rules.addends(operands, task.base) or ()
    ]
    if not rows:
        return None
    numbers = [addend.number for row in rows for addend in row]
    digits = Numbers.from_ints(numbers, task.base).digits.astype(np.int64)
    factors, shifts = np.array([addend[1:] for row in rows for addend in row]).reshape(-1, 2).T
    addends = [len(row) for row in rows]
    # What is carried beyond the columns is less than addends times base.
    beyond = len(np.base_repr(max(addends), task.base))
    width = int(shifts.max(initial=0)) + digits.shape[1] + beyond
    sums, carries = np.zeros((2, len(rows), width + 1), dtype=np.int64)
    places = shifts[:, None] + np.arange(digits.shape[1])
    of_row = np.repeat(np.arange(len(rows)), addends)
    np.add.at(sums, (of_row[:, None], places), digits * factors[:, None])
    for column in range(1, width + 1):
        carries[:, column] = (carries[:, column - 1] + sums[:, column - 1]) // task.base
    return carries


class WrongRow(NamedTuple):
    """How a row is wrong."""

    kind: str  # one of `canvas.layouts.ROW_KINDS`
    row: int  # which of the rows that were worked out, from 0
    fault: str  # one of `FAULTS`; each wrong row has exactly one
    # Of the first wrong digit from the right, counted from the true row's lowest one; None unless
    # the row's right end is in place.
    place: int | None
    # Whether a carry enters that place in the true calculation; None where there is no place, or no
    # digit there in the true row.
    carry: bool | None


@dataclass(frozen=True)
class Diagnostics:
    """Wrong rows by how they are wrong, and what there was to get wrong; those of parts add up."""

    rows: Mapping[str, int] = field(default_factory=dict)  # of each kind, right and wrong
    wrong: Mapping[WrongRow, int] = field(default_factory=dict)  # how many in each way
    digits: tuple[int, int] = (0, 0)  # of all true rows; and those that a carry enters
    # The same up to the first wrong one from the right, of rows whose right end is in place: those
    # that could become the first wrong one.
    reached: tuple[int, int] = (0, 0)

    def __add__(self, other: "Diagnostics") -> "Diagnostics":
        (a, b), (c, d) = self.digits, self.reached
        (e, f), (g, h) = other.digits, other.reached
        rows, wrong = Counter(self.rows) + Counter(other.rows), Counter(self.wrong)
        return Diagnostics(rows, wrong + Counter(other.wrong), (a + e, b + f), (c + g, d + h))

    def wrong_rows(self, kind: str | None = None) -> int:
        """Wrong rows of a kind, or of all kinds."""
        return sum(n for way, n in self.wrong.items() if kind in (None, way.kind))

    def faults(self) -> dict[str, int]:
        """Wrong rows by fault; together they are all wrong rows."""
        return {f: sum(n for way, n in self.wrong.items() if way.fault == f) for f in FAULTS}

    @property
    def first_wrong_digits(self) -> tuple[int, int]:
        """How many digits are the first wrong one of their row, and how many of them get a carry.

        Only of rows whose right end is in place. Errors sit on carries if their share here exceeds
        that in ``reached``: of all digits more get a carry, for none enters a lowest digit.
        """
        carries = Counter({way: n for way, n in self.wrong.items() if way.carry is not None})
        return carries.total(), sum(n for way, n in carries.items() if way.carry)

    def to_json(self) -> dict[str, Any]:
        """As it is written to ``grid.json``, with totals for readers."""
        counts = {"first_wrong_digits": self.first_wrong_digits}
        counts |= {"digits": self.digits, "reached": self.reached}
        ways = sorted(self.wrong.items(), key=lambda item: str(item[0]))
        return {
            "rows": {k: {"total": n, "wrong": self.wrong_rows(k)} for k, n in self.rows.items()},
            "faults": self.faults(),
            **{name: {"total": n, "with_carry": some} for name, (n, some) in counts.items()},
            "wrong": [{**way._asdict(), "count": n} for way, n in ways],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Diagnostics":
        """What `to_json` made; ValueError if it is something else."""
        try:
            rows = {kind: int(n["total"]) for kind, n in data["rows"].items()}
            wrong = {
                WrongRow(*map(way.get, WrongRow._fields)): way["count"] for way in data["wrong"]
            }
            counts = [data[name] for name in ("digits", "reached")]
            return cls(rows, wrong, *((one["total"], one["with_carry"]) for one in counts))
        except (KeyError, TypeError, AttributeError):
            raise ValueError("the diagnostics of a cell are damaged") from None


def diagnose(
    task: Task, problems: Problems, drawing: WorkedDrawing, forced: "TeacherForced"
) -> Diagnostics:
    """What went wrong in all rows of a drawing, each filled from the true rows before it."""
    steps, exact = forced.steps, forced.rows_exact
    at = np.arange(len(exact)), drawing.row_of_step(0)[steps.problem] + steps.step
    blank = np.uint8(symbols.BLANK)
    true, predicted = (
        np.where(steps.answer[at], canvases[at], blank)
        for canvases in (steps.labels, forced.filled.canvases)
    )  # [N, W]

    def rightmost(cells: np.ndarray) -> np.ndarray:
        return cells.shape[1] - 1 - cells[:, ::-1].argmax(axis=1)

    lowest, lengths = rightmost(true != blank), (true != blank).sum(axis=1)
    carries = np.zeros((len(exact), max(1, int(lengths.max()))), dtype=bool)  # into each place
    if (true_carries := carries_of(task, problems)) is not None:
        width = min(carries.shape[1], true_carries.shape[1])
        carries[:, :width] = true_carries[:, :width] > 0
    kinds = drawing.kinds[steps.problem, drawing.first_step[steps.problem] + steps.step]
    first = lowest - rightmost(true != predicted)
    aligned = (predicted != blank).any(axis=1) & (rightmost(predicted != blank) == lowest)

    wrong: Counter[WrongRow] = Counter()
    for i in np.flatnonzero(~exact):
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
    there = places < lengths[:, None]
    reached = np.where(exact, lengths, np.where(aligned, first + 1, 0))
    up_to = there & (places < reached[:, None])
    return Diagnostics(
        {name: n for k, name in enumerate(ROW_KINDS) if (n := int((kinds == k).sum()))},
        wrong,
        *((int(cells.sum()), int((cells & carries).sum())) for cells in (there, up_to)),
    )
