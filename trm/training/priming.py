"""Train set priming: a few longer problems among those of the task.

Jelassi et al. 2023, "Length Generalization in Arithmetic Transformers" (arXiv 2306.15400): some ten
to fifty long problems in the training set let a model solve other ones of their length.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from canvas.problems import Problems, random_below, random_shares
from canvas.sampling import sample
from canvas.task import Task
from canvas.tasks import task_data
from trm.training.configs import check_range
from trm.training.curriculum import with_settings
from trm.training.random_bits import Purpose, SampleKeys

_NO_EPOCH = -1  # of samples that are the same in a whole run
_TRIES = 4  # times as many problems are sampled as are kept, as some may be the same
_MOST = 100_000  # a set of more is no few problems, and takes memory


@dataclass
class Priming:
    """A fixed set of longer problems among the training samples.

    Attributes:
        task: task settings in which the longer problems differ, like ``{digits_a: [6, 8]}``.
        problems: number of different problems of the set, all of the training split.
        share: of the training samples that are of the set.
    """

    task: dict[str, Any]
    problems: int = 50
    share: float = 0.1

    def __post_init__(self) -> None:
        check_range("data.priming.problems", self.problems, 1, _MOST)
        check_range("data.priming.share", self.share, 0, 1)


class PrimedProblems:
    """The set of a `Priming`, which replaces some of the problems of a batch.

    Args:
        task: of all other problems.
        priming: size and share of the set.
        seed: of the set.

    Raises:
        ValueError: there is no such task, its problems are not longer, or there are too few.
    """

    def __init__(self, task: Task, priming: Priming, seed: int) -> None:
        self.priming = priming
        try:
            self.task = with_settings(task, priming.task)
            if all(task.ranges.get(name) == ends for name, ends in self.task.ranges.items()):
                raise ValueError(
                    "task has the sizes of data.task: give the lengths of the problems to add, "
                    "like {digits_a: [6, 8]}"
                )
            found = sample(
                self.task, seed, "train", _NO_EPOCH, np.arange(_TRIES * priming.problems)
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"data.priming: {error}") from None
        first = {one: index for index, one in reversed([*enumerate(found.to_ints())])}
        if len(first) < priming.problems:
            raise ValueError(
                f"data.priming: only {len(first)} different problems were found in "
                f"{_TRIES * priming.problems}: set data.priming.problems to fewer, or allow longer "
                "numbers"
            )
        self.problems = found[np.array(sorted(first.values())[: priming.problems])]

    def mixed(self, problems: Problems, keys: SampleKeys) -> Problems:
        """Return the problems of training samples, a share of them replaced by those of the set."""
        words = keys.words(Purpose.PRIMED, 2)
        primed = random_shares(words[:, 0]) < self.priming.share
        chosen = self.problems[random_below(words[:, 1], len(self.problems))]
        return Problems.where(primed, chosen, problems)

    def data(self) -> dict[str, Any]:
        """Return the set as plain data for a checkpoint."""
        return {"task": task_data(self.task), "problems": len(self.problems)} | {
            "share": self.priming.share
        }
