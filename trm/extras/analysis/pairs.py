"""Pairs of held-out problems that differ in one respect only, for activation patching.

Both problems belong to the test split. Their numbers have equal lengths and lie in the same cells.
The compared row has digits in the same cells. Above that row their solutions are the same, except
for `TOTAL`. Each task has its kinds of pairs, see `KINDS`.
"""

from collections.abc import Iterator
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np

from canvas import symbols
from canvas.choices import check_choice
from canvas.drawing import RowSteps, WorkedDrawing, row_steps
from canvas.problems import SPLITS, Problems, split_of
from canvas.task import Task
from trm.evaluation.grid_cells import SPLIT, cell_problems
from trm.solving.solver import Solver

DIGIT, FACTOR, CARRY, TOTAL = "digit", "factor", "carry", "total"
KINDS = {
    "multiplication": {
        DIGIT: "another digit of the multiplicand",
        FACTOR: "another multiplier digit",
        CARRY: "another carry alone, where the same digits meet",
        TOTAL: "another row above, where the same digits meet",
    },
    "addition": {
        DIGIT: "another digit of an addend",
        CARRY: "another carry alone, where the same digits meet",
    },
}
_TRIED = 8  # second problems that are tried for a first one
_MOST = 64  # first problems that are tried for each requested pair

Operands = tuple[int, ...]


class Pair(NamedTuple):
    """Two problems whose solutions are compared in one row.

    ``row`` counts the rows that are filled in, from 0. ``inputs`` and ``labels`` are ``uint8
    [2, H, W]``; the row is masked in the inputs and filled in in the labels.
    """

    names: tuple[str, str]
    row: int
    inputs: np.ndarray
    labels: np.ndarray


def kinds_of(task: Task) -> dict[str, str]:
    """Return the kinds of pairs of a task, each with a description of the difference.

    Raises:
        ValueError: the task has none.
    """
    check_choice("the task of pairs", task.name, KINDS)
    return KINDS[task.name]


def draw_pairs(
    solver: Solver, kind: str, size: dict[str, int], pairs: int, seed: int
) -> list[Pair]:
    """Draw pairs of held-out problems of a size; fewer, or none, where not enough exist.

    The first problems are those of `cell_problems`, in its order. The second is drawn from all
    problems that differ from the first as the kind requires. The compared row is the first that
    differs; for `TOTAL` it is the second.

    Raises:
        ValueError: there is no such kind, or the problems do not fit the canvas.
    """
    task = solver.task
    check_choice("kind", kind, kinds_of(task))
    drawn = cell_problems(task, task.of_size(**size), _MOST * pairs, seed).to_ints()
    found = (_pair(solver, kind, number, one, seed) for number, one in enumerate(drawn))
    return [*islice(filter(None, found), pairs)]


def _pair(solver: Solver, kind: str, number: int, operands: Operands, seed: int) -> Pair | None:
    """Return a pair with a first problem, or None; number and seed select the second one."""
    task = solver.task
    others = [*dict.fromkeys(_others(task, kind, operands))]
    if not others:
        return None
    second = Problems.from_ints(others, task.base)
    held_out = (split_of(second) == SPLITS.index(SPLIT)) & task.allows(second)
    order = np.random.default_rng((seed, number)).permutation(len(others))
    chosen = [operands, *[others[i] for i in order if held_out[i]][:_TRIED]]
    drawing = solver.draw_worked(Problems.from_ints(chosen, task.base))
    for k, other in enumerate(chosen[1:], start=1):
        pair = drawing[np.array([0, k])]
        row = _row(kind, pair) if alike(pair) else None
        if row is None:
            continue
        steps = row_steps(pair, np.full(2, row))
        blanks = (steps.inputs == symbols.BLANK, steps.labels == symbols.BLANK)
        same = all((of[0] == of[1]).all() for of in blanks)
        if same and (kind != CARRY or _carry_alone(task, steps, operands, other)):
            a, b = task.names(Problems.from_ints([operands, other], task.base))
            return Pair((a, b), row, steps.inputs, steps.labels)
    return None


def alike(pair: WorkedDrawing) -> bool:
    """Return True if two problems lie in the same cells."""
    names = ("given", "top", "left", "heights", "widths", "given_rows")
    return all((getattr(pair, name)[0] == getattr(pair, name)[1]).all() for name in names)


def _row(kind: str, pair: WorkedDrawing) -> int | None:
    """Return the compared row; None: there is none."""
    filled_in = pair.truth[:, int(pair.canvas_row(0)[0]) :]
    differ = np.flatnonzero((filled_in[0] != filled_in[1]).any(axis=1))
    which = 1 if kind == TOTAL else 0
    return int(differ[which]) if len(differ) > which else None


def _carry_alone(task: Task, steps: RowSteps, a: Operands, b: Operands) -> bool:
    """Test if the row is the first product or the sum, and differs left of all other digits."""
    written = [
        "".join(symbols.decode(row[answer & (row != symbols.BLANK)]))
        for row, answer in zip(steps.labels, steps.answer, strict=True)
    ]
    for operands, digits in zip((a, b), written, strict=True):
        # The number in a row whose columns depend on their own digits only.
        product = operands[0] * (operands[1] % task.base)
        if int(digits, task.base) != (sum(operands) if task.name == "addition" else product):
            return False
    rightmost = min(_differing(*written))
    return rightmost > max(
        place
        for one, other in zip(a, b, strict=True)
        for place in _differing(*(np.base_repr(number, task.base) for number in (one, other)))
    )


def _differing(one: str, other: str) -> list[int]:
    """Return the places in which two numbers of equal length differ, from the lowest digit."""
    return [i for i, (x, y) in enumerate(zip(one[::-1], other[::-1], strict=True)) if x != y]


def _others(task: Task, kind: str, operands: Operands) -> Iterator[Operands]:
    """Yield all problems that differ as a kind requires; `_pair` checks their rows later.

    For `CARRY` the carry out of a column differs, and the column's digit stays the same.
    """
    base, adds = task.base, task.name == "addition"
    digits = [[*map(int, reversed(np.base_repr(one, base)))] for one in operands]

    def changed(change: dict[tuple[int, int], int]) -> Iterator[Operands]:
        """Yield the operands with digits replaced, by operand and place; none if lengths change."""
        new = list(operands)
        for (k, place), digit in change.items():
            if digit == 0 and place == len(digits[k]) - 1 and (place or task.smallest):
                return
            new[k] += (digit - digits[k][place]) * base**place
        if tuple(new) != operands:
            yield tuple(new)

    if kind == CARRY and adds:
        for one, two in combinations(range(len(operands)), 2):
            for place in range(min(len(digits[one]), len(digits[two]))):
                total = digits[one][place] + digits[two][place]
                for wanted in (total - base, total + base):
                    for first in range(max(0, wanted - base + 1), min(base, wanted + 1)):
                        yield from changed({(one, place): first, (two, place): wanted - first})
        return
    lowest = digits[-1][0]  # of the multiplier
    for k in range(len(digits)) if adds else [0 if kind in (DIGIT, CARRY) else 1]:
        for place in range(len(digits[k]) - (kind == TOTAL)):
            for digit in range(base):
                if kind != CARRY or (lowest and (digit - digits[k][place]) * lowest % base == 0):
                    yield from changed({(k, place): digit})
