"""Practice with what is rare: problems of training whose rows meet what random ones seldom show."""

import numpy as np

from canvas.arithmetic import Numbers
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.task import Task
from trm.evaluation.columns import columns_of
from trm.evaluation.contexts import digits_of

_SEARCHED = 50_000  # problems that are looked through, in some seconds
_UNIT = 2.0**-53


def has_contexts(task: Task) -> bool:
    """Whether a task's layout says what its rows are sums of."""
    return columns_of(task, sample(task, 0, "train", 0, np.arange(1))) is not None


class RareContexts:
    """Takes problems of a batch away and puts others with rarer contexts in their place.

    50,000 problems of training are looked through for what meets in the digits of their rows, the
    contexts (`trm.evaluation.contexts`). Of all contexts that problems of some lengths have, one is
    drawn evenly, and then a problem with it, of the same lengths: what comes is rarer, never
    longer.

    Args:
        task: of the problems.
        seed: of the problems that are looked through.

    Raises:
        ValueError: the task's layout does not say what its rows are sums of.
    """

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        problems = sample(task, seed, "train", 0, np.arange(_SEARCHED))
        digits = digits_of(task, problems)
        sizes = self._sizes(problems)
        _, context = np.unique(digits.codes, return_inverse=True)
        here = sizes[digits.problem] * (context.max() + 1) + context
        _, which, met = np.unique(here, return_inverse=True, return_counts=True)
        weights = np.bincount(digits.problem, 1 / met[which], len(problems))
        order = np.argsort(sizes, kind="stable")
        self._problems, self._found = problems[order], sizes[order]
        self._weights = np.concatenate([[0.0], np.cumsum(weights[order])])

    def among(self, problems: Problems, share: float, words: np.ndarray) -> Problems:
        """The problems, so many of them on average exchanged.

        Args:
            problems: ``[B]``, of the task.
            share: of those that are exchanged; problems of lengths that were not found stay.
            words: ``uint64 [B, 2]``, random.
        """
        at = (words >> np.uint64(11)) * _UNIT  # 0 to 1
        sizes = self._sizes(problems)
        start, end = (np.searchsorted(self._found, sizes, side) for side in ("left", "right"))
        exchanged = np.flatnonzero((at[:, 0] < share) & (end > start))
        low, high = self._weights[start[exchanged]], self._weights[end[exchanged]]
        place = np.searchsorted(self._weights, low + at[exchanged, 1] * (high - low), "right") - 1
        place = np.clip(place, start[exchanged], end[exchanged] - 1)  # sums are rounded
        operands = []
        for mine, theirs in zip(problems.operands, self._problems.operands, strict=True):
            digits = mine.digits.copy()
            digits[exchanged] = theirs.digits[place]
            operands.append(Numbers(digits, mine.lengths, mine.base))
        return Problems(tuple(operands))

    def _sizes(self, problems: Problems) -> np.ndarray:
        """The operands' lengths as one number, ``int64 [B]``."""
        return np.ravel_multi_index(tuple(problems.lengths.T), [n + 1 for n in self.task.longest])
