"""What ``grid.json`` holds, and how it is read.

``grid.json``, format 1:

    format      1
    created     when, ISO 8601
    versions    of canvas-trm, python, torch, lightning and numpy
    settings    split, seed, problems (a cell at most), digits_a and digits_b (lists), steps
                (supervision steps a row, null: as each checkpoint says), batch_size, devices,
                voting (`Voting` of free-running figures, null: one view)
    models      a list, in the order in which the checkpoints were named:
        name        a label of its own
        checkpoint  the path as it was given
        sha256      of the checkpoint's file
        family      recursive or gpt
        parameters  their number
        solve_steps supervision steps that a row got at most; null for a GPT
        model, task, canvas     as the model was trained
        seed        of its training's problems, null: not told
        config      its run's config.yaml as data, null: there is none beside the checkpoint
        step, epoch             of training
        cells       a list, by digits of a, then of b:
            digits_a, digits_b
            inside                  whether training's ranges hold both
            applicable              whether the model can work on a canvas that is large enough
            reason                  null, or why there are no figures
            height, width           of the canvas
            problems                how many there are
            solutions               whole free-running workings without a wrong cell
            products                free-running workings whose product is right
            rows_free_running       rows right, each built on the model's own rows
            rows_teacher_forced     rows right, each built on the true rows
            steps                   mean supervision steps a row, free-running; null for a GPT
            confidence              mean probability that the model gives its whole solution
            seconds_per_problem     of free-running solving, by the clock
            diagnostics             of the teacher-forced rows: `Diagnostics.to_json`
            computed_on             {device, threads}: cpu, mps or the CUDA device's name, and
                                    the CPU threads of PyTorch

The four shares are ``{right, total, low, high}``, with the ends of the Wilson 95 % interval. Where
there is no canvas or no problem, all figures are null.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from canvas.choices import check_choice
from trm.evaluation.intervals import Share, difference

GRID, FORMAT = "grid.json", 1  # its name in an evaluation's folder, and the format told above
PICTURE, REPORT = "grid.png", "grid.md"  # what lies beside it
BOARD = "tensorboard"  # the folder of its curves and pictures

Model = dict[str, Any]
Cell = dict[str, Any]

FIGURES = {
    "solutions": "Whole free-running solutions right",
    "products": "Free-running products right",
    "rows_free_running": "Free-running rows right",
    "rows_teacher_forced": "Teacher-forced rows right",
}
INSIDE, FIRST, SECOND, BOTH = "inside range", "first longer", "second longer", "both longer"
SHORTER = "shorter"  # an operand shorter than any practised: rare
REGIONS = (INSIDE, FIRST, SECOND, BOTH)


def share(cell: Cell, figure_of: str = "solutions") -> Share | None:
    """One of a cell's shares (a name in `FIGURES`); None where the cell is not applicable."""
    if not cell["applicable"]:
        return None
    counts = cell[figure_of]  # null where there are no problems
    return Share(counts["right"], counts["total"]) if counts else Share(0, 0)


def cells_of(model: Model) -> dict[tuple[int, int], Cell]:
    """A model's cells by (digits of a, digits of b)."""
    return {(cell["digits_a"], cell["digits_b"]): cell for cell in model["cells"]}


def region(cell: Cell, model: Model) -> str:
    """Where a cell lies as seen from the lengths that the model practised: one of `REGIONS`."""
    task = model["task"]
    a, b = cell["digits_a"] > task["digits_a"][1], cell["digits_b"] > task["digits_b"][1]
    if a or b:
        return BOTH if a and b else FIRST if a else SECOND
    return INSIDE if cell["inside"] else SHORTER


def pooled(cells: Iterable[Cell], figure_of: str = "solutions") -> Share:
    """The share over all applicable cells."""
    shares = [s for s in (share(cell, figure_of) for cell in cells) if s is not None]
    return Share(sum(s.right for s in shares), sum(s.total for s in shares))


def percent(share: Share) -> str:
    """A share in whole percent; 0 and 100 only where none and all are right."""
    if 0 < share.right < share.total:
        rounded = round(100 * share.value)
        return "<1" if rounded == 0 else ">99" if rounded == 100 else str(rounded)
    return str(round(100 * share.value)) if share.total else ""


def span(share: Share) -> str:
    """A share's interval in whole percent."""
    low, high = share.interval
    return f"{round(100 * low)}–{round(100 * high)}"


def described(grid: dict[str, Any]) -> str:
    """Which problems were asked, in a line: number, split, seed."""
    told = _problem_settings(grid)
    counts = [c["problems"] for m in grid["models"] for c in m["cells"] if c["applicable"]]
    fewest = min(counts, default=0)
    fewer = f" (as few as {fewest} where lengths have no more)" if counts else ""
    if fewest >= min(told["problems"]):
        fewer = ""
    return (
        f"{_either(told['problems'])} problems a cell{fewer}, {_either(told['split'])} split, "
        f"seed {_either(told['seed'])}"
    )


def differing_problems(grid: dict[str, Any]) -> str:
    """In what the models' problems differ, like ``seed 0 or 1``; empty if they are the same."""
    told = _problem_settings(grid)
    return "; ".join(f"{k} {_either(values)}" for k, values in told.items() if len(values) > 1)


def _problem_settings(grid: dict[str, Any]) -> dict[str, list[Any]]:
    """All values of the settings that problems follow from, over a grid's models."""
    told: dict[str, list[Any]] = {"seed": [], "split": [], "problems": [], "base": []}
    for model in grid["models"]:
        settings = model.get("settings", grid["settings"]) | {"base": model["task"]["base"]}
        for key, values in told.items():
            if settings[key] not in values:
                values.append(settings[key])
    return told


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

    key: tuple[int, int]
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
    """The cells in which both models were asked something, from short operands to long."""
    mine, theirs = cells_of(model), cells_of(reference)
    found = []
    for key in sorted(mine.keys() & theirs.keys()):
        one, other = share(mine[key], figure_of), share(theirs[key], figure_of)
        if one and other and one.total and other.total:
            found.append(Contrast(key, region(mine[key], model), one, other))
    return found
