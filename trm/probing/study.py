"""A probing study: probes fitted on training problems, read on held-out ones of several sizes.

The probes are fitted to problems of the training split, drawn as the model's own training draws
them, and read on problems of the test split, so that none of these were ever seen. Sub-tasks are
hints of the layout and what it names besides, see `canvas.hints`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from canvas.hints import UNDEFINED, subtask_classes
from canvas.problems import Problems
from canvas.sampling import sample
from canvas.task import Task
from trm.evaluation.cell_problems import SPLIT, cell_problems
from trm.evaluation.grid import region, size_name
from trm.probing.cells import Examples, examples
from trm.probing.features import Site, Watched, last_step, main_name, watch
from trm.probing.fitting import Cells, Probes, fit_probes, take
from trm.probing.results import ProbeStudy, SizeResult
from trm.probing.tally import Tally
from trm.solving.solver import Solver

_PROBLEMS_AT_ONCE = 64  # drawn on canvases of one size
_TOKENS_AT_ONCE = 2**14  # cells of the canvases that a model reads at once


@dataclass(frozen=True)
class Settings:
    """How a study is done.

    Attributes:
        seed: of the problems, of the cells that probes are fitted to, and of the control tasks.
        steps: the supervision steps after which an iterative model is probed.
        layers: whether it is probed after each layer within a step, too.
        problems: of each size, held out, or as many as there are.
        train_problems: that probes are fitted to.
        cells: of an example, as many of the working row at most, and as many others.
        l2, iterations: see `trm.probing.linear.fit`.

    Raises:
        ValueError: a number is too small, or there is no step.
    """

    seed: int = 0
    steps: tuple[int, ...] = tuple(range(1, 9))
    layers: bool = False
    problems: int = 32
    train_problems: int = 400
    cells: int = 12
    l2: float = 1e-3
    iterations: int = 60

    def __post_init__(self) -> None:
        for name in ("problems", "train_problems", "cells", "iterations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        if not self.steps or min(self.steps) < 1:
            raise ValueError("steps are supervision steps from 1 up, and at least one")
        if self.l2 < 0:
            raise ValueError(f"l2 must be 0 or more, got {self.l2}")


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
    classes = subtask_classes(solver.task.rules, solver.task.base)
    asked = [_asked(solver, size, settings) for size in sizes]
    if all(result.reason for result, *_ in asked):
        reason = asked[0][0].reason if asked else "no size was named"
        raise ValueError(f"there is nothing to probe: {reason}")
    note(f"reading {settings.train_problems:,} training problems")
    cells, train = training_cells(solver, settings)
    there = (cells.hints != UNDEFINED).any(axis=0)  # what rows write is a sub-task in none of them
    classes = {name: n for (name, n), kept in zip(classes.items(), there, strict=True) if kept}
    cells = replace(cells, hints=cells.hints[:, there])
    note(f"fitting probes to {train['cells']:,} cells at {len(cells.features)} sites")
    probes = fit_probes(cells, classes, settings.seed, settings.l2, settings.iterations)
    last = Site(main_name(solver.predictor), last_step(solver.predictor, settings.steps))
    found = []
    for result, fitted, problems in asked:
        if fitted is None:
            found.append(result)
            continue
        note(f"probing {len(problems)} problems of {result.name}")
        found.append(_measured(result, fitted, problems, probes, last, settings, there))
    return ProbeStudy(asdict(settings), classes, last.name, last.step, train, found)


def check_hints(task: Task) -> None:
    """Raise a ValueError where the task's layout names no sub-tasks."""
    if task.rules.hints:
        return
    known = [name for name, layout in task.layouts.items() if layout.hints]
    instead = (
        f"Of {task.name}, {' and '.join(known)} have hints" if known else "Give it hint_rows()"
    )
    raise ValueError(
        f"the layout {task.layout} has no hints, which are the sub-tasks that probes read. "
        f"{instead}; probe a model that was trained on such a layout"
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
        for part, watched in _read(solver, problems, settings, settings.seed, start):
            parts.append(take(part, watched, settings.cells, random))
            read += len(part)
    cells = Cells.joined(parts)
    return cells, {
        "problems": settings.train_problems,
        "examples": read,
        "cells": len(cells.working),
        "working": int(cells.working.sum()),
    }


def _asked(
    solver: Solver, size: dict[str, int], settings: Settings
) -> tuple[SizeResult, Solver | None, Problems]:
    """A size without figures, the solver on a canvas for it, and its problems."""
    task = solver.task
    (first, a), (second, b) = size.items()
    lengths = task.of_size(**size)
    name, where = size_name((first, second), (a, b)), region(task.ranges, (first, second), (a, b))
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
    result = SizeResult(dict(size), name, where, reason)
    return result, None if reason else fitted, problems


def _measured(
    result: SizeResult,
    solver: Solver,
    problems: Problems,
    probes: Probes,
    last: Site,
    settings: Settings,
    there: np.ndarray,
) -> SizeResult:
    tally = Tally(probes, last, len(problems), settings.seed)
    for start in range(0, len(problems), _PROBLEMS_AT_ONCE):
        for part, watched in _read(solver, problems[start : start + _PROBLEMS_AT_ONCE], settings):
            tally.add(replace(part, hints=part.hints[..., there]), watched, start)
    return tally.result(result)


def _read(
    solver: Solver,
    problems: Problems,
    settings: Settings,
    seed: int | None = None,
    first: int = 0,
) -> Iterator[tuple[Examples, Watched]]:
    """Examples in batches, see `examples`, each with what the model does with it."""
    every = examples(solver, problems, seed, first)
    _, H, W = every.inputs.shape
    size = max(1, _TOKENS_AT_ONCE // (H * W))
    for start in range(0, len(every), size):
        part = every[start : start + size]
        yield part, watch(solver.predictor, part, settings.steps, settings.layers)
