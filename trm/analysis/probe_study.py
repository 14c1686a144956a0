"""A probing study: probes fitted on training problems, read on held-out ones of several sizes.

The probes are fitted to problems of the training split, drawn as the model's own training draws
them, and read on problems of the test split, so that none of these were ever seen. The cells of a
problem are not independent: intervals are 95 % bootstrap intervals over problems (percentiles of
1,000 samples); where all cells are right, or none, the Wilson interval of as many problems.
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
    ControlTask,
    LinearProbe,
    Point,
    fit,
    joined,
    read,
)
from trm.analysis.record import check_cells
from trm.evaluation.cell_problems import fitted
from trm.evaluation.grid import region, size_name
from trm.evaluation.statistics import Share
from trm.solving.solver import Solver

_RESAMPLES = 1000
_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size

Count = Annotated[Share, PlainSerializer(Share.data)]


@dataclass(frozen=True)
class Settings:
    """How a study is done."""

    seed: int = 0  # of the problems, and of control tasks
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
    control: Count  # the probe of the control task, on cells whose type occurred in training
    known: Count  # the probe, on the same cells
    majority: Count  # the class that is most frequent in training

    @property
    def selectivity(self) -> float:
        """Accuracy less that of the control task, on the same cells (Hewitt and Liang 2019)."""
        return self.known.value - self.control.value


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
    probes = Probes(
        joined(parts),
        {name: rule.classes(name) for name in (*rule.fields, *rule.besides)},
        settings.seed,
        note,
    )
    readings = []
    for name, on_canvas, problems in asked:
        note(f"probing {len(problems)} problems of {name}")
        cells, _ = read(on_canvas, problems, settings.steps)
        readings += probes.read(name, cells, len(problems))
    train = {"problems": settings.train_problems, "cells": probes.cells}
    return ProbeStudy(settings, main, train, regions, readings)


class Probes:
    """Linear probes of all sub-tasks, and of their control tasks, at all points.

    Fitted to cells of training problems; ``classes`` are how many each of the layout's sub-tasks
    has, in order. Those that no row asks for, as it writes them itself, are left out.
    """

    def __init__(
        self, cells: Cells, classes: dict[str, int], seed: int, note: Callable[[str], None]
    ) -> None:
        self.there, self.seed = (cells.targets != UNDEFINED).any(axis=0), seed
        self.names = [name for name, some in zip(classes, self.there, strict=True) if some]
        numbers, targets = [classes[name] for name in self.names], cells.targets[:, self.there]
        self.cells = len(targets)
        self.control = ControlTask(cells.types, targets, numbers, seed)
        self.majority = np.array(
            [np.bincount(of[of != UNDEFINED]).argmax() for of in targets.T], dtype=np.uint8
        )
        labels = np.hstack([targets, self.control(cells.types, targets)])
        note(f"fitting probes to {self.cells:,} cells at {len(cells.features)} sites")
        self.points: dict[Point, list[LinearProbe]] = {}
        for point, features in cells.features.items():
            columns = torch.from_numpy(labels).to(features.device).unbind(dim=1)
            fitted_to = zip(columns, numbers * 2, strict=True)
            self.points[point] = [fit(features, column, number) for column, number in fitted_to]

    def read(self, size: str, cells: Cells, problems: int) -> list[Reading]:
        """What they read from cells of problems of one size."""
        targets = cells.targets[:, self.there]
        controls = self.control(cells.types, targets)
        defined, known = targets != UNDEFINED, controls != UNDEFINED
        weights = np.random.default_rng(self.seed).multinomial(
            problems, np.full(problems, 1 / problems), _RESAMPLES
        )

        def counted(right: np.ndarray, of: np.ndarray) -> list[Share]:
            """Of each sub-task, from ``bool [N, sub-tasks]``."""
            counts = np.zeros((2, problems, len(self.names)), dtype=np.int64)
            np.add.at(counts[0], cells.problem, right & of)
            np.add.at(counts[1], cells.problem, of)
            return [share(right, total, weights) for right, total in counts.transpose(2, 0, 1)]

        majority = counted(targets == self.majority, defined)
        readings = []
        for point, probes in self.points.items():
            found = [probe(cells.features[point]).cpu().numpy() for probe in probes]
            said, control = np.split(np.stack(found, axis=1), 2, axis=1)
            shares = (
                counted(said == targets, defined),
                counted(control == controls, known),
                counted(said == targets, known),
                majority,
            )
            for name, *of_name in zip(self.names, *shares, strict=True):
                readings.append(Reading(size, name, *point, *of_name))
        return readings


def share(right: np.ndarray, total: np.ndarray, weights: np.ndarray) -> Share:
    """A share of cells from counts by problem ``[P]``; its interval is that of problems.

    The weights ``int64 [resamples, P]`` are how often each is in each bootstrap sample.
    """
    k, n = int(right.sum()), int(total.sum())
    if not 0 < k < n:
        problems = int((total > 0).sum())
        return Share(k, n, ends=Share(problems if k else 0, problems).interval)
    drawn = weights @ total
    shares = (weights @ right)[drawn > 0] / drawn[drawn > 0]
    low, high = np.percentile(shares, (2.5, 97.5))
    return Share(k, n, ends=(float(low), float(high)))
