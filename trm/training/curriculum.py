"""Curricula: training begins with a part of a task's problems."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from canvas.choices import check_choice
from canvas.sampling import sample
from canvas.task import Task
from trm.training.configs import Stages

_FIXED = {"layout", "base"}  # settings of a task that are the same for all training problems


@dataclass
class Stage:
    """Stage of a curriculum: a part of a task's problems, for some epochs of a run."""

    until: int | float  # epochs after which the stage is over; below 1: a share of the run
    task: dict[str, Any]  # task settings that differ until then, like ``{digits_a: [1, 2]}``


class Curriculum(Stages[Task]):
    """Task of which training problems are, by epoch (Bengio et al. 2009).

    Args:
        task: the whole task, after the last stage.
        stages: each with a part of it.

    Raises:
        ValueError: stages do not follow one another, contain problems that are not the task's, or
            contain none of the training split.
    """

    def __init__(self, task: Task, stages: Sequence[Stage] = ()) -> None:
        narrowed = list[tuple[float, Task]]()
        for stage in stages:
            try:
                narrowed.append((stage.until, _narrowed(task, stage.task)))
            except (TypeError, ValueError) as error:
                raise ValueError(f"data.curriculum, until {stage.until}: {error}") from None
        super().__init__("data.curriculum: stages", narrowed, task)


def with_settings(task: Task, settings: dict[str, Any]) -> Task:
    """Return a task with other sizes of problems, in the same layout and base.

    Raises:
        TypeError, ValueError: there is no such setting, or it has a wrong value.
    """
    names = {part.name for part in fields(task)} - _FIXED  # type: ignore[arg-type]
    for name in settings:
        check_choice("a setting", name, sorted(names))
    found: Task = replace(task, **settings)  # type: ignore[type-var]
    return found


def _narrowed(task: Task, settings: dict[str, Any]) -> Task:
    found = with_settings(task, settings)
    for measure, (low, high) in found.ranges.items():
        least, most = task.ranges[measure]
        if low < least or high > most:
            raise ValueError(
                f"{measure} [{low}, {high}] is not within the task's own, [{least}, {most}]: a "
                "curriculum chooses among the task's problems"
            )
    for measure, lengths in task.gaps.items():
        if more := {*lengths} - {*found.gaps.get(measure, ())}:
            raise ValueError(
                f"{measure} {sorted(more)} is left out of the task: a curriculum chooses among the "
                "task's problems"
            )
    sample(found, 0, "train", 0, np.arange(1))
    return found
