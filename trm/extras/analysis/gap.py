"""The compositionality gap: problems whose sub-tasks are correct, less those that are solved.

After Press et al. 2022, "Measuring and narrowing the compositionality gap in language models",
arXiv 2210.03350, who ask a language model its sub-questions. Here the sub-tasks are steps of the
arithmetic (`canvas.cells.subtasks`), and a linear classifier reads each of them from the states of
a frozen model: a probe (`trm.extras.analysis.probe`), or an auxiliary head of the checkpoint. A
probe reads the tensor of the state, supervision step or block from which it is most accurate on
training problems that it was not fitted to.

A sub-task is correct on a problem if its class is read correctly in every cell in which it is
`canvas.cells.subtasks.needed`, on the true rows above. A problem is solved if every row of the
model's own is correct. Both are of the same held-out problems, so that the interval of the gap is a
paired one. A linear classifier can fail where the model itself does not: the gap is then negative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from canvas.cells.subtasks import arithmetic_subtasks, subtask_classes
from canvas.choices import check_choice
from canvas.drawing import UNDEFINED
from trm.evaluation.statistics import Share, paired
from trm.extras.analysis.features import (
    BLOCKS,
    INPUT,
    CellFeatures,
    FeaturePlace,
    drawn_sizes,
    read,
    read_training,
)
from trm.extras.analysis.probe import Count, LinearProbe, ProbeSettings, fit
from trm.extras.analysis.record import check_cells
from trm.runtime.progress import report
from trm.runtime.torch_settings import standard_settings
from trm.solving.solver import Solver

PROBE, HEAD = "probe", "auxiliary head"  # what a sub-task is read by
_HELD_OUT = 4  # one training problem in so many is not for fitting, but for choosing a state

Heads = Mapping[str, tuple[Tensor, Tensor]]  # weight [classes, D] and bias of each sub-task


@dataclass(frozen=True)
class Gap:
    """Problems of one size with correct sub-tasks, and solved ones."""

    size: str
    region: str  # as in ``grid.json``
    subtasks: dict[str, Count]  # problems on which a sub-task is correct, by its name
    together: Count  # problems on which all sub-tasks are correct
    solved: Count
    gap: float  # share with all sub-tasks correct minus share solved
    low: float  # ends of its 95 % interval
    high: float
    failed: Count  # not solved, of the problems with all sub-tasks correct

    @property
    def short(self) -> str:
        """The gap in points of percent, like ``12.0 (5.1 to 19.2)``."""
        return f"{100 * self.gap:.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class Reader:
    """Linear classifier of a sub-task."""

    kind: str  # `PROBE` or `HEAD`
    site: str  # name of the `trm.extras.analysis.features.FeaturePlace` that it reads
    step: int  # step of that point

    def __str__(self) -> str:
        where = f"block {self.step}" if self.site == BLOCKS else f"{self.site}, step {self.step}"
        return f"{self.kind} ({where})"


@dataclass(frozen=True)
class GapStudy:
    """Gaps of a model."""

    readers: dict[str, Reader]  # by sub-task
    gaps: list[Gap]

    def to_json(self) -> dict[str, Any]:
        """Return plain data; a share of problems is ``{right, total, low, high}``."""
        data: dict[str, Any] = TypeAdapter(GapStudy).dump_python(self, mode="json")
        return data


def gap_of(size: str, region: str, correct: Mapping[str, np.ndarray], solved: np.ndarray) -> Gap:
    """Compare sub-tasks and whole problems.

    Args:
        size: name of the problems' size.
        region: of that size.
        correct: by sub-task, whether it is correct on each problem, bool [P]; at least one.
        solved: whether each problem is solved, bool [P].
    """
    together = np.logical_and.reduce([*correct.values()])
    found = paired([[together]], [[solved]])
    failed = Share(int((together & ~solved).sum()), int(together.sum()))
    shares = {name: _share(of) for name, of in correct.items()}
    ends = found.difference, *found.interval
    return Gap(size, region, shares, _share(together), _share(solved), *ends, failed)


def _share(right: np.ndarray) -> Share:
    return Share(int(right.sum()), len(right))


def correct_problems(
    predicted: np.ndarray, truth: np.ndarray, problem: np.ndarray, problems: int
) -> np.ndarray:
    """Return whether all defined cells of each problem are correct, bool [problems].

    Args:
        predicted: classes, [N].
        truth: classes, uint8 [N]; `UNDEFINED` cells do not count.
        problem: of each cell, int64 [N].
        problems: their number.
    """
    wrong = (truth != UNDEFINED) & (predicted != truth)
    return np.bincount(problem[wrong], minlength=problems) == 0


@standard_settings()
def run_gap(
    solver: Solver,
    sizes: Sequence[dict[str, int]],
    settings: ProbeSettings,
    subtasks: Sequence[str] = (),
    heads: Heads | None = None,
) -> GapStudy:
    """Measure the gap of a frozen model on problems of several sizes.

    Args:
        solver: with the model.
        sizes: two of the task's measures each, like ``{"digits_a": 4, "digits_b": 2}``.
        settings: numbers of problems, and the step that is read.
        subtasks: names; none: those of `arithmetic_subtasks` that differ between cells.
        heads: auxiliary heads of the checkpoint; sub-tasks without one are read by probes.

    Raises:
        ValueError: the layout has no local rule or no such sub-task, a size cannot be measured,
            there are no training problems, or the model is a cell model.
    """
    check_cells(solver.predictor.model)
    rule = solver.task.local_rule()
    classes = subtask_classes(rule)
    for name in subtasks:
        check_choice("a sub-task", name, classes)
    tested = drawn_sizes(solver, sizes, settings.problems, settings.seed)
    steps = settings.steps
    cells, main = read_training(
        solver, settings.train_problems, settings.seed, steps, all_rows=False
    )
    labels = dict(zip(classes, cells.targets.T, strict=True))
    # A class that is the same in all cells is no task; rows do not read what they write.
    apart = {n for n, of in labels.items() if len(np.unique(of[of != UNDEFINED])) > 1}
    if missing := [name for name in subtasks if name not in apart]:
        raise ValueError(
            f"{missing[0]} is no sub-task of the layout {solver.task.layout}: it is the same in "
            f"all cells, or what the rows write. Take some of {', '.join(sorted(apart))}"
        )
    names = [*subtasks] or [name for name in arithmetic_subtasks(rule) if name in apart]
    names = names or sorted(apart)
    if not names:
        raise ValueError(f"the layout {solver.task.layout} has no sub-tasks to read")
    last = max((one for one in cells.features if one.name == main), key=lambda one: one.step)
    found = dict[str, tuple[FeaturePlace, LinearProbe]]()
    for done, name in enumerate(names):
        report("fitting probes", done, len(names))
        if heads and name in heads:
            weight, bias = (part.float().to(cells.features[last].device) for part in heads[name])
            found[name] = last, LinearProbe(weight.T, bias)
        else:
            found[name] = best_probe(cells, labels[name], classes[name])
    kinds = {name: HEAD if heads and name in heads else PROBE for name in names}
    gaps = list[Gap]()
    for size, where, on_canvas, problems in tested:
        report("solving problems of a size", len(gaps), len(tested))
        cells, _ = read(on_canvas, problems, steps, all_rows=False)
        truth = dict(zip(classes, cells.targets.T, strict=True))
        correct = {}
        for name, (point, one) in found.items():
            states = cells.features[point]
            if kinds[name] == HEAD and point.name == BLOCKS:  # a GPT's heads read normed states
                states = solver.predictor.model.norm(states).detach()
            guess = one.predict(states)
            correct[name] = correct_problems(guess, truth[name], cells.problem, len(problems))
        solved = np.array([bool(s.exact) for s in on_canvas.solve(problems, with_truth=True)])
        gaps.append(gap_of(size, where, correct, solved))
    places = {name: found[name][0] for name in names}
    return GapStudy({n: Reader(kinds[n], at.name, at.step) for n, at in places.items()}, gaps)


def best_probe(
    cells: CellFeatures, labels: np.ndarray, classes: int
) -> tuple[FeaturePlace, LinearProbe]:
    """Return the most accurate probe of a sub-task, and the point of the states that it reads.

    Points are compared on every fourth problem, by probes fitted to the others. The probe of the
    best point is fitted to all problems. The embedded tokens are no state.

    Args:
        cells: of training problems.
        labels: classes of the sub-task, uint8 [N].
        classes: their number.
    """
    target = torch.from_numpy(labels)
    fitted = torch.from_numpy(cells.problem % _HELD_OUT != _HELD_OUT - 1)
    points = [point for point in cells.features if point.name != INPUT]
    right = []
    for point in points:
        states = cells.features[point]
        one = fit(states[fitted], target[fitted].to(states.device), classes)
        right.append(int((one.predict(states[~fitted]) == labels[~fitted.numpy()]).sum()))
    best = points[int(np.argmax(right))]
    states = cells.features[best]
    return best, fit(states, target.to(states.device), classes)


Settings = ProbeSettings  # its released name
