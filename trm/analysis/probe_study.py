"""A probing study: probes fitted on training problems, read on held-out ones of several sizes.

The probes are fitted to problems of the training split, drawn as the model's own training draws
them, and read on problems of the test split, so that none of these were ever seen.

``probe.json`` is `ProbeStudy` as JSON.

A share of cells is ``{right, total, low, high}``. The cells of a problem are not independent, so
low and high are ends of a 95 % bootstrap interval over problems (percentiles of 1,000 samples);
where all cells are right, or none, of the Wilson interval of as many problems. Shares of rows and
problems have Wilson intervals; those of rows take the rows of a problem as independent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from canvas.hints import UNDEFINED, subtask_classes
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.task import Task
from trm.analysis.probe import (
    Cells,
    Examples,
    Observed,
    Point,
    Probes,
    examples,
    fit_probes,
    main_point,
    observe,
    take,
)
from trm.evaluation.cell_problems import SPLIT, cell_problems
from trm.evaluation.grid import region, size_name
from trm.evaluation.statistics import Share
from trm.files import read_object, write_object
from trm.solving.solver import Solver

FILE = "probe.json"  # its name in a study's folder
FORMAT = 1
ROW, ALL = "row", "all"  # scopes: cells of the row that is filled in; all that are defined
_READERS = ("probe", "head", "control", "known")
_RESAMPLES = 1000
_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size
_TOKENS_AT_ONCE = 2**14  # cells of the canvases that a model reads at once


def _from_json(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    return Share(data["right"], data["total"], ends=(data["low"], data["high"]))


Count = Annotated[Share, BeforeValidator(_from_json), PlainSerializer(Share.data)]


@dataclass(frozen=True)
class Settings:
    """How a study is done."""

    seed: int = 0  # of the problems, of the cells that probes are fitted to, of control tasks
    steps: tuple[int, ...] = tuple(range(1, 9))  # supervision steps that are probed, from 1
    layers: bool = False  # whether to probe after each layer within a step, too
    problems: int = 32  # of each size, held out, or as many as there are
    train_problems: int = 400  # that probes are fitted to
    cells: int = 12  # of an example, of the row that is filled in at most, and as many others
    l2: float = 1e-3  # see `trm.analysis.probe.fit`, as of iterations
    iterations: int = 60


@dataclass(frozen=True)
class Reading:
    """How well a sub-task is read at a point: cells that are right in problems of one size."""

    hint: str
    site: str  # see `trm.analysis.probe.Point`, as of the step
    step: int
    scope: str  # `ROW` or `ALL`
    probe: Count
    head: Count | None  # the model's own; None: it has none here
    control: Count  # the probe of the control task, on cells whose type occurred in training
    known: Count  # the probe, on the same cells
    majority: Count  # the class that is most frequent in training

    def value(self, reader: str) -> float | None:
        """The share of a reader, or the ``selectivity``; None where there is none."""
        return pooled([self], reader)


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
    readings: list[Reading] = field(default_factory=list)  # by sub-task, point and scope
    gap: Gap | None = None
    first_error: FirstError | None = None

    def at(self, hint: str, site: str, step: int, scope: str = ROW) -> Reading | None:
        """One of the readings."""
        wanted = (hint, site, step, scope)
        return next((r for r in self.readings if (r.hint, r.site, r.step, r.scope) == wanted), None)


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
    versions: dict[str, str] = field(default_factory=dict)
    created: str = ""
    format: int = FORMAT

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
        data: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return data

    def write(self, folder: Path) -> None:
        """Into `FILE` in a folder."""
        write_object(folder / FILE, self.to_json())


_ADAPTER = TypeAdapter(ProbeStudy)


def read_study(folder: Path) -> ProbeStudy:
    """A study from its folder.

    Raises:
        ValueError: there is none that can be read.
    """
    data = read_object(folder / FILE) or {}
    if data.get("format") != FORMAT:
        raise ValueError(f"{folder / FILE} is no study of probes of format {FORMAT}")
    try:
        return _ADAPTER.validate_python(data)
    except (ValidationError, KeyError):
        raise ValueError(f"{folder / FILE} is damaged: its parts are not a study's") from None


def pooled(readings: Iterable[Reading | None], reader: str) -> float | None:
    """The share over the cells of several sizes; None of no cells."""
    known = [r for r in readings if r is not None]
    if reader == "selectivity":
        ends = pooled(known, "known"), pooled(known, "control")
        return None if ends[0] is None or ends[1] is None else ends[0] - ends[1]
    counts: list[Share | None] = [getattr(r, reader) for r in known]
    total = sum(c.total for c in counts if c is not None)
    return sum(c.right for c in counts if c is not None) / total if total else None


def run_probes(
    solver: Solver,
    sizes: Sequence[dict[str, int]] | None = None,
    settings: Settings | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> ProbeStudy:
    """Probe a model.

    Args:
        solver: the frozen model; its task says what is within the training range.
        sizes: of the problems, each by two measures of the task, like ``{"digits_a": 4,
            "digits_b": 2}``; None: `default_sizes`.
        settings: how; None: the defaults.
        note: is told what is going on, a line at a time.

    Raises:
        ValueError: the layout has no hints, no size can be measured, there are no training
            problems, or the model's states cannot be probed.
    """
    settings = settings or Settings()
    check_hints(solver.task)
    sizes = default_sizes(solver.task) if sizes is None else sizes
    asked = [_asked(solver, size, settings) for size in sizes]
    if all(result.reason for result, *_ in asked):
        reason = asked[0][0].reason if asked else "no size was named"
        raise ValueError(f"there is nothing to probe: {reason}")
    note(f"reading {settings.train_problems:,} training problems")
    cells, train = training_cells(solver, settings)
    there = (cells.hints != UNDEFINED).any(axis=0)  # what rows write is a sub-task in none of them
    every = subtask_classes(solver.task.rules, solver.task.base)
    classes = {name: n for (name, n), kept in zip(every.items(), there, strict=True) if kept}
    cells = replace(cells, hints=cells.hints[:, there])
    note(f"fitting probes to {train['cells']:,} cells at {len(cells.features)} sites")
    probes = fit_probes(cells, classes, settings.seed, settings.l2, settings.iterations)
    last = main_point(solver.predictor, settings.steps)
    found = []
    for result, fitted, problems in asked:
        if fitted is not None:
            note(f"probing {len(problems)} problems of {result.name}")
            tally = Tally(probes, last, len(problems), settings.seed)
            for start in range(0, len(problems), _PROBLEMS_AT_ONCE):
                some = problems[start : start + _PROBLEMS_AT_ONCE]
                for part, observed in _read(fitted, some, settings):
                    tally.add(replace(part, hints=part.hints[..., there]), observed, start)
            result = tally.result(result)
        found.append(result)
    return ProbeStudy(asdict(settings), classes, last.name, last.step, train, found)


def check_hints(task: Task) -> None:
    """Raise a ValueError where the task's layout names no sub-tasks."""
    if not task.rules.hints:
        known = [name for name, layout in task.layouts.items() if layout.hints]
        raise ValueError(
            f"the layout {task.layout} has no hints, which are the sub-tasks that probes read; "
            f"{' and '.join(known) or 'layouts with hint_rows()'} have some"
        )


def default_sizes(task: Task) -> list[dict[str, int]]:
    """Half of the longest and the longest of training, then half as long again and twice as long.

    By the task's usual measures: two sizes in range, one beyond in each measure, one in both.
    """
    first, second = task.axes
    (_, a), (_, b) = task.ranges[first], task.ranges[second]
    pairs = [(-(-a // 2), -(-b // 2)), (a, b), (a + -(-a // 2), b), (a, b + -(-b // 2))]
    pairs.append((2 * a, 2 * b))
    low = [task.ranges[axis][0] for axis in (first, second)]
    found = [{first: max(x, low[0]), second: max(y, low[1])} for x, y in pairs]
    return [size for i, size in enumerate(found) if size not in found[:i]]


def training_cells(solver: Solver, settings: Settings) -> tuple[Cells, dict[str, int]]:
    """What probes are fitted to, and how much it is.

    Raises:
        ValueError: no problem of the task belongs to the training split.
    """
    parts, read = [], 0
    random = np.random.default_rng(settings.seed)
    for start in range(0, settings.train_problems, _PROBLEMS_AT_ONCE):
        index = np.arange(start, min(start + _PROBLEMS_AT_ONCE, settings.train_problems))
        problems = sample(solver.task, settings.seed, "train", 0, index)
        for part, observed in _read(solver, problems, settings, settings.seed, start):
            parts.append(take(part, observed, settings.cells, random))
            read += len(part)
    cells = Cells.joined(parts)
    return cells, {
        "problems": settings.train_problems,
        "examples": read,
        "cells": len(cells.filled),
        "working": int(cells.filled.sum()),
    }


def _asked(
    solver: Solver, size: dict[str, int], settings: Settings
) -> tuple[SizeResult, Solver | None, Problems]:
    """A size without figures, the solver on a canvas for it, and its problems."""
    task = solver.task
    axes, (a, b) = tuple(size), size.values()
    lengths, name = task.of_size(**size), size_name(axes, (a, b))
    problems = cell_problems(task, lengths, settings.problems, settings.seed)
    fitted, reason = None, None
    try:
        fitted = solver.for_lengths(lengths)
    except ValueError as error:  # the layout has no room for as many operands
        reason = str(error)
    if fitted is None and reason is None:
        height, width = task.rules.room(lengths, task.base)
        reason = (
            f"the model cannot work on a canvas of {height} x {width} cells or more "
            f"(height x width), which {name} need"
        )
    elif not len(problems):
        reason = f"no problem of {name} in base {task.base} belongs to the {SPLIT} split"
    result = SizeResult(dict(size), name, region(task.ranges, axes, (a, b)), reason)
    return result, None if reason else fitted, problems


def _read(
    solver: Solver,
    problems: Problems,
    settings: Settings,
    seed: int | None = None,
    first: int = 0,
) -> Iterator[tuple[Examples, Observed]]:
    """Examples in batches, see `examples`, each with what the model does with it."""
    every = examples(solver, problems, seed, first)
    _, H, W = every.inputs.shape
    size = max(1, _TOKENS_AT_ONCE // (H * W))
    for start in range(0, len(every), size):
        part = every[start : start + size]
        yield part, observe(solver.predictor, part, settings.steps, settings.layers)


class Tally:
    """Counts what probes get right by problem, so that intervals can be those of problems.

    Args:
        probes: fitted.
        last: the point whose sub-tasks are compared with the answer.
        problems: how many there will be.
        seed: of the bootstrap.
    """

    def __init__(self, probes: Probes, last: Point, problems: int, seed: int) -> None:
        self.probes, self.last, self.problems, self.seed = probes, last, problems, seed
        self.names = tuple(probes.classes)
        shape = (2, len(self.names), problems)  # scopes: the row that is filled in, all cells
        self.right: dict[tuple[str, Point], np.ndarray] = {}
        self.total, self.known, self.majority = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        self.read: set[str] = set()  # the hints that the model's own heads name
        # By problem and row that is filled in, grown as rows come: is there such a row, are its
        # sub-tasks right, is its answer?
        self.there = np.zeros((problems, 0), dtype=bool)
        self.subtasks = np.ones((problems, 0), dtype=bool)
        self.answers = np.ones((problems, 0), dtype=bool)
        self.places: np.ndarray | None = None  # [right or total, hints, rows, columns]
        self.size = (0, 0)

    def add(self, examples: Examples, observed: Observed, first: int) -> None:
        """Count a batch, whose first problem has this number."""
        cells = take(examples, observed)
        problem = examples.problem[cells.example] + first

        def count(flags: np.ndarray) -> np.ndarray:
            """Flags ``bool [N, hints]`` by scope, hint and problem."""
            counted = [
                [np.bincount(problem, weights=column, minlength=self.problems) for column in part.T]
                for part in (flags & cells.filled[:, None], flags)
            ]
            return np.array(counted).astype(np.int64)

        def add(reader: str, point: Point, flags: np.ndarray) -> None:
            key = reader, point
            self.right[key] = self.right.get(key, 0) + count(flags)

        defined = cells.hints != UNDEFINED
        known = defined & self.probes.known(cells.types)[:, None]
        controls = self.probes.control(cells.types, cells.hints)
        self.total += count(defined)
        self.known += count(known)
        for scope, majority in enumerate(self.probes.majority):
            self.majority[scope] += count(defined & (cells.hints == majority))[scope]
        judged = None
        for point, features in cells.features.items():
            said, control = self.probes(point, features)
            right = defined & (said == cells.hints)
            add("probe", point, right)
            add("known", point, right & known)
            add("control", point, known & (control == controls))
            if point.name == self.last.name and point.step in observed.heads:
                named = self._heads(observed, point.step, cells)
                right = np.where(named == UNDEFINED, right, defined & (named == cells.hints))
                add("head", point, right)
            if point == self.last:
                judged = right | ~defined
        assert judged is not None
        self._rows(examples, observed, cells, judged, first)

    def result(self, size: SizeResult) -> SizeResult:
        """The size with its figures."""
        weights = np.random.default_rng(self.seed).multinomial(
            self.problems, np.full(self.problems, 1 / self.problems), _RESAMPLES
        )
        readings = []
        points = dict.fromkeys(point for reader, point in self.right if reader == "probe")
        for scope, name in enumerate((ROW, ALL)):
            for h, hint in enumerate(self.names):
                total, known = self.total[scope, h], self.known[scope, h]
                if not total.any():
                    continue
                majority = share(self.majority[scope, h], total, weights)
                for point in points:
                    counts: dict[str, Share | None] = {
                        reader: share(
                            self.right[reader, point][scope, h],
                            known if reader in ("control", "known") else total,
                            weights,
                        )
                        for reader in _READERS
                        if (reader, point) in self.right and (reader != "head" or hint in self.read)
                    }
                    counts = {"head": None, "majority": majority} | counts
                    readings.append(Reading(hint, *point, name, **counts))  # type: ignore[arg-type]
        rows = _table(self.subtasks[self.there], self.answers[self.there])
        subtasks, answers = self.subtasks | ~self.there, self.answers | ~self.there
        whole = _table(subtasks.all(axis=1), answers.all(axis=1))
        return replace(
            size,
            height=self.size[0],
            width=self.size[1],
            problems=self.problems,
            rows=int(self.there.sum()),
            cells=int(self.total[1].max(axis=0).sum()),
            readings=readings,
            gap=Gap(self.judge, self.judged, rows, whole),
            first_error=self._first_error(weights),
        )

    @property
    def judge(self) -> str:
        """Who says what a sub-task is: the model's own heads where it has any."""
        return "head" if self.read else "probe"

    @property
    def judged(self) -> list[str]:
        """The sub-tasks of a row that are judged: those with a head, if any has one."""
        asked = self.total[0].any(axis=1)
        return [
            name
            for name, there in zip(self.names, asked, strict=True)
            if there and (not self.read or name in self.read)
        ]

    def _heads(self, observed: Observed, step: int, cells: Cells) -> np.ndarray:
        """What the model's heads name, ``uint8 [N, hints]``; undefined without a head."""
        named = np.full(cells.hints.shape, UNDEFINED, dtype=np.uint8)
        for h, name in enumerate(self.names):
            if name in observed.heads[step]:
                self.read.add(name)
                maps = observed.heads[step][name].flatten(1).cpu().numpy()
                named[:, h] = maps[cells.example, cells.cell]
        return named

    def _rows(
        self, examples: Examples, observed: Observed, cells: Cells, right: np.ndarray, first: int
    ) -> None:
        """Rows whose sub-tasks, and whose answers, are all right; and where cells are wrong."""
        B, H, W = examples.inputs.shape
        self.size = H, W
        if self.places is None:
            self.places = np.zeros((2, len(self.names), H, 2 * W), dtype=np.int64)
        grow = ((0, 0), (0, max(0, H - self.there.shape[1])))
        self.there = np.pad(self.there, grow)
        self.subtasks, self.answers = (
            np.pad(part, grow, constant_values=True) for part in (self.subtasks, self.answers)
        )
        steps = examples.rows - examples.first[:, None]  # [B, H]
        problem = np.broadcast_to((examples.problem + first)[:, None, None], (B, H, W))
        step = np.broadcast_to(steps[:, :, None], (B, H, W))
        self.there[problem[examples.filled], step[examples.filled]] = True
        wrong = examples.filled & (observed.answers != examples.labels)
        self.answers[problem[wrong], step[wrong]] = False
        counted = [self.names.index(name) for name in self.judged]
        row, column = np.divmod(cells.cell, W)
        at = cells.filled
        bad = at & ~right[:, counted].all(axis=1)
        of_bad = cells.example[bad]
        self.subtasks[examples.problem[of_bad] + first, steps[of_bad, row[bad]]] = False
        place = (
            examples.rows[cells.example, row][at],
            (examples.columns[cells.example, column] + W)[at].clip(0, 2 * W - 1),
        )
        for h in counted:
            defined = (cells.hints[at, h] != UNDEFINED).astype(np.int64)
            np.add.at(self.places[0, h], place, defined * right[at, h])
            np.add.at(self.places[1, h], place, defined)

    def _first_error(self, weights: np.ndarray) -> FirstError:
        """The sub-task with the lowest accuracy, and the cell where it is wrong most often."""
        assert self.places is not None
        right, total = self.places
        counted = [h for h, name in enumerate(self.names) if name in self.judged and total[h].any()]
        shares = {h: right[h].sum() / total[h].sum() for h in counted}
        worst = min(counted, key=lambda h: (shares[h], h), default=None)
        if worst is None or shares[worst] == 1:
            return FirstError(self.judge, "")
        wrong = total[worst] - right[worst]
        row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
        return FirstError(
            self.judge,
            self.names[worst],
            share(self.right[self.judge, self.last][0, worst], self.total[0, worst], weights),
            int(row) + 1,
            int(column) - self.size[1] + 1,
            Share(int(right[worst][row, column]), int(total[worst][row, column])),
        )


def _table(subtasks: Any, answers: Any) -> Table:
    """From ``bool [N]`` each."""
    pairs = [(subtasks, answers), (subtasks, ~answers), (~subtasks, answers), (~subtasks, ~answers)]
    return Table(*(int((one & other).sum()) for one, other in pairs))


def share(right: np.ndarray, total: np.ndarray, weights: np.ndarray) -> Share:
    """A share of cells from counts by problem ``[P]``; its interval is that of problems.

    Args:
        right, total: of each problem.
        weights: ``int64 [resamples, P]``, how often each problem is in each bootstrap sample.
    """
    k, n = int(right.sum()), int(total.sum())
    if not 0 < k < n:
        problems = int((total > 0).sum())
        return Share(k, n, ends=Share(problems if k else 0, problems).interval)
    drawn = weights @ total
    shares = (weights @ right)[drawn > 0] / drawn[drawn > 0]
    low, high = np.percentile(shares, (2.5, 97.5))
    return Share(k, n, ends=(float(low), float(high)))
