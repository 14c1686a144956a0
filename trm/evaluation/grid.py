"""``grid.json``: what it holds, how it is read, and the shares and regions in it.

`trm evaluate` writes it of checkpoints. `trm benchmark score` writes the same of predictions:
family, parameters, ranges and step are null where they are not known, a task's layout is
null, and without ranges every region is `UNKNOWN`; of numbers there are answers alone, of canvases
solutions alone.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from trm.files import read_object, validated, versions
from trm.grid_cells import BOTH, FAMILY, INSIDE, REGIONS, SHORTER, UNKNOWN, Key
from trm.precision import FLOAT32
from trm.statistics import Share

GRID, FORMAT = "grid.json", 2  # its name in an evaluation's folder, and the format below
FILES = (GRID, "lengths.png", "grid.png", "grid.md", "grid.csv")  # that one, and what is beside it

AXES = {  # what sizes of problems are measured in
    "digits_a": "digits of a",
    "digits_b": "digits of b",
    "digits": "digits",  # of the longest addend; short, as axes are
    "addends": "addends",
}
LABELS = AXES | {FAMILY: "family"}
FIGURES = {
    "solutions": "Whole free-running solutions right",
    "answers": "Free-running answers right",
    "rows_free_running": "Free-running rows right",
    "rows_teacher_forced": "Teacher-forced rows right",
}
SHOWN = {"solutions": "solved", "answers": "answered"}  # compared, and where each problem's lies
MEANS = ("steps", "views", "confidence", "seconds_per_problem", "flops_per_problem")  # of a cell

Axis = Literal["family", "digits_a", "digits_b", "digits", "addends"]
Model = dict[str, Any]  # a `ModelData`
Cell = dict[str, Any]  # a `CellData`


class Counts(TypedDict):
    """A share with the ends of its Wilson 95 % interval."""

    right: int
    total: int
    low: float
    high: float


class CellData(TypedDict):
    """One size of problems; from the height on all is null where there are no figures."""

    row: int | str  # the size along both axes; of a suite perhaps the name of a family,
    column: int  # and the digits of the longer operand
    region: str  # see `region`
    applicable: bool  # whether the model can work on a canvas that is large enough
    reason: str | None  # why there are no figures
    problems: int
    height: int | None  # of the canvas
    width: int | None
    solutions: Counts | None  # whole free-running solutions without a wrong cell
    answers: Counts | None  # free-running solutions whose answer is right
    rows_free_running: Counts | None  # rows right, each built on the model's own rows
    rows_teacher_forced: Counts | None  # rows right, each built on the true rows
    steps: float | None  # mean supervision steps a row, free-running; null without any
    views: NotRequired[float | None]  # mean views of a problem, where views vote; not in old files
    confidence: float | None  # mean probability that the model gives its whole solution
    seconds_per_problem: float | None  # of free-running solving, by the clock
    solved: str | None  # whether each whole solution is right, a 1 or 0 for each problem
    answered: str | None  # the same of each answer
    flops_per_problem: float | None  # operations of the first free-running solution, `trm.flops`


class TaskData(TypedDict):
    """The task that a model was trained on; all its settings are there."""

    task: str
    layout: str | None
    base: int


class ModelData(TypedDict):
    """A checkpoint, or a file of predictions.

    Also there: solve_steps (most supervision steps a row; null of a GPT), model, canvas, seed (of
    training); in a comparison the settings of its own evaluation.
    """

    name: str  # of its own
    checkpoint: str  # the path as it was given
    sha256: str  # of that file
    family: str | None  # iterative or gpt
    parameters: int | None
    task: TaskData
    ranges: dict[str, list[int]] | None  # fewest and most of each measure in training
    step: int | None  # of training
    cost: dict[str, float] | None  # flops, samples, seconds: `Cost` of training
    cells: list[CellData]  # row by row


class SettingsData(TypedDict):
    """What was asked of every model.

    Also there: rows and columns (lists of sizes), steps (supervision steps a row, null: as each
    checkpoint says), batch_size, devices, device (cpu, cuda or mps), voting (of free-running
    figures, null: one view), precision; of a score the suite.
    """

    split: str
    seed: int | str
    problems: int  # of a cell, at most
    axes: tuple[Axis, Axis]  # what sizes are measured in, along rows and columns


class GridData(TypedDict):
    """All of ``grid.json``."""

    format: Literal[2]
    created: str  # ISO 8601
    versions: dict[str, str]  # of canvas-trm, python, torch, lightning and numpy
    settings: SettingsData
    models: list[ModelData]


KEYS = tuple(CellData.__annotations__)


class Grid(dict[str, Any]):
    """What ``grid.json`` holds, a `GridData`, of one evaluation or several side by side."""

    @property
    def models(self) -> list[Model]:
        """Their entries, each a `ModelData`."""
        return self["models"]

    @property
    def axes(self) -> tuple[str, str]:
        """What sizes are measured in, along rows and columns."""
        first, second = self["settings"]["axes"]
        return first, second

    @property
    def regions(self) -> list[str]:
        """Those that a table has columns for; families are not told apart by operand."""
        found = {cell["region"] for model in self.models for cell in model["cells"]}
        known = [INSIDE, BOTH] if self.axes[0] == FAMILY else REGIONS
        others = (other for other in (SHORTER, UNKNOWN) if other in found)
        return [*([] if found == {UNKNOWN} else known), *others]

    @property
    def figure_shown(self) -> str:
        """Which share tells how good models are: solutions, or answers if one has nothing else."""
        for model in self.models:
            if {of for of in SHOWN if any(cell[of] for cell in model["cells"])} == {"answers"}:
                return "answers"
        return "solutions"

    def pooled(self, cells: Iterable[Cell], figure_of: str | None = None) -> Share:
        """A share over some cells; None: the one that tells how good models are."""
        return pooled(cells, figure_of or self.figure_shown)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every cell of every model as a flat row, as in ``grid.csv``; None: not known."""
        first, second = self.axes
        rows = []
        for model in self.models:
            about = {"model": model["name"], "seed": model.get("seed")}
            about["asked"] = self.how_asked(model)
            for cell in model["cells"]:
                row = about | {first: cell["row"], second: cell["column"]}
                row |= {key: cell[key] for key in ("region", "applicable", "problems")}
                for figure in FIGURES:
                    counts = cell[figure] or {}
                    total = counts.get("total")
                    row[figure] = counts["right"] / total if total else None
                    row |= {f"{figure}_{key}": counts.get(key) for key in Counts.__annotations__}
                rows.append(row | {key: cell.get(key) for key in MEANS})
        return rows

    def asked(self, model: Model) -> dict[str, Any]:
        """With which settings a model was asked: its own in a comparison, else the grid's."""
        return model.get("settings") or self["settings"]

    def all_of(self, setting: str) -> list[str]:
        """All values of a setting, of evaluation or of the task, over the models, in order."""
        return list(dict.fromkeys(str((self.asked(m) | m["task"])[setting]) for m in self.models))

    def how_asked(self, model: Model) -> str:
        """How a model was asked, in a line; empty: with the checkpoint's steps, in one view."""
        settings = self.asked(model)
        voting, parts = settings.get("voting") or {}, []
        if steps := settings.get("steps"):
            parts.append(f"at most {steps} supervision steps a row")
        if voting:
            only = ",".join(voting["symmetries"] or ())
            shown = [cell["views"] for cell in model["cells"] if cell.get("views")]
            fewer = [f"{views:g}" for views in (min(shown), max(shown))] if shown else []
            there = " to ".join(dict.fromkeys(fewer))
            few = shown and min(shown) < voting["views"]
            parts.append(
                f"{voting['views']} views{only and f' of {only}'}"
                + (f" asked for, {there} there" if few else "")
            )
            if (rollouts := voting.get("rollouts", 1)) > 1:
                parts.append(f"{rollouts} rollouts with noise {voting['noise']:g}")
            if voting["orders"] > 1:
                parts.append(f"orders {voting['orders']}")
            parts.append(f"{voting['vote'].replace('_', ' ')} vote on each {voting['per']}")
        if (precision := settings.get("precision", FLOAT32)) != FLOAT32:
            parts.append(f"computed in {precision}")
        return ", ".join(parts)

    @property
    def problems_asked(self) -> str:
        """Which problems were asked, in a line: number, split, seed."""
        number, split, seed = (" or ".join(self.all_of(k)) for k in ("problems", "split", "seed"))
        counts = [c["problems"] for m in self.models for c in m["cells"] if c["applicable"]]
        fewest = min(counts, default=0)
        few = counts and fewest < min(map(int, self.all_of("problems")))
        fewer = f" (as few as {fewest} where lengths have no more)" if few else ""
        return f"{number} problems a cell{fewer}, {split} split, seed {seed}"

    @property
    def differing_problems(self) -> str:
        """In what the models' problems differ, like ``seed 0 or 1``; empty if they are the same."""
        found = {key: self.all_of(key) for key in ("seed", "split", "problems", "base")}
        return "; ".join(f"{key} {' or '.join(v)}" for key, v in found.items() if len(v) > 1)

    @property
    def caveats(self) -> list[str]:
        """What is to be minded where models are compared, in sentences."""
        differing = self.differing_problems
        said = [f"NOT THE SAME PROBLEMS: {differing}."] if differing else []
        ways = {model["name"]: self.how_asked(model) or "in one view" for model in self.models}
        if len(set(ways.values())) > 1:
            listed = "; ".join(f"{name}: {how}" for name, how in ways.items())
            said.append(f"NOT ASKED ALIKE: {listed}.")
        return said


def read_grid(path: str | Path) -> Grid:
    """The grid in a folder of `trm evaluate`, or in a file.

    FileNotFoundError: there is none. ValueError: it is damaged, or something else.
    """
    from pydantic import TypeAdapter

    file = grid_file(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}: give a folder in which trm evaluate has finished"
        )
    data = read_object(file)
    hint = "is not what trm evaluate writes (run it once more; finished cells are kept)"
    validated(TypeAdapter(GridData), data, f"{file} {hint}")
    return Grid(data or {})


def new_grid(settings: dict[str, Any], models: Sequence[Model]) -> Grid:
    """All of ``grid.json``, as of now."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"format": FORMAT, "created": created, "versions": versions()}
    return Grid(about, settings=settings, models=list(models))


def grid_file(path: str | Path) -> Path:
    """The file that a folder of `trm evaluate`, or a path of a file, stands for."""
    return Path(path) / GRID if Path(path).is_dir() else Path(path)


def cells_of(model: Model) -> dict[Key, Cell]:
    """A model's cells by (row, column)."""
    return {(cell["row"], cell["column"]): cell for cell in model["cells"]}


def in_order(labels: Iterable[Any]) -> list[Any]:
    """The rows or columns of a grid: sizes from small to large, families as they are listed."""
    found = list(dict.fromkeys(labels))
    return found if isinstance(next(iter(found), 0), str) else sorted(found)


def share(cell: Cell, figure_of: str = "solutions") -> Share:
    """One of a cell's shares (a name in `FIGURES`); of nothing where there are no figures."""
    counts = cell[figure_of]
    return Share(counts["right"], counts["total"]) if counts else Share(0, 0)


def pooled(cells: Iterable[Cell], figure_of: str = "solutions") -> Share:
    """The share over all cells."""
    return sum((share(cell, figure_of) for cell in cells), Share(0, 0))
