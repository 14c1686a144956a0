"""The problems of a cell of the grid: the same for every model that is asked."""

import numpy as np

from canvas.arithmetic import Numbers
from canvas.problems import SPLITS, Problems, Split, Task, keys, random_words, sample, split_of

SPLIT: Split = "test"
_FEW = 20_000  # pairs that are looked through one by one
_SPARE = 40  # above so many pairs a problem wanted, the split holds several times what is wanted


def cell_problems(task: Task, digits_a: int, digits_b: int, problems: int, seed: int) -> Problems:
    """Different problems of the test split with operands of exactly so many digits.

    Every set of such problems is equally likely. It depends on the arguments alone, and of the
    task on the base alone, so that models of all layouts are asked the same.

    Args:
        task: whose base the problems are written in.
        digits_a, digits_b: digits of the multiplicand and of the multiplier.
        problems: how many; fewer where there are not as many, perhaps none.
        seed: which ones.
    """
    pairs = (task.base - 1) ** 2 * task.base ** (digits_a + digits_b - 2)
    if pairs <= max(_FEW, _SPARE * problems):
        return _few(task.base, digits_a, digits_b, problems, seed)
    return _drawn(task.base, digits_a, digits_b, problems, seed)


def _few(base: int, digits_a: int, digits_b: int, problems: int, seed: int) -> Problems:
    """From all pairs of such lengths, in an order that the seed decides."""
    a, b = (
        part.reshape(-1)
        for part in np.meshgrid(
            *(np.arange(base ** (n - 1), base**n) for n in (digits_a, digits_b)), indexing="ij"
        )
    )
    everything = Problems(_numbers(a, digits_a, base), _numbers(b, digits_b, base))
    index = np.flatnonzero(split_of(everything.a, everything.b) == SPLITS.index(SPLIT))
    order = random_words(keys(seed, SPLIT, _epoch(digits_a, digits_b), index), 1)[:, 0]
    return everything[index[np.argsort(order, kind="stable")[:problems]]]


def _drawn(base: int, digits_a: int, digits_b: int, problems: int, seed: int) -> Problems:
    """Pairs drawn one after the other, each kept the first time that it comes."""
    lengths = Task(base=base, digits_a=(digits_a,) * 2, digits_b=(digits_b,) * 2)
    count = problems
    while True:
        index = np.arange(count)
        found = sample(lengths, seed, SPLIT, _epoch(digits_a, digits_b), index)
        digits = np.concatenate([found.a.digits, found.b.digits], axis=1)
        first = np.sort(np.unique(digits, axis=0, return_index=True)[1])
        if len(first) >= problems:
            return found[first[:problems]]
        count += 2 * (problems - len(first))


def _numbers(values: np.ndarray, n: int, base: int) -> Numbers:
    """Numbers of ``n`` digits from ``int64 [B]``."""
    digits = values[:, None] // base ** np.arange(n) % base
    return Numbers(digits.astype(np.uint8), np.full(len(values), n), base)


def _epoch(digits_a: int, digits_b: int) -> int:
    """A stream of random numbers for each cell, so that no two cells share digits."""
    return digits_a << 32 | digits_b
