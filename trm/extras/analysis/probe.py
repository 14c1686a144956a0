"""Linear probes of sub-tasks on the states of a frozen model.

The sub-tasks and the states are those of `trm.extras.analysis.features`. Probes are multinomial
logistic regressions (Alain and Bengio 2016, "Understanding intermediate layers using linear
classifier probes"). A control probe on a re-initialised network measures what the probe itself
learns.

Probes are fitted to problems of the training split, drawn as in the model's own training. They are
evaluated on problems of the test split, so on none of the model's training problems. The cells of a
problem are not independent: intervals are 95 % bootstrap intervals over problems. Where all cells
are correct, or none, the interval is Wilson's for as many problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PlainSerializer, TypeAdapter
from torch import Tensor

from canvas.cells.subtasks import subtask_classes
from canvas.drawing import UNDEFINED
from trm.evaluation.statistics import Share, bootstrap
from trm.extras.analysis.features import (
    BLOCKS,
    INPUT,
    FeaturePlace,
    drawn_sizes,
    read,
    read_training,
)
from trm.extras.analysis.record import check_cells
from trm.released import moved
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.solver import Solver

_LEAST_DEVIATION = 1e-6  # standard deviation below which a feature is ignored


class LinearProbe(NamedTuple):
    """Linear classifier of raw features; its weights include their standardisation."""

    weight: Tensor  # float32 [D, classes]
    bias: Tensor  # float32 [classes]

    def predict(self, features: Tensor) -> np.ndarray:
        """Return the likeliest class, ``int64 [N]``, for features [N, D]."""
        return (features.float() @ self.weight + self.bias).argmax(dim=-1).cpu().numpy()


@standard_settings()
def fit(
    features: Tensor, labels: Tensor, classes: int, l2: float = 1e-3, iterations: int = 60
) -> LinearProbe:
    """Minimise the mean cross entropy plus ``l2 / 2`` times the squared weights, by L-BFGS.

    The problem is convex and starts from zero, so the same data give the same probe. Features,
    floating [N, D], are standardised channel by channel. Labels are integer [N], below ``classes``;
    those that are `UNDEFINED` are left out. Weights decay, biases do not. The fit stops early when
    the loss no longer improves.

    Raises:
        ValueError: a feature is not finite.
    """
    defined = labels != UNDEFINED
    x, y = features[defined].float(), labels[defined].long()
    if not torch.isfinite(x).all():
        raise ValueError(
            "the model's states contain numbers that are not finite, to which no probe can be "
            "fitted"
        )
    mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0)
    scale = torch.where(deviation > _LEAST_DEVIATION, 1 / deviation, 0.0)
    x = (x - mean) * scale
    weight = x.new_zeros(x.shape[1], classes, requires_grad=True)
    bias = x.new_zeros(classes, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias],
        max_iter=iterations,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(x @ weight + bias, y) + l2 / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(objective)
    found = weight.detach() * scale[:, None]
    return LinearProbe(found, bias.detach() - mean @ found)


Count = Annotated[Share, PlainSerializer(Share.data)]


@dataclass(frozen=True)
class ProbeSettings:
    """Settings of a study, or of a measurement of the gap."""

    seed: int = 0  # selects the problems
    steps: tuple[int, ...] = tuple(range(1, 9))  # probed supervision steps, from 1
    problems: int = 32  # held-out problems of each size, or as many as exist
    train_problems: int = 400  # problems to which probes are fitted


@dataclass(frozen=True)
class ProbeScore:
    """Accuracy of a sub-task's probe at a point, over the cells of problems of one size."""

    size: str
    subtask: str
    site: str  # name of a `FeaturePlace`
    step: int  # step of that place
    probe: Count
    majority: Count  # accuracy of the class that is most frequent in training


@dataclass(frozen=True)
class ProbeStudy:
    """Results of a study, see the module."""

    settings: ProbeSettings
    main: str  # name of the points from which the head reads the answer
    train: dict[str, int]  # numbers of problems and cells to which probes were fitted
    sizes: dict[str, str]  # size name → region as in ``grid.json``
    readings: list[ProbeScore]

    def of(self, subtask: str, size: str) -> list[ProbeScore]:
        """Return the readings of the input, and then of the main points step by step."""
        wanted = (subtask, size)
        sites = (INPUT, self.main)
        return [r for r in self.readings if (r.subtask, r.size) == wanted and r.site in sites]

    @property
    def subtasks(self) -> list[str]:
        """Sub-tasks that occur in some row."""
        return list(dict.fromkeys(reading.subtask for reading in self.readings))

    @property
    def unit(self) -> str:
        """Unit of the steps."""
        return "block" if self.main == BLOCKS else f"supervision step of {self.main}"

    def to_json(self) -> dict[str, Any]:
        """Return the study as plain data; a share of cells is ``{right, total, low, high}``."""
        data: dict[str, Any] = TypeAdapter(ProbeStudy).dump_python(self, mode="json")
        return data


@standard_settings()
def run_probes(
    solver: Solver, sizes: Sequence[dict[str, int]], settings: ProbeSettings
) -> ProbeStudy:
    """Probe a frozen model on problems of several sizes.

    A size has two of the task's measures, like ``{"digits_a": 4, "digits_b": 2}``.

    Raises:
        ValueError: the layout has no local rule, a size cannot be measured, there are no training
            problems, the states cannot be probed, or the model is a cell model.
    """
    task = solver.task
    check_cells(solver.predictor.model)
    rule = task.local_rule()
    tested = drawn_sizes(solver, sizes, settings.problems, settings.seed)
    regions = {one.name: one.region for one in tested}
    training, main = read_training(solver, settings.train_problems, settings.seed, settings.steps)
    there = (training.targets != UNDEFINED).any(axis=0)  # others are defined in no cell
    classes = subtask_classes(rule)
    names = np.array([*classes])[there].tolist()
    labels = training.targets[:, there].T
    majority = np.array([np.bincount(of[of != UNDEFINED]).argmax() for of in labels])
    probes = dict[FeaturePlace, list[LinearProbe]]()
    for done, (point, features) in enumerate(training.features.items()):
        report("fitting probes", done, len(training.features))
        probes[point] = [
            fit(features, torch.from_numpy(of).to(features.device), classes[name])
            for of, name in zip(labels, names, strict=True)
        ]
    readings = []
    for done, (of_size, _, on_canvas, problems) in enumerate(tested):
        report("probing problems of a size", done, len(tested))
        cells, _ = read(on_canvas, problems, settings.steps)
        truth = cells.targets[:, there]
        plain = shares_right(majority, truth, cells.problem)
        for point, of_point in probes.items():
            predicted = np.stack([one.predict(cells.features[point]) for one in of_point], axis=1)
            both = zip(names, shares_right(predicted, truth, cells.problem), plain, strict=True)
            where = point.name, point.step
            readings += [ProbeScore(of_size, name, *where, *shares) for name, *shares in both]
    train = {"problems": settings.train_problems, "cells": len(training.targets)}
    return ProbeStudy(settings, main, train, regions, readings)


def shares_right(predicted: np.ndarray, truth: np.ndarray, problem: np.ndarray) -> list[Share]:
    """Return the share of correct classes of each of S sub-tasks, over its defined cells.

    ``predicted`` and ``truth`` are ``[N, S]`` (or broadcast to it). ``problem``, ``int64 [N]``, is
    the problem of each cell; intervals are over problems.
    """
    right, total = np.zeros((2, int(problem.max()) + 1, truth.shape[1]), dtype=np.int64)
    np.add.at(right, problem, (predicted == truth) & (truth != UNDEFINED))
    np.add.at(total, problem, truth != UNDEFINED)
    return [*map(share, right.T, total.T)]


def share(right: np.ndarray, total: np.ndarray) -> Share:
    """Return a share of cells from counts by problem ``int64 [P]``, with an interval over them."""
    k, n = int(right.sum()), int(total.sum())
    if not 0 < k < n:
        problems = int((total > 0).sum())
        return Share(k, n, ends=Share(problems if k else 0, problems).interval)
    low, high = bootstrap(right, total)
    return Share(k, n, ends=(float(low), float(high)))


Settings = ProbeSettings  # its released name


__getattr__ = moved(__name__)  # finds what is in `trm.extras.analysis.features` now
