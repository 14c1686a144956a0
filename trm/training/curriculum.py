"""A curriculum: what training problems are drawn from changes from stage to stage."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

import numpy as np

from canvas.choices import check_choice
from canvas.sampling import sample
from canvas.task import Task
from trm.plain_data import fits

_FIXED = ("layout", "base")  # of a run


@dataclass
class Stage:
    """Some of a task's problems, for the first epochs of a run or those after the last stage.

    Attributes:
        until: epochs of the run after which the stage is over.
        task: settings of the task that differ until then, like ``{digits_a: [1, 2]}``.
    """

    until: int
    task: dict[str, Any]


class Curriculum:
    """The tasks that training problems are drawn from, by epochs (Bengio et al. 2009).

    After the last stage, and in all that is validated and tested, it is the whole task.

    Args:
        task: the whole task.
        stages: in the order in which they end.

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
        self.stages = [(stage.until, _narrowed(task, stage)) for stage in stages]

    def at(self, epoch: int) -> Task:
        """What the problems of an epoch, from 0, are drawn from."""
        return next((task for until, task in self.stages if epoch < until), self.task)


def _narrowed(task: Task, stage: Stage) -> Task:
    """The task of a stage."""
    where = f"data.curriculum, until epoch {stage.until}"
    kinds = get_type_hints(type(task))
    names = [part.name for part in fields(task) if part.name not in _FIXED]  # type: ignore[arg-type]
    for name, value in stage.task.items():
        if name in _FIXED:
            raise ValueError(f"{where}: a run has one {name}: leave it out")
        try:
            check_choice("setting", name, names)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if not fits(value, kinds[name]):
            own = getattr(task, name)
            like = list(own) if isinstance(own, tuple) else own
            raise ValueError(f"{where}: {name} is {value!r}: write it like the run's own, {like}")
    try:
        found: Task = replace(task, **stage.task)  # type: ignore[type-var]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
    for measure, (low, high) in found.ranges.items():
        least, most = task.ranges[measure]
        if low < least or high > most:
            raise ValueError(
                f"{where}: {measure} [{low}, {high}] is not within the task's own, "
                f"[{least}, {most}]: a curriculum chooses among the task's problems"
            )
    try:
        sample(found, 0, "train", 0, np.arange(1))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return found
