"""Families of structured problems, on which models fail that are right on random ones.

A digit or a carry that is rare in random numbers is everywhere in these: chains of carries as long
as the number, exact boundaries, zeros inside, one digit again and again. Price, Zaremba and
Sutskever 2016, "Extensions and Limitations of the Neural GPU", found 99 % of random products right
and none of numbers such as 10..02.
"""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from canvas.problems import SPLITS, Problems, split_of
from canvas.task import Task

_TRIES = 20  # for each problem that is wanted, of which several may be the same

# Two operands of at most n digits, one of them of exactly n, in a base.
Family = Callable[[Random, int, int], tuple[int, int]]


def _number(draw: Random, n: int, base: int) -> int:
    """Any number of n digits."""
    return draw.randrange(max(1, base ** (n - 1)), base**n)


def _written(digits: Sequence[int], base: int) -> int:
    """The number with these digits, the highest first."""
    value = 0
    for digit in digits:
        value = value * base + digit
    return value


def _lengths(draw: Random, n: int) -> tuple[int, int]:
    """n and n more often than not, or n and less."""
    found = [n, draw.choice((n, n, draw.randint(1, n)))]
    draw.shuffle(found)
    return found[0], found[1]


def _of(number: Callable[[Random, int, int], int]) -> Family:
    """Both operands of one kind."""

    def family(draw: Random, n: int, base: int) -> tuple[int, int]:
        one, other = _lengths(draw, n)
        return number(draw, one, base), number(draw, other, base)

    return family


def _repeated(draw: Random, n: int, base: int) -> int:
    return _written([draw.randrange(1, base)] * n, base)


def _alternating(draw: Random, n: int, base: int) -> int:
    first, second = draw.randrange(1, base), draw.randrange(base)
    return _written([(first, second)[place % 2] for place in range(n)], base)


def _sparse(draw: Random, n: int, base: int) -> int:
    digits = [draw.randrange(1, base), *[0] * (n - 1)]
    for place in draw.sample(range(n), min(n, 2)):
        digits[place] = draw.randrange(1, base)
    return _written(digits, base)


def _palindrome(draw: Random, n: int, base: int) -> int:
    half = [draw.randrange(1, base), *(draw.randrange(base) for _ in range((n - 1) // 2))]
    return _written(half + half[: n // 2][::-1], base)


def _extreme(draw: Random, n: int, base: int) -> int:
    digits = [0, 1, base // 2, base - 1]
    return _written([max(1, draw.choice(digits)), *draw.choices(digits, k=n - 1)], base)


def _near_power(draw: Random, n: int, base: int) -> int:
    away = min(draw.randint(1, 2 * base), base ** (n - 1))
    return draw.choice((base**n - away, base ** (n - 1) + away - 1))


def _square(draw: Random, n: int, base: int) -> tuple[int, int]:
    number = draw.choice((_number, _near_power))(draw, n, base)
    return number, number


def _equal_multiplier_digits(draw: Random, n: int, base: int) -> tuple[int, int]:
    one, other = _lengths(draw, n)
    return _number(draw, one, base), _repeated(draw, other, base)


FAMILIES: dict[str, Family] = {
    "random": _of(_number),
    "nines": _of(lambda _, n, base: base**n - 1),
    "powers": _of(lambda _, n, base: base ** (n - 1)),
    "10..01 and nines": lambda draw, n, base: (
        base ** (n - 1) + 1,
        base ** (_lengths(draw, n)[0]) - 1,
    ),
    "10..02": _of(lambda _, n, base: base ** (n - 1) + min(2, base ** (n - 1) - 1)),
    "near powers": _of(_near_power),
    "squares": _square,
    "repeated digit": _of(_repeated),
    "alternating digits": _of(_alternating),
    "sparse digits": _of(_sparse),
    "extreme digits": _of(_extreme),
    "palindromes": _of(_palindrome),
    "equal digits of b": _equal_multiplier_digits,
    "one digit of a": lambda draw, n, base: (_number(draw, 1, base), _number(draw, n, base)),
    "one digit of b": lambda draw, n, base: (_number(draw, n, base), _number(draw, 1, base)),
}


def family_problems(task: Task, family: str, digits: int, count: int, seed: int) -> Problems:
    """Different problems of a family, none of which can have been trained on.

    They are of the test split, or longer than all that the task draws. Where a family has few
    problems of a length, the second operand is shorter in some.

    Args:
        task: of two operands, with the lengths of training.
        family: a name in `FAMILIES`.
        digits: of the longer operand.
        count: how many; fewer where there are not as many.
        seed: which ones.
    """
    draw = Random(f"{family} {digits} {seed}")
    found: dict[tuple[int, ...], None] = {}
    for _ in range(_TRIES):
        drawn = [FAMILIES[family](draw, digits, task.base) for _ in range(count)]
        problems = Problems.from_ints(drawn, task.base)
        held_out = (split_of(problems) == SPLITS.index("test")) | ~task.in_range(problems)
        kept = problems[np.flatnonzero(held_out & task.allows(problems))]
        found |= dict.fromkeys(kept.to_ints())
        if len(found) >= count:
            break
    return Problems.from_ints(list(found)[:count], task.base)
