"""The problems of a cell of the grid: the same for every model that is asked."""

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np

from canvas.arithmetic import Numbers
from canvas.problems import SPLITS, Problems, Split, keys, random_words, split_of
from canvas.sampling import family_problems, sample
from canvas.task import Task
from trm.evaluation.grid_schema import FAMILY, Key

SPLIT: Split = "test"
_FEW = 20_000  # problems that are looked through one by one
_SPARE = 40  # above so many problems a wanted one, the split holds several times what is wanted


def problems_of(
    task: Task, axes: Sequence[str], size: Key, problems: int, seed: int
) -> tuple[tuple[int, ...], Problems]:
    """The problems of a cell, and the most digits of each operand.

    Args:
        task: whose problems are asked.
        axes: what the size is measured in: two of the task's measures; or `FAMILY` and digits, for
            problems of a family of `canvas.sampling`.
        size: of the cell.
        problems, seed: see `cell_problems`.
    """
    if axes[0] == FAMILY:
        family, digits = str(size[0]), int(size[1])
        return (digits, digits), family_problems(task, family, digits, problems, seed)
    lengths = task.of_size(**{axis: int(n) for axis, n in zip(axes, size, strict=True)})
    return lengths, cell_problems(task, lengths, problems, seed)


def cell_problems(task: Task, lengths: Sequence[int], problems: int, seed: int) -> Problems:
    """Different problems of the test split with operands of exactly so many digits.

    Every set of such problems is equally likely. It depends on the arguments alone, and not on the
    task's layout or ranges, so that all models of a task are asked the same.

    Args:
        task: whose problems are asked, in its base.
        lengths: digits of each operand.
        problems: how many; fewer where there are not as many, perhaps none.
        seed: which ones.
    """
    ranges = [_values(n, task) for n in lengths]
    if prod(r.stop - r.start for r in ranges) <= max(_FEW, _SPARE * problems):
        return _few(task, lengths, ranges, problems, seed)
    return _drawn(task, lengths, problems, seed)


def _values(digits: int, task: Task) -> range:
    """The numbers of so many digits."""
    least = task.smallest if digits == 1 else task.base ** (digits - 1)
    return range(least, task.base**digits)


def _few(
    task: Task, lengths: Sequence[int], ranges: list[range], problems: int, seed: int
) -> Problems:
    """From all problems of such lengths, in an order that the seed decides."""
    values = np.meshgrid(*(np.arange(r.start, r.stop) for r in ranges), indexing="ij")
    everything = Problems(
        tuple(
            _numbers(part.reshape(-1), n, task.base)
            for part, n in zip(values, lengths, strict=True)
        )
    )
    asked = (split_of(everything) == SPLITS.index(SPLIT)) & task.allows(everything)
    index = np.flatnonzero(asked)
    order = random_words(keys(seed, SPLIT, _epoch(lengths), index), 1)[:, 0]
    return everything[index[np.argsort(order, kind="stable")[:problems]]]


def _drawn(task: Task, lengths: Sequence[int], problems: int, seed: int) -> Problems:
    """Problems drawn one after the other, each kept the first time that it comes."""
    count = problems
    while True:
        found = sample(task, seed, SPLIT, _epoch(lengths), np.arange(count), lengths)
        digits = np.concatenate([numbers.digits for numbers in found.operands], axis=1)
        first = np.sort(np.unique(digits, axis=0, return_index=True)[1])
        if len(first) >= problems:
            return found[first[:problems]]
        count += 2 * (problems - len(first))


def _numbers(values: np.ndarray, n: int, base: int) -> Numbers:
    """Numbers of ``n`` digits from ``int64 [B]``."""
    digits = values[:, None] // base ** np.arange(n) % base
    return Numbers(digits.astype(np.uint8), np.full(len(values), n), base)


def _epoch(lengths: Sequence[int]) -> int:
    """A stream of random numbers for each cell, so that no two cells share digits."""
    return reduce(lambda stream, n: stream << 32 | n, lengths)
