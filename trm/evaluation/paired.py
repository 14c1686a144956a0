"""Two models on the same problems: what differs beyond chance, problem by problem.

Where both were asked the same, what they have in common (easy problems, hard ones) takes no part in
a comparison. Tested is whether the problems that one model alone solves are as likely one's as the
other's: McNemar 1947, by the binomial distribution. The interval of two single models is Newcombe's
for paired shares (Statistics in Medicine 17, 2635, 1998, method 10). Where a setting has several
seeds it is by the bootstrap: seeds and problems are drawn anew with replacement, 2,000 times (Efron
1979). Few seeds do not tell how much others would differ: such an interval is then too narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, erfc, sqrt

import numpy as np

from trm.evaluation.grid_schema import SHOWN, Model, cells_of
from trm.evaluation.intervals import Share

_RESAMPLES = 2000
_ENDS = (2.5, 97.5)  # percent


@dataclass(frozen=True)
class Paired:
    """A comparison of two settings on the same problems.

    Attributes:
        problems: how many, each asked of every seed of both.
        mine, theirs: mean share solved, over seeds and problems.
        mine_alone, theirs_alone: problems that one solves and the other does not, where both have
            one seed; else None.
        p: of McNemar's test, where both have one seed; else None.
        interval: lower and upper end of mine less theirs; 95 % of two single models, else roughly.
    """

    problems: int
    mine: float
    theirs: float
    mine_alone: int | None
    theirs_alone: int | None
    p: float | None
    interval: tuple[float, float]


def paired(mine: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> Paired:
    """Compare two settings.

    Args:
        mine: of each seed, what was solved: of each cell a text of 1 and 0, a character for each
            problem.
        theirs: the same of the other setting, with the same cells and problems.

    Raises:
        ValueError: the cells have different numbers of problems, or none.
    """
    counts = {tuple(map(len, seed)) for seed in (*mine, *theirs)}
    if len(counts) != 1 or not sum(next(iter(counts))):
        raise ValueError("only what was asked the same problems can be compared pair by pair")
    ends = np.cumsum(next(iter(counts)))[:-1]
    first, second = (np.array([_solved(seed) for seed in seeds]) for seeds in (mine, theirs))
    single = len(first) == len(second) == 1
    only = [int((first[0] & ~second[0]).sum()), int((second[0] & ~first[0]).sum())]
    return Paired(
        problems=first.shape[1],
        mine=float(first.mean()),
        theirs=float(second.mean()),
        mine_alone=only[0] if single else None,
        theirs_alone=only[1] if single else None,
        p=mcnemar(*only) if single else None,
        interval=_newcombe(first[0], second[0]) if single else _of_seeds(first, second, ends),
    )


def shared_problems(
    mine: Sequence[Model],
    theirs: Sequence[Model],
    region: str | None = None,
    figure_of: str = "solutions",
) -> Paired | None:
    """Compare two settings over the cells that all of their seeds were asked.

    Args:
        mine, theirs: models of a grid, which differ in the seed alone.
        region: of the cells, as seen from the first model's range; None: all of them.
        figure_of: what has to be right, a name in `SHOWN`.

    Returns:
        None where there are none, or it is not known which problems were solved.
    """
    cells = [cells_of(model) for model in (*mine, *theirs)]
    solved = SHOWN[figure_of]
    keys = [
        key
        for key, cell in cells[0].items()
        if region in (None, cell["region"])
        and all(isinstance(some.get(key, {}).get(solved), str) for some in cells)
        and len({len(some[key][solved]) for some in cells}) == 1
    ]
    if not any(cells[0][key][solved] for key in keys):
        return None
    found = [[some[key][solved] for key in keys] for some in cells]
    return paired(found[: len(mine)], found[len(mine) :])


def mcnemar(one: int, other: int) -> float:
    """The two-sided p of McNemar's exact test.

    Args:
        one, other: problems that only the one and only the other has solved.
    """
    n, fewer = one + other, min(one, other)
    if n > 1000:  # there the normal distribution does as well; comb() becomes slow
        return erfc(max(0.0, abs(one - other) - 1) / sqrt(2 * n))
    tail = sum(comb(n, k) for k in range(fewer + 1)) / 2**n
    return min(1.0, 2 * tail)


def _newcombe(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The interval of the difference of two paired shares, ``bool [n]`` each."""
    n = len(first)
    both, neither = int((first & second).sum()), int((~first & ~second).sum())
    alone, other = int((first & ~second).sum()), int((second & ~first).sum())
    one, two = Share(both + alone, n), Share(both + other, n)
    product = (both + alone) * (other + neither) * (both + other) * (alone + neither)
    excess: float = both * neither - alone * other
    if excess > 0:
        excess = max(0.0, excess - n / 2)
    phi = excess / sqrt(product) if product else 0.0
    p, q = one.value, two.value
    (low, high), (least, most) = one.interval, two.interval

    def reach(a: float, b: float) -> float:
        return sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    return p - q - reach(p - low, most - q), p - q + reach(high - p, q - least)


def _solved(cells: Sequence[str]) -> np.ndarray:
    """One seed's problems, ``bool [n]``."""
    return np.frombuffer("".join(cells).encode(), dtype=np.uint8) == ord("1")


def _of_seeds(first: np.ndarray, second: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """By a bootstrap; where all seeds agree on all problems, which leaves it no spread, Newcombe's.

    Of ``bool [seeds, n]`` each.
    """
    if (first == first[:1]).all() and (second == first[:1]).all():
        return _newcombe(first[0], second[0])
    return _bootstrapped(first, second, ends)


def _bootstrapped(first: np.ndarray, second: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """The interval of the mean difference of ``bool [seeds, n]`` each, cells drawn apart."""
    random = np.random.default_rng(0)
    seeds = [random.integers(len(v), size=(_RESAMPLES, len(v))) for v in (first, second)]
    sums = np.zeros(_RESAMPLES)
    for cell in np.split(np.arange(first.shape[1]), ends):
        if len(cell):
            one, other = (
                values[:, cell][drawn].mean(axis=1)
                for values, drawn in zip((first, second), seeds, strict=True)
            )  # [resamples, cell]
            drawn = random.integers(len(cell), size=(_RESAMPLES, len(cell)))
            sums += np.take_along_axis(one - other, drawn, axis=1).sum(axis=1)
    low, high = np.percentile(sums / first.shape[1], _ENDS)
    return float(low), float(high)
