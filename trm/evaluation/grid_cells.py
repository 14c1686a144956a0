"""Cells of a grid: their names, regions and problems.

A cell has problems of one size, the same for every model.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from canvas.problems import SPLITS, Problems, Split, keys, random_words, split_of
from canvas.sampling import NoProblemError, sample
from canvas.task import Task

if TYPE_CHECKING:  # suites are made without PyTorch
    from trm.solving.solver import Solver

SPLIT: Split = "test"
FAMILY = "family"  # axis of a suite's structured problems, see `canvas.sampling`
INSIDE, FIRST, SECOND, BOTH = "in range", "first beyond", "second beyond", "both beyond"
SHORTER = "below"  # smaller than any in training: rare
LEFT_OUT = "left out"  # between the smallest and the largest of training: rare
PRIMED = "primed"  # not of the task, but of `trm.training.priming`: rare
UNKNOWN = "range unknown"  # the ranges of training are not known
REGIONS = (INSIDE, FIRST, SECOND, BOTH)

Key = tuple[int | str, int]  # the row and the column of a cell
_FEW = 20_000  # most problems of a size that are listed one by one
_SPARE = 40  # problems of a size per wanted one, above which the split certainly has enough


def fitted(
    solver: "Solver", axes: Sequence[str], size: Sequence[int], problems: int, seed: int
) -> tuple["Solver | None", Problems, str | None]:
    """Return a solver, problems, and a reason for a cell; its size is in two measures of the task.

    The solver has a canvas that is large enough; it is None if the model cannot work on such a
    canvas. The reason explains why the cell cannot be measured; None: it can.
    """
    task = solver.task
    lengths = task.of_size(**dict(zip(axes, size, strict=True)))
    chosen = cell_problems(task, lengths, problems, seed)
    name, on_canvas, reason = size_name(axes, size, task.unit), None, None
    try:
        if (on_canvas := solver.for_lengths(lengths)) is None:
            height, width = task.canvas_layout.room(lengths, task.base)
            reason = (
                f"the model cannot work on a canvas of {height} x {width} cells or more "
                f"(height x width), which {name} need"
            )
        elif not len(chosen):
            reason = f"no problem of {name} {task.digits_in_words} belongs to the {SPLIT} split"
    except ValueError as error:  # the layout has no room for as many operands
        reason = str(error)
    return on_canvas, chosen, reason


def cell_problems(task: Task, lengths: Sequence[int], problems: int, seed: int) -> Problems:
    """Return different random problems of the test split with operands of exactly these lengths.

    Every set of such problems is equally likely. There are fewer, or none, where not enough exist.
    The result depends on the arguments and the task's base, but not on its layout or ranges, so all
    models of a task get the same problems.
    """
    stream = reduce(lambda stream, n: stream << 32 | n, lengths)  # no two cells share digits
    if prod(map(task.count, lengths)) <= max(_FEW, _SPARE * problems):
        # All problems of these lengths, in an order that depends on the seed.
        everything = Problems.from_ints([*product(*map(task.every, lengths))], task.base)
        allowed = (split_of(everything) == SPLITS.index(SPLIT)) & task.allows(everything)
        index = np.flatnonzero(allowed)
        order = random_words(keys(seed, SPLIT, stream, index), 1)[:, 0]
        return everything[index[np.argsort(order, kind="stable")[:problems]]]
    count = problems
    while True:  # one after the other, without repetitions
        try:
            found = sample(task, seed, SPLIT, stream, np.arange(count), lengths)
        except NoProblemError:  # the task allows none, as a difference of a longer second number
            return Problems.from_ints([(0,) * len(lengths)], task.base)[:0]
        digits = np.concatenate([numbers.digits for numbers in found.operands], axis=1)
        first = np.sort(np.unique(digits, axis=0, return_index=True)[1])
        if len(first) >= problems:
            return found[first[:problems]]
        count += 2 * (problems - len(first))


def region_of(solver: "Solver", axes: Sequence[str], size: Key) -> str:
    """Return the region of a size relative to a solver's training, see `region`."""
    found = region(solver.task.ranges, axes, size, solver.task.gaps)
    if found == INSIDE or solver.primed is None or axes[0] == FAMILY:
        return found
    ranges, gaps = solver.primed.ranges, solver.primed.gaps
    return PRIMED if region(ranges, axes, size, gaps) == INSIDE else found


def region(
    ranges: Mapping[str, Sequence[int]] | None,
    axes: Sequence[str],
    size: Key,
    gaps: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """Return the region of a size relative to the sizes of a model's training.

    This is one of `REGIONS`, `SHORTER`, `LEFT_OUT` (by ``gaps``, see `Task.gaps`), or without
    ranges `UNKNOWN`. A size in a measure without a range is beyond it, like the second of two
    operands for a model of three addends. A family is in range or beyond in both, as either operand
    may be the longer one.
    """
    if not ranges:
        return UNKNOWN
    if axes[0] == FAMILY:
        longest = [most for measure, (_, most) in ranges.items() if measure.startswith("digits")]
        return INSIDE if size[1] <= min(longest) else BOTH
    ends = [(ranges.get(axis, (0, 0)), int(n)) for axis, n in zip(axes, size, strict=True)]
    first, second = (n > most for (_, most), n in ends)
    if first or second:
        return BOTH if first and second else FIRST if first else SECOND
    if any(n in (gaps or {}).get(axis, ()) for axis, n in zip(axes, size, strict=True)):
        return LEFT_OUT
    return INSIDE if all(n >= fewest for (fewest, _), n in ends) else SHORTER


def size_name(axes: Iterable[str], size: Iterable[int | str], unit: str = Task.unit) -> str:
    """Return the size of a cell's problems in words, like ``4 x 3 digits``.

    ``unit`` is that of the task's texts.
    """
    measures = dict(zip(axes, size, strict=True))
    if [*measures] == ["digits_a", "digits_b"]:
        return "{digits_a} x {digits_b} digits".format(**measures)
    if measures.get("texts") == 1:
        return f"{measures['length']} {unit}"
    return ", ".join(f"{n} {axis.replace('_', ' ')}" for axis, n in measures.items())
