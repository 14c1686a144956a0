"""How often a solver is right on problems held out."""

from dataclasses import replace

import numpy as np

from canvas.problems import Split, sample
from trm.evaluation.intervals import Share
from trm.solving.solver import Solution, Solver


def held_out(
    solver: Solver, problems: int, split: Split = "test", seed: int = 0, first: int = 0
) -> list[Solution]:
    """Solve problems of a split, their lengths drawn evenly over the ranges of training.

    Args:
        solver: what is judged.
        problems: how many, all in one batch.
        split: a model has never been trained on any pair outside `train`.
        seed: which problems of the split.
        first: index of the first one; a large number is solved batch by batch.
    """
    task = replace(solver.task, long_bias=0.0)
    return solver.solve(sample(task, seed, split, 0, np.arange(first, first + problems)))


def by_length(solutions: list[Solution], base: int) -> dict[tuple[int, int], Share]:
    """Share of right products for each (digits of a, digits of b)."""
    cells: dict[tuple[int, int], list[bool]] = {}
    for solution in solutions:
        key = _digits(solution.a, base), _digits(solution.b, base)
        cells.setdefault(key, []).append(solution.correct)
    return {key: Share(sum(cells[key]), len(cells[key])) for key in sorted(cells)}


def products(solutions: list[Solution]) -> Share:
    """Share of right products."""
    return Share(sum(s.correct for s in solutions), len(solutions))


def workings(solutions: list[Solution]) -> Share:
    """Share of solutions in which every cell is right, not the product alone."""
    return Share(sum(s.exact for s in solutions), len(solutions))


def _digits(number: int, base: int) -> int:
    count = 0
    while number:
        number //= base
        count += 1
    return count
