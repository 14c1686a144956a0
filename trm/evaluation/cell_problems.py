"""The problems of a cell of the grid: the same for every model that is asked."""

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from canvas.problems import SPLITS, Problems, Split, keys, random_words, split_of
from canvas.sampling import sample
from canvas.task import Task
from trm.evaluation.grid import size_name

if TYPE_CHECKING:  # suites are drawn without PyTorch
    from trm.solving.solver import Solver

SPLIT: Split = "test"
_FEW = 20_000  # problems that are looked through one by one
_SPARE = 40  # above so many problems a wanted one, the split holds several times what is wanted


def fitted(
    solver: "Solver", axes: Sequence[str], size: Sequence[int], problems: int, seed: int
) -> tuple["Solver | None", Problems, str | None]:
    """What is asked of a model in a cell, whose size is in two measures of the task.

    The solver on a canvas that is large enough, None where it cannot work on one; the problems; and
    why there is nothing to measure, or None.
    """
    task = solver.task
    lengths = task.of_size(**dict(zip(axes, size, strict=True)))
    asked = cell_problems(task, lengths, problems, seed)
    name, on_canvas, reason = size_name(axes, size), None, None
    try:
        if (on_canvas := solver.for_lengths(lengths)) is None:
            height, width = task.rules.room(lengths, task.base)
            reason = (
                f"the model cannot work on a canvas of {height} x {width} cells or more "
                f"(height x width), which {name} need"
            )
        elif not len(asked):
            reason = f"no problem of {name} in base {task.base} belongs to the {SPLIT} split"
    except ValueError as error:  # the layout has no room for as many operands
        reason = str(error)
    return on_canvas, asked, reason


def cell_problems(task: Task, lengths: Sequence[int], problems: int, seed: int) -> Problems:
    """Different problems of the test split with operands of exactly so many digits.

    Every set of such problems is equally likely; fewer where there are not as many, perhaps none.
    It depends on the arguments and the task's base, but not on its layout or ranges, so that all
    models of a task are asked the same.
    """
    base = task.base
    ranges = [(task.smallest if n == 1 else base ** (n - 1), base**n) for n in lengths]
    stream = reduce(lambda stream, n: stream << 32 | n, lengths)  # no two cells share digits
    if prod(end - start for start, end in ranges) <= max(_FEW, _SPARE * problems):
        # All problems of such lengths, in an order that the seed decides.
        everything = Problems.from_ints([*product(*(range(*ends) for ends in ranges))], base)
        asked = (split_of(everything) == SPLITS.index(SPLIT)) & task.allows(everything)
        index = np.flatnonzero(asked)
        order = random_words(keys(seed, SPLIT, stream, index), 1)[:, 0]
        return everything[index[np.argsort(order, kind="stable")[:problems]]]
    count = problems
    while True:  # drawn one after the other, each kept the first time that it comes
        found = sample(task, seed, SPLIT, stream, np.arange(count), lengths)
        digits = np.concatenate([numbers.digits for numbers in found.operands], axis=1)
        first = np.sort(np.unique(digits, axis=0, return_index=True)[1])
        if len(first) >= problems:
            return found[first[:problems]]
        count += 2 * (problems - len(first))
