"""A probing study: probes fitted on training problems, read on held-out ones of several sizes.

The probes are fitted to problems of the training split, drawn as the model's own training draws
them, and read on problems of the test split, so that none of these were ever seen.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from canvas.sampling import sample
from canvas.task import Task
from canvas.windows import UNDEFINED
from trm.analysis.probe import (
    Cells,
    Examples,
    LinearProbes,
    Observed,
    Point,
    control_labels,
    fit,
    read,
    take,
)
from trm.analysis.probe_report import FirstError, Gap, ProbeStudy, Reading, SizeResult, Table
from trm.evaluation.cell_problems import fitted
from trm.evaluation.grid import region, size_name
from trm.evaluation.statistics import Share
from trm.solving.solver import Solver

_RESAMPLES = 1000
_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size
_LONG = 10  # seconds of which people are told


@dataclass(frozen=True)
class Settings:
    """How a study is done."""

    seed: int = 0  # of the problems, of the cells that probes are fitted to, of control tasks
    steps: tuple[int, ...] = tuple(range(1, 9))  # supervision steps that are probed, from 1
    layers: bool = False  # whether to probe after each layer within a step, too
    problems: int = 32  # of each size, held out, or as many as there are
    train_problems: int = 400  # that probes are fitted to
    cells: int = 12  # of an example, of the row that is filled in at most, and as many others
    iterations: int = 60  # see `trm.analysis.probe.fit`


def run_probes(
    solver: Solver,
    sizes: Sequence[dict[str, int]] | None = None,
    settings: Settings | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> ProbeStudy:
    """Probe a frozen model, whose task says what is within the training range.

    Sizes are of problems by two of the task's measures, like ``{"digits_a": 4, "digits_b": 2}``;
    None: `default_sizes`. ``note`` is told what is going on, a line at a time. ValueError: the
    layout has no local rule, no size can be measured, there are no training problems, or the states
    cannot be probed.
    """
    settings, task = settings or Settings(), solver.task
    classes = subtask_classes(task)
    asked = []
    for size in default_sizes(task) if sizes is None else sizes:
        axes, (a, b) = tuple(size), size.values()
        held = fitted(solver, axes, (a, b), settings.problems, settings.seed)
        name, where = size_name(axes, (a, b)), region(task.ranges, axes, (a, b))
        asked.append((SizeResult(dict(size), name, where, held.reason), held))
    if all(held.reason for _, held in asked):
        reason = asked[0][1].reason if asked else "no size was named"
        raise ValueError(f"there is nothing to probe: {reason}")
    note(f"reading {settings.train_problems:,} training problems")
    parts, number, random = list[Cells](), 0, np.random.default_rng(settings.seed)
    asked_of = settings.steps, settings.layers
    for start in range(0, settings.train_problems, _PROBLEMS_AT_ONCE):
        index = np.arange(start, min(start + _PROBLEMS_AT_ONCE, settings.train_problems))
        problems = sample(task, settings.seed, "train", 0, index)
        for part, observed in read(solver, problems, *asked_of, settings.seed, start):
            parts.append(take(part, observed, settings.cells, random))
            number, main = number + len(part), observed.main
    probes, settled = Probes(parts, classes, settings, note), True
    found = []
    for result, (on_canvas, problems, reason) in asked:
        if on_canvas is not None and reason is None:
            note(f"probing {len(problems)} problems of {result.name}")
            tally = Tally(probes, len(problems), settings.seed)
            for start in range(0, len(problems), _PROBLEMS_AT_ONCE):
                some = problems[start : start + _PROBLEMS_AT_ONCE]
                for part, observed in read(on_canvas, some, *asked_of):
                    part = replace(part, targets=part.targets[..., probes.there])
                    tally.add(part, observed, start)
                    settled &= observed.settled
            result = tally.result(result)
        found.append(result)
    counted = (settings.train_problems, number, len(probes.types), probes.filled)
    train = dict(zip(("problems", "examples", "cells", "working"), counted, strict=True))
    return ProbeStudy(asdict(settings), probes.classes, *main, train, found, settled=settled)


def subtask_classes(task: Task) -> dict[str, int]:
    """How many classes each sub-task of a task's layout has; ValueError: it declares none."""
    rule = task.local_rule()
    return {name: rule.classes(name) for name in (*rule.fields, *rule.besides)}


def default_sizes(task: Task) -> list[dict[str, int]]:
    """Half of the longest and the longest of training, then half as long again and twice as long.

    By the task's usual measures: two sizes in range, one beyond in each measure, one in both.
    """
    first, second = task.axes
    (low, a), (least, b) = task.ranges[first], task.ranges[second]
    pairs = [(-(-a // 2), -(-b // 2)), (a, b), (a + -(-a // 2), b), (a, b + -(-b // 2))]
    found = [(max(x, low), max(y, least)) for x, y in (*pairs, (2 * a, 2 * b))]
    return [{first: x, second: y} for x, y in dict.fromkeys(found)]


class Probes:
    """Linear probes of all sub-tasks, and of their control tasks, at all points.

    Fitted to the cells of training; classes are those of the layout's sub-tasks, in order.

    Attributes:
        points: the probes of all sub-tasks, then of their control tasks.
        there: bool, which of the layout's sub-tasks are any in these cells; the others are written.
        majority: uint8 [sub-tasks], the most frequent class in rows that are filled in.
        frequencies: of each sub-task, how often its classes occur.
        types: of the cells; ``filled`` is how many of them are of rows that are filled in.
    """

    def __init__(
        self,
        parts: Sequence[Cells],
        classes: Mapping[str, int],
        settings: Settings,
        note: Callable[[str], None],
    ) -> None:
        targets, filled, self.types = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("targets", "filled", "types")
        )
        self.there = (targets != UNDEFINED).any(axis=0)
        kept = zip(classes.items(), self.there, strict=True)
        self.classes = {name: n for (name, n), there in kept if there}
        targets, self.filled = targets[:, self.there], int(filled.sum())
        columns = [*zip(targets.T, self.classes.values(), strict=True)]
        rows, self.frequencies = (
            [np.bincount(c[(c != UNDEFINED) & some], minlength=n) for c, n in columns]
            for some in (filled, np.ones_like(filled))
        )
        self.majority = np.array([counts.argmax() for counts in rows], dtype=np.uint8)
        controls = control_labels(self.types, targets, self.frequencies, settings.seed)
        labels, both = np.hstack([targets, controls]), [*self.classes.values()] * 2
        self.points: dict[Point, LinearProbes] = {}
        points, began = [*parts[0].features], time.monotonic()
        note(f"fitting probes to {len(targets)} cells at {len(points)} sites")
        for point in points:
            features = torch.cat([part.features[point] for part in parts])
            on_device = torch.from_numpy(labels).to(features.device)
            self.points[point] = fit(features, on_device, both, iterations=settings.iterations)
            left = (len(points) - 1) * (time.monotonic() - began)
            if len(self.points) == 1 and left > _LONG:
                note(f"which takes about {left:.0f} s more")


class Tally:
    """Counts what is right in each problem of a size, so that intervals can be those of problems.

    The seed is that of the control tasks, and of the bootstrap.
    """

    def __init__(self, probes: Probes, problems: int, seed: int) -> None:
        self.probes, self.problems, self.seed = probes, problems, seed
        self.names = [*probes.classes]
        none = np.zeros((2, problems, len(self.names)), dtype=np.int64)
        # Of each reader at each point: right and all cells of rows that are filled in.
        self.cells: dict[tuple[str, Point | None], np.ndarray] = defaultdict(none.copy)
        self.every = none[0].copy()  # cells of all rows
        self.heads = set[str]()  # the sub-tasks that the model's own heads name
        self.main: Point | None = None  # whose sub-tasks are compared with the answer
        # Rows: is there one to fill in, is a sub-task wrong in it, is its answer? Places: right and
        # all cells of each. Both as large as the canvases.
        self.rows = np.zeros((3, problems, 0), dtype=bool)
        self.places = np.zeros((2, len(self.names), 0, 0), dtype=np.int64)

    def add(self, examples: Examples, observed: Observed, first: int) -> None:
        """Count a batch, whose first problem has this number."""
        cells, of_problem = take(examples, observed), examples.problem + first
        problem, step = of_problem[cells.example], examples.rows - examples.first[:, None]  # [B, H]
        defined = cells.targets != UNDEFINED
        np.add.at(self.every, problem, defined)
        defined &= cells.filled[:, None]
        known = defined & np.isin(cells.types, self.probes.types)[:, None]

        def add(reader: str, point: Point | None, right: np.ndarray, of: np.ndarray) -> None:
            right_and_all = self.cells[reader, point]
            np.add.at(right_and_all[0], problem, right & of)
            np.add.at(right_and_all[1], problem, of)

        controls = control_labels(cells.types, cells.targets, self.probes.frequencies, self.seed)
        add("majority", None, cells.targets == self.probes.majority, defined)
        for point, features in cells.features.items():
            both = self.probes.points[point](features).cpu().numpy()
            said, control = np.split(both, 2, axis=1)
            right = said == cells.targets
            add("probe", point, right, defined)
            add("known", point, right, known)
            add("control", point, control == controls, known)
            heads = observed.heads.get(point.step) if point.name == observed.main.name else None
            if heads is not None:
                for h, name in enumerate(self.names):
                    if name in heads:
                        self.heads.add(name)
                        own = heads[name].reshape(len(examples), -1)[cells.example, cells.cell]
                        agree = own == cells.targets[:, h]
                        right[:, h] = np.where(own == UNDEFINED, right[:, h], agree)
                add("head", point, right, defined)
            if point == observed.main:
                judged = right & defined
        self.main, (_, H, W) = observed.main, examples.inputs.shape
        if not self.places.size:
            self.rows = np.zeros((3, self.problems, H), dtype=bool)
            self.places = np.zeros((2, len(self.names), H, 2 * W), dtype=np.int64)
        answers = examples.filled & (observed.answers != examples.labels)
        for kind, where in ((0, examples.filled), (2, answers)):
            example, line, _ = np.nonzero(where)
            self.rows[kind, of_problem[example], step[example, line]] = True
        line, column = np.divmod(cells.cell, W)
        row = examples.rows[cells.example, line]
        at = (examples.columns[cells.example, column] + W).clip(0, 2 * W - 1)
        for h in map(self.names.index, self.judged):
            bad = defined[:, h] & ~judged[:, h]
            self.rows[1, problem[bad], step[cells.example[bad], line[bad]]] = True
            for kind, flags in enumerate((judged[:, h], defined[:, h])):
                np.add.at(self.places[kind, h], (row[flags], at[flags]), 1)

    def result(self, size: SizeResult) -> SizeResult:
        """The size with its figures."""
        weights = np.random.default_rng(self.seed).multinomial(
            self.problems, np.full(self.problems, 1 / self.problems), _RESAMPLES
        )

        def counted(reader: str, point: Point | None, subtask: str) -> Share:
            right, total = self.cells[reader, point][..., self.names.index(subtask)]
            return share(right, total, weights)

        readings = []
        for name in self.asked:
            for point in self.probes.points:
                own = None
                if ("head", point) in self.cells and name in self.heads:
                    own = counted("head", point, name)
                probe, control, known = (
                    counted(of, point, name) for of in ("probe", "control", "known")
                )
                majority = counted("majority", None, name)
                readings.append(Reading(name, *point, probe, own, control, known, majority))
        there, bad, wrong = self.rows
        rows = _table(~bad[there], ~wrong[there])
        whole = _table(~bad.any(axis=1), ~wrong.any(axis=1))
        # The sub-task with the lowest accuracy, and the cell where it is wrong most often.
        right, total = self.places
        shares = {h: right[h].sum() / total[h].sum() for h in map(self.names.index, self.judged)}
        worst, error = min(shares, key=lambda h: (shares[h], h), default=None), None
        if worst is not None and shares[worst] < 1:
            wrong = total[worst] - right[worst]
            row, column = (int(i) for i in np.unravel_index(wrong.argmax(), wrong.shape))
            of_cells = counted(self.judge, self.main, self.names[worst])
            place = Share(int(right[worst][row, column]), int(total[worst][row, column]))
            at = row + 1, column - wrong.shape[1] // 2 + 1
            error = FirstError(self.judge, self.names[worst], of_cells, *at, place)
        return replace(
            size,
            height=self.places.shape[2],
            width=self.places.shape[3] // 2,
            problems=self.problems,
            rows=int(there.sum()),
            cells=int(self.every.max(axis=1).sum()),
            readings=readings,
            gap=Gap(self.judge, self.judged, rows, whole),
            first_error=error or FirstError(self.judge, ""),
        )

    @property
    def judge(self) -> str:
        """Who says what a sub-task is: the model's own heads where it has any."""
        return "head" if self.heads else "probe"

    @property
    def asked(self) -> list[str]:
        """The sub-tasks that some row asks for."""
        there = self.cells["majority", None][1].any(axis=0)
        return [name for name, some in zip(self.names, there, strict=True) if some]

    @property
    def judged(self) -> list[str]:
        """The sub-tasks of a row that are judged: those with a head, if any has one."""
        return [name for name in self.asked if not self.heads or name in self.heads]


def _table(subtasks: Any, answers: Any) -> Table:
    """From ``bool [N]`` each."""
    pairs = [(subtasks, answers), (subtasks, ~answers), (~subtasks, answers), (~subtasks, ~answers)]
    return Table(*(int((one & other).sum()) for one, other in pairs))


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
