"""The problems of a cell of the grid: the same for every model that is asked."""

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from canvas.arithmetic import Numbers
from canvas.problems import SPLITS, Problems, Split, keys, random_words, split_of
from canvas.sampling import family_problems, sample
from canvas.task import Task
from trm.evaluation.grid import FAMILY, Key

SPLIT: Split = "test"
_FEW = 20_000  # problems that are looked through one by one
_SPARE = 40  # above so many problems a wanted one, the split holds several times what is wanted


def problems_of(
    task: Task, axes: Sequence[str], size: Key, problems: int, seed: int
) -> tuple[tuple[int, ...], Problems]:
    """The problems of a cell, and the most digits of each operand.

    The size is in two of the task's measures; or, by `FAMILY` and digits, of problems of a family
    of `canvas.sampling`.
    """
    if axes[0] == FAMILY:
        family, digits = str(size[0]), int(size[1])
        return (digits, digits), family_problems(task, family, digits, problems, seed)
    lengths = task.of_size(**{axis: int(n) for axis, n in zip(axes, size, strict=True)})
    return lengths, cell_problems(task, lengths, problems, seed)


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
        values = np.meshgrid(*(np.arange(*ends) for ends in ranges), indexing="ij")
        everything = Problems(
            tuple(
                Numbers(
                    (part.reshape(-1, 1) // base ** np.arange(n) % base).astype(np.uint8),
                    np.full(part.size, n),
                    base,
                )
                for part, n in zip(values, lengths, strict=True)
            )
        )
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
