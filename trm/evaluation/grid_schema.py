"""What ``grid.json`` holds, and how it is read.

``grid.json``, format 2:

    format      2
    created     when, ISO 8601
    versions    of canvas-trm, python, torch, lightning and numpy
    settings    split, seed, problems (a cell at most), axes (the two measures of a problem's
                size, names in `AXES`), rows and columns (lists of sizes), steps (supervision
                steps a row, null: as each checkpoint says), batch_size, devices, voting (`Voting`
                of free-running figures, null: one view), view (the symmetry in which a model is
                shown every canvas), precision (32-true or bf16-mixed; missing in older files)
    models      a list, in the order in which the checkpoints were named:
        name        a label of its own
        checkpoint  the path as it was given; of a file of predictions, that
        sha256      of that file
        family      iterative or gpt
        parameters  their number
        solve_steps supervision steps that a row got at most; null for a GPT
        model, task, canvas     as the model was trained
        ranges      fewest and most of each measure of its problems' sizes
        seed        of its training's problems, null: not known
        config      its run's config.yaml as data, null: there is none beside the checkpoint
        step, epoch             of training
        cost        of training: {flops, samples, seconds}, see `Cost` of training; null: unknown
        cells       a list, row by row:
            row, column             the size of its problems along both axes; of a battery the
                                    name of a family, and the digits of the longer operand
            region                  where that lies as seen from training's, see `region`
            applicable              whether the model can work on a canvas that is large enough
            reason                  null, or why there are no figures
            height, width           of the canvas
            problems                how many there are
            solutions               whole free-running workings without a wrong cell
            answers                 free-running workings whose answer is right
            rows_free_running       rows right, each built on the model's own rows
            rows_teacher_forced     rows right, each built on the true rows
            steps                   mean supervision steps a row, free-running; null without any
            confidence              mean probability that the model gives its whole solution
            seconds_per_problem     of free-running solving, by the clock
            diagnostics             of the teacher-forced rows: `Diagnostics.to_json`
            solved                  whether each whole solution is right, problem by problem: a text
                                    of 1 and 0; missing in older files
            answered                the same of the answers
            flops_per_problem       operations of the first problem's free-running solution, see
                                    `trm.flops`; missing in older files
            computed_on             {device, threads}: cpu, mps or the CUDA device's name, and
                                    the CPU threads of PyTorch

The four shares are ``{right, total, low, high}``, with the ends of the Wilson 95 % interval. Where
there is no canvas or no problem, all figures are null.

``trm benchmark score`` writes the same of predictions. Of a model it knows what the call says:
family, parameters, ranges, step and epoch are null where they are not known, its task has a layout
of null, and the region of its cells is `UNKNOWN` without ranges. Of predicted numbers there are
answers alone, of canvases solutions alone. Its settings hold a ``suite``, {name, checksum}.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canvas.choices import check_choice
from trm.evaluation.statistics import Share, difference

GRID, FORMAT = "grid.json", 2  # its name in an evaluation's folder, and the format described above
PICTURE, REPORT = "grid.png", "grid.md"  # what lies beside it
BOARD = "tensorboard"  # the folder of its curves and pictures

Model = dict[str, Any]
Cell = dict[str, Any]
Key = tuple[int | str, int]  # the row and the column of a cell

FIGURES = {
    "solutions": "Whole free-running solutions right",
    "answers": "Free-running answers right",
    "rows_free_running": "Free-running rows right",
    "rows_teacher_forced": "Teacher-forced rows right",
}
NAMES = {"solutions": "whole solutions", "answers": "answers"}  # those, in a sentence
SHOWN = {"solutions": "solved", "answers": "answered"}  # compared, and where each problem's lies
KEYS = (  # of a cell; those from the height on are null where there are no figures
    *("row", "column", "region", "applicable", "reason", "problems"),
    *("height", "width", "solutions", "answers", "rows_free_running", "rows_teacher_forced"),
    *("steps", "confidence", "seconds_per_problem", "diagnostics", "solved", "answered"),
    "flops_per_problem",
)
FAMILY = "family"  # the axis of a battery's rows
AXES = {  # what sizes of problems are measured in
    "digits_a": "digits of a",
    "digits_b": "digits of b",
    "digits": "digits",  # of the longest addend; short, as axes are
    "addends": "addends",
}
LABELS = AXES | {FAMILY: "family"}  # of structured problems, see `canvas.sampling`
INSIDE, FIRST, SECOND, BOTH = "in range", "first beyond", "second beyond", "both beyond"
SHORTER = "below"  # smaller than any in training: rare
UNKNOWN = "range unknown"  # what a model was trained on
REGIONS = (INSIDE, FIRST, SECOND, BOTH)


def regions_of(grid: dict[str, Any]) -> list[str]:
    """The regions that a table has columns for; families are not told apart by operand."""
    found = {cell["region"] for model in grid["models"] for cell in model["cells"]}
    known = [INSIDE, BOTH] if axes_of(grid)[0] == FAMILY else REGIONS
    if found == {UNKNOWN}:
        known = []
    return [*known, *(other for other in (SHORTER, UNKNOWN) if other in found)]


def share(cell: Cell, figure_of: str = "solutions") -> Share | None:
    """One of a cell's shares (a name in `FIGURES`); None where the cell is not applicable."""
    if not cell["applicable"]:
        return None
    counts = cell[figure_of]  # null where there are no problems
    return Share(counts["right"], counts["total"]) if counts else Share(0, 0)


def cells_of(model: Model) -> dict[Key, Cell]:
    """A model's cells by (row, column)."""
    return {(cell["row"], cell["column"]): cell for cell in model["cells"]}


def in_order(labels: Iterable[Any]) -> list[Any]:
    """The rows or columns of a grid: sizes from small to large, families as they are listed."""
    found = dict.fromkeys(labels)
    return list(found) if any(isinstance(label, str) for label in found) else sorted(found)


def size_name(axes: Sequence[str], size: Key) -> str:
    """The size of a cell's problems in words, like ``4 x 3 digits``."""
    if axes[0] == FAMILY:
        return f"{size[0]}, {size[1]} digits"
    if tuple(axes) == ("digits_a", "digits_b"):
        return f"{size[0]} x {size[1]} digits"
    return ", ".join(f"{n} {axis.replace('_', ' ')}" for axis, n in zip(axes, size, strict=True))


def figure_shown(grid: dict[str, Any]) -> str:
    """Which share tells how good the models of a grid are, a name in `SHOWN`.

    Whole solutions; answers, where a model was asked for nothing else.
    """
    answers_alone = any(
        any(cell["answers"] for cell in model["cells"])
        and not any(cell["solutions"] for cell in model["cells"])
        for model in grid["models"]
    )
    return "answers" if answers_alone else "solutions"


def region(ranges: Mapping[str, Sequence[int]] | None, axes: Sequence[str], size: Key) -> str:
    """Where a size lies as seen from those that a model was trained on.

    One of `REGIONS`, or below; without ranges, `UNKNOWN`.

    A measure that has no range, as the second of two operands of a model of three addends, is
    beyond it. Of a family, where either operand may be the longer one, it is both or none.
    """
    if not ranges:
        return UNKNOWN
    if axes[0] == FAMILY:
        longest = [most for measure, (_, most) in ranges.items() if measure.startswith("digits")]
        return INSIDE if size[1] <= min(longest) else BOTH
    ends = [(ranges.get(axis, (0, 0)), int(n)) for axis, n in zip(axes, size, strict=True)]
    first, second = (n > most for (_, most), n in ends)
    if first or second:
        return BOTH if first and second else FIRST if first else SECOND
    return INSIDE if all(n >= fewest for (fewest, _), n in ends) else SHORTER


def axes_of(grid: dict[str, Any]) -> tuple[str, str]:
    """What the sizes of a grid are measured in, along rows and columns."""
    first, second = grid["settings"]["axes"]
    return first, second


def pooled(cells: Iterable[Cell], figure_of: str = "solutions") -> Share:
    """The share over all applicable cells."""
    shares = (share(cell, figure_of) for cell in cells)
    return sum((s for s in shares if s is not None), Share(0, 0))


def described(grid: dict[str, Any]) -> str:
    """Which problems were asked, in a line: number, split, seed."""
    asked = _problem_settings(grid)
    counts = [c["problems"] for m in grid["models"] for c in m["cells"] if c["applicable"]]
    fewest = min(counts, default=0)
    fewer = f" (as few as {fewest} where lengths have no more)" if counts else ""
    if fewest >= min(asked["problems"]):
        fewer = ""
    suites = {(m.get("settings", grid["settings"]).get("suite") or {}).get("name", "")
              for m in grid["models"]}  # fmt: skip
    suite = f", suite {min(suites)}" if len(suites) == 1 and min(suites) else ""
    return (
        f"{_either(asked['problems'])} problems a cell{fewer}, {_either(asked['split'])} split, "
        f"seed {_either(asked['seed'])}{suite}"
    )


def differing_problems(grid: dict[str, Any]) -> str:
    """In what the models' problems differ, like ``seed 0 or 1``; empty if they are the same."""
    asked = _problem_settings(grid)
    return "; ".join(f"{k} {_either(values)}" for k, values in asked.items() if len(values) > 1)


def _problem_settings(grid: dict[str, Any]) -> dict[str, list[Any]]:
    """All values of the settings that problems follow from, over a grid's models."""
    asked: dict[str, list[Any]] = {"seed": [], "split": [], "problems": [], "base": [], "suite": []}
    for model in grid["models"]:
        settings = model.get("settings", grid["settings"]) | {"base": model["task"]["base"]}
        # Those of a battery may be of any split, if only they are longer than training's.
        suite = settings.get("suite") if settings["axes"][0] == FAMILY else None
        settings["suite"] = suite["name"] if suite else "none"
        for key, values in asked.items():
            if settings[key] not in values:
                values.append(settings[key])
    return asked


def _either(values: list[Any]) -> str:
    return " or ".join(str(value) for value in values)


def reference_of(grid: dict[str, Any], name: str | None) -> Model:
    """The model of that name, or the first.

    Raises:
        ValueError: no model has that name, or there is no second model to compare with it.
    """
    models = {model["name"]: model for model in grid["models"]}
    if len(models) < 2:
        raise ValueError(
            "a comparison needs at least two models; give another folder of trm evaluate, or "
            "evaluate several checkpoints"
        )
    name = next(iter(models)) if name is None else name
    check_choice("--reference", name, models)
    return models[name]


@dataclass(frozen=True)
class Contrast:
    """One cell's shares of a model and of its reference."""

    key: Key
    region: str
    mine: Share
    theirs: Share

    @property
    def points(self) -> float:
        """The difference in percentage points."""
        return 100 * (self.mine.value - self.theirs.value)

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the difference, 95 %, in percentage points."""
        low, high = difference(self.mine, self.theirs)
        return 100 * low, 100 * high

    @property
    def told_apart(self) -> bool:
        """Whether the intervals do not overlap."""
        (low, high), (least, most) = self.mine.interval, self.theirs.interval
        return low > most or high < least


def contrasts(model: Model, reference: Model, figure_of: str = "solutions") -> list[Contrast]:
    """The cells in which both models were asked something, from small problems to large."""
    mine, theirs = cells_of(model), cells_of(reference)
    found = []
    for key in sorted(mine.keys() & theirs.keys()):
        one, other = share(mine[key], figure_of), share(theirs[key], figure_of)
        if one and other and one.total and other.total:
            found.append(Contrast(key, mine[key]["region"], one, other))
    return found
