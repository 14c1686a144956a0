"""Practice on narrow carries: rows in which little decides what is carried.

The errors of a model that multiplies long numbers are mostly there, and random rows of short
numbers hardly have any, see `canvas.arithmetic.narrow_carries`.
"""

import numpy as np

from canvas.arithmetic import narrow_carries
from canvas.multiplication import Accumulate, Lattice
from canvas.problems import Problems, random_shares
from canvas.sampling import sample
from canvas.task import Task
from trm.training.configs import check_range

_CANDIDATES = 8  # problems, of which one is chosen


class CarryPractice:
    """Takes a share of the samples from rows with many narrow carries.

    Of eight problems the one is taken that has the most in a single row, and that row is masked.

    Args:
        task: multiplication, in a layout whose row steps are totals.
        share: of the samples, 0 to 1.
        seed: of the samples.

    Raises:
        ValueError: the share is another number, or the task another one.
    """

    def __init__(self, task: Task, share: float, seed: int) -> None:
        check_range("data.carry_practice", share, 0, 1)
        if not isinstance(task.canvas_layout, Lattice | Accumulate):
            raise ValueError(
                "data.carry_practice is for products in the layouts lattice and accumulate: "
                "set it to 0 (--data.carry_practice 0)"
            )
        self.share, self.seed = share, seed

    def mixed(
        self, task: Task, problems: Problems, epoch: int, index: np.ndarray, words: np.ndarray
    ) -> Problems:
        """Return the problems of training samples, a share of them replaced by chosen ones.

        Args:
            task: of which the problems of this epoch are.
            problems: B problems.
            epoch: of the samples.
            index: of the samples, int64 [B].
            words: random, uint64 [B, 2].
        """
        chosen = random_shares(words[:, 0]) < self.share
        most = narrow_carries(*problems.operands).max(axis=1)
        for number in range(1, _CANDIDATES):
            other = sample(task, self.seed + number, "train", epoch, index)
            count = narrow_carries(*other.operands).max(axis=1)
            problems = Problems.where(chosen & (count > most), other, problems)
            most = np.maximum(most, count)
        return problems

    def rows(self, problems: Problems, words: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the row of each sample, int64 [B]: that of most narrow carries, if chosen.

        Args:
            problems: of `mixed`.
            words: the same as there.
            rows: of the samples that are not chosen, int64 [B].
        """
        share, tie = random_shares(words).T
        counts = narrow_carries(*problems.operands)
        most = counts == counts.max(axis=1, keepdims=True)
        nth = (tie * most.sum(axis=1)).astype(np.int64)  # among equals
        best = (most.cumsum(axis=1) > nth[:, None]).argmax(axis=1)
        return np.where(share < self.share, best, rows)
