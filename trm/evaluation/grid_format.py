"""Format of ``grid.json``, and the names of all files of an evaluation.

`trm evaluate` writes it for checkpoints; `trm benchmark score` writes it for predictions. In a file
for predictions:

- family, parameters, ranges and step are null where they are not known;
- a task's layout is null;
- without ranges every region is `trm.evaluation.grid_cells.UNKNOWN`;
- predicted numbers have answers only, predicted canvases have solutions only.
"""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

GRID, FORMAT = "grid.json", 2  # file name in the folder of an evaluation; version of the format
PUZZLES_ABOUT = "puzzles.json"  # in place of it, where puzzles of arrays were evaluated
LENGTHS_PICTURE, PICTURE, TABLE = "lengths.png", "grid.png", "grid.csv"
STEPS = "steps.png"  # only where `Grid.shows_steps`
ERRORS = "errors.png"  # only where a solution is incorrect
COMPARED = "compared.png"  # accuracy, agreement, confidence and seconds a problem, by length
TRUST = "calibration.png"  # only where the confidence in each problem is known
RECORDS = ("records.jsonl", "records.csv")  # of all problems; not of a comparison
REPORT = "grid.md"
# Files of an evaluation.
FILES: tuple[str, ...] = (GRID, LENGTHS_PICTURE, PICTURE, STEPS, ERRORS, REPORT, TABLE)
FILES += (COMPARED, TRUST, *RECORDS)

AXES = {  # measures of problem sizes
    "digits_a": "digits of a",
    "digits_b": "digits of b",
    "digits": "digits",  # of the longest addend; short, as axes are
    "addends": "addends",
    "length": "letters of each text",
    "texts": "texts of a problem",
}
LENGTHS = {"digits_a", "digits_b", "digits", "length"}  # those that are lengths
SHARES = {  # of correct ones, per cell
    "solutions": "Whole free-running solutions correct",
    "answers": "Free-running answers correct",
    "rows_free_running": "Free-running rows correct",
    "rows_teacher_forced": "Teacher-forced rows correct",
}
OUTCOMES = {"solutions": "solved", "answers": "answered"}  # of each problem, by the share
MEANS = (  # per cell
    *("steps", "longest_chain", "views", "agreement", "confidence"),
    *("seconds_per_problem", "flops_per_problem"),
)

Axis = Literal["family", "digits_a", "digits_b", "digits", "addends", "length", "texts"]


class Counts(TypedDict):
    """A share with the ends of its Wilson 95 % interval."""

    right: int
    total: int
    low: float
    high: float


class Diagnosis(Counts):
    """First wrong rows of one kind among those of all incorrect problems."""

    chance: float | None  # mean share of wrong symbols in the same cells; null without such rows


class CellData(TypedDict):
    """One size of problems; from ``height`` on every field is null where there are no figures."""

    row: int | str  # size along the first axis; in a suite perhaps the name of a family
    column: int  # size along the second axis; with families the digits of the longer operand
    region: str  # see `region`
    applicable: bool  # whether the model can work on a canvas that is large enough
    reason: str | None  # why there are no figures
    problems: int
    height: int | None  # of the canvas
    width: int | None
    solutions: Counts | None  # whole free-running solutions without a wrong cell
    answers: Counts | None  # free-running solutions whose answer is right
    rows_free_running: Counts | None  # correct rows, each built on the model's own rows
    rows_teacher_forced: Counts | None  # correct rows, each built on the true rows
    # Mean supervision steps, free-running: of a row; of a canvas whose rows are filled in together.
    steps: float | None  # null without any
    # Mean of the most steps that such a canvas can need; null without any, and not in old files.
    longest_chain: NotRequired[float | None]
    views: NotRequired[float | None]  # mean views of a problem, where views vote; not in old files
    agreement: NotRequired[float | None]  # mean share of views that gave the answer
    confidence: float | None  # mean probability that the model assigns to its whole solution
    confidences: NotRequired[list[float] | None]  # of each problem; of a guess before it is read
    # Of canvases in an unknown orientation, see `trm.solving.orientation`; else null.
    readable: NotRequired[Counts | None]  # solutions if only guesses that yield an answer vote
    # How often a canvas was read turned by each symmetry; e: upright, as it should be.
    read_as: NotRequired[dict[str, int] | None]
    seconds_per_problem: float | None  # wall-clock time of free-running solving
    solved: str | None  # one character a problem: 1 for a correct solution, else 0
    answered: str | None  # one character a problem: 1 for a correct answer, else 0
    flops_per_problem: float | None  # operations of the first free-running solution
    # First wrong rows by kind, see `trm.evaluation.diagnosis`; not in old files, nor in scores.
    errors: NotRequired[dict[str, Diagnosis] | None]


class TaskData(TypedDict):
    """Task that a model was trained on, with all settings of the task."""

    task: str
    layout: str | None
    base: NotRequired[int]  # texts have none


class ModelData(TypedDict):
    """A checkpoint, or a file of predictions.

    Further keys: solve_steps (most supervision steps a row; null for a GPT), model, canvas,
    symmetries (of training; not in old files), seed (of training); in a comparison also the
    settings of the model's own evaluation.
    """

    name: str  # unique in the grid
    checkpoint: str  # path as the user gave it
    sha256: str  # of that file
    family: str | None  # iterative or gpt
    parameters: int | None
    task: TaskData
    ranges: dict[str, list[int]] | None  # fewest and most of each measure in training
    unit: NotRequired[str]  # of the length of texts, see `Task.unit`; not in old files
    step: int | None  # of training
    # flops, samples, seconds: `Cost` of training; ``before``: the same of the weights it began with
    cost: dict[str, Any] | None
    cells: list[CellData]  # row by row


class SettingsData(TypedDict):
    """Settings of an evaluation, the same for every model.

    Further keys: rows and columns (lists of sizes), steps (supervision steps a row; null: the
    checkpoint's own), batch_size, devices, device (cpu, cuda or mps), voting (for free-running
    figures; null: one view), precision, start (initial or noise); the suite where predictions are
    scored.
    """

    split: str
    seed: int | str
    problems: int  # most problems a cell
    axes: tuple[Axis, Axis]  # measures of sizes along rows and columns


class GridData(TypedDict):
    """Whole contents of ``grid.json``."""

    format: Literal[2]
    created: str  # ISO 8601
    versions: dict[str, str]  # of canvas-trm, python, torch, lightning and numpy
    settings: SettingsData
    models: list[ModelData]


KEYS = tuple(CellData.__annotations__)
