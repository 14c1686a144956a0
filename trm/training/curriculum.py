"""Which problems training draws: in stages, and with what is rare in place of what is common."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from canvas.arithmetic import Numbers
from canvas.choices import check_choice
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.task import Task
from trm.evaluation.contexts import digits_of

_FIXED = ("layout", "base")  # of a run
_SEARCHED = 50_000  # problems that are looked through for contexts, in some seconds
_UNIT = 2.0**-53


@dataclass
class Stage:
    """Some of a task's problems, for the first epochs of a run or those after the last stage."""

    until: int  # epochs of the run after which the stage is over
    task: dict[str, Any]  # settings that differ until then, like ``{digits_a: [1, 2]}``


class Curriculum:
    """The tasks that training problems are drawn from, by epochs (Bengio et al. 2009).

    After the last stage, and in all that is validated and tested, it is the whole task.

    Raises:
        ValueError: stages do not follow one another, draw problems that are not the task's, or none
            of the training split.
    """

    def __init__(self, task: Task, stages: Sequence[Stage] = ()) -> None:
        ends = [stage.until for stage in stages]
        if any(later <= earlier for earlier, later in zip([0, *ends], ends, strict=False)):
            raise ValueError(
                "data.curriculum: stages are listed in order, each with an `until` of more epochs "
                f"than the one before, from 1 up, not {', '.join(map(str, ends))}"
            )
        self.task = task
        self.stages = []
        for stage in stages:
            try:
                self.stages.append((stage.until, _narrowed(task, stage.task)))
            except (TypeError, ValueError) as error:
                raise ValueError(f"data.curriculum, until epoch {stage.until}: {error}") from None

    def at(self, epoch: int) -> Task:
        """What the problems of an epoch, from 0, are drawn from."""
        return next((task for until, task in self.stages if epoch < until), self.task)


def _narrowed(task: Task, settings: dict[str, Any]) -> Task:
    names = [part.name for part in fields(task)]  # type: ignore[arg-type]
    for name in settings:
        check_choice("a setting", name, [name for name in names if name not in _FIXED])
    found: Task = replace(task, **settings)  # type: ignore[type-var]
    for measure, (low, high) in found.ranges.items():
        least, most = task.ranges[measure]
        if low < least or high > most:
            raise ValueError(
                f"{measure} [{low}, {high}] is not within the task's own, [{least}, {most}]: a "
                "curriculum chooses among the task's problems"
            )
    sample(found, 0, "train", 0, np.arange(1))
    return found


class RareContexts:
    """Puts problems with rarer contexts, of the same lengths, in the place of others.

    50,000 problems of training are looked through for what meets in the digits of their rows, the
    contexts (`trm.evaluation.contexts`). One of them is drawn evenly, and then a problem with it.
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
        """The problems, on average such a share of them exchanged by random ``uint64 [B, 2]``."""
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
