"""Problems at random: a sample is a pure function of (seed, split, epoch, index)."""

from collections.abc import Sequence

import numpy as np

from canvas.arithmetic import Numbers, numbers_from_words
from canvas.problems import SPLITS, Problems, Split, keys, random_words, split_of
from canvas.task import Task

_ATTEMPTS = 256  # tries at a problem of the right split before other lengths are drawn
_LENGTH_DRAWS = 16


def sample(
    task: Task,
    seed: int,
    split: Split,
    epoch: int,
    index: np.ndarray,
    lengths_of: Sequence[int] | None = None,
) -> Problems:
    """The problems of the given indices, ``[B]``: lengths first, then operands of those lengths.

    Lengths that have no problem in the split (in base 2 there is but one pair of one-digit numbers)
    are drawn again.

    Args:
        task: what is drawn.
        seed, split, epoch: decide the problems together with the index.
        index: ``[B]``, from 0 up.
        lengths_of: digits of each operand; None: as the task draws them.

    Raises:
        ValueError: no lengths of the task have a problem in this split.
    """
    key = keys(seed, split, epoch, index)
    wanted = SPLITS.index(split)
    sizes, B = tuple(lengths_of or task.longest), len(index)
    ends = np.cumsum((0, *sizes))
    digits = [np.zeros((B, n), dtype=np.uint8) for n in sizes]
    lengths = np.zeros((B, len(sizes)), dtype=np.int64)
    todo = np.arange(B)
    for draw in range(_LENGTH_DRAWS):
        if lengths_of is None:
            drawn = task.lengths(random_words(key[todo], 1, start=draw)[:, 0])
        else:
            drawn = np.tile(np.array(sizes), (len(todo), 1))
        for attempt in range(_ATTEMPTS):
            start = _LENGTH_DRAWS + (draw * _ATTEMPTS + attempt) * int(ends[-1])
            words = random_words(key[todo], int(ends[-1]), start)
            problems = Problems(
                tuple(
                    numbers_from_words(
                        words[:, ends[k] : ends[k + 1]], drawn[:, k], task.base, task.smallest
                    )
                    for k in range(len(sizes))
                )
            )
            fits = (split_of(problems) == wanted) & task.allows(problems)
            done = todo[fits]
            for mine, numbers in zip(digits, problems.operands, strict=True):
                mine[done] = numbers.digits[fits]
            lengths[done] = drawn[fits]
            todo, drawn = todo[~fits], drawn[~fits]
            if not todo.size:
                return Problems(
                    tuple(Numbers(mine, lengths[:, k], task.base) for k, mine in enumerate(digits))
                )
    ranges = ", ".join(f"{name} {low}-{high}" for name, (low, high) in task.ranges.items())
    raise ValueError(
        f"no problem of {ranges} in base {task.base} belongs to the {split} split: allow longer "
        "operands"
    )
