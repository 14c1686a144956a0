"""Random problems, and families of structured ones.

A sample is a pure function of (seed, split, epoch, index).

Models that are correct on random problems can fail on structured ones: chains of carries as long as
the number, exact boundaries, zeros inside, one repeated digit. Price, Zaremba and Sutskever 2016,
"Extensions and Limitations of the Neural GPU": 99 % of random products are correct, and none of
numbers such as 10..02.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from random import Random

import numpy as np

from canvas.arithmetic import Numbers
from canvas.problems import SPLITS, Problems, Split, keys, random_words, split_of
from canvas.task import Task

_ATTEMPTS = 256  # to find a problem of the split, before other lengths are chosen
_AT_ONCE = 8  # attempts: a tenth of all problems is of the validation split, a tenth of test
_LENGTHS_TRIED = 16


class NoProblemError(ValueError):
    """No problem of some lengths belongs to the split."""


def sample(
    task: Task,
    seed: int,
    split: Split,
    epoch: int,
    index: np.ndarray,
    lengths_of: Sequence[int] | None = None,
) -> Problems:
    """Return the problems with the given indices: random lengths, then operands of those lengths.

    Lengths without a problem in the split, such as 1 and 1 in base 2, are chosen again.

    Args:
        task: defines lengths and problems.
        seed: of the samples.
        split: that the problems belong to.
        epoch: of the samples.
        index: of each problem, int64 [B].
        lengths_of: digits of each operand; None: chosen by the task.

    Raises:
        NoProblemError: no lengths have a problem in the split.
    """
    key = keys(seed, split, epoch, index)
    sizes, todo = tuple(lengths_of or task.longest), np.arange(len(index))
    *ends, width = np.cumsum(sizes).tolist()
    digits = np.zeros((len(index), width), dtype=np.uint8)  # of all operands side by side
    lengths = np.zeros((len(index), len(sizes)), dtype=np.int64)
    for choice in range(_LENGTHS_TRIED):
        if lengths_of is None:
            chosen = task.lengths(random_words(key[todo], 1, start=choice)[:, 0])
        else:
            chosen = np.tile(np.array(sizes), (len(todo), 1))
        at_once = 1 if split == "train" else _AT_ONCE
        for attempt in range(0, _ATTEMPTS, at_once):
            start = _LENGTHS_TRIED + (choice * _ATTEMPTS + attempt) * width
            words = random_words(key[todo], at_once * width, start).reshape(-1, width)
            parts = zip(
                np.split(words, ends, axis=1), chosen.T.repeat(at_once, axis=1), strict=True
            )
            operands = [task.random_operand(*part) for part in parts]
            problems = Problems(tuple(operands))
            fits = (split_of(problems) == SPLITS.index(split)) & task.allows(problems)
            every = np.concatenate([one.digits for one in operands], axis=1)
            fits, found = fits.reshape(-1, at_once), fits.reshape(-1, at_once).any(axis=1)
            first = found.nonzero()[0] * at_once + fits[found].argmax(axis=1)
            digits[todo[found]], lengths[todo[found]] = every[first], chosen[found]
            todo, chosen = todo[~found], chosen[~found]
            if not todo.size:
                each = zip(np.split(digits, ends, axis=1), lengths.T, strict=True)
                return Problems(tuple(Numbers(*one, task.base) for one in each))
    ranges = ", ".join(f"{name} {low}-{high}" for name, (low, high) in task.ranges.items())
    if lengths_of is not None:
        ranges = f"{' x '.join(map(str, lengths_of))} digits"
    why = f"; {task.requires}" if task.requires else ""
    raise NoProblemError(
        f"no problem of {ranges} {task.digits_in_words} belongs to the {split} split: allow longer "
        f"operands{why}"
    )


_TRIES = 20  # rounds; several problems of a round may be the same

# From a generator, n and a base: a number of n digits.
Number = Callable[[Random, int, int], int]
# Two operands of at most n digits, one of them with exactly n.
Family = Callable[[Random, int, int], tuple[int, int]]


def _number(rng: Random, n: int, base: int) -> int:
    return rng.randrange(max(1, base ** (n - 1)), base**n)


def _written(digits: Sequence[int], base: int) -> int:
    """Return the number with these digits, the highest first."""
    return reduce(lambda value, digit: value * base + digit, digits, 0)


def _lengths(rng: Random, n: int) -> tuple[int, int]:
    """Choose two lengths, n and n in most cases, else n and fewer."""
    found = [n, rng.choice((n, n, rng.randint(1, n)))]
    rng.shuffle(found)
    return found[0], found[1]


def _of(a: Number, b: Number | None = None) -> Family:
    """Return a family with operands of these kinds; both of the first, if it is given alone."""

    def family(rng: Random, n: int, base: int) -> tuple[int, int]:
        one, other = _lengths(rng, n)
        return a(rng, one, base), (b or a)(rng, other, base)

    return family


def _repeated(rng: Random, n: int, base: int) -> int:
    return _written([rng.randrange(1, base)] * n, base)


def _alternating(rng: Random, n: int, base: int) -> int:
    first, second = rng.randrange(1, base), rng.randrange(base)
    return _written([(first, second)[place % 2] for place in range(n)], base)


def _sparse(rng: Random, n: int, base: int) -> int:
    digits = [rng.randrange(1, base), *[0] * (n - 1)]
    for place in rng.sample(range(n), min(n, 2)):
        digits[place] = rng.randrange(1, base)
    return _written(digits, base)


def _palindrome(rng: Random, n: int, base: int) -> int:
    half = [rng.randrange(1, base), *(rng.randrange(base) for _ in range((n - 1) // 2))]
    return _written(half + half[: n // 2][::-1], base)


def _extreme(rng: Random, n: int, base: int) -> int:
    digits = [0, 1, base // 2, base - 1]
    return _written([max(1, rng.choice(digits)), *rng.choices(digits, k=n - 1)], base)


def _near_power(rng: Random, n: int, base: int) -> int:
    away = min(rng.randint(1, 2 * base), base ** (n - 1))
    return rng.choice((base**n - away, base ** (n - 1) + away - 1))


FAMILIES: dict[str, Family] = {
    "random": _of(_number),
    "nines": _of(lambda _, n, base: base**n - 1),
    "powers": _of(lambda _, n, base: base ** (n - 1)),
    "10..01 and nines": lambda rng, n, base: (
        base ** (n - 1) + 1,
        base ** (_lengths(rng, n)[0]) - 1,
    ),
    "10..02": _of(lambda _, n, base: base ** (n - 1) + min(2, base ** (n - 1) - 1)),
    "near powers": _of(_near_power),
    "squares": lambda rng, n, base: (rng.choice((_number, _near_power))(rng, n, base),) * 2,
    "repeated digit": _of(_repeated),
    "alternating digits": _of(_alternating),
    "sparse digits": _of(_sparse),
    "extreme digits": _of(_extreme),
    "palindromes": _of(_palindrome),
    "equal digits of b": _of(_number, _repeated),
    "one digit of a": lambda rng, n, base: (_number(rng, 1, base), _number(rng, n, base)),
    "one digit of b": lambda rng, n, base: (_number(rng, n, base), _number(rng, 1, base)),
}


def family_problems(task: Task, family: str, digits: int, count: int, seed: int) -> Problems:
    """Return different random problems of a family, of the test split or outside the task's sizes.

    There may be fewer than ``count`` if a family has few problems of a length.

    Args:
        task: defines base, sizes and problems.
        family: one of `FAMILIES`.
        digits: of the longer operand.
        count: number of problems.
        seed: of the generator.
    """
    rng = Random(f"{family} {digits} {seed}")
    found: dict[tuple[int, ...], None] = {}
    for _ in range(_TRIES):
        random_ones = [FAMILIES[family](rng, digits, task.base) for _ in range(count)]
        problems = Problems.from_ints(random_ones, task.base)
        held_out = (split_of(problems) == SPLITS.index("test")) | ~task.in_range(problems)
        kept = problems[np.flatnonzero(held_out & task.allows(problems))]
        found |= dict.fromkeys(kept.to_ints())
        if len(found) >= count:
            break
    return Problems.from_ints(list(found)[:count], task.base)
