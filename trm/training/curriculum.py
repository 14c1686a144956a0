"""Which problems training draws, in stages."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from canvas.choices import check_choice
from canvas.sampling import sample
from canvas.task import Task

_FIXED = ("layout", "base")  # of a run


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
