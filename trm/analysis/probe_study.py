"""A probing study: probes fitted on training problems, read on held-out ones of several sizes.

The probes are fitted to problems of the training split, drawn as the model's own training draws
them, and read on problems of the test split, so that none of these were ever seen. The cells of a
problem are not independent: intervals are 95 % bootstrap intervals over problems; where all cells
are right, or none, the Wilson interval of as many problems.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import PlainSerializer, TypeAdapter

from canvas.sampling import sample
from canvas.windows import UNDEFINED
from trm.analysis.probe import (
    BLOCKS,
    INPUT,
    Cells,
    Point,
    fit,
    joined,
    read,
)
from trm.analysis.record import check_cells
from trm.evaluation.cell_problems import fitted
from trm.evaluation.grid import region, size_name
from trm.evaluation.statistics import Share, bootstrap
from trm.solving.solver import Solver

_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size

Count = Annotated[Share, PlainSerializer(Share.data)]


@dataclass(frozen=True)
class Settings:
    """How a study is done."""

    seed: int = 0  # which problems
    steps: tuple[int, ...] = tuple(range(1, 9))  # supervision steps that are probed, from 1
    problems: int = 32  # of each size, held out, or as many as there are
    train_problems: int = 400  # that probes are fitted to


@dataclass(frozen=True)
class Reading:
    """How well a sub-task is read at a point: cells that are right in problems of one size."""

    size: str
    subtask: str
    site: str  # see `trm.analysis.probe.Point`, as of the step
    step: int
    probe: Count
    majority: Count  # the class that is most frequent in training


@dataclass(frozen=True)
class ProbeStudy:
    """All of it, see the module."""

    settings: Settings
    main: str  # the name of the points that the answer is read from in the end
    train: dict[str, int]  # how many problems and cells probes were fitted to
    sizes: dict[str, str]  # by name, the region as in ``grid.json``
    readings: list[Reading]
    model: dict[str, Any] = field(default_factory=dict)  # as in ``grid.json``

    def of(self, subtask: str, size: str) -> list[Reading]:
        """Step by step where the answer is read from in the end, the input before."""
        wanted = (subtask, size)
        sites = (INPUT, self.main)
        return [r for r in self.readings if (r.subtask, r.size) == wanted and r.site in sites]

    @property
    def subtasks(self) -> list[str]:
        """Those that some row asks for."""
        return list(dict.fromkeys(reading.subtask for reading in self.readings))

    @property
    def unit(self) -> str:
        """What steps are."""
        return "block" if self.main == BLOCKS else f"supervision step of {self.main}"

    def to_json(self) -> dict[str, Any]:
        """As plain data; a share of cells is ``{right, total, low, high}``."""
        data: dict[str, Any] = TypeAdapter(ProbeStudy).dump_python(self, mode="json")
        return data


def run_probes(
    solver: Solver,
    sizes: Sequence[dict[str, int]],
    settings: Settings | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> ProbeStudy:
    """Probe a frozen model, whose task says what is within the training range.

    Sizes are of problems by two of the task's measures, like ``{"digits_a": 4, "digits_b": 2}``.
    ``note`` is told what is going on, a line at a time. ValueError: the layout has no local rule, a
    size cannot be measured, there are no training problems, the states cannot be probed, or the
    model is a local one.
    """
    settings, task = settings or Settings(), solver.task
    check_cells(solver.predictor.model)
    rule = task.local_rule()
    regions, asked = dict[str, str](), []
    for size in sizes:
        axes, (a, b) = tuple(size), size.values()
        on_canvas, problems, reason = fitted(solver, axes, (a, b), settings.problems, settings.seed)
        if on_canvas is None or reason is not None:
            raise ValueError(f"there is nothing to probe: {reason}")
        name = size_name(axes, (a, b))
        regions[name] = region(task.ranges, axes, (a, b))
        asked.append((name, on_canvas, problems))
    note(f"reading {settings.train_problems:,} training problems")
    parts = []
    for start in range(0, settings.train_problems, _PROBLEMS_AT_ONCE):
        index = np.arange(start, min(start + _PROBLEMS_AT_ONCE, settings.train_problems))
        problems = sample(task, settings.seed, "train", 0, index)
        cells, main = read(solver, problems, settings.steps)
        parts.append(cells)
    training = joined(parts)
    there = (training.targets != UNDEFINED).any(axis=0)  # others are written wherever they are
    names = np.array([*rule.fields, *rule.besides])[there].tolist()
    note(f"fitting probes to {len(training.targets):,} cells at {len(training.features)} sites")
    probes = Probes(training, there, [rule.classes(name) for name in names])
    readings = []
    for of_size, on_canvas, problems in asked:
        note(f"probing {len(problems)} problems of {of_size}")
        cells, _ = read(on_canvas, problems, settings.steps)
        for point, of_point in probes.read(cells, len(problems)).items():
            readings += [
                Reading(of_size, name, *point, *both)
                for name, *both in zip(names, *of_point, strict=True)
            ]
    train = {"problems": settings.train_problems, "cells": len(training.targets)}
    return ProbeStudy(settings, main, train, regions, readings)


class Probes:
    """Linear probes of S sub-tasks at all points, fitted to cells of training problems.

    Which of the layout's sub-tasks they are, say ``bool [sub-tasks]``; of each how many classes.
    """

    def __init__(self, cells: Cells, which: np.ndarray, classes: Sequence[int]) -> None:
        self.which, targets = which, cells.targets[:, which]
        self.majority = [int(np.bincount(of[of != UNDEFINED]).argmax()) for of in targets.T]
        columns = torch.from_numpy(targets).unbind(dim=1)
        self.points = {
            point: [
                fit(features, column.to(features.device), number)
                for column, number in zip(columns, classes, strict=True)
            ]
            for point, features in cells.features.items()
        }

    def read(self, cells: Cells, problems: int) -> dict[Point, tuple[list[Share], list[Share]]]:
        """Of so many problems' cells, those that the probes and the majority get right."""
        targets = cells.targets[:, self.which]

        def counted(said: np.ndarray) -> list[Share]:
            """Of each sub-task, from classes ``[N, S]``."""
            right, total = np.zeros((2, problems, targets.shape[1]), dtype=np.int64)
            np.add.at(right, cells.problem, (said == targets) & (targets != UNDEFINED))
            np.add.at(total, cells.problem, targets != UNDEFINED)
            return [*map(share, right.T, total.T)]

        majority, found = counted(np.array(self.majority)), {}
        for point, probes in self.points.items():
            said = [probe(cells.features[point]).cpu().numpy() for probe in probes]
            found[point] = counted(np.stack(said, axis=1)), majority
        return found


def share(right: np.ndarray, total: np.ndarray) -> Share:
    """A share of cells from counts by problem ``int64 [P]``; its interval is that of problems."""
    k, n = int(right.sum()), int(total.sum())
    if not 0 < k < n:
        problems = int((total > 0).sum())
        return Share(k, n, ends=Share(problems if k else 0, problems).interval)
    low, high = bootstrap(right, total)
    return Share(k, n, ends=(float(low), float(high)))
