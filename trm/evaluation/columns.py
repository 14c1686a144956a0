"""Rows column by column: what each digit of a row is worked out from."""

from dataclasses import dataclass

import numpy as np

from canvas.arithmetic import Numbers
from canvas.problems import Problems
from canvas.task import Task


@dataclass(frozen=True)
class Columns:
    """The columns of N rows from the right, each a sum of digits times factors, and of a carry.

    Attributes:
        problem: ``int64 [N]``, which of the problems each is of.
        sums: ``int64 [N, P]``, what the addends bring to each column.
        last: ``int64 [N, P]``, the digit of the row's last addend there.
        factor: ``int64 [N]``, by which that is multiplied.
        addends: ``int64 [N]``, how many there are.
        carry: ``int64 [N, P]``, what is carried into each column.
        lengths: ``int64 [N]``, digits of the row's number.
    """

    problem: np.ndarray
    sums: np.ndarray
    last: np.ndarray
    factor: np.ndarray
    addends: np.ndarray
    carry: np.ndarray
    lengths: np.ndarray


def columns_of(task: Task, problems: Problems) -> Columns | None:
    """The columns of all rows that have to be worked out, problem by problem.

    Args:
        task: its layout says what each row is the sum of, see `canvas.layouts.Layout.addends`.
        problems: some.

    Returns:
        None where the layout does not say it.
    """
    named = [task.rules.addends(operands, task.base) for operands in problems.to_ints()]
    rows = [row for one in named if one is not None for row in one]
    if not rows:
        return None
    problem = np.repeat(np.arange(len(named)), [len(one or ()) for one in named])
    numbers = [addend.number for row in rows for addend in row]
    digits = Numbers.from_ints(numbers, task.base).digits.astype(np.int64)
    factors, shifts = np.array([addend[1:] for row in rows for addend in row]).reshape(-1, 2).T
    addends = np.array([len(row) for row in rows])
    of_row = np.repeat(np.arange(len(rows)), addends)
    width = int(shifts.max(initial=0)) + digits.shape[1]
    sums, last = (np.zeros((len(rows), width), dtype=np.int64) for _ in range(2))
    places = shifts[:, None] + np.arange(digits.shape[1])
    np.add.at(sums, (of_row[:, None], places), digits * factors[:, None])
    ends = np.cumsum(addends)[addends > 0] - 1  # of the rows that have addends
    there = np.flatnonzero(addends)
    last[there[:, None], places[ends]] = digits[ends]
    factor = np.ones(len(rows), dtype=np.int64)
    factor[there] = factors[ends]
    carry, lengths = _carried(sums, task.base)
    wider = ((0, 0), (0, carry.shape[1] - width))
    return Columns(
        problem, np.pad(sums, wider), np.pad(last, wider), factor, addends, carry, lengths
    )


def _carried(sums: np.ndarray, base: int) -> tuple[np.ndarray, np.ndarray]:
    """What is carried into each column ``int64 [N, P]``, and the digits of the results."""
    carries: list[np.ndarray] = []
    digits: list[np.ndarray] = []
    carry = np.zeros(len(sums), dtype=np.int64)
    while len(digits) < sums.shape[1] or carry.any():
        carries.append(carry)
        total = carry + (sums[:, len(digits)] if len(digits) < sums.shape[1] else 0)
        digits.append(total % base)
        carry = total // base
    written = np.stack(digits, axis=1) > 0
    lengths = np.where(written.any(1), written.shape[1] - written[:, ::-1].argmax(1), 1)
    return np.stack(carries, axis=1), lengths
