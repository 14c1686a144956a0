"""What a probing study found: ``probe.json``, tables for the terminal, what breaks first in words.

``probe.json`` is `ProbeStudy` as JSON, where a share of cells is ``{right, total, low, high}``. The
cells of a problem are not independent, so low and high are ends of a 95 % bootstrap interval over
problems (percentiles of 1,000 samples); where all cells are right, or none, of the Wilson interval
of as many problems. Shares of rows and problems have Wilson intervals; those of rows take the rows
of a problem as independent.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import PlainSerializer, TypeAdapter
from rich.console import Console
from rich.markdown import Markdown

from trm.evaluation.grid import INSIDE
from trm.evaluation.statistics import Share
from trm.markdown import table

JUDGES = {"head": "the model's own heads", "probe": "the probes"}
_READERS = {
    "probe": "probe",
    "head": "trained head",
    "control": "control",
    "selectivity": "selectivity",
    "majority": "majority",
}
_BREAKS = {"head": "breaks first", "probe": "is read worst"}  # what is not read may not be needed

Count = Annotated[Share, PlainSerializer(Share.data)]


@dataclass(frozen=True)
class Reading:
    """How well a sub-task is read at a point: cells that are right in problems of one size.

    The cells that count are those of rows that are filled in.
    """

    subtask: str
    site: str  # see `trm.analysis.probe.Point`, as of the step
    step: int
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
    def gap_share(self) -> Share:
        """Wrong answers among those with right sub-tasks."""
        return Share(self.gap, self.both + self.gap)


@dataclass(frozen=True)
class Gap:
    """The compositionality gap of a size (Press et al. 2022): right sub-tasks, wrong answer."""

    judge: str  # who says what a sub-task's value is: the model's own ``head``, or ``probe``
    subtasks: list[str]  # those that count
    rows: Table  # teacher-forced, after the last step
    problems: Table  # whole problems, all of whose rows count


@dataclass(frozen=True)
class FirstError:
    """The sub-task that is right least often in rows that are filled in, and where it is wrong."""

    judge: str  # as in `Gap`
    subtask: str  # empty: no cell of any is wrong
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

    def at(self, subtask: str, site: str, step: int) -> Reading | None:
        """One of the readings."""
        wanted = (subtask, site, step)
        return next((r for r in self.readings if (r.subtask, r.site, r.step) == wanted), None)


@dataclass(frozen=True)
class ProbeStudy:
    """All of it, see the module."""

    settings: dict[str, Any]  # `trm.analysis.probe_study.Settings`
    subtasks: dict[str, int]  # the classes of each
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
    def regions(self) -> dict[str, list[SizeResult]]:
        """Those within the training range, and those that are not; no empty ones."""
        parts: dict[str, list[SizeResult]] = {"in range": [], "beyond": []}
        for size in self.measured:
            parts["in range" if size.region == INSIDE else "beyond"].append(size)
        return {name: sizes for name, sizes in parts.items() if sizes}

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

    @property
    def last_point(self) -> str:
        """The last point in words, like ``z_H after supervision step 8``."""
        if self.settled:
            return f"{self.main} when no step changes it any more"
        return f"{self.main} after {self.unit} {self.last}"

    def step_name(self, step: int) -> str:
        """What a step is called; "end", once no further one changes anything."""
        return "end" if self.settled and step == self.last else str(step)

    def shares(self, subtask: str, sizes: Iterable[SizeResult], reader: str) -> dict[int, float]:
        """How much a reader has right at each step of which it is known, pooled over sizes."""
        name, sizes = self.main if reader == "head" else self.curve, list(sizes)
        found = {
            step: pooled((size.at(subtask, name, step) for size in sizes), reader)
            for step in self.steps
        }
        return {step: share for step, share in found.items() if share is not None}

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


def print_study(console: Console, study: ProbeStudy) -> None:
    """All tables, each with what it shows, and the sentences."""
    measured, last = study.measured, study.last_point
    by_size = []  # sub-task by size, at the last step
    for subtask in study.subtasks:
        found = [size.at(subtask, study.main, study.last) for size in measured]
        for reader, name in _READERS.items():
            words = [_word(reading, reader) for reading in found]
            if any(words):
                by_size.append([subtask if reader == "probe" else "", name, *words])
    by_step = []  # within the training range and beyond it
    for subtask in study.subtasks:
        for i, (name, sizes) in enumerate(study.regions.items()):
            if shares := study.shares(subtask, sizes, "probe"):
                words = [f"{100 * shares[n]:.1f}" if n in shares else "" for n in study.steps]
                by_step.append(["" if i else subtask, name, *words])
    gaps = []  # sub-tasks and answers, right and wrong, by size
    for size in measured:
        for name, of in (("rows", "rows"), ("whole", "problems")) if size.gap else ():
            counts = getattr(size.gap, of)
            cells = (counts.both, counts.gap, counts.otherwise, counts.neither)
            first = size.name if of == "rows" else ""
            gaps.append([first, name, *map(str, cells), counts.gap_share.short])
    judge = next((size.gap.judge for size in measured if size.gap), "probe")
    sizes_of = [f"{size.name.removesuffix(' digits')} {size.region}" for size in measured]
    counted = ["all right", "gap", "only answer", "both wrong", "compositionality gap"]
    parts = [
        f"Cells right in rows that are filled in, {last}, % (95 % interval):",
        table(["sub-task", "", *sizes_of], by_size),
        f"Cells that a probe of {study.curve} gets right in these rows, by {study.unit}, %:",
        table(["sub-task", "sizes", *map(study.step_name, study.steps)], by_step),
        f"Sub-tasks (by {JUDGES[judge]}) and answers, {last}:",
        table(["size", "", *counted], gaps),
        *_notes(study),
        *filter(None, map(first_error, measured)),
    ]
    console.print(Markdown("\n\n".join(part.replace("_", "\\_") for part in parts)))


def _word(reading: Reading | None, reader: str) -> str:
    if (value := pooled([reading], reader)) is None:
        return ""
    if reader == "selectivity":  # in points
        return f"{100 * value:+.1f}".replace("-", "−")
    ends = f" ({getattr(reading, reader).span()})" if reader in ("probe", "head") else ""
    return f"{100 * value:.1f}{ends}"


def _notes(study: ProbeStudy) -> list[str]:
    """What the figures rest on, in sentences."""
    train, measured = study.train, study.measured
    lines = [
        f"Probes: logistic regressions on {train['cells']:,} cells ({train['working']:,} of rows "
        f"that are filled in) of {train['problems']:,} training problems; read on "
        f"{sum(s.problems for s in measured):,} other, held-out problems "
        f"({sum(s.cells for s in measured):,} cells), seed {study.settings['seed']}.",
        "Control: labels drawn at random by symbol, row and column (Hewitt and Liang 2019), on "
        "cells for which all three occurred together in training; selectivity is the probe's "
        "accuracy there less it, in points.",
        "Intervals: 95 %, of cells by a bootstrap over problems, of rows and problems Wilson's.",
        "all right, gap, only answer, both wrong: rows whose sub-tasks and answer are both right; "
        "sub-tasks right, answer wrong; a sub-task wrong, answer right; both wrong. The gap is the "
        "share of wrong answers among rows with right sub-tasks (Press et al. 2022).",
    ]
    solve_steps = study.model.get("solve_steps")
    if study.settled:
        lines.append("end: no further supervision step changes the states of any of these rows.")
    elif study.main == study.curve and not (solve_steps and solve_steps <= study.last):
        ends = f"with up to {solve_steps}" if solve_steps else "until no step changes a cell"
        lines.append(
            f"Answers and sub-tasks are those after {study.last} supervision steps; the model "
            f"solves {ends}. Name more in --steps to probe there, too."
        )
    return lines + [f"{s.name}: not probed, as {s.reason}." for s in study.sizes if s.reason]


def first_error(size: SizeResult) -> str:
    """Which sub-task breaks first, in a sentence; empty: not known."""
    found = size.first_error
    if found is None:
        return ""
    judged = f"judged by {JUDGES[found.judge]}"
    if found.share is None or found.place is None or found.column is None:
        return f"{size.name}: no sub-task has a wrong cell in these rows, {judged}."
    column = f"column {found.column} from its right end"
    if found.column < 1:
        column = f"column {1 - found.column} right of its end"
    return (
        f"{size.name}: {found.subtask} {_BREAKS[found.judge]}: {found.share.short} of its cells "
        f"are right in rows that are filled in, {judged}; it is wrong most often in row "
        f"{found.row} of the worked solution, {column} ({found.place.right} of "
        f"{found.place.total} right)."
    )
