"""How often a solver is right on problems held out."""

import numpy as np

from canvas.problems import Problems, Split
from canvas.sampling import sample
from canvas.task import Task
from trm.evaluation.statistics import Share
from trm.solving.solution import Solution
from trm.solving.solver import Solver


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
    index = np.arange(first, first + problems)
    asked = sample(solver.task.evenly(), seed, split, 0, index)
    return solver.solve(asked, with_truth=True)


def by_size(solutions: list[Solution], task: Task) -> dict[tuple[int, int], Share]:
    """Share of right answers for each size, measured along the task's axes."""
    sizes = task.measures(Problems.from_ints([s.operands for s in solutions], task.base))
    keys = zip(*(sizes[axis].tolist() for axis in task.axes), strict=True)
    cells: dict[tuple[int, int], list[bool]] = {}
    for key, solution in zip(keys, solutions, strict=True):
        cells.setdefault(key, []).append(solution.correct)
    return {key: Share(sum(cells[key]), len(cells[key])) for key in sorted(cells)}


def answers(solutions: list[Solution]) -> Share:
    """Share of right answers."""
    return Share(sum(s.correct for s in solutions), len(solutions))


def workings(solutions: list[Solution]) -> Share:
    """Share of solutions in which every cell is right, not the answer alone."""
    return Share(sum(bool(s.exact) for s in solutions), len(solutions))
