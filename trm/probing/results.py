"""What a probing study found, and ``probe.json``, which holds it.

``probe.json``, format 1:

    format      1
    created     when, ISO 8601
    versions    of canvas-trm, python, torch, lightning and numpy
    settings    `trm.probing.study.Settings`: seed, steps, layers, problems, train_problems, cells,
                l2, iterations
    model       checkpoint, sha256, family, parameters, step, epoch, task, ranges, model (its
                settings), solve_steps; empty where the study was not started by the command
    hints       by the name of each sub-task, its number of classes
    main        the name of the sites that the model's heads read
    last        the step of the last site
    train       problems, examples, cells and cells of the working row that probes were fitted to
    sizes       a list:
        size            by measure (digits_a, digits_b, …)
        name, region    in words; the region as in ``grid.json``, see `trm.evaluation.grid`
        reason          null, or why there are no figures
        height, width   of the canvas
        problems, rows, cells   of the test split
        readings        a list of `Reading`: one for each sub-task, site and scope
        gap             `Gap`, null without figures
        first_error     `FirstError`, null without figures

A share of cells is ``{right, total, low, high}``. The cells of a problem are not independent, so
low and high are ends of a 95 % bootstrap interval over problems (percentiles of 1,000 samples);
where all cells are right, or none, of the Wilson interval of as many problems. Shares of rows and
problems have Wilson intervals; those of rows take the rows of a problem as independent.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trm.evaluation.statistics import Share
from trm.files import read_object, write_object

FILE, PICTURE = "probe.json", "probe.png"  # their names in a study's folder
FORMAT = 1
ROW, ALL = "row", "all"  # scopes: cells of the row that is filled in; all that are defined
READERS = ("probe", "head", "control", "selectivity", "majority")


@dataclass(frozen=True)
class Count:
    """A share with its 95 % interval."""

    right: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share itself, nan of none."""
        return self.right / self.total if self.total else float("nan")

    @classmethod
    def wilson(cls, right: int, total: int) -> "Count":
        """With the Wilson interval."""
        return cls(right, total, *Share(right, total).interval)


@dataclass(frozen=True)
class Reading:
    """How well a sub-task can be read at a site, in problems of one size.

    Attributes:
        hint: the sub-task.
        site, step: where, see `trm.probing.features.Site`.
        scope: ``row`` or ``all``, of which cells.
        probe: cells that the linear probe gets right.
        head: cells that the model's own trained head gets right; None: it has none here.
        control: cells that the probe of the control task gets right, of those whose type occurred
            in training.
        known: cells that the linear probe gets right, of the same cells.
        majority: cells of the class that is most frequent in training.
    """

    hint: str
    site: str
    step: int
    scope: str
    probe: Count
    head: Count | None
    control: Count
    known: Count
    majority: Count

    @property
    def selectivity(self) -> float:
        """Accuracy of the probe less that of the control task's, on the same cells."""
        return self.known.value - self.control.value

    def value(self, reader: str) -> float | None:
        """The share, or the selectivity, of one of `READERS`; None where there is none."""
        if reader == "selectivity":
            return self.selectivity if self.control.total else None
        count: Count | None = getattr(self, reader)
        return count.value if count is not None and count.total else None


@dataclass(frozen=True)
class Table:
    """Rows or problems by whether all sub-tasks and the answer are right.

    Attributes:
        both: sub-tasks right, answer right.
        gap: sub-tasks right, answer wrong.
        otherwise: a sub-task wrong, answer right.
        neither: a sub-task wrong, answer wrong.
    """

    both: int
    gap: int
    otherwise: int
    neither: int

    @property
    def total(self) -> int:
        """How many there are."""
        return self.both + self.gap + self.otherwise + self.neither

    @property
    def shares(self) -> dict[str, Count]:
        """Of all: ``subtasks`` and ``answers`` right; of those with right sub-tasks the ``gap``, of
        those with a wrong one the right answers, ``otherwise``.
        """
        right = self.both + self.gap
        return {
            "subtasks": Count.wilson(right, self.total),
            "answers": Count.wilson(self.both + self.otherwise, self.total),
            "gap": Count.wilson(self.gap, right),
            "otherwise": Count.wilson(self.otherwise, self.total - right),
        }


@dataclass(frozen=True)
class Gap:
    """The compositionality gap of a size (Press et al. 2022): right sub-tasks, wrong answer.

    Attributes:
        judge: who says what a sub-task's value is: ``head``, the model's own heads, or ``probe``.
        hints: the sub-tasks that count.
        rows: teacher-forced rows, after the last step.
        problems: whole problems, all of whose rows count.
    """

    judge: str
    hints: list[str]
    rows: Table
    problems: Table


@dataclass(frozen=True)
class FirstError:
    """The sub-task that is right least often on the row that is filled in, and where it is wrong.

    Attributes:
        judge: as in `Gap`.
        hint: the sub-task; empty: no cell of any is wrong.
        share: its cells that are right.
        row: of the working, from 1 at the top, and
        column: from 1 at its right end: the cell that is wrong most often,
        place: and how often it is right.
    """

    judge: str
    hint: str
    share: Count | None = None
    row: int | None = None
    column: int | None = None
    place: Count | None = None


@dataclass(frozen=True)
class SizeResult:
    """Problems of one size, see the module."""

    size: dict[str, int]
    name: str
    region: str
    reason: str | None = None
    height: int | None = None
    width: int | None = None
    problems: int = 0
    rows: int = 0
    cells: int = 0
    readings: list[Reading] = field(default_factory=list)
    gap: Gap | None = None
    first_error: FirstError | None = None

    def at(self, hint: str, site: str, step: int, scope: str = ROW) -> Reading | None:
        """One of the readings."""
        wanted = (hint, site, step, scope)
        return next((r for r in self.readings if (r.hint, r.site, r.step, r.scope) == wanted), None)


@dataclass(frozen=True)
class ProbeStudy:
    """All of it, see the module."""

    settings: dict[str, Any]
    hints: dict[str, int]
    main: str
    last: int
    train: dict[str, int]
    sizes: list[SizeResult]
    model: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    created: str = ""
    format: int = FORMAT

    @property
    def measured(self) -> list[SizeResult]:
        """The sizes that have figures."""
        return [size for size in self.sizes if size.reason is None]

    @property
    def steps(self) -> list[int]:
        """The steps of the main sites; of a GPT, of its blocks."""
        readings = self.measured[0].readings
        return sorted({r.step for r in readings if r.site in (self.main, self.curve)})

    @property
    def curve(self) -> str:
        """The sites that a curve over steps follows: the main ones, or a GPT's blocks."""
        return "block" if self.main == "norm" else self.main

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ProbeStudy":
        """From plain data.

        Raises:
            ValueError: it is none of this format.
        """
        if data.get("format") != FORMAT:
            raise ValueError(f"it is not of format {FORMAT}, which this version reads")
        try:
            sizes = [_size(part) for part in data["sizes"]]
            return cls(**{**data, "sizes": sizes})
        except (KeyError, TypeError, AttributeError):
            raise ValueError("its parts are not those of a study of probes") from None

    def write(self, folder: Path) -> None:
        """Into `FILE` in a folder."""
        write_object(folder / FILE, self.to_json())


def read_study(folder: Path) -> ProbeStudy:
    """A study from its folder.

    Raises:
        ValueError: there is none that can be read.
    """
    data = read_object(folder / FILE)
    if data is None:
        raise ValueError(f"{folder / FILE} is no file of trm probe")
    try:
        return ProbeStudy.from_json(data)
    except ValueError as error:
        raise ValueError(f"{folder / FILE} cannot be read: {error}") from None


def pooled(readings: Iterable[Reading | None], reader: str) -> float | None:
    """The share over the cells of several sizes; None of no cells."""
    known = [r for r in readings if r is not None]
    if reader == "selectivity":
        ends = pooled(known, "known"), pooled(known, "control")
        return None if ends[0] is None or ends[1] is None else ends[0] - ends[1]
    counts: list[Count | None] = [getattr(r, reader) for r in known]
    total = sum(c.total for c in counts if c is not None)
    return sum(c.right for c in counts if c is not None) / total if total else None


def _count(data: Mapping[str, Any] | None) -> Count | None:
    return None if data is None else Count(**data)


def _size(data: Mapping[str, Any]) -> SizeResult:
    counts = ("probe", "head", "control", "known", "majority")
    readings = [Reading(**{**r, **{k: _count(r[k]) for k in counts}}) for r in data["readings"]]
    gap, first = data["gap"], data["first_error"]
    if gap is not None:
        gap = Gap(**{**gap, "rows": Table(**gap["rows"]), "problems": Table(**gap["problems"])})
    if first is not None:
        first = FirstError(**{**first, **{k: _count(first[k]) for k in ("share", "place")}})
    return SizeResult(**{**data, "readings": readings, "gap": gap, "first_error": first})
