"""A probing study: probes fitted on training problems, read on held-out ones of several sizes.

The probes are fitted to problems of the training split, drawn as the model's own training draws
them, and read on problems of the test split, so that none of these were ever seen.

``probe.json`` is `ProbeStudy` as JSON, where a share of cells is ``{right, total, low, high}``. The
cells of a problem are not independent, so low and high are ends of a 95 % bootstrap interval over
problems (percentiles of 1,000 samples); where all cells are right, or none, of the Wilson interval
of as many problems. Shares of rows and problems have Wilson intervals; those of rows take the rows
of a problem as independent.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import PlainSerializer, TypeAdapter

from canvas.problems import Problems
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
    examples,
    fit,
    main_point,
    observe,
    take,
)
from trm.evaluation.cell_problems import fitted
from trm.evaluation.grid import region, size_name
from trm.evaluation.statistics import Share
from trm.solving.solver import Solver

ROW = "row"  # the cells that count, which are those of rows that are filled in
_RESAMPLES = 1000
_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size
_TOKENS_AT_ONCE = 2**14  # cells of the canvases that a model reads at once
_LONG = 10  # seconds of which people are told

Count = Annotated[Share, PlainSerializer(Share.data)]


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


@dataclass(frozen=True)
class Reading:
    """How well a sub-task is read at a point: cells that are right in problems of one size."""

    hint: str
    site: str  # see `trm.analysis.probe.Point`, as of the step
    step: int
    scope: str  # `ROW`
    probe: Count
    head: Count | None  # the model's own; None: it has none here
    control: Count  # the probe of the control task, on cells whose type occurred in training
    known: Count  # the probe, on the same cells
    majority: Count  # the class that is most frequent in training


@dataclass(frozen=True)
class Table:
    """Rows or problems by whether all sub-tasks and the answer are right."""

    both: int
    gap: int  # sub-tasks right, answer wrong
    otherwise: int  # a sub-task wrong, answer right
    neither: int

    @property
    def total(self) -> int:
        """How many there are."""
        return self.both + self.gap + self.otherwise + self.neither

    @property
    def gap_share(self) -> Share:
        """Wrong answers among those with right sub-tasks."""
        return Share(self.gap, self.both + self.gap)


@dataclass(frozen=True)
class Gap:
    """The compositionality gap of a size (Press et al. 2022): right sub-tasks, wrong answer."""

    judge: str  # who says what a sub-task's value is: the model's own ``head``, or ``probe``
    hints: list[str]  # the sub-tasks that count
    rows: Table  # teacher-forced, after the last step
    problems: Table  # whole problems, all of whose rows count


@dataclass(frozen=True)
class FirstError:
    """The sub-task that is right least often in rows that are filled in, and where it is wrong."""

    judge: str  # as in `Gap`
    hint: str  # empty: no cell of any is wrong
    share: Count | None = None  # of its cells
    row: int | None = None  # of the cell that is wrong most often, from 1 at the top,
    column: int | None = None  # and from 1 at the right end of the worked solution
    place: Count | None = None  # how often that cell is right


@dataclass(frozen=True)
class SizeResult:
    """Problems of one size."""

    size: dict[str, int]  # by two measures of the task
    name: str
    region: str  # as in ``grid.json``, see `trm.evaluation.grid`
    reason: str | None = None  # why there are no figures
    height: int | None = None
    width: int | None = None
    problems: int = 0  # of the test split, as are rows and cells
    rows: int = 0
    cells: int = 0
    readings: list[Reading] = field(default_factory=list)  # by sub-task and point
    gap: Gap | None = None
    first_error: FirstError | None = None

    def at(self, hint: str, site: str, step: int) -> Reading | None:
        """One of the readings."""
        wanted = (hint, site, step)
        return next((r for r in self.readings if (r.hint, r.site, r.step) == wanted), None)


@dataclass(frozen=True)
class ProbeStudy:
    """All of it, see the module."""

    settings: dict[str, Any]  # `Settings`
    hints: dict[str, int]  # the classes of each sub-task
    main: str  # the name of the points that the model's heads read
    last: int  # the step of the last point
    train: dict[str, int]  # how much probes were fitted to; "working": in rows that are filled in
    sizes: list[SizeResult]
    model: dict[str, Any] = field(default_factory=dict)  # as in ``grid.json``
    settled: bool = False  # whether the last supervision step changed nothing in any problem

    @property
    def measured(self) -> list[SizeResult]:
        """The sizes that have figures."""
        return [size for size in self.sizes if size.reason is None]

    @property
    def curve(self) -> str:
        """The points that a curve over steps follows: the main ones, or a GPT's blocks."""
        return "block" if self.main == "norm" else self.main

    @property
    def unit(self) -> str:
        """What the steps of that curve are."""
        return "supervision step" if self.curve == self.main else "block"

    @property
    def steps(self) -> list[int]:
        """The steps of the main points; of a GPT, its blocks."""
        readings = self.measured[0].readings
        return sorted({r.step for r in readings if r.site in (self.main, self.curve)})

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data: dict[str, Any] = TypeAdapter(ProbeStudy).dump_python(self, mode="json")
        return data


def pooled(readings: Iterable[Reading | None], reader: str) -> float | None:
    """A reader's share over the cells of sizes, or the ``selectivity``; None of no cells."""
    known = [r for r in readings if r is not None]
    if reader == "selectivity":
        ends = pooled(known, "known"), pooled(known, "control")
        return None if ends[0] is None or ends[1] is None else ends[0] - ends[1]
    counts = [count for r in known if (count := getattr(r, reader)) is not None]
    total = sum(count.total for count in counts)
    return sum(count.right for count in counts) / total if total else None


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
    parts, read, random = list[Cells](), 0, np.random.default_rng(settings.seed)
    for start in range(0, settings.train_problems, _PROBLEMS_AT_ONCE):
        index = np.arange(start, min(start + _PROBLEMS_AT_ONCE, settings.train_problems))
        problems = sample(task, settings.seed, "train", 0, index)
        for part, observed in _read(solver, problems, settings, settings.seed, start):
            parts.append(take(part, observed, settings.cells, random))
            read += len(part)
    probes = Probes(parts, classes, settings, note)
    last, settled = main_point(solver.predictor, settings.steps), True
    found = []
    for result, (on_canvas, problems, reason) in asked:
        if on_canvas is not None and reason is None:
            note(f"probing {len(problems)} problems of {result.name}")
            tally = Tally(probes, last, len(problems), settings.seed)
            for start in range(0, len(problems), _PROBLEMS_AT_ONCE):
                some = problems[start : start + _PROBLEMS_AT_ONCE]
                for part, observed in _read(on_canvas, some, settings):
                    tally.add(replace(part, hints=part.hints[..., probes.there]), observed, start)
                    settled &= observed.settled
            result = tally.result(result)
        found.append(result)
    counted = (settings.train_problems, read, len(probes.types), probes.filled)
    train = dict(zip(("problems", "examples", "cells", "working"), counted, strict=True))
    return ProbeStudy(asdict(settings), probes.classes, *last, train, found, settled=settled)


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


def _read(
    solver: Solver, problems: Problems, settings: Settings, seed: int | None = None, first: int = 0
) -> Iterator[tuple[Examples, Observed]]:
    """Examples in batches, see `examples`, each with what the model does with it."""
    every = examples(solver, problems, seed, first)
    size = max(1, _TOKENS_AT_ONCE // every.inputs[0].size)
    for start in range(0, len(every), size):
        part = every[start : start + size]
        yield part, observe(solver.predictor, part, settings.steps, settings.layers)


class Probes:
    """Linear probes of all sub-tasks, and of their control tasks, at all points.

    Fitted to the cells of training; classes are those of the layout's sub-tasks, in order.

    Attributes:
        points: the probes of all sub-tasks, then of their control tasks.
        there: bool, which of the layout's sub-tasks are any in these cells; the others are written.
        majority: uint8 [hints], the most frequent class in rows that are filled in.
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
        hints, filled, self.types = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("hints", "filled", "types")
        )
        self.there = (hints != UNDEFINED).any(axis=0)
        kept = zip(classes.items(), self.there, strict=True)
        self.classes = {name: n for (name, n), there in kept if there}
        hints, self.filled = hints[:, self.there], int(filled.sum())
        columns = [*zip(hints.T, self.classes.values(), strict=True)]
        rows, self.frequencies = (
            [np.bincount(c[(c != UNDEFINED) & some], minlength=n) for c, n in columns]
            for some in (filled, np.ones_like(filled))
        )
        self.majority = np.array([counts.argmax() for counts in rows], dtype=np.uint8)
        controls = control_labels(self.types, hints, self.frequencies, settings.seed)
        labels, both = np.hstack([hints, controls]), [*self.classes.values()] * 2
        self.points: dict[Point, LinearProbes] = {}
        points, began = [*parts[0].features], time.monotonic()
        note(f"fitting probes to {len(hints)} cells at {len(points)} sites")
        for point in points:
            features = torch.cat([part.features[point] for part in parts])
            on_device = torch.from_numpy(labels).to(features.device)
            self.points[point] = fit(features, on_device, both, iterations=settings.iterations)
            left = (len(points) - 1) * (time.monotonic() - began)
            if len(self.points) == 1 and left > _LONG:
                note(f"which takes about {left:.0f} s more")


class Tally:
    """Counts what probes get right by problem, so that intervals can be those of problems.

    ``last`` is the point whose sub-tasks are compared with the answer; the seed is that of the
    control tasks, and of the bootstrap.
    """

    def __init__(self, probes: Probes, last: Point, problems: int, seed: int) -> None:
        self.probes, self.last, self.problems, self.seed = probes, last, problems, seed
        self.names = [*probes.classes]
        # Of each reader at each point, and of ``total``, ``known`` and ``majority``, cells of rows
        # that are filled in; of ``all``, all cells: int64 [problems, hints].
        self.cells: dict[tuple[str, Point | None], np.ndarray] = {}
        self.read: set[str] = set()  # the hints that the model's own heads name
        # Is there such a row to fill in, is a sub-task wrong in it, is its answer? Grown as needed.
        self.rows = np.zeros((3, problems, 0), dtype=bool)
        self.places = np.zeros((2, len(self.names), 0, 0), dtype=np.int64)  # right, total [H, 2 W]

    def add(self, examples: Examples, observed: Observed, first: int) -> None:
        """Count a batch, whose first problem has this number."""
        cells, of_problem = take(examples, observed), examples.problem + first
        problem = of_problem[cells.example]
        defined, step = cells.hints != UNDEFINED, examples.rows - examples.first[:, None]  # [B, H]
        every, defined = defined, defined & cells.filled[:, None]
        known = defined & np.isin(cells.types, self.probes.types)[:, None]

        def add(reader: str, point: Point | None, flags: np.ndarray) -> None:
            none = np.zeros((self.problems, len(self.names)), dtype=np.int64)
            np.add.at(self.cells.setdefault((reader, point), none), problem, flags)

        controls = control_labels(cells.types, cells.hints, self.probes.frequencies, self.seed)
        add("majority", None, defined & (cells.hints == self.probes.majority))
        add("all", None, every)
        add("total", None, defined)
        add("known", None, known)
        judged = defined
        for point, features in cells.features.items():
            both = self.probes.points[point](features).cpu().numpy()
            said, control = np.split(both, 2, axis=1)
            right = defined & (said == cells.hints)
            add("probe", point, right)
            add("known", point, right & known)
            add("control", point, known & (control == controls))
            heads = observed.heads.get(point.step) if point.name == self.last.name else None
            if heads is not None:
                for h, name in enumerate(self.names):
                    if name in heads:
                        self.read.add(name)
                        own = heads[name].reshape(len(examples), -1)[cells.example, cells.cell]
                        agree = defined[:, h] & (own == cells.hints[:, h])
                        right[:, h] = np.where(own == UNDEFINED, right[:, h], agree)
                add("head", point, right)
            if point == self.last:
                judged = right
        # Rows whose sub-tasks, and whose answers, are all right; and where cells are wrong.
        _, H, W = examples.inputs.shape
        self.rows = np.pad(self.rows, ((0, 0), (0, 0), (0, max(0, H - self.rows.shape[2]))))
        if not self.places.size:
            self.places = np.zeros((2, len(self.names), H, 2 * W), dtype=np.int64)
        answers = examples.filled & (observed.answers != examples.labels)
        for kind, where in ((0, examples.filled), (2, answers)):
            example, line, _ = np.nonzero(where)
            self.rows[kind, of_problem[example], step[example, line]] = True
        line, column = np.divmod(cells.cell, W)
        place = examples.rows[cells.example, line], examples.columns[cells.example, column] + W
        for h in (self.names.index(name) for name in self.judged):
            bad = defined[:, h] & ~judged[:, h]
            self.rows[1, problem[bad], step[cells.example[bad], line[bad]]] = True
            for kind, flags in enumerate((judged[:, h], defined[:, h])):
                row, at = (part[flags] for part in place)
                np.add.at(self.places[kind, h], (row, at.clip(0, 2 * W - 1)), 1)

    def result(self, size: SizeResult) -> SizeResult:
        """The size with its figures."""
        weights = np.random.default_rng(self.seed).multinomial(
            self.problems, np.full(self.problems, 1 / self.problems), _RESAMPLES
        )
        readings = []

        def counted(reader: str, point: Point | None, h: int) -> Share:
            of = "known" if reader in ("known", "control") else "total"
            right, total = self.cells[reader, point], self.cells[of, None]
            return share(right[:, h], total[:, h], weights)

        for hint in self.asked:
            h = self.names.index(hint)
            majority = counted("majority", None, h)
            for point in self.probes.points:
                head = ("head", point) in self.cells and hint in self.read
                own = counted("head", point, h) if head else None
                probe, control, known = (
                    counted(of, point, h) for of in ("probe", "control", "known")
                )
                readings.append(Reading(hint, *point, ROW, probe, own, control, known, majority))
        there, bad, wrong = self.rows
        rows = _table(~bad[there], ~wrong[there])
        whole = _table(~bad.any(axis=1), ~wrong.any(axis=1))
        return replace(
            size,
            height=self.places.shape[2],
            width=self.places.shape[3] // 2,
            problems=self.problems,
            rows=int(there.sum()),
            cells=int(self.cells["all", None].max(axis=1).sum()),
            readings=readings,
            gap=Gap(self.judge, self.judged, rows, whole),
            first_error=self._first_error(weights),
        )

    @property
    def judge(self) -> str:
        """Who says what a sub-task is: the model's own heads where it has any."""
        return "head" if self.read else "probe"

    @property
    def asked(self) -> list[str]:
        """The sub-tasks that some row asks for."""
        total = self.cells["total", None]
        return [name for h, name in enumerate(self.names) if total[:, h].any()]

    @property
    def judged(self) -> list[str]:
        """The sub-tasks of a row that are judged: those with a head, if any has one."""
        return [name for name in self.asked if not self.read or name in self.read]

    def _first_error(self, weights: np.ndarray) -> FirstError:
        """The sub-task with the lowest accuracy, and the cell where it is wrong most often."""
        right, total = self.places
        shares = {h: right[h].sum() / total[h].sum() for h in map(self.names.index, self.judged)}
        worst = min(shares, key=lambda h: (shares[h], h), default=None)
        if worst is None or shares[worst] == 1:
            return FirstError(self.judge, "")
        wrong = total[worst] - right[worst]
        row, column = (int(i) for i in np.unravel_index(wrong.argmax(), wrong.shape))
        found, asked = self.cells[self.judge, self.last], self.cells["total", None]
        of_cells = share(found[:, worst], asked[:, worst], weights)
        place = Share(int(right[worst][row, column]), int(total[worst][row, column]))
        at = row + 1, column - wrong.shape[1] // 2 + 1
        return FirstError(self.judge, self.names[worst], of_cells, *at, place)


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
