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
            operands = []
            for k in range(len(sizes)):
                mine = words[:, ends[k] : ends[k + 1]]
                numbers = numbers_from_words(mine, drawn[:, k], task.base, task.smallest)
                if split == "train" and task.repeats:
                    numbers = _with_repeats(numbers, mine, task.repeats)
                operands.append(numbers)
            problems = Problems(tuple(operands))
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


def _with_repeats(numbers: Numbers, words: np.ndarray, share: float) -> Numbers:
    """Numbers in a share of which three digits in four are one and the same.

    Args:
        numbers: B of them.
        words: ``uint64 [B, n]``, those that their digits were drawn from, by the upper halves.
        share: of the numbers.
    """
    low = words & np.uint64(0xFFFFFFFF)
    chosen = low[:, :1] < np.uint64(int(share * 2**32))
    kind = (low[:, :1] >> np.uint64(8)) % np.uint64(3)  # the lower bits are free again
    digit = np.where(kind == 0, 0, np.where(kind == 1, numbers.base - 1, numbers.digits[:, :1]))
    place = np.arange(numbers.digits.shape[1])
    top = place == numbers.lengths[:, None] - 1
    again = (low % np.uint64(4) > 0) & (place < numbers.lengths[:, None]) & ~(top & (digit == 0))
    digits = np.where(chosen & again, digit, numbers.digits).astype(np.uint8)
    return Numbers(digits, numbers.lengths, numbers.base)
