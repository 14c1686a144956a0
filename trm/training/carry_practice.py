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
from trm.training.random_bits import Purpose, SampleKeys

_CANDIDATES = 8  # problems, of which one is chosen


class CarryPractice:
    """Takes a share of the samples from rows with many narrow carries.

    Of eight problems the one is taken that has the most in a single row, and that row is masked.

    Args:
        task: multiplication, in a layout whose row steps are totals.
        share: of the samples, 0 to 1.

    Raises:
        ValueError: the share is another number, or the task another one.
    """

    def __init__(self, task: Task, share: float) -> None:
        check_range("data.carry_practice", share, 0, 1)
        if not isinstance(task.canvas_layout, Lattice | Accumulate):
            raise ValueError(
                "data.carry_practice is for products in the layouts lattice and accumulate: "
                "set it to 0 (--data.carry_practice 0)"
            )
        self.share = share

    def mixed(self, task: Task, problems: Problems, keys: SampleKeys) -> Problems:
        """Return the problems of training samples, those in practice replaced by chosen ones.

        Args:
            task: of which the problems of this epoch are.
            problems: of the samples.
            keys: of the samples.
        """
        practised, _ = self._shares(keys)
        most = narrow_carries(*problems.operands).max(axis=1)
        for number in range(1, _CANDIDATES):
            other = sample(task, *keys._replace(seed=keys.seed + number))
            count = narrow_carries(*other.operands).max(axis=1)
            problems = Problems.where(practised & (count > most), other, problems)
            most = np.maximum(most, count)
        return problems

    def rows(self, problems: Problems, keys: SampleKeys, rows: np.ndarray) -> np.ndarray:
        """Return the row to mask of each sample, int64 [B].

        Args:
            problems: of `mixed`.
            keys: of the samples.
            rows: rows of the samples that are not in practice, int64 [B].
        """
        practised, tie = self._shares(keys)
        counts = narrow_carries(*problems.operands)
        most = counts == counts.max(axis=1, keepdims=True)
        nth = (tie * most.sum(axis=1)).astype(np.int64)  # among equals
        best = (most.cumsum(axis=1) > nth[:, None]).argmax(axis=1)
        return np.where(practised, best, rows)

    def _shares(self, keys: SampleKeys) -> tuple[np.ndarray, np.ndarray]:
        """Return which samples are in practice, bool [B], and a number from 0 to 1 for ties."""
        chosen, tie = random_shares(keys.words(Purpose.PRACTICE, 2)).T
        return chosen < self.share, tie
